//! Tables of the server and of features, filled from the metrics of all processes.

use std::cmp::Ordering;

use serde_json::{Value, json};
use watchfire::feature::{Cell, Table, TableColumn};
use watchfire_metrics::{Labels, Snapshot};
use watchfire_types::NodeId;

use crate::answers;

/// The tables that every server has.
const OWN: &[Table] = &[QUEUES, MEMORY];

const QUEUES: Table = Table {
    title: "Queues",
    label: "queue",
    heading: "Queue",
    columns: &[
        TableColumn { title: "Messages", metric: "watchfire_queue_messages", cell: Cell::Count },
        TableColumn {
            title: "Oldest",
            metric: "watchfire_queue_oldest_seconds",
            cell: Cell::Seconds,
        },
        TableColumn { title: "Dropped", metric: "watchfire_queue_drops", cell: Cell::Count },
    ],
};
const MEMORY: Table = Table {
    title: "Memory",
    label: "kind",
    heading: "Kind",
    columns: &[TableColumn { title: "Bytes", metric: "watchfire_memory_bytes", cell: Cell::Bytes }],
};
/// The rows of such a table.
const OWN_ROWS_MAX: usize = 12;

/// The tables that every server has, each with its first rows by the first column.
pub(crate) fn own_tables(snapshots: &[(NodeId, Snapshot)]) -> Vec<answers::Table> {
    let first = |table| {
        let mut table = filled(table, snapshots);
        let number = |row: &Vec<Value>, column| row.get(column).and_then(Value::as_f64);
        table.rows.sort_by(|one, other| {
            let [one, other] = [one, other].map(|row| [1, 2, 3].map(|column| number(row, column)));
            other.partial_cmp(&one).unwrap_or(Ordering::Equal)
        });
        table.rows.truncate(OWN_ROWS_MAX);
        table
    };
    OWN.iter().map(first).collect()
}

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
            Cell::Seconds => "seconds",
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
                Cell::Seconds => {
                    json!(cell.as_f64().unwrap_or(0.0).max(value.number().unwrap_or(0.0)))
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
    use std::time::Duration;

    use watchfire::feature::MetricWriter;
    use watchfire_metrics::Queue;

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
    fn the_longest_queue_of_all_processes_is_the_first_and_few_are_shown() {
        let queue = |name: &str, messages, seconds| Queue {
            name: name.to_owned(),
            messages,
            oldest: Some(Duration::from_secs(seconds)),
            drops: 2,
        };
        let snapshots = [1, 5].map(|seconds| {
            let mut writer = MetricWriter::default();
            for number in 0..20 {
                writer.queues(&[queue(&format!("event loop 0/{number}"), number, 0)]);
            }
            writer.queues(&[queue("link to process 3", 40_000, seconds)]);
            (NodeId(seconds as u16), writer.into_snapshot())
        });
        let [queues, _] = &own_tables(&snapshots)[..] else { panic!("two tables") };
        assert_eq!(json!(queues.rows[0]), json!(["link to process 3", 80_000.0, 5.0, 4.0]));
        assert_eq!(json!(queues.rows[1]), json!(["event loop 0/19", 38.0, 0.0, 4.0]));
        assert_eq!((queues.rows.len(), &*queues.columns[2].unit), (OWN_ROWS_MAX, "seconds"));
    }

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
