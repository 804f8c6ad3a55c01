//! The report of a benchmark: figures, tables, chart and method.

use std::time::Duration;

use super::benchmark::Benchmark;
use super::figures::{Figures, Times};
use super::image::Image;
use super::system::System;
use super::targets::targets;
use crate::report::{BenchmarkReport, Table};
use watchfire_lab::machine::commit;
use watchfire_lab::machine::today;
use watchfire_report::units::number;
use watchfire_report::{Axis, Bar, Chart, Colour, Line, Marker, Panel};

const MIB: f64 = 1_048_576.0;

pub struct Results<'a> {
    pub benchmark: Benchmark,
    pub figures: Vec<Figures>,
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
            targets: targets(self.benchmark, &self.figures),
            figures: Vec::new(),
            tables: self.images().into_iter().map(|image| self.table(image)).collect(),
            chart: self.chart(),
        };
        let rounds = self.figures.iter().map(|one| one.rounds);
        let (least, most) = (rounds.clone().min().unwrap_or(0), rounds.max().unwrap_or(0));
        let range = if least == most { most.to_string() } else { format!("{least} to {most}") };
        report.figure("rounds", range);
        let others = format!("{:.0} % of the machine", self.others_share * 100.0);
        report.figure("used by other programs meanwhile", others);
        if let Some(case) = self.figures.first().map(|one| one.case)
            && let Some(links) = case.links
        {
            let (bytes, hosts) = (case.image.bytes(), case.measured_hosts());
            let seconds = |seconds: f64| format!("{} s", number(seconds, 1));
            let rates = format!("{} and {} Mbit/s", links.upstream_mbit, links.host_mbit);
            report.figure("links of the registry and of each host", rates);
            let megabits = bytes as f64 * 8.0 / 1e6;
            report.figure(
                "the image over the link of the registry",
                seconds(megabits / links.upstream_mbit),
            );
            report.figure("the image over the link of a host", seconds(megabits / links.host_mbit));
            let all = links.upstream_mbit + hosts as f64 * links.host_mbit;
            report.figure("all copies over all uplinks", seconds(hosts as f64 * megabits / all));
            report.figure(
                "the bound: the longest of these",
                seconds(links.bound_seconds(bytes, hosts)),
            );
        }
        for failure in self.failures {
            report.figure("did not run", in_short(failure));
        }
        report
    }

    /// The images, in the order of the cases.
    fn images(&self) -> Vec<Image> {
        let mut images: Vec<Image> = self.figures.iter().map(|one| one.case.image).collect();
        images.dedup();
        images
    }

    fn of_image(&self, image: Image) -> impl Iterator<Item = &Figures> {
        self.figures.iter().filter(move |one| one.case.image == image)
    }

    fn table(&self, image: Image) -> Table {
        let hosts = self.of_image(image).map(|one| one.case.measured_hosts()).max().unwrap_or(0);
        Table {
            title: format!("{} to {}", described(image), counted(hosts)),
            heads: HEADS.iter().map(ToString::to_string).collect(),
            rows: self.of_image(image).map(row).collect(),
        }
    }

    fn chart(&self) -> Chart {
        let images = self.images();
        let mut panels = Vec::new();
        for image in &images {
            let of = |what: &str| match images.len() {
                1 => what.to_owned(),
                _ => format!("{what}, {}", described(*image)),
            };
            if self.of_image(*image).any(|one| one.case.measured_hosts() > 1) {
                panels.push(self.curves(*image, of("Hosts that have fetched the image")));
            } else {
                panels.push(self.bars(
                    *image,
                    of("Seconds until the host has fetched the image"),
                    2,
                    |one| one.fetched.last,
                ));
            }
            let mib = image.bytes() as f64 / MIB;
            panels.push(self.bars(*image, of("MiB that the registry served"), 0, |one| {
                one.upstream_copies * mib
            }));
        }
        if let Some(image) = images.last() {
            panels.push(self.bars(
                *image,
                "CPU-seconds for each host, mirror and client".to_owned(),
                2,
                Figures::host_cpu,
            ));
        }
        let notes = images.iter().map(|image| format!("{}.", described(*image))).collect();
        let label = format!("{}: how long it takes, and what it costs", self.benchmark.title());
        Chart { label, panels, notes }
    }

    fn bars(
        &self,
        image: Image,
        title: String,
        decimals: usize,
        value: impl Fn(&Figures) -> f64,
    ) -> Panel {
        let bar = |one: &Figures| Bar {
            name: one.case.system.short_name().to_owned(),
            colour: one.case.system.colour(),
            value: value(one),
            limit: None,
        };
        Panel::Bars { title, decimals, bars: self.of_image(image).map(bar).collect() }
    }

    /// The number of hosts over time.
    fn curves(&self, image: Image, title: String) -> Panel {
        let line = |one: &Figures| {
            let system = one.case.system;
            Line::left(system.short_name(), system.colour(), one.curve())
        };
        let hosts = self.of_image(image).map(|one| one.case.measured_hosts()).max().unwrap_or(0);
        let bound = self.of_image(image).find_map(|one| one.case.bound_seconds());
        let marker = bound.map(|at| Marker {
            name: "bound".to_owned(),
            colour: Colour::Grey,
            is_on_x: true,
            at,
        });
        Panel::Lines {
            markers: marker.into_iter().collect(),
            title,
            x: Axis::new("seconds"),
            left: Axis::up_to("hosts", hosts as f64),
            right: None,
            lines: self.of_image(image).map(line).collect(),
        }
    }

    fn method(&self) -> Vec<String> {
        let uses = |system| self.figures.iter().any(|one| one.case.system == system);
        let mut method = vec![METHOD.to_owned(), CLIENT.to_owned()];
        let case = self.figures.first().map(|one| one.case);
        method.push(match case.and_then(|case| case.links) {
            None => UNSHAPED.to_owned(),
            Some(_) => SHAPED.to_owned(),
        });
        if case.is_some_and(|case| case.is_warm) {
            method.push(WARM.to_owned());
        }
        if uses(System::Fleet) || uses(System::Mirror) {
            method.push(MIRROR.to_owned());
        }
        if uses(System::NginxCache) || uses(System::RegistryCache) {
            method.push(CACHES.to_owned());
        }
        method.extend([BYTES.to_owned(), CPU.to_owned(), DISK.to_owned(), IMAGE.to_owned()]);
        method.push(NOT_MEASURED.to_owned());
        method
    }
}

const METHOD: &str = "Each host is a network namespace with a link to one bridge, and has a container \
     engine of its own; so has the registry, Debian's docker-registry without TLS. All hosts begin to \
     pull at the same time, and a case ends when the last one has unpacked the image. Systems take \
     turns. Figures are medians over the rounds; memory is the maximum of all rounds. A case that \
     took more than five minutes is not repeated.";
const CLIENT: &str = "A host pulls with Debian's containerd 1.6 and `ctr images pull`, three layers at \
     once, as the nodes of Kubernetes do by default, and verifies every digest. An image is fetched \
     when `ctr` begins to unpack it. A host unpacks while others still fetch.";
const UNSHAPED: &str = "No link has a rate limit. The limits are the processor and the disk, which all \
     hosts share.";
const SHAPED: &str = "A token bucket (HTB) limits both directions of each host's link and what the \
     registry sends, headers included. A host's downlink has a queue of 50 ms, and there is no added \
     delay. The congestion control is reno. The bound is that of Kumar and Ross, for bytes without headers.";
const WARM: &str = "The first host has pulled the image before the clock starts, and only the second \
     one is measured. A registry that is pulled from directly is on the first host.";
const MIRROR: &str = "A mirror listens on the loopback address of its host with default settings. The \
     mirrors of a fleet know the first one when they start.";
const CACHES: &str = "A shared cache is on the first host, behind the link of that host. nginx keeps \
     other requests for a blob waiting until it has the whole blob (`proxy_cache_lock`). The cache of \
     docker-registry 2.8 (`proxy.remoteurl`) has default settings. It asks the registry for each \
     request that arrives before the blob is stored, and once more to store it.";
const BYTES: &str = "Copies from the registry are the bytes of bodies in its log, divided by the size of \
     the image. Copies between hosts are all bytes that hosts sent on their links, except those to the \
     registry; they include headers and acknowledgements. In brackets: those that a host got twice.";
const CPU: &str = "CPU time is that of all threads of all processes, also ended ones, from `/proc`, from \
     the start until the last host has unpacked the image. The client is containerd and `ctr`. \
     Writing to the disk itself is not counted.";
const DISK: &str = "All hosts share one disk, so the content of containerd and mirrors is on an overlay \
     that ignores flushes (`volatile`): otherwise each host would wait for the data of all. Before a \
     case nearly all memory is filled, and as much is released as the case needs, because a virtual \
     machine returns free memory to its host.";
const IMAGE: &str = "The image has layers of tar and gzip with files of 36 KB in the median. A quarter \
     of the files is text, and the others do not compress. Sizes are those of the compressed layers.";
const NOT_MEASURED: &str = "Systems that need another client or a cluster are not measured: `nerdctl ipfs` \
     (no containerd client here speaks to kubo), Spegel, Dragonfly and Kraken.";

/// An error without the log of its program, of which only the last line stays.
fn in_short(failure: &str) -> String {
    let mut lines = failure.lines();
    let first = lines.next().unwrap_or_default();
    let (what, _) = first.split_once("; last lines of the log").unwrap_or((first, ""));
    let last = lines.next_back().map_or(String::new(), |last| format!(": {}", last.trim()));
    format!("{what}{last}").replace('|', " ")
}

fn described(image: Image) -> String {
    let mib = number(image.bytes() as f64 / MIB, 0);
    format!("{mib} MiB in {} layers", image.layers().len())
}

fn counted(hosts: usize) -> String {
    if hosts == 1 { "one host".to_owned() } else { format!("{hosts} hosts") }
}

const HEADS: [&str; 10] = [
    "system",
    "fetched: first, median, last, s",
    "last / bound",
    "fetched and unpacked: first, median, last, s",
    "copies from the registry",
    "copies between hosts (twice)",
    "CPU-s per host, mirror + client",
    "CPU-s of servers / kernel threads",
    "most memory, mirror or cache / client, MiB",
    "rounds / load before",
];

fn row(figures: &Figures) -> Vec<String> {
    let mib = |bytes: f64| number(bytes / MIB, 0);
    let times = |times: Times| {
        [times.first, times.half, times.last].map(|seconds| number(seconds, 1)).join(", ")
    };
    let has_no_memory = figures.mirror_peak == 0.0;
    let mirror_peak = if has_no_memory { "none".to_owned() } else { mib(figures.mirror_peak) };
    vec![
        figures.case.system.to_string(),
        times(figures.fetched),
        figures.times_bound().map_or(String::new(), |times| format!("{} x", number(times, 2))),
        times(figures.complete),
        number(figures.upstream_copies, 2),
        format!("{} ({})", number(figures.host_copies, 2), number(figures.duplicate_copies, 2)),
        format!("{} + {}", number(figures.mirror_cpu, 2), number(figures.client_cpu, 2)),
        format!("{} / {}", number(figures.servers_cpu, 1), number(figures.kernel_cpu, 1)),
        format!("{mirror_peak} / {}", mib(figures.client_peak)),
        format!("{} / {}", figures.rounds, number(figures.load_before, 1)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::case::Case;
    use crate::fleet::figures::tests::outcome;
    use crate::fleet::links::Links;

    fn figures(system: System, bytes: u64, links: Option<Links>) -> Figures {
        let image = Image::Usual { bytes };
        let case = Case { system, image, hosts: 2, links, is_warm: false };
        Figures::of(case, &[outcome(&[1.0, 2.0])]).unwrap()
    }

    fn report(benchmark: Benchmark, figures: Vec<Figures>) -> BenchmarkReport {
        let results = Results {
            benchmark,
            figures,
            failures: &["nginx: it ended; last lines of the log:\n    one\n    why".to_owned()],
            others_share: 0.5,
            is_whole: false,
            command: "make bench-images".to_owned(),
            machine: "this one".to_owned(),
            took: Duration::from_secs(7),
        };
        results.report()
    }

    #[test]
    fn each_image_has_a_table_and_failures_are_named() {
        let all = vec![
            figures(System::Fleet, 10 << 20, None),
            figures(System::Registry, 10 << 20, None),
            figures(System::Fleet, 100 << 20, None),
        ];
        let report = report(Benchmark::Sizes, all);
        let rows: Vec<usize> = report.tables.iter().map(|table| table.rows.len()).collect();
        assert_eq!(rows, [2, 1]);
        let columns = report.tables.iter().flat_map(|table| &table.rows).map(Vec::len);
        assert!(columns.clone().all(|columns| columns == HEADS.len()));
        assert!(report.figures.iter().any(|figure| figure.value == "nginx: it ended: why"));
        assert_eq!(report.chart.panels.len(), 5);
    }

    #[test]
    fn shaped_links_have_their_bound_in_the_chart_and_the_figures() {
        let links = Links { upstream_mbit: 100.0, host_mbit: 200.0 };
        let all = vec![figures(System::Registry, 12_500_000 * 6, Some(links))];
        let report = report(Benchmark::SlowUpstream, all);
        let bound = report.figures.iter().find(|figure| figure.what.starts_with("the bound"));
        assert_eq!(bound.unwrap().value, "6.0 s");
        assert!(report.chart.svg().contains("bound"));
        assert!(report.terminal().contains("0.33 x"), "{}", report.terminal());
    }
}
