//! `<servers>` and `<load>`.

use std::time::Duration;

use super::element::Element;
use super::parts::server_url;
use super::{Result, wildcard};
use crate::scenario::{Phase, Spacing, Target};

/// Time that sessions may continue if the load has no duration.
const WIND_DOWN: Duration = Duration::from_secs(24 * 3600);
/// Most phases, with the repetitions of a loop.
const PHASES_MAX: usize = 10_000;

pub(super) fn servers(list: &Element<'_, '_>) -> Result<Vec<Target>> {
    list.attributes(&[])?;
    list.children(&["server"])?;
    let servers = list.elements().map(|server| {
        server.attributes(&["host", "port", "type", "weight"])?;
        server.children(&[])?;
        let weight = server.number("weight")?.unwrap_or(1.0);
        let port = server.whole("port")?.unwrap_or(80);
        let url = server_url(&server, "type", server.needed("host")?.trim(), &port.to_string())?;
        Target::parse(&url, weight).map_err(|problem| server.error(problem))
    });
    servers.collect()
}

/// `<load>`.
pub(super) struct Load {
    pub(super) phases: Vec<Phase>,
    /// Users that arrive at a fixed time, with the index of their session.
    pub(super) fixed: Vec<(Duration, u16)>,
    /// The time that sessions may continue after the phases.
    pub(super) wind_down: Duration,
}

impl Load {
    pub(super) fn read(load: &Element<'_, '_>, sessions: &[&str]) -> Result<Load> {
        load.attributes(&["duration", "unit", "loop"])?;
        load.children(&["arrivalphase", "user"])?;
        let whole = load.seconds("duration", load.unit()?)?.filter(|whole| !whole.is_zero());
        let mut elements: Vec<_> =
            load.elements().filter(|element| element.name() == "arrivalphase").collect();
        let order = |element: &Element<'_, '_>| element.whole("phase").ok().flatten();
        elements.sort_by_key(order);
        let phases = elements.iter().map(|element| phase(element, sessions));
        let once = phases.collect::<Result<Vec<_>>>()?;
        let repeats = load.whole("loop")?.unwrap_or(0);
        if (repeats.saturating_add(1)).saturating_mul(once.len() as u64) > PHASES_MAX as u64 {
            return Err(load.attribute_error("loop", format!("more than {PHASES_MAX} phases")));
        }
        let mut phases = Vec::new();
        let mut spent = Duration::ZERO;
        for mut phase in (0..=repeats).flat_map(|_| once.clone()) {
            // The duration of the load cuts off longer phases.
            let left = whole.map_or(Duration::MAX, |whole| whole.saturating_sub(spent));
            phase.duration = phase.duration.min(left);
            spent += phase.duration;
            if !phase.duration.is_zero() {
                phases.push(phase);
            }
        }
        let mut fixed = Vec::new();
        for user in load.elements().filter(|element| element.name() == "user") {
            fixed.extend(fixed_user(&user, sessions)?);
        }
        fixed.sort_unstable();
        if phases.is_empty() && fixed.is_empty() {
            return Err(load.error("needs an <arrivalphase> or a <user>"));
        }
        let wind_down = whole.map_or(WIND_DOWN, |whole| whole.saturating_sub(spent));
        Ok(Load { phases, fixed, wind_down })
    }
}

/// A user for each session of the name.
fn fixed_user(user: &Element<'_, '_>, sessions: &[&str]) -> Result<Vec<(Duration, u16)>> {
    user.attributes(&["session", "start_time", "unit"])?;
    user.children(&[])?;
    let at = user.seconds("start_time", user.unit()?)?.unwrap_or_default();
    let name = user.needed("session")?;
    let found: Vec<_> = named(name, sessions).map(|index| (at, index as u16)).collect();
    match found.is_empty() {
        true => Err(user.attribute_error("session", format!("unknown session {name:?}"))),
        false => Ok(found),
    }
}

/// The indices of the sessions with this name, in which `*` stands for any text.
fn named<'a>(name: &'a str, sessions: &'a [&str]) -> impl Iterator<Item = usize> + use<'a> {
    let found = sessions.iter().enumerate().filter(move |(_, session)| wildcard(name, session));
    found.map(|(index, _)| index)
}

fn phase(element: &Element<'_, '_>, sessions: &[&str]) -> Result<Phase> {
    element.attributes(&["phase", "duration", "unit", "wait_all_sessions_end"])?;
    element.children(&["users", "session_setup"])?;
    let waits = element.one_of("wait_all_sessions_end", &["false", "true"])? == "true";
    let number = element.whole("phase")?;
    let number = number.ok_or_else(|| element.attribute_error("phase", "is needed"))?;
    let duration = element.seconds("duration", element.unit()?)?;
    let duration = duration.filter(|duration| *duration >= Duration::from_millis(1));
    let duration =
        duration.ok_or_else(|| element.attribute_error("duration", "must be a time above zero"))?;
    let users = element.needed_child("users")?;
    users.attributes(&["interarrival", "arrivalrate", "maxnumber", "unit"])?;
    users.children(&[])?;
    let unit = users.unit()?;
    let rate = match (users.number("interarrival")?, users.number("arrivalrate")?) {
        (Some(seconds), None) if seconds > 0.0 => 1.0 / (seconds * unit),
        (None, Some(rate)) => rate / unit,
        _ => return Err(users.error("needs either interarrival or arrivalrate")),
    };
    if rate > Phase::RATE_MAX {
        return Err(users.error("more than ten million users per second"));
    }
    Ok(Phase {
        name: format!("phase {number}"),
        duration,
        rate,
        rate_end: rate,
        spacing: Spacing::Random,
        users_max: users.whole("maxnumber")?,
        weights: weights(element, sessions)?,
        waits_for_users: waits,
    })
}

/// The weights of the sessions in a phase with `<session_setup>`. A session without one does not
/// run in the phase.
fn weights(phase: &Element<'_, '_>, sessions: &[&str]) -> Result<Option<Vec<f64>>> {
    let mut weights = vec![0.0; sessions.len()];
    let setups = phase.elements().filter(|element| element.name() == "session_setup");
    let mut last = None;
    for setup in setups {
        setup.attributes(&["name", "probability", "weight"])?;
        let name = setup.needed("name")?;
        let weight = setup.number("probability")?.or(setup.number("weight")?);
        let weight = weight.ok_or_else(|| setup.error("needs a probability or a weight"))?;
        let found: Vec<usize> = named(name, sessions).collect();
        if found.is_empty() {
            return Err(setup.attribute_error("name", format!("unknown session {name:?}")));
        }
        found.into_iter().for_each(|index| weights[index] = weight);
        last = Some(setup);
    }
    match last {
        None => Ok(None),
        Some(_) if weights.iter().any(|weight| *weight > 0.0) => Ok(Some(weights)),
        Some(setup) => Err(setup.error("a phase needs a session with a weight")),
    }
}
