//! Tables for Markdown, for a terminal and for HTML.

use crate::html::escape;

/// A table. The first column is text, the others are numbers, aligned to the right.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    pub heads: Vec<String>,
    /// The cells of each row, one for each heading.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new(heads: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Table { heads: heads.into_iter().map(Into::into).collect(), rows: Vec::new() }
    }

    pub fn push(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    pub fn markdown(&self) -> String {
        let row = |cells: &[String]| {
            let cells: Vec<_> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
            format!("| {} |\n", cells.join(" | "))
        };
        let numbers = self.heads.len().saturating_sub(1);
        let mut out = row(&self.heads) + "|---|" + &"---:|".repeat(numbers) + "\n";
        out.extend(self.rows.iter().map(|cells| row(cells)));
        out
    }

    /// The table for a terminal: two spaces between columns, and none at the end of a line.
    pub fn terminal(&self) -> String {
        let lines = || std::iter::once(&self.heads).chain(&self.rows);
        let mut out = String::new();
        for cells in lines() {
            let mut line = String::new();
            for (column, cell) in cells.iter().enumerate() {
                let lengths = lines().filter_map(|cells| cells.get(column));
                let width = lengths.map(|cell| cell.chars().count()).max().unwrap_or(0);
                line += &match column {
                    0 => format!("{cell:<width$}"),
                    _ => format!("  {cell:>width$}"),
                };
            }
            out += line.trim_end();
            out.push('\n');
        }
        out
    }

    /// The table as an HTML element that scrolls sideways when it is wide.
    pub fn html(&self) -> String {
        let row = |name: &str, cells: &[String]| {
            let cells: String =
                cells.iter().map(|cell| format!("<{name}>{}", escape(cell))).collect();
            format!("<tr>{cells}")
        };
        let rows: String = self.rows.iter().map(|cells| row("td", cells)).collect();
        let heads = row("th", &self.heads);
        format!("<div class=\"scroll\"><table>{heads}{rows}</table></div>")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(["step", "done", "p99"]);
        table.push(["join".to_owned(), "1,000".to_owned(), "1.2 ms".to_owned()]);
        table.push(["a <b>|c".to_owned(), "7".to_owned(), String::new()]);
        table
    }

    #[test]
    fn markdown_escapes_the_ends_of_cells() {
        assert_eq!(
            table().markdown(),
            "| step | done | p99 |\n|---|---:|---:|\n| join | 1,000 | 1.2 ms |\n| a <b>\\|c | 7 |  |\n"
        );
    }

    #[test]
    fn columns_of_numbers_are_aligned_to_the_right_on_a_terminal() {
        assert_eq!(
            table().terminal(),
            "step      done     p99\njoin     1,000  1.2 ms\na <b>|c      7\n"
        );
    }

    #[test]
    fn html_escapes_every_cell() {
        let html = table().html();
        assert!(html.contains("<td>a &lt;b&gt;|c<td>7<td></table>"), "{html}");
    }
}
