//! Results as CSV: a line for each node of each run.

use std::fmt::Display;
use std::fmt::Write as _;

use super::run_result::RunResult;

const HEADS: &str = "trial,driver,seed,node,group,is_seeder,is_awaited,arrived_at,first_byte_at,\
                     finished_at,content_sent_bytes,sent_bytes,received_bytes,duplicate_bytes,messages,\
                     cpu_seconds,peak_memory_bytes,failure\n";

/// All nodes of all runs. A field is empty where a driver measured nothing.
pub fn csv(runs: &[RunResult]) -> String {
    let mut out = HEADS.to_owned();
    for run in runs {
        for node in &run.nodes {
            let fields = [
                quoted(&run.trial),
                run.driver.clone(),
                run.seed.to_string(),
                quoted(&node.name),
                quoted(&node.group),
                node.is_seeder.to_string(),
                node.is_awaited.to_string(),
                node.arrived_at.to_string(),
                known(node.first_byte_at),
                known(node.finished_at),
                known(node.content_sent_bytes),
                known(node.sent_bytes),
                known(node.received_bytes),
                known(node.duplicate_bytes),
                known(node.messages),
                known(node.cpu_seconds),
                known(node.peak_memory_bytes),
                node.failure.as_deref().map_or_else(String::new, quoted),
            ];
            writeln!(out, "{}", fields.join(",")).expect("writing to a String cannot fail");
        }
    }
    out
}

fn known(value: Option<impl Display>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

/// A field in quotes if it needs them. A text that a spreadsheet would take for a formula gets a space.
fn quoted(text: &str) -> String {
    let text = match text.starts_with(['=', '+', '-', '@']) {
        true => format!(" {text}"),
        false => text.to_owned(),
    };
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::run_result::NodeResult;

    #[test]
    fn a_field_with_a_comma_is_quoted_and_an_unknown_one_is_empty() {
        let node = NodeResult {
            name: "n".to_owned(),
            failure: Some("it said \"no\", twice".to_owned()),
            finished_at: Some(1.5),
            ..NodeResult::default()
        };
        let run = RunResult { trial: "a, b".to_owned(), nodes: vec![node], ..RunResult::default() };
        let text = csv(&[run]);
        let (heads, line) = text.split_once('\n').unwrap();
        assert_eq!(heads.split(',').count(), 18);
        assert_eq!(
            line,
            "\"a, b\",,0,n,,false,false,0,,1.5,,,,,,,,\"it said \"\"no\"\", twice\"\n"
        );
        assert_eq!(quoted("=1+1"), " =1+1");
    }
}
