//! `<request>`: HTTP requests and websocket messages, and the use of their answers.

use std::time::Duration;

use base64::Engine as _;

use super::element::Element;
use super::sessions::Reader;
use super::{Result, trimmed_text};
use crate::scenario::answer::{Action, Answer, Check, CheckPattern, Find, Missing, Save};
use crate::scenario::login::{DigestLogin, Login, Protection};
use crate::scenario::pattern::Pattern;
use crate::scenario::program::{Http, Serializer, Wanted};
use crate::scenario::target::whole_url;
use crate::scenario::text::{Place, Text, UNIQUE_ID};
use crate::scenario::value::JsonPath;
use crate::scenario::xpath::XPath;

/// The parts of a request that are filled in: `subst="…"`.
#[derive(Clone, Copy)]
struct Filling {
    heads: bool,
    bodies: bool,
}

impl Reader<'_, '_, '_> {
    pub(super) fn request(&mut self, element: &Element<'_, '_>) -> Result<()> {
        element.attributes(&["subst", "tag"])?;
        element.children(&["websocket", "http", "match", "dyn_variable"])?;
        let filling = match element.one_of("subst", &["false", "true", "all_except_body"])? {
            "false" => Filling { heads: false, bodies: false },
            subst => Filling { heads: true, bodies: subst == "true" },
        };
        let is_step = |child: &Element<'_, '_>| ["websocket", "http"].contains(&child.name());
        let mut steps = element.elements().filter(is_step);
        let (Some(inner), None) = (steps.next(), steps.next()) else {
            return Err(element.error("needs one <websocket> or <http>"));
        };
        let mut answer = Answer::default();
        for child in element.elements().filter(|child| !is_step(child)) {
            match child.name() {
                "match" => answer.checks.push(self.check(&child)?),
                _ => answer.saves.push(self.save(&child)?),
            }
        }
        if inner.name() == "http" {
            return self.http(&inner, filling, answer);
        }
        self.compiler.use_answer(answer);
        self.websocket(&inner, filling)
    }

    fn websocket(&mut self, element: &Element<'_, '_>, filling: Filling) -> Result<()> {
        let fill = |text: &str, is_filled: bool| {
            filled_in(text, is_filled).map_err(|problem| element.error(problem))
        };
        let done = match element.one_of("type", &["", "connect", "message", "close"])? {
            "connect" => {
                let known = ["type", "path", "ack", "frame", "origin", "subprotocols"];
                element.attributes(&known)?;
                element.children(&["http_header"])?;
                let mut headers = Vec::new();
                for (attribute, header) in
                    [("origin", "Origin"), ("subprotocols", "Sec-WebSocket-Protocol")]
                {
                    if let Some(value) = element.attribute(attribute) {
                        headers.push((header.to_owned(), fill(value, filling.heads)?));
                    }
                }
                for header in element.elements() {
                    headers.push(header_of(&header, filling.heads)?);
                }
                let path = element.attribute("path").or(self.options.websocket_path.as_deref());
                let path = fill(path.unwrap_or("/"), filling.heads)?;
                self.compiler.connect(None, &path, &headers, Serializer::Raw, None)
            }
            "message" => {
                element.attributes(&["type", "ack", "frame"])?;
                element.children(&[])?;
                let wanted = match element.one_of("ack", &["parse", "no_ack"])? {
                    "parse" => Wanted::Any,
                    _ => Wanted::Nothing,
                };
                let is_binary = match element.attribute("frame") {
                    Some(_) => element.one_of("frame", &["binary", "text"])? == "binary",
                    None => !self.options.sends_text,
                };
                let text = fill(&trimmed_text(element), filling.bodies)?;
                let text = self.compiler.text(&text, Place::Plain);
                let text = text.map_err(|problem| element.error(problem))?;
                self.compiler.send_text(Some("message"), text, is_binary, wanted, false)
            }
            "close" => {
                element.attributes(&["type", "ack"])?;
                element.children(&[])?;
                self.compiler.disconnect(Some("close"), false)
            }
            _ => return Err(element.attribute_error("type", "is needed")),
        };
        done.map_err(|problem| element.error(problem))
    }

    fn http(&mut self, element: &Element<'_, '_>, filling: Filling, answer: Answer) -> Result<()> {
        element.attributes(&[
            "url",
            "method",
            "version",
            "contents",
            "contents_from_file",
            "content_type",
            "if_modified_since",
        ])?;
        element.children(&["http_header", "www_authenticate", "soap", "add_cookie"])?;
        let method = element.attribute("method").unwrap_or("GET").to_ascii_uppercase();
        let url = element.needed("url")?;
        let headers = http_headers(element, &method, filling)?;
        let error = |problem: String| element.error(problem);
        let path = self.path(element, filling)?;
        let name = format!("{method} {url}");
        let mut request = self.compiler.request(Some(&name), &method, &path.text).map_err(error)?;
        if let Some(whole_url) = path.whole_url {
            request.path = self.compiler.text(&whole_url, Place::Target).map_err(error)?;
        }
        request.target = path.target;
        request.headers = self.compiler.headers(&headers).map_err(error)?;
        request.is_old = element.one_of("version", &["1.1", "1.0"])? == "1.0";
        request.body = self.body(element, filling)?;
        // In Tsung no status is an error.
        request.accepts_any_status = true;
        request.answer = answer;
        self.add_cookies(element, filling, &mut request)?;
        if let Some(login) = element.child("www_authenticate")? {
            request.login = Some(Box::new(self.login(&login, filling.heads)?));
        }
        self.compiler.http(request).map_err(error)
    }

    fn body(&mut self, element: &Element<'_, '_>, filling: Filling) -> Result<Text> {
        let text = match (element.attribute("contents"), element.attribute("contents_from_file")) {
            (Some(text), None) => text.to_owned(),
            (None, Some(file)) => {
                let bytes = self.parts.read_bytes(file);
                let bytes = bytes
                    .map_err(|problem| element.attribute_error("contents_from_file", problem))?;
                match String::from_utf8(bytes) {
                    Ok(text) => text,
                    // Bytes that are not text have no variables.
                    Err(error) => return Ok(Text::bytes(error.into_bytes())),
                }
            }
            (None, None) => String::new(),
            (Some(_), Some(_)) => {
                return Err(element.error("use only one of contents and contents_from_file"));
            }
        };
        let text = filled_in(&text, filling.bodies);
        let text = text.and_then(|text| self.compiler.text(&text, Place::Plain));
        text.map_err(|problem| element.error(problem))
    }

    /// The path of a URL, and its server if the URL or the file names one.
    fn path(&mut self, element: &Element<'_, '_>, filling: Filling) -> Result<PathOfUrl> {
        let error = |problem| element.attribute_error("url", problem);
        let url = filled_in(element.needed("url")?, filling.heads).map_err(error)?;
        let url = url.split('#').next().unwrap_or_default().replace(' ', "%20");
        let Some((server, rest)) = whole_url(&url) else {
            let is_variable = url.starts_with("${");
            // With one server, such a request means that server, also when a loop comes back to it
            // from another one.
            let is_only = self.parts.servers == 1 && !self.names_a_server;
            let target = (is_only && !is_variable).then_some(0);
            let whole_url = is_variable.then(|| url.clone());
            let text = match url.starts_with('/') || is_variable || url.contains(':') {
                true => url,
                false => {
                    self.parts
                        .note(element, "the URL has no slash at its begin; it is sent with one");
                    format!("/{url}")
                }
            };
            return Ok(PathOfUrl { text, whole_url, target });
        };
        let text = if rest.starts_with('/') { rest.to_owned() } else { format!("/{rest}") };
        self.names_a_server = true;
        if server.contains("${") {
            return Ok(PathOfUrl { text, whole_url: Some(url), target: None });
        }
        let target = self.parts.target(server).map_err(error)?;
        Ok(PathOfUrl { text, whole_url: None, target: Some(target) })
    }

    fn add_cookies(
        &self,
        element: &Element<'_, '_>,
        filling: Filling,
        request: &mut Http,
    ) -> Result<()> {
        let mut cookies = Vec::new();
        for cookie in element.elements().filter(|child| child.name() == "add_cookie") {
            cookie.attributes(&["key", "value", "domain", "path"])?;
            let pair = format!("{}={}", cookie.needed("key")?, cookie.needed("value")?);
            cookies.push(filled_in(&pair, filling.heads).map_err(|problem| cookie.error(problem))?);
        }
        if !cookies.is_empty() {
            let text = self.compiler.text(&cookies.join("; "), Place::Header);
            request.cookies = Some(text.map_err(|problem| element.error(problem))?);
        }
        Ok(())
    }

    fn login(&self, element: &Element<'_, '_>, is_filled: bool) -> Result<Login> {
        element.children(&[])?;
        let known = ["userid", "passwd", "type", "realm", "nonce", "opaque", "qop", "nc", "cnonce"];
        element.attributes(&known)?;
        let text = |name: &str, text: &str| -> Result<Text> {
            let text = filled_in(text, is_filled);
            let text = text.and_then(|text| self.compiler.text(&text, Place::Plain));
            text.map_err(|problem| element.attribute_error(name, problem))
        };
        let optional =
            |name: &str| element.attribute(name).map(|value| text(name, value)).transpose();
        let digest = match element.one_of("type", &["basic", "digest"])? {
            "basic" => None,
            _ => Some(DigestLogin {
                realm: text("realm", element.attribute("realm").unwrap_or_default())?,
                nonce: text("nonce", element.attribute("nonce").unwrap_or_default())?,
                opaque: optional("opaque")?,
                protection: match optional("qop")? {
                    None => None,
                    Some(qop) => Some(Protection {
                        qop,
                        nonce_count: text("nc", element.needed("nc")?)?,
                        client_nonce: text("cnonce", element.needed("cnonce")?)?,
                    }),
                },
            }),
        };
        let user = text("userid", element.needed("userid")?)?;
        let password = text("passwd", element.needed("passwd")?)?;
        Ok(Login { user, password, digest })
    }

    /// `<match>`.
    fn check(&mut self, element: &Element<'_, '_>) -> Result<Check> {
        element.attributes(&[
            "do",
            "when",
            "subst",
            "name",
            "max_loop",
            "loop_back",
            "sleep_loop",
            "max_restart",
            "skip_headers",
            "apply_to_content",
        ])?;
        element.children(&[])?;
        let text = trimmed_text(element);
        let wanted = match element.one_of("subst", &["false", "true"])? {
            "true" => {
                let text = filled_in(&text, true);
                let text = text.and_then(|text| self.compiler.text(&text, Place::Plain));
                text.map(CheckPattern::Filled)
            }
            _ => Pattern::parse(&text).map(CheckPattern::Fixed),
        };
        let whole = |name, default: u32| {
            let number = element.whole(name)?.unwrap_or(default.into());
            Ok(u32::try_from(number).unwrap_or(u32::MAX))
        };
        let known = ["continue", "log", "dump", "abort", "abort_test", "restart", "loop"];
        let action = match element.one_of("do", &known)? {
            "log" => Action::Log,
            "dump" => Action::Dump,
            "abort" => Action::Abort,
            "abort_test" => Action::AbortLoad,
            "restart" => Action::Restart { max: whole("max_restart", 3)? },
            "loop" => Action::Repeat {
                back: u16::try_from(whole("loop_back", 0)?).unwrap_or(u16::MAX),
                max: whole("max_loop", 20)?,
                pause: element.seconds("sleep_loop", 1.0)?.unwrap_or(Duration::from_secs(5)),
            },
            _ => Action::Continue,
        };
        let compares_sum = match element.attribute("apply_to_content") {
            None | Some("undefined") => false,
            Some("ts_digest:md5hex") => true,
            Some(_) => {
                let problem = "is a function of Erlang; only ts_digest:md5hex is supported";
                return Err(element.attribute_error("apply_to_content", problem));
            }
        };
        Ok(Check {
            wanted: wanted.map_err(|problem| element.error(problem))?,
            acts_on_match: element.one_of("when", &["match", "nomatch"])? == "match",
            skips_head: element.one_of("skip_headers", &["no", "http"])? == "http",
            compares_sum,
            name: element.attribute("name").unwrap_or("-").to_owned(),
            action,
        })
    }

    /// `<dyn_variable>`.
    fn save(&self, element: &Element<'_, '_>) -> Result<Save> {
        let known = ["name", "re", "regexp", "header", "jsonpath", "decode", "xpath"];
        element.attributes(&known)?;
        element.children(&[])?;
        let decodes_entities = element.one_of("decode", &["false", "html_entities"])? != "false";
        let name = element.needed("name")?.trim();
        let of_pattern = |pattern: std::result::Result<Pattern, String>| {
            pattern.map(|pattern| (Find::Pattern { pattern, decodes_entities }, Missing::Empties))
        };
        let named = |attribute: &'static str| Some((attribute, element.attribute(attribute)?));
        let kinds = ["re", "regexp", "header", "jsonpath", "xpath"];
        let found = match kinds.into_iter().find_map(named) {
            Some(("re", text)) => of_pattern(Pattern::parse(text)),
            Some(("regexp", text)) => of_pattern(Pattern::parse_old(text)),
            Some(("jsonpath", text)) => {
                JsonPath::parse(text).map(|path| (Find::Json(path), Missing::Empties))
            }
            Some(("header", text)) => {
                let (name, parameter) = text.split_once('/').unwrap_or((text, ""));
                let parameter = (!parameter.is_empty()).then(|| parameter.to_owned());
                let missing = if parameter.is_some() { Missing::Keeps } else { Missing::Unsets };
                Ok((Find::Header { name: name.to_owned(), parameter }, missing))
            }
            Some((_, text)) => XPath::parse(text).map(|path| (Find::Page(path), Missing::Empties)),
            // The field of a form with this name.
            None => of_pattern(Pattern::parse(&format!(
                r#"name=["']{name}["'] (?:[^>]* )?value=["']([^"']*)["']"#
            ))),
        };
        let slot = self.compiler.slot(name);
        let (slot, (find, missing)) =
            slot.and_then(|slot| Ok((slot, found?))).map_err(|problem| element.error(problem))?;
        Ok(Save { slot, find, missing })
    }
}

/// The path of a URL. A URL that begins with a variable may be a whole one.
struct PathOfUrl {
    text: String,
    whole_url: Option<String>,
    target: Option<u16>,
}

fn http_headers(
    element: &Element<'_, '_>,
    method: &str,
    filling: Filling,
) -> Result<Vec<(String, String)>> {
    let mut headers = Vec::new();
    let mut add = |name: &str, value: &str| {
        let value = filled_in(value, filling.heads).map_err(|problem| element.error(problem))?;
        headers.push((name.to_owned(), value));
        Ok(())
    };
    let has_own_type = element.elements().any(|header| {
        header.attribute("name").is_some_and(|name| name.eq_ignore_ascii_case("content-type"))
    });
    let has_body = ["POST", "PUT", "PATCH"].contains(&method);
    match element.attribute("content_type") {
        Some(kind) if !has_own_type => add("Content-Type", kind)?,
        None if has_body && !has_own_type => {
            add("Content-Type", "application/x-www-form-urlencoded")?;
        }
        _ => {}
    }
    if let Some(date) = element.attribute("if_modified_since") {
        add("If-Modified-Since", date)?;
    }
    if let Some(soap) = element.child("soap")? {
        soap.attributes(&["action"])?;
        add("SOAPAction", &format!("\"{}\"", soap.needed("action")?))?;
    }
    for header in element.elements().filter(|child| child.name() == "http_header") {
        headers.push(header_of(&header, filling.heads)?);
    }
    Ok(headers)
}

/// `<http_header>`.
fn header_of(header: &Element<'_, '_>, is_filled: bool) -> Result<(String, String)> {
    header.attributes(&["name", "value", "encoding"])?;
    header.children(&[])?;
    let value = header.attribute("value").unwrap_or_default();
    let value = match header.one_of("encoding", &["none", "base64"])? {
        "none" => filled_in(value, is_filled).map_err(|problem| header.error(problem))?,
        _ if value.contains("%%") && is_filled => {
            return Err(header.attribute_error("encoding", "cannot encode a variable"));
        }
        _ => base64::engine::general_purpose::STANDARD.encode(value),
    };
    Ok((header.needed("name")?.to_owned(), value))
}

/// Converts `%%_name%%` to `${name}`.
pub(super) fn filled_in(text: &str, is_filled_in: bool) -> std::result::Result<String, String> {
    let text = text.replace("${", "$${");
    if !is_filled_in {
        return Ok(text);
    }
    let mut out = String::new();
    let mut rest = text.as_str();
    while let Some((literal, after)) = rest.split_once("%%") {
        let (name, after) = after.split_once("%%").ok_or("a %% without a closing %%")?;
        out.push_str(literal);
        match name.strip_prefix('_') {
            Some(variable) => out.push_str(&format!("${{{variable}}}")),
            None if name == UNIQUE_ID => out.push_str(&format!("${{{UNIQUE_ID}}}")),
            None => {
                return Err(format!("%%{name}%% is not supported: it is a function of Erlang"));
            }
        }
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}
