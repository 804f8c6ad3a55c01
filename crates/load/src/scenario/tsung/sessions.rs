//! `<sessions>`: the order of steps, loops, conditions and variables.

use roxmltree::Node;

use super::Result;
use super::element::Element;
use super::options::{Options, rate};
use super::parts::{Parts, server_url};
use crate::scenario::Session;
use crate::scenario::compile::Compiler;
use crate::scenario::pattern::Pattern;
use crate::scenario::program::{
    ChangeProtocol, Condition, Each, Relation, SetTo, Think, ThinkTime,
};
use crate::scenario::rows::Columns;
use crate::scenario::text::{Draw, Place, Slots, UNIQUE_ID, Variables};
use crate::scenario::value::JsonPath;

/// The sources of the values of `<setdynvars>`, each with its attributes.
const SOURCES: [(&str, &[&str]); 9] = [
    ("random_string", &["length"]),
    ("urandom_string", &["length"]),
    ("random_number", &["start", "end"]),
    ("file", &["fileid", "order", "delimiter"]),
    ("value", &["value"]),
    ("server", &[]),
    ("jsonpath", &["from", "jsonpath"]),
    ("erlang", &["callback"]),
    ("eval", &["code"]),
];

/// The protocols of a session, in the order of their indices.
const PROTOCOLS: [&str; 2] = ["ts_http", "ts_websocket"];

/// The names of all sessions, in order.
pub(super) fn names<'a>(list: &Element<'a, '_>) -> Vec<&'a str> {
    list.elements().map(|session| session.attribute("name").unwrap_or_default()).collect()
}

/// The sessions, and the names of their steps.
pub(super) fn sessions(
    list: &Element<'_, '_>,
    options: &Options,
    parts: &mut Parts<'_>,
) -> Result<(Vec<Session>, Vec<String>)> {
    list.attributes(&[])?;
    list.children(&["session"])?;
    parts.variables = variables(list)?;
    let variables = parts.variables.clone();
    let mut steps = Vec::new();
    let mut sessions = Vec::new();
    // The variables in the order of the document, in which the sessions are read too.
    let mut drawn = 0;
    for session in list.elements() {
        session.attributes(&["name", "probability", "weight", "type", "persistent", "bidi"])?;
        let protocol = protocol(&session, "type")?;
        if session.one_of("persistent", &["true", "false"])? == "false" {
            parts.note(&session, "persistent=\"false\" is ignored: users reconnect when needed");
        }
        let weight = match (session.number("probability")?, session.number("weight")?) {
            (Some(weight), None) | (None, Some(weight)) => weight,
            _ => return Err(session.error("needs either a probability or a weight")),
        };
        let slots = slots(&session);
        let mut compiler = Compiler::new(&mut steps, &variables, slots);
        let mut reader = Reader {
            compiler: &mut compiler,
            options,
            parts,
            drawn: &mut drawn,
            protocol,
            names_a_server: false,
            hidden: 0,
        };
        reader.read_all(&session)?;
        // A session without steps is for users that do nothing, so that others are a share of all.
        sessions.push(compiler.finish(weight, true));
    }
    Ok((sessions, steps))
}

/// The index of a protocol.
fn protocol(element: &Element<'_, '_>, attribute: &str) -> Result<u8> {
    let name = element.needed(attribute)?;
    let index = PROTOCOLS.iter().position(|known| *known == name);
    let index = index.ok_or_else(|| {
        let known = PROTOCOLS.join(", ");
        element.attribute_error(attribute, format!("{name:?} is not one of {known}"))
    })?;
    Ok(index as u8)
}

/// The random variables of all `<setdynvars>` in the document.
fn variables(list: &Element<'_, '_>) -> Result<Variables> {
    let mut variables = Variables::default();
    let elements = list.node.descendants().filter(|node| node.has_tag_name("setdynvars"));
    for node in elements {
        let element = Element { node, file: list.file };
        let draw = match element.attribute("sourcetype") {
            Some("random_string" | "urandom_string") => {
                let draw = Draw::letters(element.whole("length")?.unwrap_or(20));
                draw.ok_or(("length", "must be at most 1,000,000"))
            }
            Some("random_number") => {
                let (min, max) = (element.whole("start")?, element.whole("end")?);
                let draw = Draw::number(min.unwrap_or(1), max.unwrap_or(10));
                draw.ok_or(("start", "start and end must be in order"))
            }
            _ => continue,
        };
        let draw = draw.map_err(|(key, problem)| element.attribute_error(key, problem))?;
        for var in element.elements() {
            variables.drawn.push((var.needed("name")?.to_owned(), draw.clone()));
        }
    }
    Ok(variables)
}

/// The variables that a session sets. Each belongs to this session only.
fn slots(session: &Element<'_, '_>) -> Slots {
    let mut slots = Slots { names: Vec::new(), is_tsung: true };
    let mut hidden = 0;
    for node in session.node.descendants().filter(Node::is_element) {
        let name = match node.tag_name().name() {
            "var" | "dyn_variable" | "repeat" => node.attribute("name"),
            "foreach" => {
                let name = node.attribute("name");
                name.into_iter().for_each(|name| slots.add(&format!("{name}_iter")));
                name
            }
            "for" => match node.attribute("var") {
                None => {
                    slots.add(&hidden_name(hidden));
                    hidden += 1;
                    None
                }
                name => name,
            },
            _ => None,
        };
        name.into_iter().for_each(|name| slots.add(name.trim()));
    }
    slots
}

/// The name of a loop's variable that the file does not name. No text can contain it.
fn hidden_name(number: usize) -> String {
    format!(" for {number}")
}

pub(super) struct Reader<'r, 'v, 'f> {
    pub(super) compiler: &'r mut Compiler<'v>,
    pub(super) options: &'r Options,
    pub(super) parts: &'r mut Parts<'f>,
    /// The index of the next random variable of the document.
    drawn: &'r mut usize,
    /// The index of the current protocol.
    protocol: u8,
    /// Whether an element before this one has named a server.
    pub(super) names_a_server: bool,
    /// The number of loops so far that name no variable.
    hidden: usize,
}

impl Reader<'_, '_, '_> {
    fn read_all(&mut self, parent: &Element<'_, '_>) -> Result<()> {
        parent.elements().try_for_each(|element| self.read(&element))
    }

    fn read(&mut self, element: &Element<'_, '_>) -> Result<()> {
        match element.name() {
            "request" => self.request(element),
            "thinktime" => self.think(element),
            "for" => self.count(element),
            "repeat" => self.repeat(element),
            "foreach" => self.each(element),
            "if" => self.condition(element),
            "setdynvars" => self.set(element),
            "transaction" => self.transaction(element),
            "change_type" => self.change_protocol(element),
            "set_option" => self.set_option(element),
            "abort" => {
                element.attributes(&["type"])?;
                element.children(&[])?;
                let is_whole_load = element.one_of("type", &["session", "all"])? == "all";
                self.compiler.abort(is_whole_load).map_err(|problem| element.error(problem))
            }
            "interaction" => {
                element.attributes(&["action", "id"])?;
                element.children(&[])?;
                self.parts.note(element, "is ignored: it only measures; use a <transaction>");
                Ok(())
            }
            _ => Err(element.error("this element is not supported here")),
        }
    }

    fn slot(&self, element: &Element<'_, '_>, attribute: &str) -> Result<usize> {
        let name = element.needed(attribute)?;
        self.compiler.slot(name).map_err(|problem| element.attribute_error(attribute, problem))
    }

    /// Sets variables at this place of the session, again in each turn of a loop.
    fn set(&mut self, element: &Element<'_, '_>) -> Result<()> {
        element.children(&["var"])?;
        let mut slots = Vec::new();
        for var in element.elements() {
            var.attributes(&["name"])?;
            slots.push(self.slot(&var, "name")?);
        }
        let source = element.needed("sourcetype")?;
        let Some((_, known)) = SOURCES.iter().find(|(known, _)| *known == source) else {
            let known = SOURCES.map(|(known, _)| known).join(", ");
            let problem = format!("{source:?} is not one of {known}");
            return Err(element.attribute_error("sourcetype", problem));
        };
        element.attributes(&[&["sourcetype"], *known].concat())?;
        let to = self.source_of_set(element, source, slots.len())?;
        self.compiler.set(slots, to).map_err(|problem| element.error(problem))
    }

    /// The source of the values; `variables` is the number of variables that get one.
    fn source_of_set(
        &mut self,
        element: &Element<'_, '_>,
        source: &str,
        variables: usize,
    ) -> Result<SetTo> {
        Ok(match source {
            "file" => SetTo::Row(self.columns(element)?),
            "value" => {
                let text =
                    super::requests::filled_in(element.attribute("value").unwrap_or(""), false);
                let text = text.and_then(|text| self.compiler.text(&text, Place::Plain));
                SetTo::Text(text.map_err(|problem| element.error(problem))?)
            }
            "server" => SetTo::Server,
            "jsonpath" => {
                let path = JsonPath::parse(element.needed("jsonpath")?);
                let path = path.map_err(|problem| element.attribute_error("jsonpath", problem))?;
                SetTo::Json { from: self.slot(element, "from")?, path }
            }
            "eval" => {
                let unsupported = || {
                    let problem = "\"eval\" runs Erlang code, which is not supported";
                    element.attribute_error("sourcetype", problem)
                };
                let name = encoded_variable(element.needed("code")?).ok_or_else(unsupported)?;
                let text = self.compiler.text(&format!("${{{name}}}"), Place::Form);
                SetTo::Text(text.map_err(|problem| element.attribute_error("code", problem))?)
            }
            "erlang" if element.needed("callback")? == UNIQUE_ID => {
                let text = self.compiler.text(&format!("${{{UNIQUE_ID}}}"), Place::Plain);
                SetTo::Text(text.map_err(|problem| element.error(problem))?)
            }
            "erlang" => {
                let problem = format!("is a function of Erlang; only {UNIQUE_ID} is supported");
                return Err(element.attribute_error("callback", problem));
            }
            _ => {
                let first = *self.drawn as u32;
                *self.drawn += variables;
                SetTo::Drawn(first)
            }
        })
    }

    fn columns(&self, element: &Element<'_, '_>) -> Result<Columns> {
        let id = element.attribute("fileid").unwrap_or("default");
        let file = self.options.files.iter().rposition(|known| known == id);
        let file = file.ok_or_else(|| {
            element.attribute_error("fileid", format!("no option file_server has the id {id:?}"))
        })?;
        let delimiter = element.attribute("delimiter").unwrap_or(";").to_owned();
        if delimiter.is_empty() {
            return Err(element.attribute_error("delimiter", "must not be empty"));
        }
        let is_random = element.one_of("order", &["iter", "random"])? == "random";
        Ok(Columns { file, delimiter, is_random, may_be_quoted: false })
    }

    fn count(&mut self, element: &Element<'_, '_>) -> Result<()> {
        element.attributes(&["var", "from", "to", "incr"])?;
        let slot = match element.attribute("var") {
            Some(_) => self.slot(element, "var")?,
            None => {
                self.hidden += 1;
                let slot = self.compiler.slot(&hidden_name(self.hidden - 1));
                slot.map_err(|problem| element.error(problem))?
            }
        };
        let bound = |reader: &Self, attribute: &str, text: &str| {
            let is_variable = text.starts_with("%%_");
            if !is_variable && text.parse::<i64>().is_err() {
                let problem = format!("invalid whole number {text:?}");
                return Err(element.attribute_error(attribute, problem));
            }
            let text = super::requests::filled_in(text, true);
            let text = text.and_then(|text| reader.compiler.text(&text, Place::Plain));
            text.map_err(|problem| element.attribute_error(attribute, problem))
        };
        let first = bound(self, "from", element.attribute("from").unwrap_or("1"))?;
        let last = bound(self, "to", element.needed("to")?)?;
        let step = element.whole("incr")?.unwrap_or(1);
        let step = i64::try_from(step).ok().filter(|step| *step > 0);
        let step = step.ok_or_else(|| element.attribute_error("incr", "must be at least 1"))?;
        let error = |problem| element.error(problem);
        self.compiler.count_begin(slot, SetTo::Text(first)).map_err(error)?;
        self.read_all(element)?;
        self.compiler.count_end(slot, last, step).map_err(error)
    }

    fn repeat(&mut self, element: &Element<'_, '_>) -> Result<()> {
        element.attributes(&["name", "max_repeat"])?;
        let slot = self.slot(element, "name")?;
        let max = u32::try_from(element.whole("max_repeat")?.unwrap_or(20)).unwrap_or(u32::MAX);
        let mut steps: Vec<_> = element.elements().collect();
        let end = steps.pop().filter(|end| ["while", "until"].contains(&end.name()));
        let end = end.ok_or_else(|| element.error("must end with a <while> or an <until>"))?;
        self.compiler.repeat_begin().map_err(|problem| element.error(problem))?;
        steps.iter().try_for_each(|step| self.read(step))?;
        let condition = self.comparison(&end, end.name() == "until")?;
        self.compiler.repeat_end(slot, condition, max).map_err(|problem| element.error(problem))
    }

    fn each(&mut self, element: &Element<'_, '_>) -> Result<()> {
        element.attributes(&["name", "in", "include", "exclude"])?;
        let filter = ["include", "exclude"].into_iter().find_map(|attribute| {
            let pattern = element.attribute(attribute).filter(|pattern| !pattern.is_empty())?;
            let pattern = Pattern::parse(pattern);
            let pattern = pattern.map_err(|problem| element.attribute_error(attribute, problem));
            Some(pattern.map(|pattern| (pattern, attribute == "include")))
        });
        let number = format!("{}_iter", element.needed("name")?);
        let each = Each {
            list: self.slot(element, "in")?,
            element: self.slot(element, "name")?,
            number: self.compiler.slot(&number).map_err(|problem| element.error(problem))?,
            filter: filter.transpose()?,
        };
        self.compiler.each_begin(each.clone()).map_err(|problem| element.error(problem))?;
        self.read_all(element)?;
        self.compiler.each_end(each).map_err(|problem| element.error(problem))
    }

    fn condition(&mut self, element: &Element<'_, '_>) -> Result<()> {
        let condition = self.comparison(element, false)?;
        self.compiler.if_begin(condition).map_err(|problem| element.error(problem))?;
        self.read_all(element)?;
        self.compiler.if_end().map_err(|problem| element.error(problem))
    }

    /// The comparison of `<if>`, `<while>` and `<until>`.
    fn comparison(&self, element: &Element<'_, '_>, is_negated: bool) -> Result<Condition> {
        let relations = [
            ("eq", Relation::Equal),
            ("neq", Relation::Unequal),
            ("gt", Relation::Greater),
            ("gte", Relation::GreaterOrEqual),
            ("lt", Relation::Less),
            ("lte", Relation::LessOrEqual),
        ];
        element.attributes(&["var", "eq", "neq", "gt", "gte", "lt", "lte"])?;
        let mut named = relations.into_iter().filter_map(|(attribute, relation)| {
            Some((relation, element.attribute(attribute)?.to_owned()))
        });
        let (Some((relation, operand)), None) = (named.next(), named.next()) else {
            return Err(element.error("needs one of eq, neq, gt, gte, lt and lte"));
        };
        let name = element.needed("var")?;
        let error = |problem| element.attribute_error("var", problem);
        let (list, number) = match name.strip_suffix(']').and_then(|name| name.split_once('[')) {
            Some((list, number)) => {
                let number = number.parse().ok().filter(|number| *number > 0);
                let invalid = || error(format!("invalid element in {name:?}; the first one is 1"));
                (list, Some(number.ok_or_else(invalid)?))
            }
            None => (name, None),
        };
        let slot = self.compiler.slot(list).map_err(error)?;
        Ok(Condition { slot, element: number, relation, operand, is_negated })
    }

    /// A group of steps that is measured as a whole. It has the name of Tsung's statistics.
    fn transaction(&mut self, element: &Element<'_, '_>) -> Result<()> {
        element.attributes(&["name"])?;
        let name = format!("tr_{}", element.needed("name")?);
        self.compiler.group_begin().map_err(|problem| element.error(problem))?;
        self.read_all(element)?;
        self.compiler.group_end(&name).map_err(|problem| element.error(problem))
    }

    fn change_protocol(&mut self, element: &Element<'_, '_>) -> Result<()> {
        let known = ["new_type", "host", "port", "server_type", "store", "restore", "bidi"];
        element.attributes(&known)?;
        element.children(&[])?;
        let to = protocol(element, "new_type")?;
        let (host, port) = (element.needed("host")?, element.needed("port")?);
        if host.contains("%%") || port.contains("%%") {
            return Err(element.attribute_error("host", "must not come from a variable"));
        }
        let target = self.parts.target(&server_url(element, "server_type", host, port)?);
        let target = target.map_err(|problem| element.attribute_error("host", problem))?;
        let stores = element.one_of("store", &["false", "true"])? == "true";
        let restores = element.one_of("restore", &["false", "true"])? == "true";
        let change = ChangeProtocol { from: self.protocol, to, target, stores, restores };
        self.protocol = to;
        self.names_a_server = true;
        self.compiler.change_protocol(change).map_err(|problem| element.error(problem))
    }

    fn set_option(&mut self, element: &Element<'_, '_>) -> Result<()> {
        match element.needed("name")? {
            "rate_limit" => {
                element.attributes(&["name", "value", "max"])?;
                let rate = rate(element)?;
                self.compiler.limit_rate(rate).map_err(|problem| element.error(problem))
            }
            "connect_timeout" => {
                element.attributes(&["name", "value"])?;
                element.children(&[])?;
                self.parts.note(element, "connect_timeout is ignored within a session");
                Ok(())
            }
            name => Err(element.attribute_error("name", format!("{name:?} is not supported here"))),
        }
    }

    fn think(&mut self, element: &Element<'_, '_>) -> Result<()> {
        element.attributes(&["value", "min", "max", "random"])?;
        element.children(&[])?;
        let value = element.attribute("value").unwrap_or_default();
        let done = match value {
            "wait_global" => self.compiler.meet(),
            "wait_bidi" => self.compiler.listen(),
            _ => {
                let time = match value.strip_prefix("%%_").and_then(|name| name.strip_suffix("%%"))
                {
                    Some(name) => {
                        let slot = self.compiler.slot(name);
                        ThinkTime::Variable(
                            slot.map_err(|problem| element.attribute_error("value", problem))?,
                        )
                    }
                    None => self.think_time(element)?,
                };
                self.compiler.think(Think { time, is_after_reply: false })
            }
        };
        done.map_err(|problem| element.error(problem))
    }

    fn think_time(&self, element: &Element<'_, '_>) -> Result<ThinkTime> {
        let default = &self.options.think;
        if default.overrides {
            return Ok(default.time);
        }
        let is_random = match element.attribute("random") {
            Some(_) => element.one_of("random", &["false", "true"])? == "true",
            None => default.is_random,
        };
        let (value, min, max) = (
            element.seconds("value", 1.0)?,
            element.seconds("min", 1.0)?,
            element.seconds("max", 1.0)?,
        );
        match (value, min, max) {
            (Some(mean), None, None) if is_random => Ok(ThinkTime::Exponential(mean)),
            (Some(time), None, None) => Ok(ThinkTime::Fixed(time)),
            (None, Some(min), Some(max)) if min <= max => Ok(ThinkTime::Uniform(min, max)),
            (None, None, None) if element.attribute("random").is_some() => match is_random {
                true => Ok(ThinkTime::Exponential(default.mean)),
                false => Ok(ThinkTime::Fixed(default.mean)),
            },
            (None, None, None) => Ok(default.time),
            _ => Err(element.error("needs a value, or min and max in order")),
        }
    }
}

/// The variable that Erlang code encodes for a form. Of all code in the files of others this is by far the most common,
/// because a page has a token in its form, which may contain any character.
fn encoded_variable(code: &str) -> Option<String> {
    let code: String = code.chars().filter(|c| !c.is_whitespace()).collect();
    let rest = code.strip_prefix("fun({")?.split_once(',')?.1;
    let (list, rest) = rest.split_once("})->{ok,")?;
    let (value, rest) = rest.split_once("}=ts_dynvars:lookup(")?;
    let (name, rest) = rest.split_once(',')?;
    let is_whole =
        rest.strip_suffix('.').unwrap_or(rest) == format!("{list}),http_uri:encode({value})end");
    is_whole.then(|| name.to_owned())
}
