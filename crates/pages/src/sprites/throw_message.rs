//! Throws of sprites.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use watchfire_types::PeerId;

/// The longest id of a sprite, in bytes.
const SPRITE_BYTES_MAX: usize = 64;
/// The highest speed in each direction, in pixels a second.
const VELOCITY_MAX: f64 = 100_000.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Edge {
    Left,
    Right,
    Up,
    Down,
}

impl Edge {
    /// The edge at which a sprite that left over this edge comes in.
    pub fn opposite(self) -> Edge {
        match self {
            Edge::Left => Edge::Right,
            Edge::Right => Edge::Left,
            Edge::Up => Edge::Down,
            Edge::Down => Edge::Up,
        }
    }

    /// The ring of this edge's neighbour.
    pub fn ring(self) -> usize {
        usize::from(matches!(self, Edge::Up | Edge::Down))
    }

    /// Whether this edge's neighbour is the next on its ring, not the previous.
    pub fn is_after(self) -> bool {
        matches!(self, Edge::Right | Edge::Down)
    }
}

/// A sprite that leaves over an edge.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(crate) struct Throw {
    pub sprite: String,
    pub edge: Edge,
    /// The position on the edge, from its top or left end: 0 to 1.
    pub at: f64,
    pub velocity: Velocity,
    /// The CID of the page with its picture. `None` for a sprite that every client can draw.
    pub picture: Option<String>,
}

/// A velocity in pixels a second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Velocity {
    pub x: f64,
    pub y: f64,
}

#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(crate) enum InvalidThrow {
    #[error("throw too large: the most is {max} bytes")]
    TooLarge { max: u32 },
    #[error("cannot read the body: it is not complete, or its chunks are not valid")]
    Incomplete,
    #[error("{0}")]
    Unreadable(String),
    #[error("sprite needs 1 to {SPRITE_BYTES_MAX} bytes and no control characters")]
    Sprite,
    #[error("at is a number from 0 to 1")]
    At,
    #[error("velocity is x and y, each from -{VELOCITY_MAX} to {VELOCITY_MAX}")]
    Velocity,
    #[error("picture: {0}")]
    Picture(String),
}

impl InvalidThrow {
    pub fn to_json(&self) -> Value {
        match self {
            InvalidThrow::TooLarge { max } => json!({ "reason": "throw too large", "max": max }),
            other => json!({ "reason": "bad throw", "message": other.to_string() }),
        }
    }
}

impl Throw {
    pub fn parse(text: &[u8], bytes_max: u32) -> Result<Throw, InvalidThrow> {
        if text.len() > bytes_max as usize {
            return Err(InvalidThrow::TooLarge { max: bytes_max });
        }
        let throw: Throw = serde_json::from_slice(text)
            .map_err(|error| InvalidThrow::Unreadable(error.to_string()))?;
        let len = throw.sprite.len();
        if len == 0 || len > SPRITE_BYTES_MAX || throw.sprite.chars().any(char::is_control) {
            return Err(InvalidThrow::Sprite);
        }
        if !(0.0..=1.0).contains(&throw.at) {
            return Err(InvalidThrow::At);
        }
        let Velocity { x, y } = throw.velocity;
        if ![x, y].iter().all(|v| v.abs() <= VELOCITY_MAX) {
            return Err(InvalidThrow::Velocity);
        }
        if let Some(picture) = &throw.picture {
            crate::page::check_cid(picture).map_err(InvalidThrow::Picture)?;
        }
        Ok(throw)
    }

    /// The throw as the neighbour receives it: a JSON object.
    pub fn arrival(&self, from: PeerId) -> String {
        let arrival = Arrival {
            sprite: &self.sprite,
            edge: self.edge.opposite(),
            at: self.at,
            velocity: self.velocity,
            from: &from.to_string(),
            picture: self.picture.as_deref(),
        };
        serde_json::to_string(&arrival).expect("an arrival is plain data")
    }
}

/// A throw at its neighbour.
#[derive(Serialize)]
struct Arrival<'a> {
    sprite: &'a str,
    edge: Edge,
    at: f64,
    velocity: Velocity,
    from: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    picture: Option<&'a str>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn throw(at: &str, x: &str, more: &str) -> Result<Throw, InvalidThrow> {
        let velocity = format!(r#"{{"x":{x},"y":0}}"#);
        let text =
            format!(r#"{{"sprite":"cat","edge":"right","at":{at},"velocity":{velocity}{more}}}"#);
        Throw::parse(text.as_bytes(), 1_000)
    }

    #[test]
    fn a_throw_arrives_at_the_opposite_edge() {
        let arrival = throw("0.25", "900", "").unwrap().arrival(PeerId(1));
        let velocity = json!({ "x": 900.0, "y": 0.0 });
        assert_eq!(
            serde_json::from_str::<Value>(&arrival).unwrap(),
            json!({ "sprite": "cat", "edge": "left", "at": 0.25, "velocity": velocity,
                "from": "0000000000000001" })
        );
    }

    #[test]
    fn invalid_and_out_of_range_numbers_are_rejected() {
        for at in ["-0.1", "1.1", "1e300"] {
            assert_eq!(throw(at, "0", ""), Err(InvalidThrow::At), "{at}");
        }
        for at in ["NaN", "Infinity", "null", "\"0\"", "1e999"] {
            assert!(matches!(throw(at, "0", ""), Err(InvalidThrow::Unreadable(_))), "{at}");
        }
        assert_eq!(throw("0", "100001", ""), Err(InvalidThrow::Velocity));
        assert!(matches!(throw("0", "-1e999", ""), Err(InvalidThrow::Unreadable(_))));
    }

    #[test]
    fn a_picture_is_named_by_a_cid_and_nothing_else() {
        let cid = "bafkreidogqfzz75tpkmjzjke425xqcrmpcib2p5tg44hnbirumdbpl5adu";
        assert!(throw("0", "0", &format!(r#","picture":"{cid}""#)).is_ok());
        let refused = throw("0", "0", r#","picture":"https://example.org/cat.png""#);
        assert!(matches!(refused, Err(InvalidThrow::Picture(_))), "{refused:?}");
    }

    #[test]
    fn a_throw_that_is_too_large_is_rejected_before_it_is_parsed() {
        let more = format!(r#","picture":"{}""#, "x".repeat(1_000));
        assert_eq!(throw("0", "0", &more), Err(InvalidThrow::TooLarge { max: 1_000 }));
    }
}
