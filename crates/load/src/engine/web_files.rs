//! The files that a browser loads for a web page: scripts, styles and pictures that the page names,
//! and the scripts that these import.
//!
//! Links are looked for once for each path and process, because they cost more than the request.

use std::collections::HashMap;
use std::sync::Arc;

use watchfire_types::Instant;

use crate::http::Response;
use crate::scenario::{Content, PageFiles as Files};

/// Paths whose links are kept. The links of further ones are looked for each time.
const PATHS_MAX: usize = 10_000;
/// Files of one page. Further ones are not loaded.
const FILES_MAX: usize = 200;
const ENDINGS: [&str; 7] = [".js", ".mjs", ".css", ".svg", ".png", ".webp", ".woff2"];

/// A list of paths that several users share.
type Links = Arc<[Arc<str>]>;

/// The known links of paths.
#[derive(Default)]
pub(super) struct LinkCache(HashMap<Arc<str>, Links>);

/// The files that a user loads, in the order in which it found them.
pub(super) struct WebFiles {
    found: Vec<Arc<str>>,
    /// How many of them were requested.
    requested: usize,
    begun: Instant,
}

impl LinkCache {
    fn links(&mut self, path: &str, named: &[String], content: &Content<'_>) -> Links {
        if let Some(known) = self.0.get(path) {
            return known.clone();
        }
        let text = String::from_utf8_lossy(content.body());
        let links =
            if path.ends_with("js") { imports(path, &text, named) } else { named_files(&text) };
        let mut distinct = Vec::new();
        links.into_iter().map(Arc::from).for_each(|link| add(link, &mut distinct));
        let links = Links::from(distinct);
        if self.0.len() < PATHS_MAX {
            self.0.insert(path.into(), links.clone());
        }
        links
    }
}

impl WebFiles {
    /// The files of a page whose step has begun at this time.
    pub(super) fn new(begun: Instant) -> WebFiles {
        WebFiles { found: Vec::new(), requested: 0, begun }
    }

    pub(super) fn begun(&self) -> Instant {
        self.begun
    }

    /// Adds the files that an answer names. `path` is the path of that answer.
    pub(super) fn add_links(
        &mut self,
        path: &str,
        files: &Files,
        response: &Response<'_>,
        cache: &mut LinkCache,
    ) {
        let content = Content::new(response.head, &response.body);
        let links = cache.links(path, &files.named, &content);
        links.iter().for_each(|link| add(link.clone(), &mut self.found));
    }

    /// The path of the next file.
    pub(super) fn next(&self) -> Option<Arc<str>> {
        self.found.get(self.requested).cloned()
    }

    /// The next file was answered.
    pub(super) fn go_on(&mut self) {
        self.requested += 1;
    }
}

/// Adds a file unless the list has it already, or is full.
fn add(link: Arc<str>, files: &mut Vec<Arc<str>>) {
    if files.len() < FILES_MAX && !files.contains(&link) {
        files.push(link);
    }
}

/// The files of the same server that a page names.
fn named_files(page: &str) -> Vec<String> {
    let quoted = page.split(['"', '\'']).skip(1).step_by(2);
    let is_file = |text: &&str| {
        let is_path = text.starts_with('/') && !text.starts_with("//") && !text.contains(' ');
        is_path && ENDINGS.iter().any(|ending| text.ends_with(ending))
    };
    quoted.filter(is_file).map(str::to_owned).collect()
}

/// The scripts of the same folder that this one imports at once, and the files that it loads later whose paths
/// begin with one of these texts.
fn imports(path: &str, script: &str, named: &[String]) -> Vec<String> {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut before = "";
    let mut found = Vec::new();
    for text in script.split(['"', '`', '\'']) {
        let is_import = before.ends_with("from") || before.ends_with("import");
        match text.strip_prefix("./").filter(|_| is_import && text.ends_with(".js")) {
            Some(file) => found.push(format!("{folder}/{file}")),
            None if named.iter().any(|start| text.starts_with(start.as_str())) => {
                found.push(format!("/{}", text.trim_start_matches('/')));
            }
            None => {}
        }
        before = text;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_names_its_files() {
        let page = r#"<script src="/assets/a.js"></script><link href="/b.css"><a href="/c">
            <img src="//other/d.png"><link rel="icon" href="/e.svg">"#;
        assert_eq!(named_files(page), ["/assets/a.js", "/b.css", "/e.svg"]);
    }

    #[test]
    fn of_an_endless_page_only_as_many_links_are_kept_as_a_user_loads() {
        let link = |number: usize| format!("<img src='/{}.png'>", number / 2);
        let page: String = (0..5_000).map(link).collect();
        let mut cache = LinkCache::default();
        let links = cache.links("/", &[], &Content::new(b"", page.as_bytes()));
        assert_eq!((links.len(), &*links[199]), (200, "/199.png"));
        assert_eq!(cache.0["/"].len(), 200);
    }

    #[test]
    fn a_script_names_what_it_imports_at_once_and_the_named_files() {
        let script = r#"import{a}from"./tab-1.js";d=["assets/PageView-2.js","assets/chat-3.js"];
            import"./b.js";let x=import(`./chat-3.js`)"#;
        let found = imports("/assets/a.js", script, &["assets/PageView".to_owned()]);
        assert_eq!(found, ["/assets/tab-1.js", "/assets/PageView-2.js", "/assets/b.js"]);
    }
}
