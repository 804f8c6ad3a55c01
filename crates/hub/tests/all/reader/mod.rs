//! A client that processes presences like phoenix.js.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

/// By key, the metas; those by `phx_ref`.
pub type Shown = BTreeMap<String, BTreeMap<String, Value>>;

pub fn parse(json: &Value) -> Shown {
    let keys = json.as_object().unwrap().iter();
    let by_reference = |metas: &Value| {
        let metas = metas["metas"].as_array().unwrap();
        assert!(!metas.is_empty(), "a key has no metas");
        let named =
            metas.iter().map(|meta| (meta["phx_ref"].as_str().unwrap().into(), meta.clone()));
        let named: BTreeMap<String, Value> = named.collect();
        assert_eq!(named.len(), metas.len(), "duplicate version");
        named
    };
    keys.map(|(key, metas)| (key.clone(), by_reference(metas))).collect()
}

/// The presences that a client shows after a state and its diffs.
#[derive(Default)]
pub struct Client {
    shown: BTreeMap<String, Vec<Value>>,
}

impl Client {
    pub fn sync_state(state: &Value) -> Self {
        let keys = state.as_object().unwrap().iter();
        let metas = |shown: &Value| shown["metas"].as_array().unwrap().clone();
        Client { shown: keys.map(|(key, shown)| (key.clone(), metas(shown))).collect() }
    }

    pub fn sync_diff(&mut self, diff: &Value) {
        for (key, joined) in diff["joins"].as_object().unwrap() {
            let mut metas = joined["metas"].as_array().unwrap().clone();
            if let Some(known) = self.shown.get(key) {
                let is_new = |meta: &&Value| metas.iter().all(|m| m["phx_ref"] != meta["phx_ref"]);
                let kept: Vec<Value> = known.iter().filter(is_new).cloned().collect();
                metas.splice(0..0, kept);
            }
            self.shown.insert(key.clone(), metas);
        }
        for (key, left) in diff["leaves"].as_object().unwrap() {
            let Some(known) = self.shown.get_mut(key) else { continue };
            let left = left["metas"].as_array().unwrap();
            known.retain(|meta| left.iter().all(|l| l["phx_ref"] != meta["phx_ref"]));
            if known.is_empty() {
                self.shown.remove(key);
            }
        }
    }

    pub fn shown(&self) -> Shown {
        let keys = self.shown.iter();
        parse(&keys.map(|(key, metas)| (key.clone(), json!({ "metas": metas }))).collect())
    }
}

/// Checks a diff: no version joins and leaves, and every replaced version leaves.
pub fn check(diff: &Value) {
    let (joins, leaves) = (parse(&diff["joins"]), parse(&diff["leaves"]));
    let left: BTreeSet<&str> =
        leaves.values().flat_map(|of| of.keys().map(String::as_str)).collect();
    for (reference, meta) in joins.values().flatten() {
        assert!(!left.contains(&**reference), "{diff}");
        let previous = meta.get("phx_ref_prev").and_then(Value::as_str);
        assert!(previous.is_none_or(|previous| left.contains(previous)), "{diff}");
    }
}
