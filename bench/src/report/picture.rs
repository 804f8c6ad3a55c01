use std::fmt::Write;

use super::{Report, number};
use crate::marks::{POLL_BYTES_MAX, SETUP_MICROS_MAX, SOCKET_BYTES_MAX};
use crate::measure::Figure;
use crate::servers::Server;

const WIDTH: usize = 760;
const MARGIN: usize = 24;
const NAMES_WIDTH: usize = 190;
const BARS_WIDTH: usize = WIDTH - 2 * MARGIN - NAMES_WIDTH - 70;
const ROW_HEIGHT: usize = 22;
const PANEL_GAP: usize = 34;
const NOTE_HEIGHT: usize = 17;

/// Colours for paper and for night; the viewer's setting decides.
const STYLE: &str = "
  svg { font: 13px system-ui, sans-serif; fill: #24292f }
  .title { font-weight: 600 } .note { fill: #6b7280; font-size: 12px }
  .value { stroke: #fffdf9; stroke-width: 4; paint-order: stroke }
  .back { fill: #fffdf9 } .ours { fill: #d9480f } .other { fill: #94a3b8 }
  .mark { stroke: #1971c2; stroke-width: 1.5; stroke-dasharray: 4 3 } .marktext { fill: #1971c2; font-size: 12px }
  @media (prefers-color-scheme: dark) {
    svg { fill: #e6e1d8 } .value { stroke: #171412 } .back { fill: #171412 } .note { fill: #a09a90 }
    .ours { fill: #ff8a3d } .other { fill: #5b6472 }
    .mark { stroke: #74c0fc } .marktext { fill: #74c0fc }
  }
";

struct Panel {
    title: &'static str,
    figure: Figure,
    decimals: usize,
    mark: Option<f64>,
}

const PANELS: [Panel; 4] = [
    Panel {
        title: "Memory of a joined socket after broadcasts and reconnects, bytes",
        figure: Figure::SocketBytesAfterReconnects,
        decimals: 0,
        mark: Some(SOCKET_BYTES_MAX),
    },
    Panel {
        title: "CPU of a delivery of 100 bytes, microseconds",
        figure: Figure::DeliveryMicros,
        decimals: 2,
        mark: None, // relative to the bare one with as many threads
    },
    Panel {
        title: "CPU to accept, upgrade and join, microseconds",
        figure: Figure::SetupMicros,
        decimals: 1,
        mark: Some(SETUP_MICROS_MAX),
    },
    Panel {
        title: "Memory of a parked long poll, bytes",
        figure: Figure::PollBytesAfterCycles,
        decimals: 0,
        mark: Some(POLL_BYTES_MAX),
    },
];

/// `marks.svg`: the figures as bars, the marks as dashed lines.
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
        let bars: Vec<(Server, f64)> = report
            .medians
            .iter()
            .filter_map(|(server, figures)| Some((*server, *figures.get(&panel.figure)?)))
            .collect();
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

/// Returns where the panel ends.
fn put_panel(
    body: &mut String,
    panel: &Panel,
    bars: &[(Server, f64)],
    top: usize,
) -> Result<usize, std::fmt::Error> {
    writeln!(body, "<text class=\"title\" x=\"{MARGIN}\" y=\"{top}\">{}</text>", panel.title)?;
    let longest = bars.iter().map(|(_, value)| *value).chain(panel.mark).fold(0.0, f64::max);
    let scale = BARS_WIDTH as f64 / longest.max(f64::MIN_POSITIVE);
    let left = MARGIN + NAMES_WIDTH;
    let mut y = top + 12;
    let mut values = String::new(); // written last, over the line of the mark
    for (server, value) in bars {
        let class = if server.is_watchfire() { "ours" } else { "other" };
        let width = (value * scale).max(1.0);
        let base = y + 15;
        writeln!(
            body,
            "<text x=\"{MARGIN}\" y=\"{base}\">{server}</text>\
             <rect class=\"{class}\" x=\"{left}\" y=\"{}\" width=\"{width:.1}\" height=\"14\" \
             rx=\"2\"/>",
            y + 4
        )?;
        writeln!(
            values,
            "<text class=\"value\" x=\"{:.1}\" y=\"{base}\">{}</text>",
            left as f64 + width + 6.0,
            number(*value, panel.decimals)
        )?;
        y += ROW_HEIGHT;
    }
    if let Some(mark) = panel.mark {
        let x = left as f64 + mark * scale;
        writeln!(
            body,
            "<line class=\"mark\" x1=\"{x:.1}\" y1=\"{}\" x2=\"{x:.1}\" y2=\"{y}\"/>\
             <text class=\"marktext\" x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">mark {}</text>",
            top + 12,
            y + 12,
            number(mark, 0)
        )?;
    }
    body.push_str(&values);
    Ok(y + 6)
}
