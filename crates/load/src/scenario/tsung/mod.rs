//! The XML format of Tsung, as far as websockets and HTTP need it. Unknown elements are rejected
//! with name and line: ignoring one would measure a different load.

mod clients;
mod element;
mod load;
mod options;
mod sessions;

use roxmltree::{Document, ParsingOptions};

use super::{Audiences, Scenario, ScenarioError, Thresholds};

use clients::Clients;
use element::Element;
use load::{phases, servers};
use options::Options;
use sessions::sessions;

/// Larger documents are rejected.
const NODES_MAX: u32 = 1_000_000;

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
        thresholds: Thresholds::default(),
        is_timed: false,
        audiences: Audiences::default(),
        sessions,
        steps,
        variables,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::scenario::assert_errors;

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
        assert_eq!((scenario.users_max, scenario.sources.len()), (100_000, 4));
        assert_eq!(scenario.ports, (1025, 65_535));
        assert_eq!(scenario.phases[0].users_max, Some(100_000));
        assert_eq!((scenario.phases[0].rate, scenario.phases[1].rate), (1000.0, 2.0));
        assert_eq!(scenario.wind_down, Duration::from_secs(600 - 160));
        assert_eq!(scenario.steps, ["connect", "message", "close", "GET /"]);
        assert_eq!(scenario.sessions[0].ops.len(), 9);
    }

    #[test]
    fn unknown_elements_are_rejected_by_name() {
        let rows = r#"
maxusers="64000" | maxuser="64000" | 5 | <client maxuser> | not supported
type="tcp" | type="ssl" | 12 | <server type> | not one of tcp
<ip value="127.0.1.1"/> | <ip value="nowhere"/> | 6 | <ip> | invalid address
arrivalrate="1000" | arrivalrate="-1" | 19 | <users arrivalrate> | invalid number
arrivalrate="1000" |  | 19 | <users> | either
unit="minute" | unit="fortnight" | 14 | <load unit> | not one of
ports_range" | tcp_snd_buffer" value="1" | 23 | <option min> | not supported
min="1025" | min="0" | 23 | <option min> | the lower port
<option name="ports_range" min="1025" max="65535"/> | <option name="x"/> | 23 | <option name> | "x" is not supported
<thinktime value="30"/> | <foreach/> | 32 | <foreach> | not supported
<thinktime value="30"/> | <thinktime value="soon"/> | 32 | <thinktime value> | invalid number
get_unique_id | get_unique | 30 | <websocket> | %%ts_user_server:get_unique%%
%%_room%% | %%_rom%% | 33 | <websocket> | unknown variable ${rom}
type="close" | type="ping" | 34 | <websocket type> | not one of
frame="text" | frame="fat" | 30 | <websocket frame> | not one of
<http url="/" | <http if_modified_since="x" url="/" | 35 | <http if_modified_since> | not supported
type="ts_websocket" | type="ts_jabber" | 26 | <session type> | not one of
<request><http | <request><match/><http | 35 | <match> | not supported
</sessions> |  | 38 | XML | expected
<sessions> | <transaction/><sessions> | 25 | <transaction> | not supported
"#;
        assert_errors("bad.xml", GOOD, rows);
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
