//! `watchfire doctor --operator`: how a running server is, as its operator's listener says.

use std::time::{Duration, SystemTime};

use watchfire_operator::answers::{LimitUse, Process, State, Trouble};
use watchfire_report::Table;
use watchfire_report::units::{binary_bytes, count, number, percent};

use crate::operator::{Operator, amount};
use crate::visible::visible;

/// Asks the server for its state. Returns a text about it, and whether a trouble lasts.
pub(super) fn examine(operator: &Operator) -> anyhow::Result<(String, bool)> {
    let state: State = operator.call_blocking("GET", "/admin/state")?;
    Ok((report(&state), !state.troubles.is_empty()))
}

fn report(state: &State) -> String {
    let State { version, machine, machines, processes, missing_processes, .. } = state;
    let mut out = format!(
        "Machine {}, version {}, up {}\n",
        visible(machine),
        visible(version),
        age(state.now_ms, state.started_ms)
    );
    if machines.len() > 1 {
        let names: Vec<String> = machines.iter().map(|name| visible(name)).collect();
        out += &format!("Machines of this server: {}\n", names.join(", "));
    }
    for process in missing_processes {
        out += &format!("Process {process} does not answer.\n");
    }
    out += &format!("\n{}", processes_table(processes).terminal());
    out += &format!("\n{}\n", limits_table(&state.limits).terminal());
    if state.troubles.is_empty() {
        return out + "No trouble.\n";
    }
    let troubles = state.troubles.iter().map(|trouble| about(trouble, state.now_ms));
    out + &troubles.collect::<Vec<_>>().join("\n")
}

fn processes_table(processes: &[Process]) -> Table {
    let mut table = Table::new([
        "process",
        "clients",
        "CPU",
        "busiest event loop",
        "memory",
        "open files",
        "up",
    ]);
    for process in processes {
        let busiest = process.busy.iter().copied().fold(0.0, f64::max);
        table.push([
            process.process.to_string(),
            count(process.clients as u64),
            number(process.cpu, 2),
            percent(busiest, 0),
            binary_bytes(process.resident_bytes as u64),
            format!("{} of {}", count(process.open_fds as u64), count(process.max_fds as u64)),
            duration(process.uptime_seconds as u64),
        ]);
    }
    table
}

fn limits_table(limits: &[LimitUse]) -> Table {
    let mut table = Table::new(["limit", "used", "of", "share", "setting"]);
    for limit in limits {
        table.push([
            visible(&limit.name),
            amount(limit, limit.used),
            amount(limit, limit.max),
            percent(limit.share(), 1),
            visible(&limit.setting),
        ]);
    }
    table
}

fn about(trouble: &Trouble, now_ms: u64) -> String {
    let since = SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(trouble.since_ms));
    // RFC 3339 has no years above 9999.
    let since = since.filter(|_| trouble.since_ms < 253_402_300_800_000);
    let since = since.map(|since| humantime::format_rfc3339_seconds(since).to_string());
    format!(
        "TROUBLE: {}\n  since  {} ({})\n  fix    {}\n  page   {}\n",
        visible(&trouble.summary),
        since.unwrap_or_else(|| "unknown".to_owned()),
        age(now_ms, trouble.since_ms),
        visible(&trouble.fix),
        visible(&trouble.page),
    )
}

fn age(now_ms: u64, since_ms: u64) -> String {
    duration(now_ms.saturating_sub(since_ms) / 1_000)
}

fn duration(seconds: u64) -> String {
    humantime::format_duration(Duration::from_secs(seconds)).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> State {
        State {
            version: "1.2.3".into(),
            now_ms: 1_767_225_660_000,
            started_ms: 1_767_225_600_000,
            machine: "web-1".into(),
            machines: vec!["web-1".into()],
            processes: vec![Process {
                busy: vec![0.1, 0.97],
                clients: 1234.0,
                ..Process::default()
            }],
            limits: vec![LimitUse {
                name: "connections".into(),
                used: 1_000.0,
                max: 20_000.0,
                setting: "limits.sockets_max".into(),
                ..LimitUse::default()
            }],
            ..State::default()
        }
    }

    #[test]
    fn a_server_without_trouble_gets_its_tables_and_a_sentence() {
        let report = report(&state());
        assert!(report.starts_with("Machine web-1, version 1.2.3, up 1m\n"), "{report}");
        assert!(report.contains("\n0          1,234  0.00                97 %"), "{report}");
        assert!(report.contains("\nconnections  1,000  20,000  5.0 %  limits.sockets_max\n"));
        assert!(report.ends_with("\n\nNo trouble.\n"), "{report}");
    }

    #[test]
    fn each_trouble_has_its_begin_its_fix_and_its_page() {
        let trouble = Trouble {
            since_ms: 1_767_225_630_000,
            summary: "Event loop 1 is busy\x1b[2J".into(),
            fix: "Spread the load.".into(),
            page: "https://example.org/#shard-busy".into(),
            ..Trouble::default()
        };
        let state = State {
            troubles: vec![trouble.clone(), Trouble { since_ms: u64::MAX, ..trouble }],
            missing_processes: vec![2],
            machines: vec!["web-1".into(), "web-2".into()],
            ..state()
        };
        let report = report(&state);
        let expected = "TROUBLE: Event loop 1 is busy␛[2J\n  since  2026-01-01T00:00:30Z (30s)\n  \
                        fix    Spread the load.\n  page   https://example.org/#shard-busy\n";
        assert!(report.contains(expected), "{report}");
        assert!(report.contains("since  unknown (0s)"), "{report}");
        assert!(
            report.contains("Machines of this server: web-1, web-2\nProcess 2 does not answer.\n")
        );
    }
}
