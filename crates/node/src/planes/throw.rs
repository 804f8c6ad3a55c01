use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use vocab::PeerId;

/// Letters of a plane's name.
const PLANE_BYTES_MAX: usize = 64;
/// Bytes of a sprite's id.
const SPRITE_BYTES_MAX: usize = 64;
/// Pixels a second, each way.
const VELOCITY_MAX: f64 = 100_000.0;

/// A window's edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Edge {
    Left,
    Right,
    Up,
    Down,
}

impl Edge {
    pub const ALL: [Edge; 4] = [Edge::Left, Edge::Right, Edge::Up, Edge::Down];

    /// Where what left here comes in.
    pub fn opposite(self) -> Edge {
        match self {
            Edge::Left => Edge::Right,
            Edge::Right => Edge::Left,
            Edge::Up => Edge::Down,
            Edge::Down => Edge::Up,
        }
    }

    pub fn ring(self) -> usize {
        usize::from(matches!(self, Edge::Up | Edge::Down))
    }

    pub fn is_after(self) -> bool {
        matches!(self, Edge::Right | Edge::Down)
    }
}

/// A sprite leaves over an edge.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(crate) struct Throw {
    pub sprite: String,
    pub edge: Edge,
    /// Where on the edge, from its top or left: 0 to 1.
    pub at: f64,
    pub velocity: Velocity,
    /// The block with its picture, if it is not one that every client knows.
    pub picture: Option<String>,
}

/// Pixels a second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Velocity {
    pub x: f64,
    pub y: f64,
}

/// Why a throw is none.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(crate) enum BadThrow {
    #[error("a throw has at most {max} bytes")]
    TooLarge { max: u32 },
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

impl BadThrow {
    pub fn to_json(&self) -> Value {
        match self {
            BadThrow::TooLarge { max } => json!({ "reason": "throw too large", "max": max }),
            other => json!({ "reason": "bad throw", "message": other.to_string() }),
        }
    }
}

impl Throw {
    pub fn parse(text: &[u8], bytes_max: u32) -> Result<Throw, BadThrow> {
        if text.len() > bytes_max as usize {
            return Err(BadThrow::TooLarge { max: bytes_max });
        }
        let throw: Throw = serde_json::from_slice(text)
            .map_err(|error| BadThrow::Unreadable(error.to_string()))?;
        let len = throw.sprite.len();
        if len == 0 || len > SPRITE_BYTES_MAX || throw.sprite.chars().any(char::is_control) {
            return Err(BadThrow::Sprite);
        }
        if !(0.0..=1.0).contains(&throw.at) {
            return Err(BadThrow::At);
        }
        let Velocity { x, y } = throw.velocity;
        if ![x, y].iter().all(|v| v.abs() <= VELOCITY_MAX) {
            return Err(BadThrow::Velocity);
        }
        if let Some(picture) = &throw.picture {
            crate::builtin::check_cid(picture).map_err(BadThrow::Picture)?;
        }
        Ok(throw)
    }

    /// The throw as the neighbour gets it.
    pub fn arrival(&self, from: PeerId) -> Value {
        let mut arrival = json!({
            "sprite": self.sprite,
            "edge": self.edge.opposite(),
            "at": self.at,
            "velocity": self.velocity,
            "from": from.to_string(),
        });
        if let Some(picture) = &self.picture {
            arrival["picture"] = picture.as_str().into();
        }
        arrival
    }
}

/// A plane's name stands in topics and paths without any escapes.
pub(crate) fn check_plane(name: &str) -> Result<(), Value> {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~".contains(&b);
    if (1..=PLANE_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_plain) {
        return Ok(());
    }
    let message = format!("a plane's name is 1 to {PLANE_BYTES_MAX} letters, digits and - . _ ~");
    Err(json!({ "reason": "not a plane", "message": message }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn throw(at: &str, x: &str, more: &str) -> Result<Throw, BadThrow> {
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
            arrival,
            json!({ "sprite": "cat", "edge": "left", "at": 0.25, "velocity": velocity,
                "from": "0000000000000001" })
        );
    }

    #[test]
    fn numbers_that_are_none_or_out_of_range_are_refused() {
        for at in ["-0.1", "1.1", "1e300"] {
            assert_eq!(throw(at, "0", ""), Err(BadThrow::At), "{at}");
        }
        for at in ["NaN", "Infinity", "null", "\"0\"", "1e999"] {
            assert!(matches!(throw(at, "0", ""), Err(BadThrow::Unreadable(_))), "{at}");
        }
        assert_eq!(throw("0", "100001", ""), Err(BadThrow::Velocity));
        assert!(matches!(throw("0", "-1e999", ""), Err(BadThrow::Unreadable(_))));
    }

    #[test]
    fn a_picture_is_named_by_its_cid_and_nothing_else() {
        let cid = "bafkreidogqfzz75tpkmjzjke425xqcrmpcib2p5tg44hnbirumdbpl5adu";
        assert!(throw("0", "0", &format!(r#","picture":"{cid}""#)).is_ok());
        let refused = throw("0", "0", r#","picture":"https://example.org/cat.png""#);
        assert!(matches!(refused, Err(BadThrow::Picture(_))), "{refused:?}");
    }

    #[test]
    fn a_throw_that_is_too_large_is_refused_unread() {
        let more = format!(r#","picture":"{}""#, "x".repeat(1_000));
        assert_eq!(throw("0", "0", &more), Err(BadThrow::TooLarge { max: 1_000 }));
    }

    #[test]
    fn a_plane_has_a_plain_name() {
        assert!(check_plane("lobby-2.a_b~c").is_ok());
        for name in ["", "a/b", "a b", "é", "%41", &"x".repeat(65)] {
            assert!(check_plane(name).is_err(), "{name}");
        }
    }
}
