//! `watchfire report`: a picture of past days, from the rows that the operator's page saves as CSV.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use anyhow::{Context as _, ensure};
use watchfire_report::{Axis, Chart, Colour, Line, Panel, charts, page};

use crate::output::ResultFile;

/// The most bytes of a file, which are in memory. A month by the minute has less than half of it.
const BYTES_MAX: u64 = 64 << 20;
const USE_CSV: &str = "logs cannot be drawn; use the CSV that the operator's page saves (Live)";
/// Points of a line. Each has the largest value of its time, so that a crowd of one minute is seen.
const POINTS_MAX: usize = 360;

/// The panels: title, column, and the factor of its values.
const PANELS: [(&str, &str, f64); 6] = [
    ("Connected people", "clients_websocket", 1.0),
    ("Visitors of the day", "page_visitors", 1.0),
    ("Page loads a minute", "page_loads", 60.0),
    ("Sessions that begin in a minute", "page_sessions", 60.0),
    ("Memory in MiB", "resident_bytes", 1.0 / 1_048_576.0),
    ("CPU in cores", "cpu", 1.0),
];

/// Arguments of `watchfire report`.
#[derive(clap::Args)]
pub struct Arguments {
    /// Rows that the operator's page has saved as CSV.
    file: PathBuf,
    /// Write the chart to this file: one HTML page that needs no other file.
    #[arg(long, short, value_name = "FILE", default_value = "report.html")]
    output: PathBuf,
}

/// A time in hours of Unix time, and the values of [`PANELS`]. A value that is not known is NaN.
type Row = (f64, [f64; PANELS.len()]);

/// Draws the rows of a file.
pub fn run(Arguments { file, output }: &Arguments) -> anyhow::Result<()> {
    let chart = read(file).and_then(|rows| chart(&rows));
    let chart = chart.with_context(|| format!("cannot draw {}", file.display()))?;
    ResultFile::open(output)?.write(&page("Watchfire", &charts(&[chart])))
}

fn read(file: &Path) -> anyhow::Result<Vec<Row>> {
    let mut text = String::new();
    File::open(file)?.take(BYTES_MAX + 1).read_to_string(&mut text)?;
    ensure!(text.len() as u64 <= BYTES_MAX, "it has more than 64 MiB; draw fewer rows");
    let (mut columns, mut rows) = (Vec::new(), Vec::<Row>::new());
    for (number, line) in (1..).zip(text.trim_start_matches('\u{feff}').split_inclusive('\n')) {
        let whole = line.strip_suffix('\n').map(|line| line.trim_end_matches('\r'));
        let line = whole.with_context(|| format!("line {number} is cut; save the file again"))?;
        let cells: Vec<&str> = line.split(',').map(|cell| cell.trim_matches('"')).collect();
        if number == 1 {
            ensure!(cells[0] == "time", "line 1 does not begin with \"time\": {USE_CSV}");
            columns = cells;
            continue;
        }
        rows.push(row(&columns, &cells).with_context(|| format!("line {number}"))?);
        if let [.., (before, _), (time, _)] = &rows[..] {
            ensure!(time > before, "line {number}: its time is not after that of the line before");
        }
    }
    ensure!(!rows.is_empty(), "it has no rows: {USE_CSV}");
    Ok(rows)
}

fn row(columns: &[&str], cells: &[&str]) -> anyhow::Result<Row> {
    let (has, needs) = (cells.len(), columns.len());
    ensure!(has == needs, "it has {has} columns in place of {needs}; save the file again");
    let time = humantime::parse_rfc3339(cells[0]).ok();
    let time = time.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    let not_a_time = || format!("{:?} is not a time such as 2026-11-30T14:03:00Z", cells[0]);
    let time = time.with_context(not_a_time)?.as_secs_f64() / 3_600.0;
    let mut values = [f64::NAN; PANELS.len()];
    for (value, (_, column, factor)) in values.iter_mut().zip(PANELS) {
        let cell = columns.iter().position(|own| *own == column).map(|at| cells[at]);
        let Some(cell) = cell.filter(|cell| !cell.is_empty()) else { continue };
        let number = cell.parse::<f64>().ok().filter(|value| value.is_finite());
        let cannot = || format!("{cell:?} is not a number for {column}");
        *value = number.with_context(cannot)? * factor;
    }
    Ok((time, values))
}

fn chart(rows: &[Row]) -> anyhow::Result<Chart> {
    let first = rows[0].0;
    let begin = UNIX_EPOCH + Duration::from_secs_f64(first * 3_600.0);
    let begin = humantime::format_rfc3339_seconds(begin);
    let steps = rows.windows(2).map(|rows| rows[1].0 - rows[0].0);
    let gap = 2.5 * steps.fold(f64::INFINITY, f64::min);
    let mut panels = Vec::new();
    for (place, (title, ..)) in PANELS.into_iter().enumerate() {
        let (mut points, mut before) = (Vec::new(), first);
        for part in rows.chunks(rows.len().div_ceil(POINTS_MAX)) {
            let (time, values) = (part[0].0, part.iter().map(|(_, values)| values[place]));
            // A time without rows interrupts the line.
            points.extend((time - before > gap).then_some((time - first, f64::NAN)));
            points.push((time - first, values.fold(f64::NAN, f64::max)));
            before = part[part.len() - 1].0;
        }
        if points.iter().any(|(_, value)| value.is_finite()) {
            let x = Axis::new(format!("hours since {begin}"));
            let lines = vec![Line::left("", Colour::Blue, points)];
            panels.push(Panel::lines(title, x, Axis::new(""), lines));
        }
    }
    ensure!(!panels.is_empty(), "it has no values of people, page loads, memory or CPU");
    Ok(Chart { label: format!("{} rows since {begin}", rows.len()), panels, notes: Vec::new() })
}
