use std::fmt::Write;

use super::{COLUMNS, Report, number};

/// `marks.md`: the run as a page.
pub fn page(report: &Report) -> String {
    let mut text = String::new();
    put(&mut text, report).expect("a string takes all");
    text
}

fn put(text: &mut String, report: &Report) -> std::fmt::Result {
    let plan = &report.plan;
    let sockets = number(plan.sockets as f64, 0);
    writeln!(text, "# The marks\n")?;
    writeln!(text, "Written by `make bench`; how it measures is told in `bench/README.md`.\n")?;
    writeln!(text, "![Bars of the figures below](marks.svg)\n")?;
    writeln!(
        text,
        "Machine: {}. {sockets} sockets in one server process, all joined to one room, on \
         loopback; {}.\n",
        report.machine.sentence(),
        report.rounds_sentence()
    )?;

    writeln!(text, "| mark | server | measured | at most | |\n|---|---|---:|---:|---|")?;
    for mark in &report.marks {
        writeln!(
            text,
            "| {} | {} | {} {} | {} {} | {} |",
            mark.what,
            mark.server,
            mark.number(mark.value),
            mark.unit,
            mark.number(mark.at_most),
            mark.unit,
            mark.verdict()
        )?;
    }

    writeln!(text, "\n## All figures\n")?;
    let heads: Vec<_> = COLUMNS.iter().map(|column| column.head).collect();
    writeln!(text, "| server | {} |", heads.join(" | "))?;
    writeln!(text, "|---|{}", "---:|".repeat(COLUMNS.len()))?;
    for (server, figures) in &report.medians {
        let cells: Vec<_> = COLUMNS.iter().map(|column| column.cell(figures)).collect();
        writeln!(text, "| {server} | {} |", cells.join(" | "))?;
    }
    writeln!(
        text,
        "\nB is resident memory of the server process above what it had before anybody came, a \
         socket; us is CPU time of all its threads, and contains the kernel's loopback work for \
         the receiver. A delivery is one of {} broadcasts of {} bytes to one socket; a rare \
         one comes after a second of silence, when Linux acknowledges at once, which on loopback the \
         sender pays. After reconnects: all sockets left and came back {} times. A poll is a long-poll session with \
         its parked GET; a cycle answers it and parks it again, {} times. Three topics and a presence: \
         each socket is also in a topic of its own and in one of many rooms of a hundred, where it \
         is tracked and told who comes and goes; the server is `examples/chat`, which is the same \
         library as it comes. Socket.IO's setup has one round trip more than the others', and \
         its server pings where others answer heartbeats.",
        plan.broadcasts,
        crate::message::BROADCAST_BYTES,
        plan.reconnects,
        plan.poll_cycles
    )?;
    for failure in &report.failures {
        writeln!(text, "\nDid not run: {}", failure.lines().next().unwrap_or_default())?;
    }
    Ok(())
}
