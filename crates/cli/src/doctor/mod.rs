//! `watchfire doctor`: which limit of this machine bites first.

mod judgement;
mod snapshot;

use std::process::ExitCode;

use judgement::{Finding, Wish, judge};
use snapshot::Snapshot;

/// What the process ends with when a limit is in the way.
const LIMITED: u8 = 3;

/// What `watchfire doctor` takes.
#[derive(clap::Args)]
pub struct Arguments {
    /// So many sockets are wanted.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    sockets: u64,
    /// The clients are simulated on this machine too: both ends of every connection are here.
    #[arg(long)]
    load: bool,
}

/// Compare what the sockets need with what this machine gives.
pub fn run(arguments: &Arguments) -> ExitCode {
    let wish = Wish { sockets: arguments.sockets, has_both_ends: arguments.load };
    let findings = judge(&Snapshot::read(), &wish);
    print!("{}", table(&findings, &wish));
    let is_limited = findings.iter().any(Finding::is_in_the_way);
    if is_limited { ExitCode::from(LIMITED) } else { ExitCode::SUCCESS }
}

fn table(findings: &[Finding], wish: &Wish) -> String {
    let mut out = format!("{:<34} {:>16} {:>16}\n", "limit", "now", "needed");
    for finding in findings {
        let now = finding.now.map_or("unknown".to_owned(), |now| grouped(now, finding.unit));
        let word = match (finding.holds, finding.is_hard) {
            (None, _) => "?",
            (Some(holds), _) if holds >= wish.sockets => "fits",
            (Some(_), true) => "TOO LOW",
            (Some(_), false) => "low",
        };
        let needed = grouped(finding.needed, finding.unit);
        out.push_str(&format!("{:<34} {now:>16} {needed:>16}   {word}\n", finding.name));
    }
    for finding in findings.iter().filter(|finding| finding.holds.is_some_and(|n| n < wish.sockets))
    {
        out.push_str(&format!("\n{}: {}\n    {}\n", finding.name, finding.reason, finding.raise));
    }
    out.push_str(&match first_to_bite(findings) {
        Some((finding, holds)) => {
            format!("\n{} bites first, at {} sockets.\n", finding.name, grouped(holds, ""))
        }
        None => format!("\n{} sockets fit on this machine.\n", grouped(wish.sockets, "")),
    });
    out
}

/// The limit in the way that lets the fewest sockets through, and how many.
fn first_to_bite(findings: &[Finding]) -> Option<(&Finding, u64)> {
    let in_the_way = findings.iter().filter(|finding| finding.is_in_the_way());
    in_the_way.filter_map(|finding| Some((finding, finding.holds?))).min_by_key(|(_, holds)| *holds)
}

/// `1234567` as `1,234,567`, and bytes in MiB.
fn grouped(number: u64, unit: &str) -> String {
    let (number, suffix) = if unit == "bytes" { (number >> 20, " MiB") } else { (number, "") };
    let digits = number.to_string();
    let mut out = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out + suffix
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_says_what_bites_first_and_the_line_that_raises_it() {
        let snapshot = Snapshot { files_hard: Some(20_000), ..Snapshot::roomy() };
        let wish = Wish { sockets: 1_000_000, has_both_ends: false };
        let table = table(&judge(&snapshot, &wish), &wish);
        assert!(table.contains("open files of one process                    20,000"), "{table}");
        assert!(table.contains("TOO LOW") && table.contains("nofile 1000064"), "{table}");
        assert!(table.contains("bites first, at 19,936 sockets"), "{table}");
    }

    #[test]
    fn what_fits_is_said_in_one_line() {
        let wish = Wish { sockets: 10_000, has_both_ends: true };
        let table = table(&judge(&Snapshot::roomy(), &wish), &wish);
        assert!(table.ends_with("\n10,000 sockets fit on this machine.\n"), "{table}");
        assert!(!table.contains("TOO LOW"), "{table}");
    }
}
