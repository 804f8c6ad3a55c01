//! The report of a benchmark: figures, tables, chart and method.

use std::time::Duration;

use super::benchmark::Benchmark;
use super::case::Case;
use super::figures::Figures;
use super::system::System;
use super::targets::targets;
use super::topology::FEW;
use crate::machine::commit;
use crate::report::{BenchmarkReport, Table};
use crate::scale::clock::today;
use watchfire_report::units::number;
use watchfire_report::{Axis, Bar, Chart, Line, Panel};

const MIB: f64 = 1_048_576.0;

pub struct Results<'a> {
    pub benchmark: Benchmark,
    pub figures: Vec<Figures>,
    pub file_bytes: u64,
    pub failures: &'a [String],
    /// The share of the machine that other programs used.
    pub others_share: f64,
    pub is_whole: bool,
    pub command: String,
    pub machine: String,
    pub took: Duration,
}

impl Results<'_> {
    pub fn report(self) -> BenchmarkReport {
        let mut report = BenchmarkReport {
            benchmark: self.benchmark.to_string(),
            page: None,
            commit: commit(),
            title: self.benchmark.title().to_owned(),
            is_whole: self.is_whole,
            date: today(),
            machine: self.machine.clone(),
            command: self.command.clone(),
            seconds: self.took.as_secs(),
            method: self.method(),
            targets: targets(self.benchmark, &self.figures, self.file_bytes),
            figures: Vec::new(),
            tables: Vec::new(),
            chart: self.chart(),
        };
        let mib = self.file_bytes as f64 / MIB;
        report.figure("file", format!("{} MiB", number(mib, 0)));
        let rounds = self.figures.iter().map(|one| one.rounds);
        let (least, most) = (rounds.clone().min().unwrap_or(0), rounds.max().unwrap_or(0));
        let range = if least == most { most.to_string() } else { format!("{least} to {most}") };
        report.figure("rounds", range);
        let others = format!("{:.0} % of the machine", self.others_share * 100.0);
        report.figure("used by other programs meanwhile", others);
        if let Some(case) = self.figures.first().map(|one| one.case)
            && let Some(uplinks) = case.uplinks
        {
            let sentence = format!("{} and {} Mbit/s", uplinks.seeder_mbit, uplinks.leecher_mbit);
            report.figure("uplinks of the seeder and of each leecher", sentence);
            let bound = uplinks.bound_seconds(self.file_bytes, case.leechers);
            report.figure("least possible time", format!("{} s", number(bound, 1)));
        }
        if let Some(ratios) = self.mesh_ratios() {
            report.figure("the mesh took, compared with the seeder alone and with nginx", ratios);
        }
        for failure in self.failures {
            report.figure("did not run", failure.replace(['\n', '|'], " "));
        }
        report.tables = self.tables();
        report
    }

    /// How much longer Watchfire's mesh takes for the last leecher of the largest crowd than its
    /// seeder alone, and than nginx. On one machine the leechers of a mesh share its processors.
    fn mesh_ratios(&self) -> Option<String> {
        let leechers = *self.crowds().last()?;
        let last = |system| {
            let is = |one: &&Figures| one.case.system == system && one.case.leechers == leechers;
            self.figures.iter().find(is).map(|one| one.last)
        };
        let mesh = last(System::WatchfireMesh)?;
        let [star, http] = [last(System::WatchfireStar)?, last(System::Http)?];
        Some(format!("{} x, {} x", number(mesh / star, 2), number(mesh / http, 2)))
    }

    /// The numbers of leechers, ascending.
    fn crowds(&self) -> Vec<usize> {
        let mut crowds: Vec<usize> = self.figures.iter().map(|one| one.case.leechers).collect();
        crowds.sort_unstable();
        crowds.dedup();
        crowds
    }

    fn in_crowd(&self, leechers: usize) -> impl Iterator<Item = &Figures> {
        self.figures.iter().filter(move |one| one.case.leechers == leechers)
    }

    fn tables(&self) -> Vec<Table> {
        let table = |leechers: usize| Table {
            title: format!("From 1 to {leechers}"),
            heads: HEADS.iter().map(ToString::to_string).collect(),
            rows: self.in_crowd(leechers).map(row).collect(),
        };
        self.crowds().into_iter().map(table).collect()
    }

    fn chart(&self) -> Chart {
        let crowds = self.crowds();
        let mut panels = Vec::new();
        for leechers in crowds.iter().rev().copied() {
            if leechers > 1 {
                panels.push(self.curves(leechers));
            }
        }
        if let Some(leechers) = crowds.last().copied() {
            let bar = |one: &Figures| Bar {
                name: one.case.system.short_name().to_owned(),
                colour: one.case.system.colour(),
                value: one.cpu_each(),
                limit: None,
            };
            panels.push(Panel::Bars {
                title: format!("CPU-seconds for each leecher, 1 to {leechers}"),
                decimals: 2,
                bars: self.in_crowd(leechers).map(bar).collect(),
            });
            let bar = |one: &Figures| Bar { value: one.last, ..bar(one) };
            panels.push(Panel::Bars {
                title: format!("Seconds until the last has the file, 1 to {leechers}"),
                decimals: 1,
                bars: self.in_crowd(leechers).map(bar).collect(),
            });
        }
        let mib = self.file_bytes as f64 / MIB;
        let label = format!("{}: how long it takes, and what it costs", self.benchmark.title());
        Chart { label, panels, notes: vec![format!("A file of {} MiB.", number(mib, 0))] }
    }

    /// The number of finished leechers over time.
    fn curves(&self, leechers: usize) -> Panel {
        let drawn = |system: System| {
            let one = self.in_crowd(leechers).find(|one| one.case.system == system)?;
            Some(Line::left(system.short_name(), system.colour(), one.curve()))
        };
        Panel::Lines {
            markers: Vec::new(),
            title: format!("Leechers that have the file, of {leechers}"),
            x: Axis::new("seconds"),
            left: Axis::up_to("leechers", leechers as f64),
            right: None,
            lines: self.benchmark.drawn().filter_map(drawn).collect(),
        }
    }

    fn method(&self) -> Vec<String> {
        let uses = |system: fn(&Case) -> bool| self.figures.iter().any(|one| system(&one.case));
        let mut method = vec![
            "The seeder and the leechers are processes on this machine. All leechers start at the same \
             time, and a case ends when the last one has the file on disk. Systems take turns. Figures \
             are medians over the rounds; memory is the maximum of all rounds."
                .to_owned(),
        ];
        match self.figures.first().and_then(|one| one.case.uplinks) {
            None => method.push(
                "The network is the loopback device of a network namespace, without a rate limit. The \
                 limits are the processor and the disk."
                    .to_owned(),
            ),
            Some(_) => method.push(
                "Each peer has its own network namespace with a link to a bridge. A token bucket (HTB) \
                 limits what a peer sends to the rate of its uplink, headers included. Received traffic \
                 is not limited, and there is no added delay. The least possible time is that of Kumar \
                 and Ross, for bytes without headers."
                    .to_owned(),
            ),
        }
        if uses(|case| case.system.leecher() == super::system::Program::Watchfire) {
            method.push(format!(
                "Watchfire is `watchfire get` with default settings. Clock and CPU time count from \
                 before the process starts until it has written the file, verified it, and ended; a \
                 finished leecher does not stay. In a mesh each leecher knows all that started before it, \
                 with \"a few\" it knows {FEW} of them. Memory is sampled every 40 ms."
            ));
        }
        if uses(|case| case.system.leecher() == super::system::Program::Kubo) {
            method.push(
                "kubo starts before the clock, with the named connections and no content routing. It \
                 pins the file, which stays as blocks in its repository, and continues to serve. It uses \
                 its default blocks of 256 KiB; with blocks of 1 MiB it fetches the same blocks as \
                 Watchfire."
                    .to_owned(),
            );
        }
        if uses(|case| case.system == System::Http) {
            method.push(
                "HTTP is one nginx process without TLS, and `curl --output` for each leecher; nothing \
                 is verified."
                    .to_owned(),
            );
        }
        if uses(|case| case.system == System::Disk) {
            method.push(
                "dd copies the file from the page cache to the folder of the leechers, in pieces of 64 \
                 KiB. It uses no network and verifies nothing."
                    .to_owned(),
            );
        }
        method.push(
            "Before a case nearly all memory is filled, and as much is released as the case needs. A \
             virtual machine returns free memory to its host within seconds, and the next program that \
             writes pays to get it back, often more than for all other work."
                .to_owned(),
        );
        method.push(
            "CPU time is that of all threads of all processes, also ended ones, from `/proc`, and of \
             the kernel threads for network work. Writing to the disk itself is not counted. Sent and \
             duplicate bytes are what the programs report."
                .to_owned(),
        );
        method
    }
}

const HEADS: [&str; 10] = [
    "system",
    "first, s",
    "half, s",
    "last, s",
    "CPU-s in total (seeder)",
    "CPU-s per leecher",
    "copies from the seeder",
    "duplicates, %",
    "most memory, seeder / leecher, MiB",
    "load before",
];

fn row(figures: &Figures) -> Vec<String> {
    let mib = |bytes: f64| number(bytes / MIB, 0);
    vec![
        figures.case.system.to_string(),
        number(figures.first, 1),
        number(figures.half, 1),
        number(figures.last, 1),
        format!("{} ({})", number(figures.cpu, 1), number(figures.seeder_cpu, 1)),
        number(figures.cpu_each(), 2),
        number(figures.copies, 2),
        number(figures.duplicates * 100.0, 2),
        format!("{} / {}", mib(figures.seeder_peak), mib(figures.leecher_peak)),
        number(figures.load_before, 1),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::swarm::case::Outcome;

    fn figures(system: System, leechers: usize) -> Figures {
        let outcome = Outcome {
            finishes: (1..=leechers).map(|at| at as f64).collect(),
            seeder_cpu: 1.0,
            leechers_cpu: leechers as f64,
            kernel_cpu: 0.0,
            seeder_sent: 1000,
            seeder_sent_on_wire: None,
            duplicate_bytes: 0,
            seeder_peak: 1 << 20,
            leecher_peak: 2 << 20,
            load_before: 0.5,
        };
        Figures::of(Case { system, leechers, uplinks: None }, 1000, &[outcome]).unwrap()
    }

    #[test]
    fn a_report_has_a_table_for_each_number_of_leechers_and_names_failures() {
        let results = Results {
            benchmark: Benchmark::Crowd,
            figures: vec![
                figures(System::WatchfireMesh, 8),
                figures(System::Http, 8),
                figures(System::WatchfireMesh, 32),
            ],
            file_bytes: 1000,
            failures: &["kubo: it ended\nwhy".to_owned()],
            others_share: 0.5,
            is_whole: false,
            command: "make bench-swarm".to_owned(),
            machine: "this one".to_owned(),
            took: Duration::from_secs(7),
        };
        let report = results.report();
        let rows: Vec<usize> = report.tables.iter().map(|table| table.rows.len()).collect();
        assert_eq!(rows, [2, 1]);
        let columns = report.tables.iter().flat_map(|table| &table.rows).map(Vec::len);
        assert!(columns.clone().all(|columns| columns == HEADS.len()));
        assert!(report.figures.iter().any(|figure| figure.value == "kubo: it ended why"));
        let svg = report.chart.svg();
        assert!(svg.contains("Leechers that have the file, of 32"), "{svg}");
        assert!(report.terminal().contains("50 % of the machine"));
    }
}
