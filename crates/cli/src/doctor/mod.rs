//! `watchfire doctor`: the system limits on the number of sockets, and how to raise them; or the state of a
//! running server.

mod limits;
mod server;
mod snapshot;

use std::path::PathBuf;
use std::process::ExitCode;

use watchfire_page_client::ServerUrl;
use watchfire_report::Table;
use watchfire_report::units::{binary_bytes, count};

use crate::operator::{DEFAULT_URL, Operator};
use limits::{Demand, Limit, limits_of};
use snapshot::Snapshot;

/// The exit code when a limit is below what `--sockets` needs, or when a trouble of the server lasts.
const LIMITED: u8 = 3;
/// The most sockets that a limit is computed for.
const SOCKETS_MAX: u64 = 1_000_000_000;

/// Arguments of `watchfire doctor`.
#[derive(clap::Args)]
pub struct Arguments {
    /// Check the limits for this number of sockets; the exit code is 3 when one is too low.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=SOCKETS_MAX))]
    sockets: Option<u64>,
    /// The clients run on this machine too, so each connection needs two sockets.
    #[arg(long)]
    load: bool,
    /// Ask the operator's listener of a running server instead; the exit code is 3 when it has trouble. The
    /// listener has another address than the server: admin.listen names it.
    #[arg(
        long,
        aliases = ["to", "url"],
        value_name = "URL",
        num_args = 0..=1,
        default_missing_value = DEFAULT_URL,
        conflicts_with_all = ["sockets", "load"]
    )]
    operator: Option<ServerUrl>,
    /// A file with the token of the operator. Without it, the token is in the variable WATCHFIRE_ADMIN_TOKEN.
    #[arg(long, value_name = "FILE", requires = "operator")]
    token_file: Option<PathBuf>,
}

/// Shows how many sockets this machine can hold, whether a number of sockets fits, or how a server
/// is.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let (text, is_bad) = match (&arguments.operator, arguments.sockets) {
        (Some(url), _) => server::examine(&Operator::new(url, arguments.token_file.as_deref())?)?,
        (None, Some(sockets)) => {
            let demand = Demand { sockets, has_both_ends: arguments.load };
            let limits = limits_of(&Snapshot::read(), &demand);
            (check(&limits, &demand), limits.iter().any(Limit::is_too_low))
        }
        (None, None) => (survey(&Snapshot::read(), arguments.load), false),
    };
    print!("{text}");
    Ok(if is_bad { ExitCode::from(LIMITED) } else { ExitCode::SUCCESS })
}

/// The sockets that each limit allows, the first limit, and how to raise it.
fn survey(snapshot: &Snapshot, has_both_ends: bool) -> String {
    let demand = |sockets| Demand { sockets, has_both_ends };
    let mut limits = limits_of(snapshot, &demand(1));
    limits.retain(|limit| limit.is_hard);
    limits.sort_by_key(|limit| limit.holds.unwrap_or(u64::MAX));
    let mut table = Table::new(["limit", "now", "allows sockets"]);
    for limit in &limits {
        let holds = limit.holds.map(|holds| match holds {
            ..SOCKETS_MAX => count(holds),
            _ => "no limit".to_owned(),
        });
        table.push([limit.name.to_owned(), shown(limit), holds.unwrap_or("unknown".to_owned())]);
    }
    let mut known = limits.iter().filter_map(|limit| Some((limit, limit.holds?)));
    let Some((first, holds)) = known.next() else {
        return table.terminal() + "\nThis system does not report its limits.\n";
    };
    let mut out = format!(
        "{}\nThis machine can hold about {} sockets. The first limit is {}: {}.\n",
        table.terminal(),
        count(holds),
        first.name,
        first.reason
    );
    let higher = known.find(|(_, next)| *next > holds);
    let goal = higher.map_or(holds, |(_, next)| next).min(SOCKETS_MAX);
    let raised = limits_of(snapshot, &demand(goal));
    if let Some(raise) = raised.iter().find(|limit| limit.name == first.name) {
        out += &format!("To hold {}, raise it:\n    {}\n", count(goal), raise.raise);
    }
    out + "`watchfire doctor --sockets N` checks all limits for a number of sockets.\n"
}

/// Every limit beside what the demand needs, and how to raise those that are too low.
fn check(limits: &[Limit], demand: &Demand) -> String {
    let mut table = Table::new(["limit", "now", "needed", ""]);
    for limit in limits {
        let verdict = match (limit.holds, limit.is_hard) {
            (None, _) => "unknown",
            (Some(holds), _) if holds >= demand.sockets => "enough",
            (Some(_), true) => "TOO LOW",
            (Some(_), false) => "low",
        };
        let needed = with_unit(limit.needed, limit.unit);
        table.push([limit.name.to_owned(), shown(limit), needed, verdict.to_owned()]);
    }
    let mut out = table.terminal();
    let is_low = |limit: &&Limit| limit.holds.is_some_and(|holds| holds < demand.sockets);
    for limit in limits.iter().filter(is_low) {
        out += &format!("\n{}: {}\n    {}\n", limit.name, limit.reason, limit.raise);
    }
    let too_low = limits.iter().filter(|limit| limit.is_too_low());
    let first = too_low.filter_map(|limit| Some((limit, limit.holds?)));
    out += &match first.min_by_key(|(_, holds)| *holds) {
        Some((limit, holds)) => {
            format!("\n{} is the first limit, at {} sockets.\n", limit.name, count(holds))
        }
        None => format!("\n{} sockets fit on this machine.\n", count(demand.sockets)),
    };
    out
}

fn shown(limit: &Limit) -> String {
    limit.now.map_or("unknown".to_owned(), |now| with_unit(now, limit.unit))
}

fn with_unit(number: u64, unit: &str) -> String {
    if unit == "bytes" { binary_bytes(number) } else { count(number) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_number_of_sockets_the_first_limit_is_shown_with_how_to_raise_it() {
        let snapshot = Snapshot { files_hard: Some(20_000), ..Snapshot::roomy() };
        let survey = survey(&snapshot, false);
        assert!(survey.contains("can hold about 19,936 sockets"), "{survey}");
        assert!(survey.contains("The first limit is open files of one process"), "{survey}");
        // The next limit is the one of all processes on the machine.
        assert!(survey.contains("To hold 3,999,936, raise it"), "{survey}");
        assert!(survey.contains("nofile 4000000"), "{survey}");
    }

    #[test]
    fn the_clients_on_the_same_machine_halve_what_memory_allows() {
        let snapshot =
            Snapshot { memory_available_bytes: Some(8_000_000_000), ..Snapshot::roomy() };
        assert!(survey(&snapshot, false).contains("can hold about 1,818,181 sockets"));
        assert!(survey(&snapshot, true).contains("can hold about 919,540 sockets"));
    }

    #[test]
    fn a_system_without_limits_in_proc_gets_a_sentence_about_it() {
        let survey = survey(&Snapshot::default(), false);
        assert!(survey.ends_with("does not report its limits.\n"), "{survey}");
    }

    #[test]
    fn the_table_names_the_first_limit_and_how_to_raise_it() {
        let snapshot = Snapshot { files_hard: Some(20_000), ..Snapshot::roomy() };
        let demand = Demand { sockets: 1_000_000, has_both_ends: false };
        let table = check(&limits_of(&snapshot, &demand), &demand);
        assert!(table.contains("TOO LOW") && table.contains("nofile 1000064"), "{table}");
        assert!(table.contains("is the first limit, at 19,936 sockets"), "{table}");
    }

    #[test]
    fn a_machine_that_fits_gets_one_line() {
        let demand = Demand { sockets: 10_000, has_both_ends: true };
        let table = check(&limits_of(&Snapshot::roomy(), &demand), &demand);
        assert!(table.ends_with("\n10,000 sockets fit on this machine.\n"), "{table}");
        assert!(!table.contains("TOO LOW"), "{table}");
    }
}
