use std::fmt::Write;

use super::{COLUMNS, Report, number};

const SERVER_WIDTH: usize = 30;

/// The table and the verdicts for the terminal.
pub fn terminal(report: &Report) -> String {
    let mut text = String::new();
    put(&mut text, report).expect("a string takes all");
    text
}

fn put(text: &mut String, report: &Report) -> std::fmt::Result {
    let width = |head: &str| head.split(' ').map(str::len).max().unwrap_or(0).max(7);
    let lines = COLUMNS.iter().map(|column| column.head.split(' ').count()).max().unwrap_or(0);
    writeln!(text)?;
    for line in 0..lines {
        write!(text, "{:SERVER_WIDTH$}", "")?;
        for column in &COLUMNS {
            let word = column.head.split(' ').nth(line).unwrap_or_default();
            write!(text, " {word:>0$}", width(column.head))?;
        }
        writeln!(text)?;
    }
    for (server, figures) in &report.medians {
        write!(text, "{server:SERVER_WIDTH$}")?;
        for column in &COLUMNS {
            write!(text, " {:>1$}", column.cell(figures), width(column.head))?;
        }
        writeln!(text)?;
    }
    writeln!(text)?;
    for mark in &report.marks {
        writeln!(
            text,
            "{:SERVER_WIDTH$} {:38} {:>8} {:6} at most {:>6}  {}",
            mark.server,
            mark.what,
            mark.number(mark.value),
            mark.unit,
            mark.number(mark.at_most),
            mark.verdict()
        )?;
    }
    writeln!(
        text,
        "\n{}\n{} sockets, {}\nwritten to {}",
        report.machine.sentence(),
        number(report.plan.sockets as f64, 0),
        report.rounds_sentence(),
        report.pages().join("marks.md").display()
    )?;
    for failure in &report.failures {
        writeln!(text, "did not run: {failure}")?;
    }
    Ok(())
}
