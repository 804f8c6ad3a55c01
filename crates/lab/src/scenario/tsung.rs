//! Tsung's XML, for what users of websockets and HTTP write in it. What is not understood is
//! refused by name and line: a load that leaves something out would measure something else.

use std::fmt;
use std::time::Duration;

use roxmltree::{Document, Node, ParsingOptions};

use super::compile::Compiler;
use super::file::address_range;
use super::program::{Serializer, Think, ThinkTime, Wanted};
use super::text::{Draw, Variables};
use super::{Gates, Phase, Scenario, ScenarioError, Session, Spacing, Target};

/// Larger documents are refused.
const NODES_MAX: u32 = 1_000_000;
/// How long sessions may go on when no duration is given for the whole load.
const WIND_DOWN: Duration = Duration::from_secs(24 * 3600);
/// Tsung's own name for what is `${id}` here.
const UNIQUE_ID: &str = "ts_user_server:get_unique_id";

type Result<T> = std::result::Result<T, ScenarioError>;

pub(super) fn parse(name: &str, text: &str) -> Result<Scenario> {
    let options = ParsingOptions { allow_dtd: true, nodes_limit: NODES_MAX, ..Default::default() };
    let document = Document::parse_with_options(text, options);
    let document = document
        .map_err(|error| ScenarioError::new(name, error.pos().row as usize, "XML", &error))?;
    let root = Element { node: document.root_element(), file: name };
    if root.name() != "tsung" {
        return Err(root.error("is not <tsung>"));
    }
    root.attributes(&["loglevel", "version", "dumptraffic", "backend"])?;
    root.children(&["clients", "servers", "load", "options", "sessions"])?;
    read(&root)
}

fn read(root: &Element<'_, '_>) -> Result<Scenario> {
    let options = Options::read(root.child("options")?.as_ref())?;
    let clients = Clients::read(root.child("clients")?.as_ref())?;
    let servers = servers(&root.needed_child("servers")?)?;
    let load = root.needed_child("load")?;
    let (phases, wind_down) = phases(&load)?;
    let list = root.needed_child("sessions")?;
    let (sessions, steps, variables) = sessions(&list, &options)?;
    Ok(Scenario {
        seed: options.seed,
        targets: servers,
        sources: clients.sources,
        ports: options.ports,
        users_max: clients.users_max,
        step_timeout: options.step_timeout,
        wind_down,
        phases,
        gates: Gates::default(),
        is_timed: false,
        sessions,
        steps,
        variables,
    })
}

/// An element that knows where it is.
struct Element<'a, 'd> {
    node: Node<'a, 'd>,
    file: &'a str,
}

impl<'a, 'd> Element<'a, 'd> {
    fn name(&self) -> &'a str {
        self.node.tag_name().name()
    }

    fn error(&self, problem: impl fmt::Display) -> ScenarioError {
        self.error_at(&format!("<{}>", self.name()), problem)
    }

    fn wrong(&self, attribute: &str, problem: impl fmt::Display) -> ScenarioError {
        self.error_at(&format!("<{} {attribute}>", self.name()), problem)
    }

    fn error_at(&self, key: &str, problem: impl fmt::Display) -> ScenarioError {
        let position = self.node.document().text_pos_at(self.node.range().start);
        ScenarioError::new(self.file, position.row as usize, key, problem)
    }

    /// Nothing but these.
    fn attributes(&self, known: &[&str]) -> Result<()> {
        match self.node.attributes().find(|attribute| !known.contains(&attribute.name())) {
            Some(attribute) => {
                Err(self.wrong(attribute.name(), "this attribute is not understood"))
            }
            None => Ok(()),
        }
    }

    fn children(&self, known: &[&str]) -> Result<()> {
        match self.elements().find(|child| !known.contains(&child.name())) {
            Some(child) => Err(child.error("this element is not understood here")),
            None => Ok(()),
        }
    }

    fn elements(&self) -> impl Iterator<Item = Element<'a, 'd>> + use<'a, 'd> {
        let file = self.file;
        let elements = self.node.children().filter(Node::is_element);
        elements.map(move |node| Element { node, file })
    }

    fn child(&self, name: &str) -> Result<Option<Element<'a, 'd>>> {
        let mut found = self.elements().filter(|child| child.name() == name);
        let first = found.next();
        match found.next() {
            Some(second) => Err(second.error("there can be only one")),
            None => Ok(first),
        }
    }

    fn needed_child(&self, name: &str) -> Result<Element<'a, 'd>> {
        self.child(name)?.ok_or_else(|| self.error(format!("needs a <{name}>")))
    }

    fn attribute(&self, name: &str) -> Option<&'a str> {
        self.node.attribute(name)
    }

    fn needed(&self, name: &str) -> Result<&'a str> {
        self.attribute(name).ok_or_else(|| self.wrong(name, "is needed"))
    }

    /// One of a few values, the first when it is absent.
    fn one_of(&self, name: &str, known: &[&'static str]) -> Result<&'static str> {
        let Some(value) = self.attribute(name) else { return Ok(known[0]) };
        let found = known.iter().find(|known| **known == value).copied();
        found.ok_or_else(|| self.wrong(name, format!("{value:?} is none of {}", known.join(", "))))
    }

    fn number(&self, name: &str) -> Result<Option<f64>> {
        let Some(value) = self.attribute(name) else { return Ok(None) };
        match value.parse::<f64>() {
            Ok(number) if (0.0..=1e15).contains(&number) => Ok(Some(number)),
            _ => Err(self.wrong(name, format!("{value:?} is no number from 0 on"))),
        }
    }

    fn whole(&self, name: &str) -> Result<Option<u64>> {
        let Some(value) = self.attribute(name) else { return Ok(None) };
        let number = value.parse();
        number
            .map(Some)
            .map_err(|_| self.wrong(name, format!("{value:?} is no whole number from 0 on")))
    }

    fn seconds(&self, name: &str, unit: f64) -> Result<Option<Duration>> {
        let Some(number) = self.number(name)? else { return Ok(None) };
        let time = Duration::try_from_secs_f64(number * unit);
        match time {
            Ok(time) if time <= Duration::from_secs(366 * 24 * 3600) => Ok(Some(time)),
            _ => Err(self.wrong(name, "is longer than a year")),
        }
    }

    /// What `unit="…"` stands for, in seconds.
    fn unit(&self) -> Result<f64> {
        Ok(match self.one_of("unit", &["second", "minute", "hour", "day", "millisecond"])? {
            "minute" => 60.0,
            "hour" => 3600.0,
            "day" => 86_400.0,
            "millisecond" => 0.001,
            _ => 1.0,
        })
    }
}

struct Options {
    seed: u64,
    ports: (u16, u16),
    step_timeout: Duration,
    websocket_path: Option<String>,
}

impl Options {
    fn read(list: Option<&Element<'_, '_>>) -> Result<Options> {
        let mut options = Options {
            seed: 0,
            ports: (1024, 65_535),
            step_timeout: Duration::from_secs(600),
            websocket_path: None,
        };
        let Some(list) = list else { return Ok(options) };
        list.attributes(&[])?;
        list.children(&["option"])?;
        for option in list.elements() {
            options.read_one(&option)?;
        }
        Ok(options)
    }

    fn read_one(&mut self, option: &Element<'_, '_>) -> Result<()> {
        option.children(&[])?;
        let name = option.needed("name")?;
        if name == "ports_range" {
            option.attributes(&["name", "min", "max"])?;
            let bounds =
                (option.whole("min")?.unwrap_or(1024), option.whole("max")?.unwrap_or(65_535));
            let port = |port: u64| u16::try_from(port).ok().filter(|port| *port > 0);
            return match (port(bounds.0), port(bounds.1)) {
                (Some(min), Some(max)) if min <= max => {
                    self.ports = (min, max);
                    Ok(())
                }
                _ => Err(option.wrong("min", "goes from the lower to the higher port")),
            };
        }
        option.attributes(&["name", "value", "type"])?;
        match name {
            "seed" => self.seed = option.whole("value")?.unwrap_or(0),
            "global_ack_timeout" | "connect_timeout" => {
                let time = option.seconds("value", 0.001)?;
                self.step_timeout = time.unwrap_or(self.step_timeout).min(self.step_timeout);
            }
            "websocket_path" => self.websocket_path = Some(option.needed("value")?.to_owned()),
            // Of Tsung's own processes, which are not here.
            "hibernate" | "max_ssh_startup_per_core" => {}
            _ => return Err(option.wrong("name", format!("{name:?} is not understood"))),
        }
        Ok(())
    }
}

/// The machines that users came from; here they all come from this one.
struct Clients {
    users_max: u64,
    sources: Vec<std::net::IpAddr>,
}

impl Clients {
    fn read(list: Option<&Element<'_, '_>>) -> Result<Clients> {
        let mut clients = Clients { users_max: 0, sources: Vec::new() };
        let elements = list.map(|list| {
            list.attributes(&[])?;
            list.children(&["client"])?;
            Ok(list.elements())
        });
        for client in elements.transpose()?.into_iter().flatten() {
            client.attributes(&[
                "host",
                "weight",
                "maxusers",
                "cpu",
                "use_controller_vm",
                "type",
            ])?;
            client.one_of("type", &["machine"])?;
            client.children(&["ip", "iprange"])?;
            client.number("weight")?;
            // Tsung's default.
            let users_max = client.whole("maxusers")?.unwrap_or(800);
            clients.users_max = clients.users_max.saturating_add(users_max);
            for ip in client.elements() {
                clients.read_addresses(&ip)?;
            }
        }
        if clients.users_max == 0 {
            clients.users_max = u64::MAX;
        }
        Ok(clients)
    }

    fn read_addresses(&mut self, ip: &Element<'_, '_>) -> Result<()> {
        let value = if ip.name() == "ip" {
            ip.attributes(&["value", "scan"])?;
            ip.one_of("scan", &["false"])?;
            ip.needed("value")?.to_owned()
        } else {
            ip.attributes(&["v4", "version"])?;
            last_octet_range(ip.needed("v4")?)
        };
        let range = address_range(&value);
        let range = range.ok_or_else(|| ip.error(format!("{value:?} is no address")))?;
        self.sources.extend(range.take(65_536));
        if self.sources.len() > 65_536 {
            return Err(ip.error("more addresses than 65,536"));
        }
        Ok(())
    }
}

/// `10.0.0.1-20` in our words: `10.0.0.1-10.0.0.20`.
fn last_octet_range(text: &str) -> String {
    match (text.split_once('-'), text.rsplit_once('.')) {
        (Some((first, last)), Some((network, _))) if !last.contains('.') => {
            format!("{first}-{network}.{last}")
        }
        _ => text.to_owned(),
    }
}

fn servers(list: &Element<'_, '_>) -> Result<Vec<Target>> {
    list.attributes(&[])?;
    list.children(&["server"])?;
    let servers = list.elements().map(|server| {
        server.attributes(&["host", "port", "type", "weight"])?;
        server.children(&[])?;
        server.one_of("type", &["tcp"])?;
        let (host, port) = (server.needed("host")?, server.whole("port")?.unwrap_or(80));
        let weight = server.number("weight")?.unwrap_or(1.0);
        let url = format!("ws://{host}:{port}");
        Target::parse(&url, weight).map_err(|problem| server.error(problem))
    });
    servers.collect()
}

/// The arrival phases, and how long sessions may go on after them.
fn phases(load: &Element<'_, '_>) -> Result<(Vec<Phase>, Duration)> {
    load.attributes(&["duration", "unit"])?;
    load.children(&["arrivalphase"])?;
    let whole = load.seconds("duration", load.unit()?)?;
    let mut phases = Vec::new();
    let mut elements: Vec<_> = load.elements().collect();
    let order = |element: &Element<'_, '_>| element.whole("phase").ok().flatten();
    elements.sort_by_key(order);
    let mut spent = Duration::ZERO;
    for element in &elements {
        let mut phase = phase(element)?;
        // The whole load's duration ends phases that would go on.
        let left = whole.map_or(Duration::MAX, |whole| whole.saturating_sub(spent));
        phase.duration = phase.duration.min(left);
        spent += phase.duration;
        if !phase.duration.is_zero() {
            phases.push(phase);
        }
    }
    if phases.is_empty() {
        return Err(load.error("needs an <arrivalphase>"));
    }
    Ok((phases, whole.map_or(WIND_DOWN, |whole| whole.saturating_sub(spent))))
}

fn phase(element: &Element<'_, '_>) -> Result<Phase> {
    element.attributes(&["phase", "duration", "unit", "wait_all_sessions_end"])?;
    element.one_of("wait_all_sessions_end", &["false"])?;
    element.children(&["users"])?;
    let number = element.whole("phase")?;
    let number = number.ok_or_else(|| element.wrong("phase", "is needed"))?;
    let duration = element.seconds("duration", element.unit()?)?;
    let duration = duration.filter(|duration| *duration >= Duration::from_millis(1));
    let duration =
        duration.ok_or_else(|| element.wrong("duration", "must be a time above zero"))?;
    let users = element.needed_child("users")?;
    users.attributes(&["interarrival", "arrivalrate", "maxnumber", "unit"])?;
    users.children(&[])?;
    let unit = users.unit()?;
    let rate = match (users.number("interarrival")?, users.number("arrivalrate")?) {
        (Some(seconds), None) if seconds > 0.0 => 1.0 / (seconds * unit),
        (None, Some(rate)) => rate / unit,
        _ => return Err(users.error("needs either interarrival or arrivalrate")),
    };
    if rate > 10_000_000.0 {
        return Err(users.error("asks for more than ten million users a second"));
    }
    Ok(Phase {
        name: format!("phase {number}"),
        duration,
        rate,
        rate_end: rate,
        spacing: Spacing::Random,
        users_max: users.whole("maxnumber")?,
    })
}

type Sessions = (Vec<Session>, Vec<String>, Variables);

fn sessions(list: &Element<'_, '_>, options: &Options) -> Result<Sessions> {
    list.attributes(&[])?;
    list.children(&["session"])?;
    let variables = variables(list)?;
    let mut steps = Vec::new();
    let mut sessions = Vec::new();
    for session in list.elements() {
        session.attributes(&["name", "probability", "weight", "type"])?;
        session.one_of("type", &["ts_websocket", "ts_http"])?;
        let weight = match (session.number("probability")?, session.number("weight")?) {
            (Some(weight), None) | (None, Some(weight)) => weight,
            _ => return Err(session.error("needs either a probability or a weight")),
        };
        let mut compiler = Compiler::new(&mut steps, &variables);
        let mut reader = Reader { compiler: &mut compiler, options };
        reader.read_all(&session)?;
        let ops = compiler.finish();
        if ops.is_empty() {
            return Err(session.error("needs requests"));
        }
        sessions.push(Session { weight, ops });
    }
    if sessions.iter().all(|session| session.weight == 0.0) {
        return Err(list.error("needs a <session> with a probability"));
    }
    Ok((sessions, steps, variables))
}

/// All `<setdynvars>`, wherever they are.
fn variables(list: &Element<'_, '_>) -> Result<Variables> {
    let mut variables = Variables::default();
    let elements = list.node.descendants().filter(|node| node.has_tag_name("setdynvars"));
    for node in elements {
        let element = Element { node, file: list.file };
        element.attributes(&["sourcetype", "length", "start", "end"])?;
        element.children(&["var"])?;
        let draw = match element.one_of("sourcetype", &["", "random_string", "random_number"])? {
            "random_string" => match element.whole("length")? {
                Some(length @ ..=1_000_000) => Draw::Letters(length as usize),
                _ => return Err(element.wrong("length", "is needed, a million at most")),
            },
            "random_number" => match (element.whole("start")?, element.whole("end")?) {
                (Some(min), Some(max)) if min <= max => Draw::Number { min, max },
                _ => return Err(element.wrong("start", "and end are needed, in order")),
            },
            _ => return Err(element.wrong("sourcetype", "is needed")),
        };
        for var in element.elements() {
            var.attributes(&["name"])?;
            variables.drawn.push((var.needed("name")?.to_owned(), draw.clone()));
        }
    }
    Ok(variables)
}

struct Reader<'r, 'v> {
    compiler: &'r mut Compiler<'v>,
    options: &'r Options,
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
            // Read before.
            "setdynvars" => Ok(()),
            _ => Err(element.error("this element is not understood here")),
        }
    }

    fn repeat(&mut self, element: &Element<'_, '_>) -> Result<()> {
        element.attributes(&["var", "from", "to", "incr"])?;
        let from = element.whole("from")?.unwrap_or(1);
        let to = element.whole("to")?.ok_or_else(|| element.wrong("to", "is needed"))?;
        let step = element.whole("incr")?.unwrap_or(1);
        let times = to.checked_sub(from).and_then(|span| Some(span.checked_div(step)? + 1));
        let times = times.and_then(|times| u32::try_from(times).ok());
        let times = times.ok_or_else(|| element.error("counts to nothing, or too far"))?;
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
        let think = Think { time, is_after_answer: false };
        self.compiler.think(think).map_err(|problem| element.error(problem))
    }

    fn request(&mut self, element: &Element<'_, '_>) -> Result<()> {
        element.attributes(&["subst"])?;
        element.children(&["websocket", "http"])?;
        let is_filled_in = element.one_of("subst", &["false", "true"])? == "true";
        let mut inner = element.elements();
        let (Some(what), None) = (inner.next(), inner.next()) else {
            return Err(element.error("needs one <websocket> or <http>"));
        };
        let fill =
            |text: &str| filled_in(text, is_filled_in).map_err(|problem| what.error(problem));
        if what.name() == "http" { self.http(&what, fill) } else { self.websocket(&what, fill) }
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
                let path = fill(path.ok_or_else(|| element.wrong("path", "is needed"))?)?;
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
                self.compiler.send(Some("message"), &fill(&text)?, is_binary, wanted)
            }
            "close" => {
                element.attributes(&["type"])?;
                self.compiler.disconnect(Some("close"))
            }
            _ => return Err(element.wrong("type", "is needed")),
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
            request.headers = self.compiler.headers(&headers)?;
            request.body = self.compiler.text(&body)?;
            // Tsung counts statuses, and calls none an error.
            request.is_any_status_taken = true;
            self.compiler.http(request)
        };
        compile().map_err(|problem| element.error(problem))
    }
}

fn text_of<'a>(node: Node<'a, '_>) -> Option<&'a str> {
    if node.is_text() { node.text() } else { None }
}

/// Tsung's `%%name%%` in our words.
fn filled_in(text: &str, is_filled_in: bool) -> std::result::Result<String, String> {
    let text = text.replace("${", "$${");
    if !is_filled_in {
        return Ok(text);
    }
    let mut out = String::new();
    let mut rest = text.as_str();
    while let Some((literal, after)) = rest.split_once("%%") {
        let (name, after) = after.split_once("%%").ok_or("a %% without its other half")?;
        out.push_str(literal);
        match name.strip_prefix('_') {
            Some(variable) => out.push_str(&format!("${{{variable}}}")),
            None if name == UNIQUE_ID => out.push_str("${id}"),
            None => return Err(format!("%%{name}%% is not understood")),
        }
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"<?xml version="1.0"?>
<!DOCTYPE tsung SYSTEM "/usr/share/tsung/tsung-1.0.dtd">
<tsung loglevel="notice" version="1.0">
  <clients>
    <client host="localhost" use_controller_vm="true" maxusers="64000" weight="2">
      <ip value="127.0.1.1"/>
      <iprange v4="127.0.2.1-3"/>
    </client>
    <client host="other" maxusers="36000"/>
  </clients>
  <servers>
    <server host="127.0.0.1" port="4000" type="tcp"/>
  </servers>
  <load duration="10" unit="minute">
    <arrivalphase phase="2" duration="1" unit="minute">
      <users interarrival="0.5" unit="second"/>
    </arrivalphase>
    <arrivalphase phase="1" duration="100" unit="second">
      <users maxnumber="100000" arrivalrate="1000" unit="second"/>
    </arrivalphase>
  </load>
  <options>
    <option name="ports_range" min="1025" max="65535"/>
  </options>
  <sessions>
    <session name="lobby" probability="100" type="ts_websocket">
      <setdynvars sourcetype="random_number" start="1" end="9"><var name="room"/></setdynvars>
      <request><websocket type="connect" path="/socket/websocket" origin="http://x"/></request>
      <request subst="true">
        <websocket type="message" ack="no_ack" frame="text">{"user": %%ts_user_server:get_unique_id%%}</websocket>
      </request>
      <for var="i" from="1" to="3"><thinktime value="30"/></for>
      <request subst="true"><websocket type="message">${x} %%_room%%</websocket></request>
      <request><websocket type="close"/></request>
      <request><http url="/" method="GET" version="1.1"/></request>
    </session>
  </sessions>
</tsung>"#;

    #[test]
    fn what_users_of_websockets_write_is_read() {
        let scenario = Scenario::parse("good.xml", GOOD).unwrap();
        assert_eq!((scenario.users_max, scenario.sources.len()), (100_000, 4));
        assert_eq!(scenario.ports, (1025, 65_535));
        assert_eq!(scenario.phases[0].users_max, Some(100_000));
        assert_eq!((scenario.phases[0].rate, scenario.phases[1].rate), (1000.0, 2.0));
        assert_eq!(scenario.wind_down, Duration::from_secs(600 - 160));
        assert_eq!(scenario.steps, ["connect", "message", "close", "GET /"]);
        assert_eq!(scenario.sessions[0].ops.len(), 8);
    }

    #[test]
    fn what_is_not_understood_is_named_and_refused() {
        let cases: &[(&str, &str, usize, &str, &str)] = &[
            ("maxusers=\"64000\"", "maxuser=\"64000\"", 5, "<client maxuser>", "not understood"),
            ("type=\"tcp\"", "type=\"ssl\"", 12, "<server type>", "none of tcp"),
            ("<ip value=\"127.0.1.1\"/>", "<ip value=\"nowhere\"/>", 6, "<ip>", "no address"),
            ("arrivalrate=\"1000\"", "arrivalrate=\"-1\"", 19, "<users arrivalrate>", "no number"),
            ("arrivalrate=\"1000\"", "", 19, "<users>", "either"),
            ("unit=\"minute\"", "unit=\"fortnight\"", 14, "<load unit>", "none of"),
            ("ports_range\"", "tcp_snd_buffer\" value=\"1\"", 23, "<option min>", "not understood"),
            (
                "<option name=\"ports_range\" min=\"1025\" max=\"65535\"/>",
                "<option name=\"x\"/>",
                23,
                "<option name>",
                "\"x\" is not understood",
            ),
            ("<thinktime value=\"30\"/>", "<foreach/>", 32, "<foreach>", "not understood"),
            (
                "<thinktime value=\"30\"/>",
                "<thinktime value=\"soon\"/>",
                32,
                "<thinktime value>",
                "no number",
            ),
            ("get_unique_id", "get_unique", 30, "<websocket>", "%%ts_user_server:get_unique%%"),
            ("%%_room%%", "%%_rom%%", 33, "<websocket>", "unknown variable ${rom}"),
            ("type=\"close\"", "type=\"ping\"", 34, "<websocket type>", "none of"),
            ("frame=\"text\"", "frame=\"fat\"", 30, "<websocket frame>", "none of"),
            (
                "<http url=\"/\"",
                "<http if_modified_since=\"x\" url=\"/\"",
                35,
                "<http if_modified_since>",
                "not understood",
            ),
            ("type=\"ts_websocket\"", "type=\"ts_jabber\"", 26, "<session type>", "none of"),
            ("<request><http", "<request><match/><http", 35, "<match>", "not understood"),
            ("</sessions>", "", 38, "XML", "expected"),
            ("<sessions>", "<transaction/><sessions>", 25, "<transaction>", "not understood"),
        ];
        for (old, new, line, key, problem) in cases {
            let text = GOOD.replacen(old, new, 1);
            assert_ne!(text, GOOD, "{old} is there");
            let error = Scenario::parse("bad.xml", &text).expect_err(new);
            let said = error.to_string();
            assert!(said.contains(problem), "{new}: {said}");
            assert_eq!((error.line(), error.key()), (*line, *key), "{new}: {said}");
        }
    }

    #[test]
    fn entities_that_blow_up_are_refused() {
        let mut text = String::from("<!DOCTYPE tsung [<!ENTITY e0 'x'>");
        for level in 1..30 {
            let inner = format!("&e{};", level - 1).repeat(20);
            text.push_str(&format!("<!ENTITY e{level} '{inner}'>"));
        }
        text.push_str("]><tsung>&e29;</tsung>");
        assert_eq!(Scenario::parse("bomb.xml", &text).unwrap_err().key(), "XML");
    }
}
