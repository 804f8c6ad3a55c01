//! Tables of features, filled from the metrics of all processes.

use serde_json::{Value, json};
use watchfire::feature::{Cell, Table};
use watchfire_metrics::{Labels, Snapshot};
use watchfire_types::NodeId;

use crate::answers;

/// The table with a row for each value of its label, in the order in which the metrics have them.
pub(crate) fn filled(table: &Table, snapshots: &[(NodeId, Snapshot)]) -> answers::Table {
    let column = |title: &str, unit: &str| answers::TableColumn {
        title: title.to_owned(),
        unit: unit.to_owned(),
    };
    let mut columns = vec![column(table.heading, "text")];
    let mut rows: Vec<Vec<Value>> = Vec::new();
    for (place, each) in (1..).zip(table.columns) {
        let unit = match each.cell {
            Cell::Count => "",
            Cell::Bytes => "bytes",
            Cell::Label(_) => "text",
        };
        columns.push(column(each.title, unit));
        let series = snapshots.iter().flat_map(|(_, snapshot)| snapshot.series(each.metric));
        for (labels, value) in series {
            let Some(name) = label(labels, table.label) else { continue };
            let at = rows.iter().position(|row| row[0] == *name).unwrap_or_else(|| {
                let row =
                    [json!(name)].into_iter().chain(table.columns.iter().map(|_| Value::Null));
                rows.push(row.collect());
                rows.len() - 1
            });
            let cell = &mut rows[at][place];
            *cell = match each.cell {
                Cell::Label(other) => json!(label(labels, other)),
                Cell::Count | Cell::Bytes => {
                    json!(cell.as_f64().unwrap_or(0.0) + value.number().unwrap_or(0.0))
                }
            };
        }
    }
    answers::Table { title: table.title.to_owned(), columns, rows }
}

fn label<'a>(labels: &'a Labels, name: &str) -> Option<&'a String> {
    labels.iter().find(|(own, _)| own == name).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use watchfire::feature::{MetricWriter, TableColumn};

    use super::*;

    const TABLE: Table = Table {
        title: "Mail servers",
        label: "server",
        heading: "Server",
        columns: &[
            TableColumn { title: "State", metric: "watchfire_state", cell: Cell::Label("state") },
            TableColumn { title: "Mails", metric: "watchfire_mails", cell: Cell::Count },
            TableColumn { title: "Sent", metric: "watchfire_sent_bytes", cell: Cell::Bytes },
        ],
    };

    #[test]
    fn a_row_has_the_sums_of_all_processes_and_the_label_of_one() {
        let snapshots = [0, 1].map(|node| {
            let mut writer = MetricWriter::default();
            if node == 0 {
                writer.info("state", "", &[[("server", "a"), ("state", "up")]]);
            }
            writer.gauges("mails", "", "server", &[("a", 2), ("other", node)]);
            writer.counters_by("sent_bytes", "", "server", &[("a", 300)]);
            writer.gauge("mails_elsewhere", "", 9);
            (NodeId(node as u16), writer.into_snapshot())
        });
        let table = filled(&TABLE, &snapshots);
        let rows = json!([["a", "up", 4.0, 600.0], ["other", null, 1.0, null]]);
        assert_eq!(json!(table.rows), rows);
        let units: Vec<&str> = table.columns.iter().map(|column| column.unit.as_str()).collect();
        assert_eq!(units, ["text", "text", "", "bytes"]);
        assert!(filled(&TABLE, &[]).rows.is_empty());
    }
}
