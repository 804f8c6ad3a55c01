use watchfire_report::Table;
use watchfire_report::units::count;

use super::{COLUMNS, Report};

/// The figures and the targets for the terminal.
pub fn terminal(report: &Report) -> String {
    // One column per server, because one per figure would be too wide.
    let servers = report.medians.keys().map(ToString::to_string);
    let mut figures = Table::new(std::iter::once("figure".to_owned()).chain(servers));
    for column in &COLUMNS {
        let cells = report.medians.values().map(|measured| column.cell(measured));
        figures.push(std::iter::once(column.head.to_owned()).chain(cells));
    }
    let mut targets = Table::new(["target", "measured", "at most", ""]);
    for target in &report.targets {
        targets.push([
            format!("{}: {}", target.server, target.what),
            format!("{} {}", target.number(target.value), target.unit),
            format!("{} {}", target.number(target.at_most), target.unit),
            target.verdict(),
        ]);
    }
    let mut text = format!(
        "\n{}\n{}\n{}\n{} sockets, {}\nwritten to {}\n",
        figures.terminal(),
        targets.terminal(),
        report.machine.sentence(),
        count(report.plan.sockets as u64),
        report.rounds_sentence(),
        report.pages().join("targets.md").display()
    );
    for failure in &report.failures {
        text += &format!("did not run: {failure}\n");
    }
    text
}
