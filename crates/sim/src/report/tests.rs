use super::*;
use crate::scenario::Scenario;

const SMALL: &str = r#"
name = "a <small> swarm"
seed = 4
notes = ["Nothing here is real."]
[file]
size = "3MiB"
block = "256KiB"
[[peers]]
role = "seeder"
up = "10Mbit"
down = "10Mbit"
[[peers]]
role = "leecher"
count = 4
up = "10Mbit"
down = "10Mbit"
[[published]]
name = "another program"
time = "4s"
"#;

fn report() -> Report {
    let scenario = Scenario::parse("small.toml", SMALL).unwrap();
    scenario.simulate(&mut |_, _| {})
}

#[test]
fn the_same_seed_gives_the_same_report_byte_for_byte_and_another_seed_does_not() {
    let text = |report: &Report| json(report).to_string();
    let (one, two) = (report(), report());
    assert_eq!(text(&one), text(&two));
    assert_eq!(html(&one), html(&two));
    let mut scenario = one.scenario;
    scenario.seed = 5;
    assert_ne!(text(&scenario.simulate(&mut |_, _| {})), text(&two));
}

/// The number of lines of a colour in the chart. One match is in the style for dark pages.
fn lines(svg: &str, colour: &str) -> usize {
    svg.matches(&format!("stroke=\"{colour}\"")).count() - 1
}

const ORANGE: &str = "#D9480F";
const GREEN: &str = "#2F9E44";
const BLUE: &str = "#1971C2";
const GREY: &str = "#7C8797";

#[test]
fn the_page_has_a_line_for_every_peer_and_loads_no_other_file() {
    let page = html(&report());
    assert_eq!([ORANGE, GREEN, BLUE, GREY].map(|colour| lines(&page, colour)), [4, 1, 1, 1]);
    assert!(page.contains("a &lt;small&gt; swarm") && page.contains("prefers-color-scheme: dark"));
    for outside in ["http:", "https:", "src=", "@import", "NaN", "inf"] {
        assert!(!page.contains(outside), "{outside}");
    }
}

#[test]
fn the_svg_has_all_lines_of_the_page() {
    let picture = picture(&report());
    assert_eq!(picture.matches("<svg ").count(), 1);
    assert_eq!([ORANGE, GREEN, BLUE, GREY].map(|colour| lines(&picture, colour)), [4, 1, 1, 1]);
    for outside in ["https:", "src=", "href", "@import", "NaN", "inf"] {
        assert!(!picture.contains(outside), "{outside}");
    }
}

#[test]
fn the_table_names_the_bound_and_every_run() {
    let table = table(&report());
    for part in
        ["3.0 MiB in 13 blocks, from 1 to 4 peers; seed 4", "no faster than 2.52 s", "Watchfire"]
    {
        assert!(table.contains(part), "{part}\n{table}");
    }
    assert!(table.contains("published: another program: 4.00 s"), "{table}");
}

#[test]
fn json_has_the_figures_of_the_table() {
    let report = report();
    let json = json(&report);
    let outcome = &json["runs"][0]["outcome"];
    assert_eq!(outcome["peers"].as_array().unwrap().len(), 5);
    assert_eq!(outcome["unfinished"], 0);
    assert_eq!(outcome["last"].as_f64(), finish(&report.runs[0].1, 1.0));
    assert!(outcome["times_the_bound"].as_f64().unwrap() >= 1.0);
}
