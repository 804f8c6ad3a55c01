//! The XML format of Tsung, as far as websockets and HTTP need it. Unknown elements are rejected
//! with name and line: ignoring one would measure a different load. Known elements that change
//! nothing here are noted ([`Scenario::notes`]).

mod clients;
mod element;
mod included;
mod load;
mod options;
mod parts;
mod requests;
mod sessions;

use roxmltree::{Document, Node, ParsingOptions};

use super::text::Variables;
use super::{Audiences, Files, Scenario, ScenarioError, Thresholds};
use crate::tls::TlsSettings;

use clients::Clients;
use element::Element;
use included::include;
use load::{Load, servers};
use options::Options;
use parts::Parts;
use sessions::{names, sessions};

/// Larger documents are rejected.
const NODES_MAX: u32 = 1_000_000;

type Result<T> = std::result::Result<T, ScenarioError>;

pub(super) fn parse(name: &str, text: &str, files: &mut Files<'_>) -> Result<Scenario> {
    let whole = include(name, text, files);
    let (text, lines) = whole.map_err(|problem| ScenarioError::new(name, 1, "DOCTYPE", problem))?;
    let options = ParsingOptions { allow_dtd: true, nodes_limit: NODES_MAX, ..Default::default() };
    let document = Document::parse_with_options(&text, options).map_err(|error| {
        let (file, line) = lines.find(error.pos().row as usize);
        ScenarioError::new(file, line, "XML", &error)
    })?;
    let root = Element { node: document.root_element(), file: &lines };
    if root.name() != "tsung" {
        return Err(root.error("is not <tsung>"));
    }
    root.attributes(&["loglevel", "version", "dumptraffic", "backend"])?;
    root.children(&[
        "information",
        "clients",
        "servers",
        "monitoring",
        "load",
        "options",
        "sessions",
    ])?;
    read(&root, files)
}

fn read<'f>(root: &Element<'_, '_>, files: &'f mut Files<'f>) -> Result<Scenario> {
    let targets = servers(&root.needed_child("servers")?)?;
    let mut parts = Parts {
        files,
        servers: targets.len(),
        targets,
        rows: Vec::new(),
        variables: Variables::default(),
        notes: Vec::new(),
    };
    for ignored in ["monitoring", "information"] {
        if let Some(element) = root.child(ignored)? {
            parts.note(&element, "is ignored");
        }
    }
    let options = Options::read(root.child("options")?.as_ref(), &mut parts)?;
    let clients = Clients::read(root.child("clients")?.as_ref(), &mut parts)?;
    let list = root.needed_child("sessions")?;
    let (sessions, steps) = sessions(&list, &options, &mut parts)?;
    let load = Load::read(&root.needed_child("load")?, &names(&list))?;
    let is_weighed = load.phases.iter().any(|phase| phase.weights.is_none());
    if is_weighed && sessions.iter().all(|session| session.weight == 0.0) {
        return Err(list.error("needs a <session> with a probability"));
    }
    Ok(Scenario {
        seed: options.seed,
        targets: parts.targets,
        sources: clients.sources,
        ports: options.ports,
        users_max: clients.users_max,
        opening_max: u64::MAX,
        step_timeout: options.step_timeout,
        wind_down: load.wind_down,
        phases: load.phases,
        thresholds: Thresholds::default(),
        is_timed: false,
        recovered: None,
        audiences: Audiences::default(),
        sessions,
        steps,
        variables: parts.variables,
        rows: parts.rows,
        pages: Vec::new(),
        fixed_arrivals: load.fixed,
        user_agents: options.user_agents,
        meeting_size: options.meeting_size,
        rate: options.rate,
        // As in Tsung.
        tls: TlsSettings { is_verified: false, roots: None, resumes: options.resumes_tls },
        notes: parts.notes,
    })
}

/// The text of an element, without the space around it.
fn trimmed_text(element: &Element<'_, '_>) -> String {
    let texts = element.node.descendants().filter(Node::is_text).filter_map(|node| node.text());
    texts.collect::<String>().trim().to_owned()
}

/// Whether a name matches a pattern, in which `*` stands for any text.
fn wildcard(pattern: &str, name: &str) -> bool {
    let Some((begin, rest)) = pattern.split_once('*') else { return pattern == name };
    let (middle, end) = rest.rsplit_once('*').unwrap_or(("", rest));
    // The first place of a part leaves the most text for the parts after it.
    let after_middle = middle.split('*').try_fold(name.strip_prefix(begin), |name, part| {
        name?.split_once(part).map(|(_, after)| Some(after))
    });
    after_middle.flatten().is_some_and(|name| name.ends_with(end))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::scenario::{Op, Text, assert_errors};

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
    fn a_scenario_with_websockets_is_parsed() {
        let scenario = Scenario::parse("good.xml", GOOD).unwrap();
        assert_eq!((scenario.users_max, scenario.source_addresses().count()), (100_000, 4));
        assert_eq!(scenario.ports, (1025, 65_535));
        assert_eq!(scenario.phases[0].users_max, Some(100_000));
        assert_eq!((scenario.phases[0].rate, scenario.phases[1].rate), (1000.0, 2.0));
        assert_eq!(scenario.wind_down, Duration::from_secs(600 - 160));
        assert_eq!(scenario.steps, ["connect", "message", "close", "GET /"]);
        assert_eq!(scenario.sessions[0].ops.len(), 9);
    }

    #[test]
    fn a_body_may_be_no_text_and_a_session_may_be_empty() {
        let text = GOOD
            .replace("<server host=\"127", "<server host=\" 127")
            .replace("<http url=\"/\"", "<http contents_from_file=\"body.gz\" url=\"/\"")
            .replace(
                "</sessions>",
                "<session name='b' weight='3' type='ts_http'>\n</session></sessions>",
            )
            .replace(" probability=\"100\"", " weight=\"1\"");
        let body = vec![0x1f, 0x8b, 0xff, 0];
        let mut files = |_: &str| Ok(body.clone());
        let scenario = Scenario::parse_with("body.xml", &text, &mut files).unwrap();
        assert_eq!(scenario.targets[0].authority, "127.0.0.1:4000");
        assert_eq!((scenario.sessions[1].weight, scenario.sessions[1].ops.len()), (3.0, 0));
        let mut ops = scenario.sessions[0].ops.iter();
        let sent = ops.find_map(|op| match op {
            Op::Http(http) => Some(&http.body),
            _ => None,
        });
        assert_eq!(sent, Some(&Text::bytes(body.clone())));
        let text = text.replace("<options>", "<options><option name='file_server' value='rows'/>");
        let error = Scenario::parse_with("rows.xml", &text, &mut files).unwrap_err().to_string();
        assert!(error.contains("cannot read rows: it is not text in UTF-8"), "{error}");
    }

    #[test]
    fn code_that_encodes_a_variable_is_understood() {
        let code = "fun({Pid,DynVars})->\n {ok,Val}=ts_dynvars:lookup(room,DynVars),\n http_uri:encode(Val) end.";
        let parse = |code: &str| {
            let set =
                format!("<setdynvars sourcetype='eval' code='{code}'><var name='x'/></setdynvars>");
            Scenario::parse("eval.xml", &GOOD.replace("<thinktime value=\"30\"/>", &set))
        };
        assert!(parse(code).is_ok());
        for (old, new, problem) in [
            ("encode(Val)", "encode(Var)", "Erlang code"),
            ("http_uri:encode(Val)", "Val", "Erlang code"),
            ("room", "rom", "<setdynvars code>: unknown variable"),
        ] {
            let error = parse(&code.replace(old, new)).unwrap_err().to_string();
            assert!(error.contains(problem), "{error}");
        }
    }

    #[test]
    fn unknown_elements_are_rejected_by_name() {
        let rows = r#"
maxusers="64000" | maxuser="64000" | 5 | <client maxuser> | not supported
type="tcp" | type="udp" | 12 | <server type> | not one of tcp
<ip value="127.0.1.1"/> | <ip value="nowhere"/> | 6 | <ip> | invalid address
<clients> | <clients><client host="x"><iprange v4="10.0.0.0-10.0.255.255"/></client> | 6 | <ip> | more than 65,536
arrivalrate="1000" | arrivalrate="-1" | 19 | <users arrivalrate> | invalid number
arrivalrate="1000" |  | 19 | <users> | either
unit="minute" | unit="fortnight" | 14 | <load unit> | not one of
ports_range" | tcp_snd_buffer" value="1" | 23 | <option min> | not supported
min="1025" | min="0" | 23 | <option min> | the lower port
<option name="ports_range" min="1025" max="65535"/> | <option name="x"/> | 23 | <option name> | "x" is not supported
<thinktime value="30"/> | <wait/> | 32 | <wait> | not supported
<thinktime value="30"/> | <foreach name="x" in="y"/> | 32 | <foreach in> | unknown variable y
<thinktime value="30"/> | <if var="room" eq="1" neq="2"/> | 32 | <if> | needs one of
<thinktime value="30"/> | <if var="rom" eq="1"/> | 32 | <if var> | unknown variable rom
<thinktime value="30"/> | <if var="room[0]" eq="1"/> | 32 | <if var> | invalid element in "room[0]"
<thinktime value="30"/> | <if var="room[last]" eq="1"/> | 32 | <if var> | invalid element in "room[last]"
<thinktime value="30"/> | <repeat name="r"><thinktime/></repeat> | 32 | <repeat> | must end with
<thinktime value="30"/> | <change_type new_type="ts_ldap"/> | 32 | <change_type new_type> | not one of ts_http
<thinktime value="30"/> | <set_option name="certificate"/> | 32 | <set_option name> | not supported here
sourcetype="random_number" start="1" end="9" | sourcetype="eval" code="a" | 27 | <setdynvars sourcetype> | Erlang code
sourcetype="random_number" | sourcetype="erlang" callback="a:b" | 27 | <setdynvars start> | not supported
<request><http | <request><dyn_variable name="v" xpath="a"/><http | 35 | <dyn_variable> | unsupported XPath
<request><http | <request><match>(?=a)</match><http | 35 | <match> | invalid regular expression
<request><http | <request><match do="jump">a</match><http | 35 | <match do> | not one of continue
</arrivalphase>\n  </load> | <session_setup name="x" probability="1"/></arrivalphase>\n</load> | 20 | <session_setup name> | unknown session
</load> | <user session="x"/></load> | 21 | <user session> | unknown session
<options> | <options><option name="file_server" value="x.csv"/> | 22 | <option value> | cannot read x.csv
<thinktime value="30"/> | <thinktime value="soon"/> | 32 | <thinktime value> | invalid number
get_unique_id | get_unique | 30 | <websocket> | %%ts_user_server:get_unique%%
%%_room%% | %%_rom%% | 33 | <websocket> | unknown variable ${rom}
type="close" | type="ping" | 34 | <websocket type> | not one of
frame="text" | frame="fat" | 30 | <websocket frame> | not one of
<http url="/" | <http if_none_match="x" url="/" | 35 | <http if_none_match> | not supported
<http url="/" | <http contents_from_file="x" url="/" | 35 | <http contents_from_file> | cannot read x
<http url="/" | <http url="ftp:///" | 35 | <http> | invalid path
type="ts_websocket" | type="ts_jabber" | 26 | <session type> | not one of
</sessions> |  | 38 | XML | expected
<sessions> | <transaction/><sessions> | 25 | <transaction> | not supported
"#;
        assert_errors("bad.xml", GOOD, rows);
    }

    #[test]
    fn a_star_stands_for_any_text() {
        let all = ["a*", "*a", "*", "**", "a*a*a", "*é*", "é", "ab*ba"];
        let matching = |name| all.map(|pattern| u8::from(wildcard(pattern, name)));
        assert_eq!(matching("aéa"), [1, 1, 1, 1, 0, 1, 0, 0]);
        assert_eq!(matching("aba"), [1, 1, 1, 1, 0, 0, 0, 0]);
        assert_eq!(matching("aaa"), [1, 1, 1, 1, 1, 0, 0, 0]);
        assert_eq!(matching("é"), [0, 0, 1, 1, 0, 1, 1, 0]);
        assert!(!wildcard(&format!("{}b", "*a".repeat(30)), &"a".repeat(60)), "in a short time");
    }

    #[test]
    fn loops_and_conditions_can_be_nested_to_a_limit() {
        let nested = |levels| {
            let inner = "<thinktime value=\"1\"/>";
            let begin = "<if var=\"room\" eq=\"1\">".repeat(levels);
            let all = format!("{begin}{inner}{}", "</if>".repeat(levels));
            Scenario::parse("deep.xml", &GOOD.replace("<thinktime value=\"30\"/>", &all))
        };
        // One more level is the <for> around them.
        assert!(nested(63).is_ok());
        let error = nested(10_000).unwrap_err().to_string();
        assert!(error.contains("<if>: too many nested loops and conditions"), "{error}");
    }

    #[test]
    fn entities_that_expand_too_far_are_rejected() {
        let mut text = String::from("<!DOCTYPE tsung [<!ENTITY e0 'x'>");
        for level in 1..30 {
            let inner = format!("&e{};", level - 1).repeat(20);
            text.push_str(&format!("<!ENTITY e{level} '{inner}'>"));
        }
        text.push_str("]><tsung>&e29;</tsung>");
        assert_eq!(Scenario::parse("bomb.xml", &text).unwrap_err().key(), "XML");
    }
}
