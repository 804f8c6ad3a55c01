//! The part of XPath that load tests use to take values out of web pages: paths of elements with
//! conditions on their place and their attributes, which end with an attribute or with the text of
//! the element itself.
//!
//! ```text
//! //input[@name='token']/@value      /html/body/div[2]/a/@href      //title/text()
//! ```
//!
//! Pages are rarely well-formed XML, so the reader of tags is lenient: a tag that closes nothing is
//! skipped, an element without an end closes with the one around it, and the elements that HTML
//! leaves empty need no end.

use super::answer::decoded;

/// The most elements of one page that are read. The rest of a larger page is not searched.
const ELEMENTS_MAX: usize = 100_000;
/// Deeper elements count as children of the one at this depth.
const DEPTH_MAX: usize = 256;

/// Elements that have no content in HTML.
const EMPTY: [&str; 14] = [
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source",
    "track", "wbr",
];
/// Elements whose content is not markup.
const RAW: [&str; 2] = ["script", "style"];

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct XPath {
    steps: Vec<Step>,
    result: Wanted,
}

#[derive(Clone, Debug, PartialEq)]
struct Step {
    /// Whether elements at any depth below are meant, rather than children.
    is_deep: bool,
    /// The name of the element; `None` is any.
    name: Option<String>,
    conditions: Vec<Condition>,
}

#[derive(Clone, Debug, PartialEq)]
enum Condition {
    /// The place among the elements of the step that have the same parent, from 1.
    Place(usize),
    Has(String),
    Is(String, String),
}

#[derive(Clone, Debug, PartialEq)]
enum Wanted {
    Attribute(String),
    Text,
}

impl XPath {
    pub(crate) fn parse(text: &str) -> Result<XPath, String> {
        let unsupported = || {
            format!(
                "unsupported XPath {text:?}: use paths such as //form/input[@name='x']/@value or /html/head/title/text()"
            )
        };
        let mut steps = Vec::new();
        let mut result = Wanted::Text;
        let mut rest = text.trim();
        if !rest.starts_with('/') {
            return Err(unsupported());
        }
        while !rest.is_empty() {
            let is_deep = rest.starts_with("//");
            rest = rest.strip_prefix("//").or(rest.strip_prefix('/')).ok_or_else(unsupported)?;
            let end = step_end(rest);
            let (step, after) = rest.split_at(end);
            rest = after;
            if let Some(name) =
                step.strip_prefix('@').filter(|name| is_name(name) && rest.is_empty())
            {
                result = Wanted::Attribute(name.to_ascii_lowercase());
            } else if step != "text()" || !rest.is_empty() {
                steps.push(Step::parse(step, is_deep).ok_or_else(unsupported)?);
            }
        }
        if steps.is_empty() { Err(unsupported()) } else { Ok(XPath { steps, result }) }
    }

    /// All values at this path, in the order of the page.
    pub(crate) fn find(&self, page: &str) -> Vec<String> {
        let page = Page::parse(page);
        let mut found = vec![Page::ROOT];
        for step in &self.steps {
            found = page.select(step, found);
        }
        let elements = found.into_iter().map(|index| &page.elements[index]);
        let values = elements.filter_map(|element| match &self.result {
            Wanted::Attribute(name) => element.attribute(name).map(str::to_owned),
            Wanted::Text => Some(element.text.trim().to_owned()),
        });
        values.collect()
    }
}

/// The end of the first step: a slash outside of brackets.
fn step_end(text: &str) -> usize {
    let mut depth = 0_u32;
    for (at, one) in text.char_indices() {
        match one {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            '/' if depth == 0 => return at,
            _ => {}
        }
    }
    text.len()
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|one| one.is_alphanumeric() || "-_:.".contains(one))
}

impl Step {
    fn parse(text: &str, is_deep: bool) -> Option<Step> {
        let (name, mut rest) = text.split_at(text.find('[').unwrap_or(text.len()));
        let name = match name {
            "*" => None,
            name => Some(is_name(name).then(|| name.to_ascii_lowercase())?),
        };
        let mut conditions = Vec::new();
        while let Some(inner) = rest.strip_prefix('[') {
            let (condition, after) = inner.split_once(']')?;
            rest = after;
            conditions.extend(Condition::parse(condition.trim())?);
        }
        rest.is_empty().then_some(Step { is_deep, name, conditions })
    }
}

impl Condition {
    /// The condition; nothing for `*`, which always holds.
    fn parse(text: &str) -> Option<Option<Condition>> {
        if text == "*" {
            return Some(None);
        }
        if let Some(attribute) = text.strip_prefix('@') {
            let Some((name, value)) = attribute.split_once('=') else {
                return is_name(attribute)
                    .then(|| Some(Condition::Has(attribute.to_ascii_lowercase())));
            };
            let (name, value) = (name.trim(), value.trim());
            let quote = value.chars().next().filter(|quote| ['"', '\''].contains(quote))?;
            let value = value[1..].strip_suffix(quote)?;
            return is_name(name)
                .then(|| Some(Condition::Is(name.to_ascii_lowercase(), value.to_owned())));
        }
        let place = text.parse().ok().filter(|place| *place > 0)?;
        Some(Some(Condition::Place(place)))
    }

    fn holds(&self, element: &Element, place: usize) -> bool {
        match self {
            Condition::Place(wanted) => place == *wanted,
            Condition::Has(name) => element.attribute(name).is_some(),
            Condition::Is(name, value) => element.attribute(name) == Some(value),
        }
    }
}

/// The elements of a page, in the order of their begin.
struct Page {
    elements: Vec<Element>,
}

#[derive(Default)]
struct Element {
    name: String,
    attributes: Vec<(String, String)>,
    /// The text in the element, without the text of those within it.
    text: String,
    children: Vec<usize>,
}

impl Element {
    fn attribute(&self, name: &str) -> Option<&str> {
        let found = self.attributes.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }
}

impl Page {
    /// The index of the element around all others.
    const ROOT: usize = 0;

    /// The elements that a step finds below these, in the order of the page. Each element is looked
    /// at once, also if several of the parents are around it.
    fn select(&self, step: &Step, mut parents: Vec<usize>) -> Vec<usize> {
        let mut found = Vec::new();
        let mut is_seen = vec![false; self.elements.len()];
        while let Some(parent) = parents.pop() {
            if std::mem::replace(&mut is_seen[parent], true) {
                continue;
            }
            let children = &self.elements[parent].children;
            let named = children.iter().filter(|child| {
                step.name.as_ref().is_none_or(|name| self.elements[**child].name == *name)
            });
            let mut kept: Vec<usize> = named.copied().collect();
            for condition in &step.conditions {
                let mut place = 0;
                kept.retain(|child| {
                    place += 1;
                    condition.holds(&self.elements[*child], place)
                });
            }
            found.extend(kept);
            if step.is_deep {
                parents.extend(children);
            }
        }
        found.sort_unstable();
        found
    }

    fn parse(text: &str) -> Page {
        let mut page = Page { elements: vec![Element::default()] };
        let mut open = vec![Page::ROOT];
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('<') {
            page.add_text(&open, before);
            if let Some(comment) = after.strip_prefix("!--") {
                rest = comment.split_once("-->").map_or("", |(_, rest)| rest);
                continue;
            }
            let end = tag_end(after);
            let (tag, next) = (&after[..end], after.get(end + 1..).unwrap_or(""));
            rest = next;
            if let Some(name) = tag.strip_prefix('/') {
                let name = name.trim().to_ascii_lowercase();
                let closed = open.iter().rposition(|index| page.elements[*index].name == name);
                // The element around all others stays open.
                closed.into_iter().filter(|at| *at > 0).for_each(|at| open.truncate(at));
                continue;
            }
            if !tag.starts_with(|one: char| one.is_ascii_alphabetic())
                || page.elements.len() == ELEMENTS_MAX
            {
                continue;
            }
            let element = read_tag(tag);
            let (name, index) = (element.name.clone(), page.elements.len());
            let parent = open.last().copied().unwrap_or(Page::ROOT);
            page.elements[parent].children.push(index);
            page.elements.push(element);
            if RAW.contains(&name.as_str()) {
                rest = &rest[raw_end(rest, &name)..];
            }
            let is_empty = tag.ends_with('/') || EMPTY.contains(&name.as_str());
            if !is_empty && open.len() < DEPTH_MAX {
                open.push(index);
            }
        }
        page.add_text(&open, rest);
        page
    }

    /// Adds text to the innermost open element.
    fn add_text(&mut self, open: &[usize], text: &str) {
        if let Some(index) = open.last() {
            self.elements[*index].text.push_str(&decoded(text));
        }
    }
}

/// The end of the content of a raw element: its end tag, in capitals or not.
fn raw_end(text: &str, name: &str) -> usize {
    let is_end = |at: &usize| {
        let tag = text.get(at + 2..at + 2 + name.len());
        tag.is_some_and(|tag| tag.eq_ignore_ascii_case(name))
    };
    let mut ends = text.match_indices("</").map(|(at, _)| at);
    ends.find(is_end).unwrap_or(text.len())
}

/// The end of a tag: `>` outside of quotes.
fn tag_end(text: &str) -> usize {
    let mut quote = None;
    for (at, one) in text.char_indices() {
        match (one, quote) {
            ('>', None) => return at,
            ('"' | '\'', None) => quote = Some(one),
            (one, Some(open)) if one == open => quote = None,
            _ => {}
        }
    }
    text.find('>').unwrap_or(text.len())
}

fn read_tag(tag: &str) -> Element {
    let tag = tag.trim_end_matches('/');
    let is_end = |one: char| one.is_whitespace();
    let (name, mut rest) = tag.split_at(tag.find(is_end).unwrap_or(tag.len()));
    let mut attributes = Vec::new();
    loop {
        rest = rest.trim_start();
        let end = rest.find(|one: char| one.is_whitespace() || one == '=').unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        if name.is_empty() && after.is_empty() {
            break;
        }
        let Some(value) = after.trim_start().strip_prefix('=') else {
            attributes.push((name.to_ascii_lowercase(), String::new()));
            rest = after;
            continue;
        };
        let value = value.trim_start();
        let (value, after) = match value.chars().next() {
            Some(quote @ ('"' | '\'')) => value[1..].split_once(quote).unwrap_or((&value[1..], "")),
            _ => value.split_at(value.find(is_end).unwrap_or(value.len())),
        };
        attributes.push((name.to_ascii_lowercase(), decoded(value)));
        rest = after;
    }
    Element { name: name.to_ascii_lowercase(), attributes, ..Element::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = r#"<!DOCTYPE html><html><head><title>A &amp; B</title>
        <script>if (a < b) { "</div>" }</script></head><body class=main>
        <!-- <input name="token" value="no"> -->
        <div id="one"><form action='/go?a=1>2'><INPUT type=hidden name="token" value="t&quot;1">
        <input name="other" value="o" disabled></form></div>
        <div><img src="/a.png"/><p>first<img src="/b.png"></div></span>
        <div><a href="/x">to <b>x</b></a><a href="/y">to y</a></div></body></html>"#;

    #[test]
    fn a_path_finds_attributes_texts_and_lists() {
        let find = |path: &str| XPath::parse(path).unwrap().find(PAGE);
        assert_eq!(find("//input[@name='token']/@value"), ["t\"1"]);
        assert_eq!(find("/html/head/title/text()"), ["A & B"]);
        assert_eq!(find("//img/@src"), ["/a.png", "/b.png"]);
        assert_eq!(find("/html/body/div[3]/a/@href"), ["/x", "/y"]);
        assert_eq!(find("/html/body/div[3]/a[2]"), ["to y"]);
        assert_eq!(find("//div[@id=\"one\"]//input[@disabled]/@name"), ["other"]);
        assert_eq!(find("//form/@action"), ["/go?a=1>2"]);
        assert_eq!(find("//div[3]/*[1]"), ["to"]);
        assert_eq!(find("/html/body/div[*]/a/@href"), ["/x", "/y"]);
        assert_eq!(find("/html/@lang"), [""; 0]);
        assert_eq!(find("//table/tr"), [""; 0]);
    }

    #[test]
    fn a_script_ends_with_its_own_tag_in_capitals_or_not() {
        let find = |page: &str| XPath::parse("//a/@b").unwrap().find(page);
        for (begin, end) in [("script", "script"), ("SCRIPT", "SCRIPT"), ("script", "Script")] {
            let page = format!("<{begin}>'<a b=no>'</div></{end}><a b=yes>");
            assert_eq!(find(&page), ["yes"], "{page}");
        }
        assert_eq!(find("<style></styl\u{e9}<a b=no>"), [""; 0]);
    }

    #[test]
    fn other_paths_are_rejected_and_broken_pages_are_read() {
        for path in [
            "input",
            "//a[contains(@href,'x')]",
            "//a[last()]",
            "//a|//b",
            "/",
            "//@x/a",
            "//a[@b='c]",
        ] {
            let error = XPath::parse(path).unwrap_err();
            assert!(error.starts_with("unsupported XPath"), "{path}: {error}");
        }
        let all = XPath::parse("//a/@b").unwrap();
        for page in [
            "<a b",
            "<a b=\"",
            "<a b='1'",
            "</a></a><a b=1>",
            "<<a b=1>",
            "<a b=1><!-- ",
            "\u{e4}<a b=\u{e4}>",
        ] {
            let _ = all.find(page);
        }
        let deep = "<i>".repeat(200_000);
        assert_eq!(XPath::parse("//i[@x]").unwrap().find(&deep), [""; 0]);
        // Each of a hundred thousand elements is below 255 others.
        assert_eq!(XPath::parse("//i//i//i//i//i[@x]").unwrap().find(&deep), [""; 0]);
    }
}
