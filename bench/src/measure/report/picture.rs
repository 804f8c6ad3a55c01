use watchfire_report::units::number;
use watchfire_report::{Bar, BarLimit, Chart, Colour, Panel};

use super::Report;
use crate::measure::figure::{Figure, Figures};
use crate::measure::targets::Target;
use crate::servers::Server;

/// A panel of the picture: one figure of several servers.
struct FigurePanel {
    title: &'static str,
    figure: Figure,
    decimals: usize,
    /// Servers whose figures can be compared here.
    shows: fn(Server) -> bool,
}

const PANELS: [FigurePanel; 5] = [
    FigurePanel {
        title: "Memory of a joined socket after broadcasts and reconnects, bytes",
        figure: Figure::SocketBytesAfterReconnects,
        decimals: 0,
        shows: is_in_one_topic,
    },
    FigurePanel {
        title: "The same for Watchfire alone, also with three topics and presence",
        figure: Figure::SocketBytesAfterReconnects,
        decimals: 0,
        shows: Server::is_watchfire,
    },
    FigurePanel {
        title: "CPU of a delivery of 100 bytes, microseconds",
        figure: Figure::DeliveryMicros,
        decimals: 2,
        shows: |_| true,
    },
    FigurePanel {
        title: "CPU to accept, upgrade and join, microseconds",
        figure: Figure::SetupMicros,
        decimals: 1,
        shows: is_in_one_topic,
    },
    FigurePanel {
        title: "Memory of a parked long poll, bytes",
        figure: Figure::PollBytesAfterCycles,
        decimals: 0,
        shows: |_| true,
    },
];

fn is_in_one_topic(server: Server) -> bool {
    server != Server::ThreeTopics
}

/// `targets.svg`: the figures as bars, with lines at the targets.
pub fn picture(report: &Report) -> Chart {
    let panels = PANELS.iter().map(|panel| {
        let (title, decimals) = (panel.title.to_owned(), panel.decimals);
        Panel::Bars { title, decimals, bars: bars(panel, report) }
    });
    let is_drawn = |panel: &Panel| matches!(panel, Panel::Bars { bars, .. } if !bars.is_empty());
    let machine = format!(
        "{} sockets, one room, one process; {} cores, {:.0} GiB, Linux {};",
        number(report.plan.sockets as f64, 0),
        report.machine.cores,
        report.machine.memory_bytes as f64 / f64::from(1 << 30),
        report.machine.kernel
    );
    Chart {
        label: "What a socket costs: memory and CPU, server by server".into(),
        panels: panels.filter(is_drawn).collect(),
        notes: vec![machine, report.rounds_sentence() + "."],
    }
}

fn bars(panel: &FigurePanel, report: &Report) -> Vec<Bar> {
    let bar = |(server, figures): (&Server, &Figures)| {
        let is_its = |target: &&Target| target.server == *server && target.figure == panel.figure;
        let value = *figures.get(&panel.figure)?;
        let target = report.targets.iter().find(is_its);
        Some(Bar {
            name: server.to_string(),
            colour: if server.is_watchfire() { Colour::Orange } else { Colour::Grey },
            value,
            limit: target.map(|target| limit(target, value)),
        })
    };
    report.medians.iter().filter(|(server, _)| (panel.shows)(**server)).filter_map(bar).collect()
}

/// The target in the bar's unit: a target may be a ratio to the figure of another server.
fn limit(target: &Target, value: f64) -> BarLimit {
    let suffix = if target.unit == "x" { " x bare" } else { "" };
    let at_most = target.number(target.at_most);
    let at_most = at_most.trim_end_matches(".0");
    BarLimit {
        value: value * target.at_most / target.value,
        label: format!("at most {at_most}{suffix}"),
    }
}
