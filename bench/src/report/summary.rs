use watchfire_report::Table;
use watchfire_report::units::count;

use super::BenchmarkReport;

/// The page over all benchmarks, from the last report of each, below `heading`.
pub fn summary(heading: &str, reports: &[BenchmarkReport]) -> String {
    let mut text = heading.to_owned();
    if let Some(report) = reports.first() {
        text += &format!("Machine: {}.\n\n", report.machine);
    }
    let mut targets = Table::new(["benchmark", "target", "measured", "wanted", ""]);
    for report in reports {
        for (index, target) in report.targets.iter().enumerate() {
            let name = match index {
                0 => format!("[{}]({}.md)", report.title, report.benchmark),
                _ => String::new(),
            };
            targets.push(std::iter::once(name).chain(target.cells()));
        }
    }
    let mut runs = Table::new(["benchmark", "date", "commit", "command", "seconds"]);
    for report in reports {
        runs.push([
            report.benchmark.clone(),
            report.date.clone(),
            report.commit.clone(),
            format!("`{}`", report.command),
            count(report.seconds),
        ]);
    }
    text + &targets.markdown() + "\n" + &runs.markdown()
}
