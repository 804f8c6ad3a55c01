//! Draws the member `chart` of a JSON file as SVG: `cargo run -p watchfire-report --example draw -- FILE.json FILE.svg`.

use std::error::Error;
use std::fs;

use watchfire_report::Chart;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [from, to] = &arguments[..] else { return Err("usage: draw FILE.json FILE.svg".into()) };
    let text = fs::read_to_string(from).map_err(|error| format!("cannot read {from}: {error}"))?;
    let mut stored: serde_json::Value =
        serde_json::from_str(&text).map_err(|error| format!("cannot read {from}: {error}"))?;
    let chart: Chart = serde_json::from_value(stored["chart"].take())
        .map_err(|error| format!("cannot draw the chart in {from}: {error}"))?;
    fs::write(to, chart.svg()).map_err(|error| format!("cannot write {to}: {error}"))?;
    Ok(())
}
