//! `watchfire report`: pictures of rows, and files that it cannot draw.

use std::fs::{self, File};

use crate::support::Scratch;

const HEAD: &str = "time,cpu,page_loads,resident_bytes\n";

#[test]
fn rows_become_a_page_with_a_gap_where_the_server_was_down() {
    let scratch = Scratch::new();
    let row = |n: u32| format!("2026-11-30T{:02}:{:02}:00.000Z,{},,\r\n", n / 60, n % 60, n % 2);
    let rows: String = (0..1_440).filter(|n| !(60..120).contains(n)).map(row).collect();
    scratch.file("day.csv", format!("\u{feff}{HEAD}{rows}"));
    scratch.prints(&["report", "day.csv"]);
    let text = fs::read_to_string(scratch.join("report.html")).unwrap();
    assert!(text.contains("CPU in cores") && text.contains("hours since 2026-11-30T00:00:00Z"));
    assert!(!text.contains("Page loads") && text.matches("<polyline").count() > 1, "{text}");
}

#[test]
fn a_file_that_cannot_be_drawn_is_an_error_with_its_line() {
    let scratch = Scratch::new();
    let row = |second: u8| format!("2026-01-01T00:00:{second:02}Z,,,\n");
    for (text, fault) in [
        (String::new(), "it has no rows: logs cannot be drawn; use the CSV"),
        (HEAD.into(), "it has no rows"),
        ("{\"level\":\"info\"}\n".into(), "line 1 does not begin with \"time\": logs cannot"),
        (format!("{HEAD}2026-01-01T00:00:00Z,1,2\n"), "line 2: it has 3 columns in place of 4"),
        (format!("{HEAD}{}2026-01-01T00:0", row(0)), "line 3 is cut"),
        (format!("{HEAD}yesterday,1,2,3\n"), "line 2: \"yesterday\" is not a time"),
        (format!("{HEAD}{}", row(0).replace(",,,", ",1,x,")), "line 2: \"x\" is not a number for"),
        (format!("{HEAD}{}{}", row(1), row(0)), "line 3: its time is not after"),
        (format!("{HEAD}{}", row(0)), "it has no values"),
    ] {
        scratch.file("rows.csv", text);
        let error = scratch.fails(&["report", "rows.csv"]);
        assert!(
            error.starts_with("watchfire: cannot draw rows.csv: ") && error.contains(fault),
            "{error}"
        );
        assert!(!scratch.join("report.html").exists());
    }
    File::create(scratch.join("large")).unwrap().set_len(1 << 30).unwrap();
    assert!(scratch.fails(&["report", "large"]).contains("it has more than 64 MiB"));
}
