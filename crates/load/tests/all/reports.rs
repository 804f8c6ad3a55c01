//! The reports of a load: text, JSON and HTML.

use crate::support::{echo, load, scenario, websocket_server};

#[test]
fn all_reports_have_the_same_results_and_escape_names() {
    let steps = r#"
        { connect = { path = "/" } },
        { send = { text = "x", reply = true, name = "<b>\"say\"</b>" } },
        { send = { text = "x", expect = "y", name = "unanswered" } },"#;
    let scenario = scenario(10, 1200, steps).replace("\"10s\"", "\"200ms\"")
        + "[thresholds]\nerrors_max = 3\nsteps.connect.p99_max = \"10s\"\nsteps.'unanswered'.max = \"1s\"\n";
    let results = load(websocket_server(echo), &scenario);
    let thresholds = watchfire_load::Scenario::parse("test.toml", &scenario).unwrap().thresholds;
    let verdicts = watchfire_load::judge(&thresholds, &results);
    let kept: Vec<bool> = verdicts.iter().map(|verdict| verdict.is_kept).collect();
    assert_eq!(kept, [false, true, false], "{verdicts:?}");

    let table = watchfire_load::table(&results, &verdicts);
    assert!(table.contains("10 x unanswered: timed out"), "{table}");
    assert!(table.contains("BROKEN  errors ≤ 3 (measured 10)"), "{table}");
    assert!(table.contains("BROKEN  unanswered max ≤ 1.00 s (measured never done)"), "{table}");

    let json = watchfire_load::json(&results, &verdicts);
    assert_eq!(json["counts"]["failed"], 10);
    let started: u64 = json["seconds"]
        .as_array()
        .unwrap()
        .iter()
        .map(|second| second["counts"]["started"].as_u64().unwrap())
        .sum();
    assert_eq!(started, 10, "the seconds add up");

    let page = watchfire_load::html(&results, &verdicts);
    assert!(
        page.contains("&lt;b&gt;&quot;say&quot;&lt;/b&gt;") && !page.contains("<b>"),
        "escaped"
    );
    for remote in ["http://", "https://", "<script", "@import", "url("] {
        assert!(!page.contains(remote), "the page must need no other file: {remote}");
    }
    assert_eq!(
        page.matches("<svg").count(),
        5,
        "three charts of the load, and one for each completed step"
    );
}

#[test]
fn the_view_is_redrawn_once_a_second() {
    let steps = r#"{ connect = { path = "/" } }, { stay = {} }"#;
    let results = load(websocket_server(echo), &scenario(5, 1100, steps));
    let mut live = watchfire_load::Live::default();
    let mut drawn = Vec::new();
    live.draw(&results, &mut drawn).unwrap();
    let first = String::from_utf8(drawn.clone()).unwrap();
    assert!(first.contains('█') && first.contains("connect"), "{first}");
    live.draw(&results, &mut drawn).unwrap();
    assert_eq!(drawn.len(), first.len(), "the view must not be redrawn without a new second");
    let line = watchfire_load::line(&results).unwrap();
    assert!(line.starts_with("    1 s  users       5"), "{line}");
}
