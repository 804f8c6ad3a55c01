//! Compiles requests, polls, and what is loaded for a page.

use std::sync::Arc;

use super::Compiler;
use crate::scenario::answer::Answer;
use crate::scenario::program::{Files, Headers, Http, Op, PageVisit, Poll, Serializer};
use crate::scenario::text::{Place, Text};

impl Compiler<'_> {
    pub(in crate::scenario) fn http(&mut self, request: Http) -> Result<(), String> {
        self.push_op(Op::Http(Box::new(request)))
    }

    pub(in crate::scenario) fn poll(&mut self, poll: Poll) -> Result<(), String> {
        self.push_op(Op::Poll(Box::new(poll)))
    }

    /// A request, and then the requests of the files that its answer names.
    pub(in crate::scenario) fn page_with_files(
        &mut self,
        mut page: Http,
        named: Vec<String>,
    ) -> Result<(), String> {
        let name = format!("{} files", self.steps[usize::from(page.step.0)]);
        let mut request = self.request(Some(&name), "GET", "/")?;
        (request.headers, request.timeout) = (page.headers.clone(), page.timeout);
        let files = Arc::new(Files { request, page: page.path.clone(), named });
        page.files = Some(files.clone());
        self.http(page)?;
        self.push_op(Op::Files(files))
    }

    /// Loads a page from other users.
    pub(in crate::scenario) fn page(
        &mut self,
        name: Option<&str>,
        (page, topic): (u16, &str),
        has_it: bool,
    ) -> Result<(), String> {
        self.needs_open("page")?;
        if self.serializer != Serializer::V2 {
            return Err("page needs a connect with vsn=2.0.0 before it".into());
        }
        if self.topics.iter().any(|known| known == topic) {
            return Err("a session loads a page once".into());
        }
        self.topics.push(topic.to_owned());
        let step = self.step(name.unwrap_or("page"))?;
        let join_ref = self.topics.len() as u32;
        self.push_op(Op::Page(PageVisit { step, page, join_ref, has_it }))
    }

    /// Polls beside the steps that follow.
    pub(in crate::scenario) fn poll_beside(&mut self, poll: Poll) -> Result<(), String> {
        if !self.blocks.is_empty() {
            return Err("a poll beside the other steps cannot begin in a loop".into());
        }
        if std::mem::replace(&mut self.polls_in_background, true) {
            return Err("a session has at most one poll beside its other steps".into());
        }
        self.push_op(Op::BackgroundPoll(Box::new(poll)))
    }

    /// A request with only a name, a method and a path.
    pub(in crate::scenario) fn request(
        &mut self,
        name: Option<&str>,
        method: &str,
        path: &str,
    ) -> Result<Http, String> {
        if self.is_open {
            return Err(
                "a user has one connection: place HTTP before connect or after disconnect".into()
            );
        }
        if method.is_empty() || !method.bytes().all(|byte| byte.is_ascii_uppercase()) {
            return Err(format!("invalid method {method:?}"));
        }
        let default = format!("{method} {path}");
        Ok(Http {
            path: self.path(path)?,
            step: self.step(name.unwrap_or(&default))?,
            method: method.to_owned(),
            target: None,
            is_old: false,
            headers: self.headers(&[])?,
            cookies: None,
            login: None,
            body: self.text("", Place::Plain)?,
            status: None,
            accepts_any_status: false,
            contains: None,
            answer: Answer::default(),
            timeout: None,
            is_delivered: false,
            files: None,
        })
    }

    pub(in crate::scenario) fn headers(
        &self,
        headers: &[(String, String)],
    ) -> Result<Headers, String> {
        let mut lines = String::new();
        for (name, value) in headers {
            let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
            if name.is_empty() || !name.bytes().all(is_name) || value.contains(['\r', '\n']) {
                return Err(format!("invalid header {name:?}"));
            }
            lines.push_str(&format!("{name}: {value}\r\n"));
        }
        let has = |wanted: &str| headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(wanted));
        Ok(Headers {
            lines: self.text(&lines, Place::Header)?,
            has_cookie: has("cookie"),
            has_user_agent: has("user-agent"),
            has_host: has("host"),
            closes: headers.iter().any(|(name, value)| {
                name.eq_ignore_ascii_case("connection") && value.eq_ignore_ascii_case("close")
            }),
        })
    }

    pub(super) fn path(&self, path: &str) -> Result<Text, String> {
        let has_bad = path.bytes().any(|byte| byte <= b' ' || byte == 0x7f);
        if !path.starts_with(['/', '$']) || has_bad {
            return Err(format!(
                "invalid path {path:?}: it must start with a slash and have no spaces"
            ));
        }
        self.text(path, Place::Target)
    }
}
