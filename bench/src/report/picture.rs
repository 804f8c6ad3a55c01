use std::fmt::Write;

use super::{Report, number};
use crate::marks::Mark;
use crate::measure::{Figure, Figures};
use crate::servers::Server;

const WIDTH: usize = 760;
const MARGIN: usize = 24;
const NAMES_WIDTH: usize = 214;
const VALUES_WIDTH: usize = 136;
const BARS_WIDTH: usize = WIDTH - 2 * MARGIN - NAMES_WIDTH - VALUES_WIDTH;
const ROW_HEIGHT: usize = 22;
const PANEL_GAP: usize = 34;
const NOTE_HEIGHT: usize = 17;

/// Colours for paper and for night; the viewer's setting decides.
const STYLE: &str = "
  svg { font: 13px system-ui, sans-serif; fill: #24292f }
  .title { font-weight: 600 } .note { fill: #6b7280; font-size: 12px }
  .back { fill: #fffdf9 } .ours { fill: #d9480f } .other { fill: #94a3b8 }
  .mark { fill: #1971c2; stroke: #fffdf9; stroke-width: 2; paint-order: stroke } .marktext { fill: #1971c2; font-size: 12px }
  @media (prefers-color-scheme: dark) {
    svg { fill: #e6e1d8 } .back { fill: #171412 } .note { fill: #a09a90 }
    .ours { fill: #ff8a3d } .other { fill: #5b6472 }
    .mark { fill: #74c0fc; stroke: #171412 } .marktext { fill: #74c0fc }
  }
";

struct Panel {
    title: &'static str,
    figure: Figure,
    decimals: usize,
    /// The servers whose figures are like with like here.
    shows: fn(Server) -> bool,
}

const PANELS: [Panel; 5] = [
    Panel {
        title: "Memory of a joined socket after broadcasts and reconnects, bytes",
        figure: Figure::SocketBytesAfterReconnects,
        decimals: 0,
        shows: is_in_one_topic,
    },
    Panel {
        title: "The same, Watchfire alone, and with three topics and a presence",
        figure: Figure::SocketBytesAfterReconnects,
        decimals: 0,
        shows: Server::is_watchfire,
    },
    Panel {
        title: "CPU of a delivery of 100 bytes, microseconds",
        figure: Figure::DeliveryMicros,
        decimals: 2,
        shows: |_| true,
    },
    Panel {
        title: "CPU to accept, upgrade and join, microseconds",
        figure: Figure::SetupMicros,
        decimals: 1,
        shows: is_in_one_topic,
    },
    Panel {
        title: "Memory of a parked long poll, bytes",
        figure: Figure::PollBytesAfterCycles,
        decimals: 0,
        shows: |_| true,
    },
];

fn is_in_one_topic(server: Server) -> bool {
    server != Server::ThreeTopics
}

/// One server's figure in a panel.
struct Bar<'a> {
    server: Server,
    value: f64,
    mark: Option<&'a Mark>,
}

impl Bar<'_> {
    /// What the mark allows, in the bar's unit: a mark may be a ratio to another server's figure.
    fn at_most(&self) -> Option<f64> {
        self.mark.map(|mark| self.value * mark.at_most / mark.value)
    }

    /// How far the bar and the line of its mark reach.
    fn reach(&self) -> f64 {
        self.at_most().map_or(self.value, |at_most| at_most.max(self.value))
    }
}

/// `marks.svg`: the figures as bars, the marks as lines across them.
pub fn picture(report: &Report) -> String {
    let mut body = String::new();
    let height = put(&mut body, report).expect("a string takes all");
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         width=\"{WIDTH}\" height=\"{height}\" role=\"img\" \
         aria-label=\"What a socket costs: memory and CPU, server by server\">\n\
         <style>{STYLE}</style>\n\
         <rect class=\"back\" width=\"{WIDTH}\" height=\"{height}\" rx=\"10\"/>\n{body}</svg>\n"
    )
}

fn put(body: &mut String, report: &Report) -> Result<usize, std::fmt::Error> {
    let mut y = MARGIN + 10;
    for panel in &PANELS {
        let bars = bars(panel, report);
        if !bars.is_empty() {
            y = put_panel(body, panel, &bars, y)? + PANEL_GAP;
        }
    }
    let (machine, sockets) = (&report.machine, number(report.plan.sockets as f64, 0));
    let machine_note = format!(
        "{sockets} sockets, one room, one process; {} cores, {:.0} GiB, Linux {};",
        machine.cores,
        machine.memory_bytes as f64 / f64::from(1 << 30),
        machine.kernel
    );
    for note in [machine_note, report.rounds_sentence() + "."] {
        writeln!(body, "<text class=\"note\" x=\"{MARGIN}\" y=\"{y}\">{note}</text>")?;
        y += NOTE_HEIGHT;
    }
    Ok(y + MARGIN - NOTE_HEIGHT)
}

fn bars<'a>(panel: &Panel, report: &'a Report) -> Vec<Bar<'a>> {
    let bar = |(server, figures): (&Server, &Figures)| {
        let is_its = |mark: &&Mark| mark.server == *server && mark.figure == panel.figure;
        let mark = report.marks.iter().find(is_its);
        Some(Bar { server: *server, value: *figures.get(&panel.figure)?, mark })
    };
    report.medians.iter().filter(|(server, _)| (panel.shows)(**server)).filter_map(bar).collect()
}

/// Returns where the panel ends.
fn put_panel(
    body: &mut String,
    panel: &Panel,
    bars: &[Bar<'_>],
    top: usize,
) -> Result<usize, std::fmt::Error> {
    writeln!(body, "<text class=\"title\" x=\"{MARGIN}\" y=\"{top}\">{}</text>", panel.title)?;
    let longest = bars.iter().map(Bar::reach).fold(f64::MIN_POSITIVE, f64::max);
    let scale = BARS_WIDTH as f64 / longest;
    let left = MARGIN + NAMES_WIDTH;
    let mut y = top + 12;
    for bar in bars {
        let (server, base) = (bar.server, y + 15);
        let class = if server.is_watchfire() { "ours" } else { "other" };
        let width = (bar.value * scale).max(1.0);
        writeln!(
            body,
            "<text x=\"{MARGIN}\" y=\"{base}\">{server}</text>\
             <rect class=\"{class}\" x=\"{left}\" y=\"{}\" width=\"{width:.1}\" height=\"14\" \
             rx=\"2\"/>",
            y + 4
        )?;
        if let Some(at_most) = bar.at_most() {
            let x = left as f64 + at_most * scale;
            writeln!(
                body,
                "<rect class=\"mark\" x=\"{:.1}\" y=\"{}\" width=\"2\" height=\"{}\"/>",
                x - 1.0,
                y + 1,
                ROW_HEIGHT - 2
            )?;
        }
        writeln!(
            body,
            "<text x=\"{:.1}\" y=\"{base}\">{}{}</text>",
            left as f64 + (bar.reach() * scale).max(1.0) + 6.0,
            number(bar.value, panel.decimals),
            bar.mark.map(marked).unwrap_or_default()
        )?;
        y += ROW_HEIGHT;
    }
    Ok(y + 6)
}

/// What is written after a value that has a mark.
fn marked(mark: &Mark) -> String {
    let of_what = if mark.unit == "x" { " x bare" } else { "" };
    let at_most = mark.number(mark.at_most);
    let at_most = at_most.trim_end_matches(".0");
    format!("<tspan class=\"marktext\" dx=\"7\">mark {at_most}{of_what}</tspan>")
}
