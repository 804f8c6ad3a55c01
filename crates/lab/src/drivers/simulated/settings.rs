//! Settings of peers in the simulator: those of the programs that it has a model of, and some that only a model has.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use watchfire_report::units::{parse_byte_rate, parse_bytes, parse_duration};
use watchfire_sim::{Attack, Processors};

use crate::definition::{Implementation, Peer};
use crate::drivers::driver::{check_settings, choice};

/// Settings that only the simulator has. Drivers on processes refuse them.
const OF_MODELS: [&str; 7] =
    ["attack", "noticed_after", "cores", "shared", "message", "send", "receive"];

/// The blocks that `watchfire share` makes.
const BLOCKS: (u32, u32) = (1 << 20, 1024);
/// The blocks that kubo makes by default.
const SMALL_BLOCKS: (u32, u32) = (256 << 10, 174);

/// The lengths of a leaf that an experiment may choose.
const CHUNKS: RangeInclusive<u32> = 1 << 10..=2 << 20;

/// The settings of a program, of which the simulator has a model, and of the model.
fn known(implementation: Implementation) -> Vec<&'static str> {
    match implementation {
        Implementation::Watchfire => {
            [&["command", "profile", "chunk", "transport"], &OF_MODELS[..]].concat()
        }
        Implementation::Kubo | Implementation::GoBitswap => [&["blocks"], &OF_MODELS[..]].concat(),
        Implementation::Mirror => vec!["client", "unpack", "fleet", "noticed_after"],
        _ => Vec::new(),
    }
}

/// The settings of a peer, as the simulator understands them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Bytes of a leaf of a file, and links of an inner node.
    pub blocks: (u32, u32),
    pub leaves_when_done: bool,
    pub attack: Option<Attack>,
    pub noticed_after: Option<Duration>,
    /// The CPU time of messages, and the processors of the machine.
    pub processors: Option<Processors>,
}

impl Settings {
    pub fn of(peer: &Peer) -> Result<Settings, String> {
        check_settings(peer.settings.keys(), &known(peer.implementation))?;
        let settings = &peer.settings;
        let get = |key: &str| settings.get(key).map(String::as_str);
        let attack = choice(settings, "attack", &["forge", "withhold"])?;
        choice(settings, "fleet", &["true", "false"])?;
        let blocks = choice(settings, "blocks", &["small", "large"])?;
        let is_small = blocks == Some("small") || get("profile") == Some("kubo-default");
        let (bytes, links) = if is_small { SMALL_BLOCKS } else { BLOCKS };
        let chunk = get("chunk").map_or(Ok(bytes.into()), parse_bytes)?;
        let chunk = u32::try_from(chunk).ok().filter(|bytes| CHUNKS.contains(bytes));
        Ok(Settings {
            blocks: (chunk.ok_or("chunk must be between 1KiB and 2MiB")?, links),
            leaves_when_done: choice(settings, "command", &["get", "hold"])? == Some("get"),
            attack: attack.map(|kind| match kind {
                "forge" => Attack::Forge,
                _ => Attack::Withhold,
            }),
            noticed_after: get("noticed_after").map(parse_duration).transpose()?,
            processors: processors(settings)?,
        })
    }
}

fn processors(settings: &BTreeMap<String, String>) -> Result<Option<Processors>, String> {
    let get = |key: &str| settings.get(key).map(String::as_str);
    let (send, receive) = match (get("send"), get("receive")) {
        (Some(send), Some(receive)) => (parse_byte_rate(send)?, parse_byte_rate(receive)?),
        (None, None) if ["cores", "shared", "message"].iter().all(|key| get(key).is_none()) => {
            return Ok(None);
        }
        _ => return Err("processors need the settings send and receive".to_owned()),
    };
    let cores = get("cores").unwrap_or("1");
    let cores = cores.parse().ok().filter(|cores| (1..=1024).contains(cores));
    Ok(Some(Processors {
        cores: cores.ok_or("cores must be between 1 and 1024")?,
        are_shared: choice(settings, "shared", &["true", "false"])? == Some("true"),
        message: get("message").map_or(Ok(Duration::ZERO), parse_duration)?,
        send,
        receive,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::Build;

    fn settings(all: &[(&str, &str)]) -> Result<Settings, String> {
        let settings = all.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let (implementation, build) = (Implementation::Watchfire, Build::Installed);
        Settings::of(&Peer { implementation, build, settings: settings.collect() })
    }

    #[test]
    fn a_peer_has_blocks_costs_and_intentions() {
        let one = settings(&[("command", "get"), ("profile", "kubo-default")]).unwrap();
        assert!(one.leaves_when_done && one.processors.is_none());
        assert_eq!(one.blocks, (256 << 10, 174));
        assert_eq!(settings(&[("chunk", "64KiB")]).unwrap().blocks, (64 << 10, 1024));
        let liar = settings(&[("attack", "withhold"), ("noticed_after", "5s")]).unwrap();
        assert_eq!(liar.attack, Some(Attack::Withhold));
        assert_eq!(liar.noticed_after, Some(Duration::from_secs(5)));
        let costs = [("cores", "2"), ("shared", "true"), ("send", "1GB"), ("receive", "8Mbit")];
        let costs = settings(&costs).unwrap().processors.unwrap();
        assert_eq!((costs.cores, costs.are_shared, costs.receive), (2, true, 1_000_000));
    }

    #[test]
    fn a_setting_without_meaning_is_refused() {
        for (wrong, problem) in [
            (&[("colour", "red")][..], "unknown setting \"colour\"; known: command, profile"),
            (&[("blocks", "small")], "unknown setting \"blocks\""),
            (&[("command", "gte")], "unknown command \"gte\"; known: get, hold"),
            (&[("chunk", "0")], "between 1KiB and 2MiB"),
            (&[("attack", "shout")], "known: forge, withhold"),
            (&[("shared", "yes"), ("send", "1GB"), ("receive", "1GB")], "known: true, false"),
            (&[("cores", "2")], "need the settings send and receive"),
            (&[("cores", "0"), ("send", "1GB"), ("receive", "1GB")], "between 1 and 1024"),
            (&[("send", "fast"), ("receive", "1GB")], "invalid rate"),
            (&[("noticed_after", "soon")], "invalid duration"),
        ] {
            let error = settings(wrong).unwrap_err();
            assert!(error.contains(problem), "{wrong:?}: {error}");
        }
    }
}
