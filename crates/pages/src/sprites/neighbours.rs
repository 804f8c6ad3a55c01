//! The four neighbours of a slot, as clients receive them.

use serde::{Serialize, Serializer};
use watchfire::Body;
use watchfire_types::PeerId;

/// `None` where no client is at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Neighbours {
    #[serde(serialize_with = "as_text")]
    pub left: Option<PeerId>,
    #[serde(serialize_with = "as_text")]
    pub right: Option<PeerId>,
    #[serde(serialize_with = "as_text")]
    pub up: Option<PeerId>,
    #[serde(serialize_with = "as_text")]
    pub down: Option<PeerId>,
}

impl Neighbours {
    pub fn to_json(self) -> String {
        serde_json::to_string(&self).expect("ids are plain text")
    }
}

impl From<Neighbours> for Body {
    fn from(neighbours: Neighbours) -> Self {
        Body::Json(neighbours.to_json().into())
    }
}

fn as_text<S: Serializer>(peer: &Option<PeerId>, serializer: S) -> Result<S::Ok, S::Error> {
    match peer {
        Some(peer) => serializer.collect_str(peer),
        None => serializer.serialize_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_absent_neighbour_is_null() {
        let (left, up) = (Some(PeerId(1)), Some(PeerId(u64::MAX)));
        let neighbours = Neighbours { left, right: None, up, down: None };
        assert_eq!(
            neighbours.to_json(),
            r#"{"left":"0000000000000001","right":null,"up":"ffffffffffffffff","down":null}"#
        );
    }
}
