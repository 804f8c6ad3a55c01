//! `<servers>` and `<load>`.

use std::time::Duration;

use super::Result;
use super::element::Element;
use crate::scenario::{Phase, Spacing, Target};

/// Time that sessions may continue if the load has no duration.
const WIND_DOWN: Duration = Duration::from_secs(24 * 3600);

pub(super) fn servers(list: &Element<'_, '_>) -> Result<Vec<Target>> {
    list.attributes(&[])?;
    list.children(&["server"])?;
    let servers = list.elements().map(|server| {
        server.attributes(&["host", "port", "type", "weight"])?;
        server.children(&[])?;
        server.one_of("type", &["tcp"])?;
        let (host, port) = (server.needed("host")?, server.whole("port")?.unwrap_or(80));
        let weight = server.number("weight")?.unwrap_or(1.0);
        let is_bare = host.parse::<std::net::Ipv6Addr>().is_ok();
        let url =
            if is_bare { format!("ws://[{host}]:{port}") } else { format!("ws://{host}:{port}") };
        Target::parse(&url, weight).map_err(|problem| server.error(problem))
    });
    servers.collect()
}

/// The arrival phases, and the time that sessions may continue after them.
pub(super) fn phases(load: &Element<'_, '_>) -> Result<(Vec<Phase>, Duration)> {
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
        // The duration of the load cuts off longer phases.
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
        weights: None,
    })
}
