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
    // The verdict and the charts stand before the tables.
    let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text}: {page}"));
    let verdict = at("<details open><summary class=\"bad\">2 of 3 thresholds are broken.");
    assert!(verdict < at("<svg") && at("<svg") < at("<h2>Summary"), "the order");
    for remote in ["http://", "https://", "<script", "@import", "url("] {
        assert!(!page.contains(remote), "the page must need no other file: {remote}");
    }
    assert_eq!(
        page.matches("<svg").count(),
        4 + 2 + 1 + 3 + 2,
        "users and traffic, two kinds of times, rates and times of steps, statuses and errors"
    );
}

#[test]
fn a_report_has_one_number_of_users_and_one_kind_of_units() {
    let steps = format!(
        r#"{{ connect = {{ path = "/" }} }}, {{ send = {{ text = "{}", reply = true }} }},"#,
        "x".repeat(3000)
    );
    let text = scenario(60, 1200, &steps).replace("users_max = 60", "spacing = \"random\"");
    let mut results = load(websocket_server(echo), &text);
    let started = results.counts.started;
    assert_ne!(started, 60, "random arrivals are not the product of rate and time");
    let mut live = Vec::new();
    watchfire_load::Live::default().draw(&results, &mut live).unwrap();
    let reports =
        |results: &_| [watchfire_load::table(results, &[]), watchfire_load::html(results, &[])];
    for report in reports(&results).into_iter().chain([String::from_utf8(live).unwrap()]) {
        assert!(!report.contains("planned") && !report.contains("of about"), "{report}");
        assert!(report.contains("KiB") && ![" kB", " MB"].iter().any(|unit| report.contains(unit)));
    }
    for report in reports(&results) {
        assert!(report.contains(&format!("{started} started, {started} finished")), "{report}");
    }
    results.counts.due += 2;
    for report in reports(&results) {
        assert!(report.contains("2 planned and not started"), "{report}");
    }
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

#[test]
fn a_report_has_the_tables_and_the_seconds_of_tsungs() {
    let steps = r#"
        { group = { name = "visit", steps = [
            { connect = { path = "/" } },
            { send = { text = "x", reply = true, name = "say, \"x\"" } },
        ] } },
        { think = "300ms" },
        { send = { text = "y", reply = true, name = "again" } },"#;
    let results = load(websocket_server(echo), &scenario(20, 1200, steps));
    assert_eq!(results.stages.connect.len(), 20);
    assert_eq!(results.stages.page.len(), 40, "the think time divides a session into two pages");
    assert_eq!(results.stages.session.len(), 20);
    let (page, session) = (results.stages.page.mean(), results.stages.session.mean());
    // A session is two pages and the think time between them. On a busy machine, all three take longer.
    let think = session.checked_sub(2 * page).expect("pages are without the think time");
    assert!((0.29..2.0).contains(&think.as_secs_f64()), "{session:?}, {page:?}");
    assert_eq!(results.statuses.iter().collect::<Vec<_>>(), [(&101, &20)]);

    let page = watchfire_load::html(&results, &[]);
    for name in ["connect", "page", "request", "session", "visit", "users finished", "101"] {
        assert!(page.contains(&format!("<td>{name}<")), "{name}: {page}");
    }

    let csv = watchfire_load::csv(&results);
    let mut lines = csv.lines();
    let heads = lines.next().unwrap();
    assert!(heads.starts_with("second,users,websockets,"), "{heads}");
    assert!(heads.contains(",\"step: say, \"\"x\"\" count\","), "{heads}");
    let column = heads.split(',').position(|name| name == "users_started").unwrap();
    let started = lines.map(|line| line.split(',').nth(column).unwrap().parse::<u64>().unwrap());
    assert_eq!(started.sum::<u64>(), 20);
    let columns = csv.lines().skip(1).map(|line| line.split(',').count());
    let heads = heads.replace("say, ", "say ").split(',').count();
    assert!(columns.into_iter().all(|columns| columns == heads), "{csv}");
}
