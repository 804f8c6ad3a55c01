//! Steps that send requests, and that load pages.

use std::collections::BTreeMap;

use serde::Deserialize;
use watchfire_report::units::DurationText;

use super::super::values::{PayloadFile, SaveFile};
use super::{Names, answer, pairs};
use crate::scenario::compile::Compiler;
use crate::scenario::program::Poll;
use crate::scenario::text::Place;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HttpFile {
    path: String,
    method: Option<String>,
    name: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    body: Option<PayloadFile>,
    status: Option<u16>,
    contains: Option<String>,
    #[serde(default)]
    pub(super) save: BTreeMap<String, SaveFile>,
    timeout: Option<DurationText>,
    /// Exactly one user receives the `${now}` in the body.
    #[serde(default)]
    delivered: bool,
    files: Option<FilesFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PollFile {
    path: String,
    name: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    status: Option<u16>,
    until: Option<String>,
    #[serde(rename = "for")]
    period: Option<DurationText>,
    timeout: Option<DurationText>,
    /// Poll until the session ends, while the steps that follow go on.
    #[serde(default)]
    beside: bool,
}

/// Load a page from other users.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct VisitFile {
    of: String,
    name: Option<String>,
    /// The user has the page already.
    #[serde(default)]
    has: bool,
}

/// The files that a browser loads for a web page.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FilesFile {
    /// Files that scripts load later count too if their paths begin with one of these texts.
    #[serde(default)]
    named: Vec<String>,
}

impl HttpFile {
    pub(super) fn compile(&self, compiler: &mut Compiler<'_>) -> Result<(), String> {
        let default = if self.body.is_some() { "POST" } else { "GET" };
        let method = self.method.as_deref().unwrap_or(default);
        let mut request = compiler.request(self.name.as_deref(), method, &self.path)?;
        let mut headers = pairs(&self.headers);
        if self.body.is_some()
            && !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type"))
        {
            headers.push(("content-type".to_owned(), "application/json".to_owned()));
        }
        request.headers = compiler.headers(&headers)?;
        let content_type =
            headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
        let content_type = content_type.map_or("", |(_, value)| value);
        request.body =
            compiler.body(self.body.as_ref().map_or("", |body| &body.0), content_type)?;
        request.status = self.status;
        request.contains =
            self.contains.as_deref().map(|text| compiler.text(text, Place::Plain)).transpose()?;
        request.timeout = self.timeout.map(|span| span.0);
        request.answer = answer(&self.save, compiler)?;
        if self.delivered && request.body.times() != 1 {
            return Err("delivered needs ${now} in the body, once".into());
        }
        request.is_delivered = self.delivered;
        match &self.files {
            Some(files) => compiler.page_with_files(request, files.named.clone()),
            None => compiler.http(request),
        }
    }
}

impl VisitFile {
    pub(super) fn compile(
        &self,
        compiler: &mut Compiler<'_>,
        names: &Names<'_>,
    ) -> Result<(), String> {
        let known = || names.pages.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>();
        let page = names.pages.iter().position(|(name, _)| *name == self.of);
        let page = page.ok_or_else(|| {
            format!("unknown page {}; known pages: {}", self.of, known().join(", "))
        })?;
        let topic = &names.pages[page].1;
        compiler.page(self.name.as_deref(), (page as u16, topic), self.has)
    }
}

impl PollFile {
    pub(super) fn compile(&self, compiler: &mut Compiler<'_>) -> Result<(), String> {
        let default = format!("longpoll {}", self.path);
        let name = self.name.as_deref().unwrap_or(&default);
        let mut request = compiler.request(Some(name), "GET", &self.path)?;
        request.headers = compiler.headers(&pairs(&self.headers))?;
        request.status = self.status;
        request.timeout = self.timeout.map(|span| span.0);
        let until =
            self.until.as_deref().map(|text| compiler.text(text, Place::Plain)).transpose()?;
        let poll = Poll { request, until, period: self.period.map(|span| span.0) };
        match self.beside {
            true if poll.until.is_some() || poll.period.is_some() => {
                Err("a poll beside the other steps has neither until nor for".into())
            }
            true => compiler.poll_beside(poll),
            false => compiler.poll(poll),
        }
    }
}
