use watchfire_report::Table;

use super::BenchmarkReport;

/// The results of a benchmark as a page in Markdown.
pub fn page(report: &BenchmarkReport) -> String {
    let commit = match report.commit.as_str() {
        "" => String::new(),
        commit => format!(" at commit {commit}"),
    };
    let mut text = format!(
        "# {}\n\nWritten by `{}` on {}{commit}; the run took {} s.\n\nMachine: {}.\n\n\
         ![{}]({}.svg)\n\n",
        report.title,
        report.command,
        report.date,
        report.seconds,
        report.machine,
        report.chart.label.replace(['[', ']'], ""),
        report.benchmark
    );
    if !report.targets.is_empty() {
        let mut table = Table::new(["target", "measured", "wanted", ""]);
        report.targets.iter().for_each(|target| table.push(target.cells()));
        text += &(table.markdown() + "\n");
    }
    if !report.figures.is_empty() {
        let mut table = Table::new(["figure", ""]);
        for figure in &report.figures {
            table.push([figure.what.clone(), figure.value.clone()]);
        }
        text += &(table.markdown() + "\n");
    }
    for table in &report.tables {
        text += &format!("## {}\n\n{}\n", table.title, Table::from(table).markdown());
    }
    text += "## How it is measured\n\n";
    for paragraph in &report.method {
        text += &format!("- {paragraph}\n");
    }
    text
}
