//! `<sessions>`.

use roxmltree::Node;

use super::Result;
use super::element::Element;
use super::options::Options;
use crate::scenario::Session;
use crate::scenario::compile::Compiler;
use crate::scenario::program::{Serializer, Think, ThinkTime, Wanted};
use crate::scenario::text::{Draw, Place, Slots, UNIQUE_ID, Variables};

type Sessions = (Vec<Session>, Vec<String>, Variables);

pub(super) fn sessions(list: &Element<'_, '_>, options: &Options) -> Result<Sessions> {
    list.attributes(&[])?;
    list.children(&["session"])?;
    let variables = variables(list)?;
    let mut steps = Vec::new();
    let mut sessions = Vec::new();
    // The variables in the order of the document, in which the sessions are read too.
    let mut drawn = 0;
    for session in list.elements() {
        session.attributes(&["name", "probability", "weight", "type"])?;
        session.one_of("type", &["ts_websocket", "ts_http"])?;
        let weight = match (session.number("probability")?, session.number("weight")?) {
            (Some(weight), None) | (None, Some(weight)) => weight,
            _ => return Err(session.error("needs either a probability or a weight")),
        };
        let mut compiler = Compiler::new(&mut steps, &variables, Some(slots(&session)));
        let mut reader = Reader { compiler: &mut compiler, options, drawn: &mut drawn };
        reader.read_all(&session)?;
        let compiled = compiler.finish(weight, true);
        sessions.push(compiled.ok_or_else(|| session.error("needs requests"))?);
    }
    if sessions.iter().all(|session| session.weight == 0.0) {
        return Err(list.error("needs a <session> with a probability"));
    }
    Ok((sessions, steps, variables))
}

/// The variables of all `<setdynvars>` in the document.
fn variables(list: &Element<'_, '_>) -> Result<Variables> {
    let mut variables = Variables::default();
    let elements = list.node.descendants().filter(|node| node.has_tag_name("setdynvars"));
    for node in elements {
        let element = Element { node, file: list.file };
        element.attributes(&["sourcetype", "length", "start", "end"])?;
        element.children(&["var"])?;
        let draw = match element.one_of("sourcetype", &["", "random_string", "random_number"])? {
            "random_string" => {
                let draw = element.whole("length")?.and_then(Draw::letters);
                draw.ok_or(("length", "is needed, at most 1,000,000"))
            }
            "random_number" => {
                let bounds = element.whole("start")?.zip(element.whole("end")?);
                let draw = bounds.and_then(|(min, max)| Draw::number(min, max));
                draw.ok_or(("start", "start and end are needed, in order"))
            }
            _ => Err(("sourcetype", "is needed")),
        };
        let draw = draw.map_err(|(key, problem)| element.attribute_error(key, problem))?;
        for var in element.elements() {
            var.attributes(&["name"])?;
            variables.drawn.push((var.needed("name")?.to_owned(), draw.clone()));
        }
    }
    Ok(variables)
}

/// The names that a session draws into. Each belongs to this session only.
fn slots(session: &Element<'_, '_>) -> Slots {
    let mut names: Vec<String> = Vec::new();
    let drawing = session.node.descendants().filter(|node| node.has_tag_name("setdynvars"));
    let vars = drawing.flat_map(|node| node.children()).filter(|node| node.has_tag_name("var"));
    for name in vars.filter_map(|var| var.attribute("name")) {
        if !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }
    Slots(names)
}

struct Reader<'r, 'v> {
    compiler: &'r mut Compiler<'v>,
    options: &'r Options,
    /// The index of the next variable of the document.
    drawn: &'r mut usize,
}

impl Reader<'_, '_> {
    fn read_all(&mut self, parent: &Element<'_, '_>) -> Result<()> {
        parent.elements().try_for_each(|element| self.read(&element))
    }

    fn read(&mut self, element: &Element<'_, '_>) -> Result<()> {
        match element.name() {
            "request" => self.request(element),
            "thinktime" => self.think(element),
            "for" => self.repeat(element),
            "setdynvars" => self.draw(element),
            _ => Err(element.error("this element is not supported here")),
        }
    }

    /// Draws at this place of the session, again in each turn of a loop.
    fn draw(&mut self, element: &Element<'_, '_>) -> Result<()> {
        for var in element.elements() {
            let drawn = *self.drawn;
            *self.drawn += 1;
            let done = self.compiler.draw(var.needed("name")?, drawn);
            done.map_err(|problem| element.error(problem))?;
        }
        Ok(())
    }

    fn repeat(&mut self, element: &Element<'_, '_>) -> Result<()> {
        element.attributes(&["var", "from", "to", "incr"])?;
        let from = element.whole("from")?.unwrap_or(1);
        let to = element.whole("to")?.ok_or_else(|| element.attribute_error("to", "is needed"))?;
        let step = element.whole("incr")?.unwrap_or(1);
        let times = to.checked_sub(from).and_then(|span| Some(span.checked_div(step)? + 1));
        let times = times.and_then(|times| u32::try_from(times).ok());
        let times = times.ok_or_else(|| {
            element.error("invalid range: it must count up, at most 4,294,967,295 times")
        })?;
        self.compiler.loop_begin().map_err(|problem| element.error(problem))?;
        self.read_all(element)?;
        self.compiler.loop_end(Some(times)).map_err(|problem| element.error(problem))
    }

    fn think(&mut self, element: &Element<'_, '_>) -> Result<()> {
        element.attributes(&["value", "min", "max", "random"])?;
        element.children(&[])?;
        let is_random = element.one_of("random", &["false", "true"])? == "true";
        let (value, min, max) = (
            element.seconds("value", 1.0)?,
            element.seconds("min", 1.0)?,
            element.seconds("max", 1.0)?,
        );
        let time = match (value, min, max) {
            (Some(mean), None, None) if is_random => ThinkTime::Exponential(mean),
            (Some(time), None, None) => ThinkTime::Fixed(time),
            (None, Some(min), Some(max)) if is_random && min <= max => ThinkTime::Uniform(min, max),
            _ => {
                let problem = "needs a value, or min and max in order with random=\"true\"";
                return Err(element.error(problem));
            }
        };
        let think = Think { time, is_after_reply: false };
        self.compiler.think(think).map_err(|problem| element.error(problem))
    }

    fn request(&mut self, element: &Element<'_, '_>) -> Result<()> {
        element.attributes(&["subst"])?;
        element.children(&["websocket", "http"])?;
        let is_filled_in = element.one_of("subst", &["false", "true"])? == "true";
        let mut children = element.elements();
        let (Some(inner), None) = (children.next(), children.next()) else {
            return Err(element.error("needs one <websocket> or <http>"));
        };
        let fill =
            |text: &str| filled_in(text, is_filled_in).map_err(|problem| inner.error(problem));
        if inner.name() == "http" { self.http(&inner, fill) } else { self.websocket(&inner, fill) }
    }

    fn websocket(
        &mut self,
        element: &Element<'_, '_>,
        fill: impl Fn(&str) -> Result<String>,
    ) -> Result<()> {
        let common = ["type", "path", "ack", "frame"];
        let only_connect = ["origin", "subprotocols"];
        element.children(&[])?;
        let done = match element.one_of("type", &["", "connect", "message", "close"])? {
            "connect" => {
                element.attributes(&[&common[..], &only_connect].concat())?;
                let mut headers = Vec::new();
                for (attribute, header) in
                    [("origin", "Origin"), ("subprotocols", "Sec-WebSocket-Protocol")]
                {
                    if let Some(value) = element.attribute(attribute) {
                        headers.push((header.to_owned(), fill(value)?));
                    }
                }
                let path = element.attribute("path").or(self.options.websocket_path.as_deref());
                let path = fill(path.ok_or_else(|| element.attribute_error("path", "is needed"))?)?;
                self.compiler.connect(None, &path, &headers, Serializer::Raw, None)
            }
            "message" => {
                element.attributes(&["type", "ack", "frame"])?;
                let wanted = match element.one_of("ack", &["parse", "no_ack"])? {
                    "parse" => Wanted::Any,
                    _ => Wanted::Nothing,
                };
                let is_binary = element.one_of("frame", &["binary", "text"])? == "binary";
                let text: String = element.node.descendants().filter_map(text_of).collect();
                self.compiler.send(Some("message"), &fill(&text)?, is_binary, wanted, false)
            }
            "close" => {
                element.attributes(&["type"])?;
                self.compiler.disconnect(Some("close"))
            }
            _ => return Err(element.attribute_error("type", "is needed")),
        };
        done.map_err(|problem| element.error(problem))
    }

    fn http(
        &mut self,
        element: &Element<'_, '_>,
        fill: impl Fn(&str) -> Result<String>,
    ) -> Result<()> {
        element.attributes(&["url", "method", "version", "contents", "content_type"])?;
        element.children(&["http_header"])?;
        element.one_of("version", &["1.1"])?;
        let method = element.attribute("method").unwrap_or("GET");
        let url = element.needed("url")?;
        let name = format!("{method} {url}");
        let mut headers = Vec::new();
        if let Some(kind) = element.attribute("content_type") {
            headers.push(("Content-Type".to_owned(), fill(kind)?));
        }
        for header in element.elements() {
            header.attributes(&["name", "value"])?;
            headers.push((header.needed("name")?.to_owned(), fill(header.needed("value")?)?));
        }
        let path = fill(url)?;
        let body = fill(element.attribute("contents").unwrap_or_default())?;
        let mut compile = || {
            let mut request = self.compiler.request(Some(&name), method, &path)?;
            self.compiler.set_headers(&mut request, &headers)?;
            request.body = self.compiler.text(&body, Place::Plain)?;
            // In Tsung no status is an error.
            request.accepts_any_status = true;
            self.compiler.http(request)
        };
        compile().map_err(|problem| element.error(problem))
    }
}

fn text_of<'a>(node: Node<'a, '_>) -> Option<&'a str> {
    if node.is_text() { node.text() } else { None }
}

/// Convert `%%name%%` to `${name}`.
fn filled_in(text: &str, is_filled_in: bool) -> std::result::Result<String, String> {
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
            None => return Err(format!("%%{name}%% is not supported")),
        }
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}
