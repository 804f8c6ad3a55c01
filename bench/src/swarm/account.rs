//! A story for people.

use std::time::Duration;

use super::case::Case;
use super::contender::Contender;
use super::figures::Figures;
use super::marks::marks;
use super::story::Story;
use super::topology::FEW;
use crate::scale::clock::today;
use crate::scale::report::{Account, Axis, Bar, Chart, Line, Panel, Table, number};

const MIB: f64 = 1_048_576.0;

/// What came of a story.
pub struct Told<'a> {
    pub story: Story,
    pub figures: Vec<Figures>,
    pub file_bytes: u64,
    pub failures: &'a [String],
    /// Of the machine, used by programs that are not ours.
    pub others_share: f64,
    pub is_whole: bool,
    pub command: String,
    pub machine: String,
    pub took: Duration,
}

impl Told<'_> {
    pub fn account(self) -> Account {
        let mut account = Account {
            story: self.story.to_string(),
            title: self.story.title().to_owned(),
            is_whole: self.is_whole,
            date: today(),
            machine: self.machine.clone(),
            command: self.command.clone(),
            seconds: self.took.as_secs(),
            method: self.method(),
            marks: marks(self.story, &self.figures, self.file_bytes),
            figures: Vec::new(),
            tables: Vec::new(),
            chart: self.chart(),
        };
        let mib = self.file_bytes as f64 / MIB;
        account.figure("file", format!("{} MiB", number(mib, 0)));
        let rounds = self.figures.iter().map(|one| one.rounds);
        let (least, most) = (rounds.clone().min().unwrap_or(0), rounds.max().unwrap_or(0));
        let told = if least == most { most.to_string() } else { format!("{least} to {most}") };
        account.figure("rounds", told);
        let others = format!("{:.0} % of the machine", self.others_share * 100.0);
        account.figure("used by other programs meanwhile", others);
        if let Some(case) = self.figures.first().map(|one| one.case)
            && let Some(uplinks) = case.uplinks
        {
            let sentence = format!("{} and {} Mbit/s", uplinks.seeder_mbit, uplinks.leecher_mbit);
            account.figure("uplinks of the seeder and of each leecher", sentence);
            let bound = uplinks.bound_seconds(self.file_bytes, case.leechers);
            account.figure("least possible time", format!("{} s", number(bound, 1)));
        }
        for failure in self.failures {
            account.figure("did not run", failure.replace(['\n', '|'], " "));
        }
        account.tables = self.tables();
        account
    }

    /// The sizes of crowds, ascending.
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
                name: one.case.contender.in_short().to_owned(),
                tint: one.case.contender.tint(),
                value: one.cpu_each(),
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
        let label = format!("{}: how long it takes, and what it costs", self.story.title());
        Chart { label, panels, notes: vec![format!("A file of {} MiB.", number(mib, 0))] }
    }

    /// How many leechers have the file when.
    fn curves(&self, leechers: usize) -> Panel {
        let drawn = |contender: Contender| {
            let one = self.in_crowd(leechers).find(|one| one.case.contender == contender)?;
            Some(Line::left(contender.in_short(), contender.tint(), one.curve()))
        };
        Panel::Lines {
            title: format!("Leechers that have the file, of {leechers}"),
            x: Axis::new("seconds"),
            left: Axis::up_to("leechers", leechers as f64),
            right: None,
            lines: self.story.drawn().filter_map(drawn).collect(),
        }
    }

    fn method(&self) -> Vec<String> {
        let uses =
            |contender: fn(&Case) -> bool| self.figures.iter().any(|one| contender(&one.case));
        let mut method = vec![
            "A seeder and its leechers are processes of this machine. They all begin at once; a \
             contender is done when the last leecher has the file on disk. Contenders take turns, and \
             figures are medians over the rounds; memory is the most of all rounds."
                .to_owned(),
        ];
        match self.figures.first().and_then(|one| one.case.uplinks) {
            None => method.push(
                "The network is a loopback device of the run's own, and nothing slows it: what takes \
                 time is the processor, and the disk."
                    .to_owned(),
            ),
            Some(_) => method.push(
                "Each peer has a network of its own with a link to a bridge. What leaves a peer goes \
                 through a token bucket (HTB) of its uplink's rate, headers included; what comes is not \
                 slowed, and nothing is delayed. The least possible time is that of Kumar and Ross for \
                 bytes without headers."
                    .to_owned(),
            ),
        }
        if uses(|case| case.contender.leecher() == super::contender::Program::Watchfire) {
            method.push(format!(
                "Watchfire is `watchfire get`, as it comes: the clock and the CPU time count from \
                 before the process starts until it has written the file, checked it, and ended; who \
                 has it does not stay. In a mesh each is told of all that started before it, with \
                 \"a few\" of {FEW} of them. Memory is looked at every 40 ms."
            ));
        }
        if uses(|case| case.contender.leecher() == super::contender::Program::Kubo) {
            method.push(
                "kubo runs before the clock does, connected as is said, with nothing but its \
                 connections to ask; it pins the file, which leaves it as blocks in its repository, and \
                 goes on serving. It uses the blocks that it cuts unasked, 256 KiB; with blocks of 1 \
                 MiB it fetches the same ones as Watchfire."
                    .to_owned(),
            );
        }
        if uses(|case| case.contender == Contender::Http) {
            method.push(
                "HTTP is one nginx process without TLS, and `curl --output` for each leecher; nothing \
                 is verified."
                    .to_owned(),
            );
        }
        if uses(|case| case.contender == Contender::Disk) {
            method.push(
                "dd copies the file from the page cache to where the leechers put theirs, in pieces of \
                 64 KiB, while nginx stands by: no network, no checking."
                    .to_owned(),
            );
        }
        method.push(
            "Hardly any memory is free before a case, and as much becomes free as it takes: a virtual machine \
             gives what is free back to its host, within seconds, and whoever writes a file into such memory pays for \
             fetching it again, often more than for all the rest. Nobody is measured by that here."
                .to_owned(),
        );
        method.push(
            "CPU time is that of all threads of all processes, ended ones too, from `/proc`, and of \
             the kernel's threads for network work; writing to the disk itself is nobody's. What the \
             seeder sent and what came twice is what the programs say of themselves."
                .to_owned(),
        );
        method
    }
}

const HEADS: [&str; 9] = [
    "contender",
    "first, s",
    "half, s",
    "last, s",
    "CPU-s in all (seeder)",
    "CPU-s for each",
    "copies from the seeder",
    "twice, %",
    "most memory, seeder / leecher, MiB",
];

fn row(figures: &Figures) -> Vec<String> {
    let mib = |bytes: f64| number(bytes / MIB, 0);
    vec![
        figures.case.contender.to_string(),
        number(figures.first, 1),
        number(figures.half, 1),
        number(figures.last, 1),
        format!("{} ({})", number(figures.cpu, 1), number(figures.seeder_cpu, 1)),
        number(figures.cpu_each(), 2),
        number(figures.copies, 2),
        number(figures.duplicates * 100.0, 2),
        format!("{} / {}", mib(figures.seeder_peak), mib(figures.leecher_peak)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::swarm::case::Outcome;

    fn figures(contender: Contender, leechers: usize) -> Figures {
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
        };
        Figures::of(Case { contender, leechers, uplinks: None }, 1000, &[outcome]).unwrap()
    }

    #[test]
    fn a_story_has_a_table_for_each_crowd_and_tells_what_failed() {
        let told = Told {
            story: Story::Crowd,
            figures: vec![
                figures(Contender::WatchfireMesh, 8),
                figures(Contender::Http, 8),
                figures(Contender::WatchfireMesh, 32),
            ],
            file_bytes: 1000,
            failures: &["kubo: it ended\nwhy".to_owned()],
            others_share: 0.5,
            is_whole: false,
            command: "make bench-swarm".to_owned(),
            machine: "this one".to_owned(),
            took: Duration::from_secs(7),
        };
        let account = told.account();
        let rows: Vec<usize> = account.tables.iter().map(|table| table.rows.len()).collect();
        assert_eq!(rows, [2, 1]);
        let columns = account.tables.iter().flat_map(|table| &table.rows).map(Vec::len);
        assert!(columns.clone().all(|columns| columns == HEADS.len()));
        assert!(account.figures.iter().any(|figure| figure.value == "kubo: it ended why"));
        let svg = account.chart.svg();
        assert!(svg.contains("Leechers that have the file, of 32"), "{svg}");
        assert!(account.terminal().contains("50 % of the machine"));
    }
}
