//! HTML pages that need no other file.

use crate::chart::Chart;

/// Colours follow the reader's light or dark setting, as the charts do.
const STYLE: &str = "
:root { color-scheme: light dark; --ink: #1d1f21; --paper: #fffdf9; --faint: #8884; --dim: #6b6f76;
  --bad: #b91c1c; --good: #15803d; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8e6e3; --paper: #171412; --dim: #9aa0a8;
  --bad: #f87171; --good: #4ade80; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 76rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin-bottom: 0; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
.dim { color: var(--dim); } .bad { color: var(--bad); font-weight: 600; } .good { color: var(--good); }
.scroll { overflow-x: auto; } .scroll + .scroll { margin-top: 1rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .25rem .6rem; border-bottom: 1px solid var(--faint); white-space: nowrap; }
th:first-child, td:first-child { text-align: left; white-space: normal; min-width: 11rem; }
th { font-weight: 600; color: var(--dim); white-space: normal; min-width: 5rem; vertical-align: bottom;
  text-wrap: balance; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1.2rem; }
dt { color: var(--dim); } dd { margin: 0; }
summary { cursor: pointer; } details table { width: auto; }
svg { width: 100%; height: auto; margin: .6rem 0; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 36rem), 1fr)); gap: 0 1.5rem; }
.chart svg { min-width: 36rem; } .chart { min-width: 0; }
.bars svg { max-width: 34rem; }
.charts:not(:has(.chart)) { grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); }
.scroll + .scroll.bars, .scroll + .scroll.chart { margin-top: 0; }
";

/// A complete page. `title` is text; `body` is HTML.
pub fn page(title: &str, body: &str) -> String {
    let title = escape(title);
    format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\">\
         <title>{title}</title><style>{STYLE}</style><h1>{title}</h1>{body}</html>\n"
    )
}

/// Charts beside each other as far as the screen is wide enough.
pub fn charts(charts: &[Chart]) -> String {
    let figures: String = charts.iter().map(Chart::figure).collect();
    format!("<div class=\"charts\">{figures}</div>")
}

pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_cannot_break_the_page() {
        let page = page("</title><script>", "<p>body");
        assert!(page.contains("<title>&lt;/title&gt;&lt;script&gt;</title>"), "{page}");
        assert!(page.ends_with("<p>body</html>\n"));
    }
}
