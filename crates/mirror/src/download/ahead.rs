//! Fetches the layers that a client will ask for next.
//!
//! Clients such as containerd ask for three layers at a time, and for a further one when one of these is here. On slow links
//! the hosts exchange a layer for seconds after the registry has sent it, and its link would be unused meanwhile. So a host
//! begins with a further layer of the image as soon as the hosts together have half of one that a client reads. The base
//! layers, which a client may have already, come first in an image, and only later layers are fetched ahead. At most three
//! layers are ahead of the clients.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::{ContentSource, Downloads};
use crate::images::{Pull, layers_of};
use crate::oci::Digest;

/// Images whose layers are remembered. The one whose manifest was read first is forgotten first.
const IMAGES_MAX: usize = 64;
/// Layers of an image that are remembered.
const LAYERS_MAX: usize = 256;
/// Layers that were started and for which no client has asked yet.
const AHEAD_MAX: usize = 3;
/// After this time, a client that has not asked for a layer is not awaited any more.
const AHEAD_KEPT: Duration = Duration::from_secs(600);
/// How long the registry may take to answer whether a layer may be fetched.
const CHECK_TIMEOUT: Duration = Duration::from_secs(5);

type Layer = (Digest, Option<u64>);

#[derive(Debug, Default)]
pub(super) struct Ahead {
    /// The images whose manifests clients have read, the last one first.
    images: Mutex<VecDeque<(Pull, Vec<Layer>)>>,
    /// The layers for which no client has asked yet, and when they were started.
    started: Mutex<HashMap<Digest, Instant>>,
}

impl Ahead {
    /// The layers after this one in the image that was read last, in their order.
    fn after(&self, digest: &Digest) -> Option<(Pull, Vec<Layer>)> {
        self.images.lock().iter().find_map(|(pull, layers)| {
            let at = layers.iter().position(|(layer, _)| layer == digest)?;
            Some((pull.clone(), layers[at + 1..].to_vec()))
        })
    }

    /// Notes that a layer is started; false if too many are.
    fn begin(&self, layer: &Digest) -> bool {
        let mut started = self.started.lock();
        started.retain(|_, at| at.elapsed() < AHEAD_KEPT);
        let has_room = started.len() < AHEAD_MAX;
        if has_room {
            started.insert(layer.clone(), Instant::now());
        }
        has_room
    }
}

impl Downloads {
    /// A client has read the manifest of an image.
    pub(crate) fn note_image(&self, pull: &Pull, manifest: &[u8]) {
        // A host alone fetches nothing ahead.
        if self.fleet.is_none() {
            return;
        }
        let mut layers = layers_of(manifest);
        layers.truncate(LAYERS_MAX);
        if layers.is_empty() {
            return;
        }
        let mut images = self.ahead.images.lock();
        images.retain(|(_, others)| *others != layers);
        images.push_front((pull.clone(), layers));
        images.truncate(IMAGES_MAX);
    }

    /// A client asks for a layer. If it was fetched ahead, a further one may be.
    pub(crate) fn note_asked(self: &Arc<Self>, digest: &Digest) {
        if self.ahead.started.lock().remove(digest).is_some() {
            tokio::spawn(self.clone().fetch_ahead(digest.clone()));
        }
    }

    /// Starts the first layer after this one that is neither here nor on its way.
    pub(super) async fn fetch_ahead(self: Arc<Self>, digest: Digest) {
        let Some(fleet) = self.fleet.clone() else { return };
        let Some((pull, layers)) = self.ahead.after(&digest) else { return };
        for (layer, size) in layers {
            let is_running = self.running.lock().downloads.contains_key(&layer);
            if is_running || !matches!(self.blobs.find_complete(&layer).await, Ok(None)) {
                continue;
            }
            if !self.ahead.begin(&layer) {
                return;
            }
            match fleet.check_blob(&pull, &layer, CHECK_TIMEOUT).await {
                Ok(checked) => {
                    let source = ContentSource::Registry(pull);
                    // A failure is the answer to the client that asks for the layer.
                    drop(self.start(source, &layer, checked.or(size), false));
                }
                Err(error) => {
                    self.ahead.started.lock().remove(&layer);
                    tracing::debug!(digest = %layer, %error, "cannot fetch a layer ahead");
                }
            }
            return;
        }
    }
}
