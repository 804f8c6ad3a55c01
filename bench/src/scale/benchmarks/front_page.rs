use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::{Benchmark, Run, pause, seconds_since};
use crate::message;
use crate::progress::Progress;
use crate::report::{BenchmarkReport, Table, Target};
use crate::scale::client::page_content;
use crate::scale::client_processes::ClientProcesses;
use crate::scale::clock::{nanos, now_ns};
use crate::scale::kernel;
use crate::scale::orders::{Day, Kind, Order};
use watchfire_report::Histogram;
use watchfire_report::units::{bytes, duration, number};
use watchfire_report::{Axis, Chart, Colour, Line, Panel};

/// Visitors on the page at the peak.
pub const ONLINE: f64 = 880.0;
const VISITS: f64 = 250_000.0;
/// Duration of the compressed day at full size.
const DAY: Duration = Duration::from_secs(480);
const HOURS: usize = 24;
const PROCESSES: usize = 2;
const PAGE_P50_MILLIS_MAX: f64 = 1.0;
const PAGE_P99_MILLIS_MAX: f64 = 10.0;
const GROWTH_MEGABYTES_MAX: f64 = 20.0;

/// A day with or without content. With content, each visitor also loads the page from another one.
pub fn run(run: &Run<'_>, benchmark: Benchmark) -> Result<BenchmarkReport> {
    let with_content = benchmark == Benchmark::FrontPageContent;
    let cid = page_content::cid(&page_content::content()).to_string();
    let visits = run.scaled(VISITS);
    let day = DAY.mul_f64((visits as f64 / VISITS).max(0.05));
    let curve = curve();
    let peak = visits as f64 / day.as_secs_f64() * steepest(&curve);
    let stay = Duration::from_secs_f64(ONLINE / peak);
    let mut progress = Progress::new(HOURS + 1);

    let server = run.server(benchmark, 1, &progress)?;
    let address = *server.addresses().first().context("no server")?;
    let assets = assets_of(address, &cid)?;
    let ids = server.ids();
    let before = kernel::pss(&ids)?;
    let mut clients = ClientProcesses::start(Kind::Visitors, PROCESSES, 1, server.addresses())?;
    let client_ids = clients.ids();
    let cpu_before = run.cpu(&ids, &client_ids)?;
    let from_ns = now_ns() + 500_000_000;
    for process in 0..PROCESSES {
        let order = Order::Day(Day {
            cid: cid.clone(),
            assets: assets.clone(),
            visits: (visits as usize / PROCESSES) as u32,
            curve: curve.clone(),
            from_ns,
            lasts_ns: nanos(day),
            stay_ns: nanos(stay),
            // With content, a visitor of each process can serve it from the start.
            with_holder: process == 0 || with_content,
            with_content,
        });
        clients.send(process, &order)?;
    }
    let hour_of = |seconds: f64| seconds / day.as_secs_f64() * HOURS as f64;
    let (mut memory, mut online) = (Vec::new(), Vec::new());
    let mut hours: Vec<Histogram> = Vec::new();
    let [mut all, mut opened, mut content, mut late] = [(); 4].map(|()| Histogram::default());
    while hours.len() < HOURS {
        let (status, hour) = (clients.status()?, hour_of(seconds_since(from_ns)));
        memory.push((hour, kernel::pss(&ids)? as f64 / 1e6));
        online.push((hour, status.present as f64));
        let time_of_day = format!("{:02}:{:02}", hour as u32, (hour.fract() * 60.0) as u32);
        progress
            .show(&format!("{time_of_day}, {} visitors, {} pages", status.present, status.pages));
        if hour >= (hours.len() + 1) as f64 {
            let (mut durations, _) = clients.report()?;
            let mut taken = |name: &str| durations.remove(name).unwrap_or_default().snapshot();
            let page = taken("page");
            all.merge(&page);
            opened.merge(&taken("opened"));
            content.merge(&taken("content"));
            late.merge(&taken("lateness"));
            hours.push(Histogram::from(&page));
            progress.step(&format!("{} o'clock: {} pages so far", hours.len(), status.pages));
        }
        thread::sleep((day / 2_400).max(Duration::from_millis(25)));
    }
    let cpu = run.cpu(&ids, &client_ids)?.since(cpu_before);
    pause(Duration::from_secs(2), "the last visitors leave", &progress);
    let (_, status) = clients.report()?;
    let night = kernel::pss(&ids)? as f64 / 1e6;
    let teardown = run.take_down(clients, server, &progress)?;
    progress.step("the day is over");
    progress.finish();

    let title = if with_content {
        "A day on the front page, with content"
    } else {
        "A day on the front page"
    };
    let mut report = run.report(benchmark, title);
    let highest = |points: &[(f64, f64)]| points.iter().map(|point| point.1).fold(0.0, f64::max);
    let base = before as f64 / 1e6;
    let millis = |part: f64| all.quantile(part).as_secs_f64() * 1e3;
    let failed = status.failures() + status.wrong;
    let requested = visits as f64 / PROCESSES as f64 * PROCESSES as f64;
    report.targets = vec![
        Target::at_least("pages loaded", status.pages as f64, requested.floor(), "", 0),
        Target::at_most("visits that failed", failed as f64, 0.0, "", 0),
        Target::at_most("a page takes, median", millis(0.5), PAGE_P50_MILLIS_MAX, "ms", 2),
        Target::at_most("a page takes, p99", millis(0.99), PAGE_P99_MILLIS_MAX, "ms", 2),
        Target::at_most(
            "memory of the server at its most, above the empty one",
            highest(&memory) - base,
            GROWTH_MEGABYTES_MAX,
            "MB",
            1,
        ),
    ];
    if with_content {
        report.targets.push(Target::at_least(
            "visitors that received and verified the content",
            content.len() as f64,
            requested.floor(),
            "",
            0,
        ));
        report.figure("content, one block", bytes(page_content::CONTENT_BYTES as u64));
        report.figure("from the request for the content to its last byte: p50, p99", {
            format!("{}, {}", duration(content.quantile(0.5)), duration(content.quantile(0.99)))
        });
        report.figure("requests sent again to another peer", number(status.retries as f64, 0));
    }
    report.figure("people on the page at most", number(highest(&online), 0));
    report.figure("requests of a page: itself and", format!("{} files", assets.len()));
    report.figure("pages a second: mean, at the best time", {
        format!("{}, {}", number(visits as f64 / day.as_secs_f64(), 0), number(peak, 0))
    });
    report.figure("from the click to being on the page's topic: p50, p99", {
        format!("{}, {}", duration(opened.quantile(0.5)), duration(opened.quantile(0.99)))
    });
    report.figure("visits were begun late by, p99", duration(late.quantile(0.99)));
    report.figure("memory of the server: empty, at most, after the day (PSS)", {
        format!("{base:.1} MB, {:.1} MB, {night:.1} MB", highest(&memory))
    });
    report.figure("memory at most, a person", {
        bytes(((highest(&memory) - base).max(0.0) * 1e6 / highest(&online).max(1.0)) as u64)
    });
    report.figure("CPU of the server for a visit, all of it", {
        format!("{:.0} us", cpu.server.as_secs_f64() * 1e6 / visits as f64)
    });
    report.figure("CPU of the clients for a visit", {
        format!("{:.0} us", cpu.clients.as_secs_f64() * 1e6 / visits as f64)
    });
    report.figure("time until all sockets had closed", format!("{:.1} s", teardown.as_secs_f64()));
    report.tables.push(Table {
        title: "Hour by hour".into(),
        heads: ["hour", "pages", "a page takes, p50", "p99", "longest"].map(str::to_owned).to_vec(),
        rows: hours.iter().enumerate().map(row).collect(),
    });
    report.method = vec![
        "The server is one process, `watchfire serve`, with default settings.".into(),
        format!(
            "A visit is a new connection that fetches `/p/<cid>` and then, on the same one, the {} \
             files that a browser fetches for it (compressed; found by following `src`, `href` and \
             imports). Then a websocket joins `site` and `page:<cid>`, stays for a time from an \
             exponential distribution, and closes. {}",
            assets.len(),
            if with_content {
                "A visitor requests the content, one block, from a random peer that has it, over \
                 the relay, verifies it, and serves it on until it leaves. Two visitors have it \
                 all day. There are no direct connections, so the server carries every byte."
            } else {
                "One visitor with the whole page is present all day. Nobody requests its \
                 content; `front-page-content` measures that."
            }
        ),
        format!(
            "Visits follow a schedule that does not wait. The 24 hours of the day pass in {:.0} s, \
             with {} visits, a steep morning and a long tail. Stays are so short that {ONLINE:.0} \
             people are on the page at the peak.",
            day.as_secs_f64(),
            number(visits as f64, 0)
        ),
        "The time of a page is from the request to its last byte, as the visitor sees it. It contains \
         the delay in the client itself."
            .into(),
    ];
    report.chart = chart(memory, online, &hours);
    report.chart.notes = vec![report.machine.clone()];
    Ok(report)
}

fn row((hour, page): (usize, &Histogram)) -> Vec<String> {
    let times = [page.quantile(0.5), page.quantile(0.99), page.max()].map(duration);
    let pages = number(page.len() as f64, 0);
    [format!("{hour}"), pages].into_iter().chain(times).collect()
}

/// The share of all visits that have begun, at equal steps over the day: few at night, many soon
/// after the link is posted in the morning, and a long tail.
fn curve() -> Vec<f64> {
    const STEPS: usize = 480;
    let rate = |hour: f64| {
        let since = (hour - 5.0).max(0.0);
        0.08 + since * (-since / 3.5).exp()
    };
    let mut reached = vec![0.0];
    for step in 0..STEPS {
        let hour = (step as f64 + 0.5) * HOURS as f64 / STEPS as f64;
        reached.push(reached[step] + rate(hour));
    }
    let all = reached[STEPS];
    reached.iter().map(|so_far| so_far / all).collect()
}

/// The visit rate at the peak, divided by the average.
fn steepest(curve: &[f64]) -> f64 {
    let steps = curve.windows(2).map(|pair| pair[1] - pair[0]);
    steps.fold(0.0, f64::max) * (curve.len() - 1) as f64
}

/// The files that a browser fetches after the page: those that it names, and their imports for the
/// view of a page.
fn assets_of(server: SocketAddr, cid: &str) -> Result<Vec<String>> {
    let page = fetch(server, &format!("/p/{cid}"))?;
    let mut assets: Vec<String> = Vec::new();
    let add = |assets: &mut Vec<String>, path: String| {
        if !assets.contains(&path) {
            assets.push(path);
        }
    };
    for quoted in page.split('"').skip(1).step_by(2).filter(|text| is_file(text)) {
        add(&mut assets, quoted.to_owned());
    }
    ensure!(!assets.is_empty(), "the page names no files; build the binary with the web client");
    let mut next = 0;
    while let Some(path) = assets.get(next).cloned() {
        next += 1;
        if path.ends_with(".js") {
            let script = fetch(server, &path)?;
            for name in imports(&script) {
                add(&mut assets, format!("/assets/{name}"));
            }
        }
    }
    Ok(assets)
}

fn is_file(text: &str) -> bool {
    let is_path = text.starts_with('/') && !text.contains(' ');
    is_path && [".js", ".css", ".svg"].iter().any(|end| text.ends_with(end))
}

/// Files that a script imports at once, and those that it loads to show a page.
fn imports(script: &str) -> Vec<String> {
    let quoted = script.split(['"', '`', '\'']);
    let mut before = "";
    let mut names = Vec::new();
    for text in quoted {
        let is_import = before.ends_with("from") || before.ends_with("import");
        let name = text.strip_prefix("./").filter(|_| is_import && text.ends_with(".js"));
        let is_page = text.starts_with("assets/PageView");
        let name = name.or_else(|| text.strip_prefix("assets/").filter(|_| is_page));
        names.extend(name.map(str::to_owned));
        before = text;
    }
    names
}

fn fetch(server: SocketAddr, path: &str) -> Result<String> {
    let mut stream = TcpStream::connect(server)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).with_context(|| format!("cannot fetch {path}"))?;
    let response =
        message::http_message(&bytes).with_context(|| format!("incomplete response for {path}"))?;
    ensure!(response.line.contains(" 200 "), "{path}: {}", response.line);
    Ok(String::from_utf8_lossy(response.body).into_owned())
}

fn chart(memory: Vec<(f64, f64)>, online: Vec<(f64, f64)>, hours: &[Histogram]) -> Chart {
    let of_hours = |part: f64| -> Vec<(f64, f64)> {
        let middle = |(hour, page): (usize, &Histogram)| {
            (hour as f64 + 0.5, page.quantile(part).as_secs_f64() * 1e3)
        };
        hours.iter().enumerate().map(middle).collect()
    };
    let hour = || Axis { step: Some(4.0), ..Axis::up_to("hour of the day", HOURS as f64) };
    Chart {
        label: "Memory of the server and people on the page over a day, and how long a page takes"
            .into(),
        panels: vec![
            Panel::Lines {
                markers: Vec::new(),
                title: "Memory of the server over the day, with the people on the page".into(),
                x: hour(),
                left: Axis::new("memory, MB"),
                right: Some(Axis::new("people online")),
                lines: vec![
                    Line::right("people online (right)", Colour::Grey, online),
                    Line::left("memory (left)", Colour::Orange, memory),
                ],
            },
            Panel::Lines {
                markers: Vec::new(),
                title: "How long a page takes".into(),
                x: hour(),
                left: Axis::new("milliseconds"),
                right: None,
                lines: vec![
                    Line::left("median", Colour::Orange, of_hours(0.5)),
                    Line::left("p99", Colour::Blue, of_hours(0.99)),
                ],
            },
        ],
        notes: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_curve_rises_from_0_to_1() {
        let curve = curve();
        assert!(curve.is_sorted() && curve[0] == 0.0 && (curve[480] - 1.0).abs() < 1e-9);
        assert!((2.0..4.0).contains(&steepest(&curve)), "{}", steepest(&curve));
    }

    #[test]
    fn imports_of_a_script_are_found_without_those_of_other_views() {
        let script = r#"import{a}from"./tab-1.js";d=["assets/PageView-2.js","assets/chat-3.js"];
            import"./b.js";let x=import(`./chat-3.js`)"#;
        assert_eq!(imports(script), ["tab-1.js", "PageView-2.js", "b.js"]);
    }
}
