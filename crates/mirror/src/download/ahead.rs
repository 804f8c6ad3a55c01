//! Fetches the layers that a client will ask for next.
//!
//! Clients such as containerd ask for three layers at a time, and for a further one when one of these is here. On slow links
//! the hosts exchange a layer for seconds after the registry has sent it, and its link would be unused meanwhile. So a host
//! begins with a further layer of the image as soon as the hosts together have half of one that a client reads. The base
//! layers, which a client may have already, come first in an image, and only later layers are fetched ahead. At most three
//! layers are ahead of the clients.
//!
//! A client that leaves within a layer will ask for no other. So when the last one of an image leaves like this, no further
//! layer begins until a client asks for one. Layers that have begun end: they are partly here, and others may want them.
//! Between two layers a client reads nothing, such as while it unpacks one, and is still awaited.

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

#[derive(Debug)]
struct Image {
    pull: Pull,
    layers: Vec<Layer>,
    /// How many responses with its layers are being read.
    reads: usize,
    /// Whether its last client has left within a layer.
    is_left: bool,
}

#[derive(Debug, Default)]
pub(super) struct Ahead {
    /// The images whose manifests clients have read, the last one first.
    images: Mutex<VecDeque<Image>>,
    /// The layers for which no client has asked yet, and when they were started.
    started: Mutex<HashMap<Digest, Instant>>,
}

impl Ahead {
    /// Calls `work` with the image of a layer that was read last, and the place of the layer in it.
    fn with<T>(&self, digest: &Digest, work: impl FnOnce(&mut Image, usize) -> T) -> Option<T> {
        let mut images = self.images.lock();
        let mut found = images.iter_mut().filter_map(|image| {
            let at = image.layers.iter().position(|(layer, _)| layer == digest)?;
            Some((image, at))
        });
        found.next().map(|(image, at)| work(image, at))
    }

    /// The layers after this one, in their order. `None`: no client will ask for them.
    fn after(&self, digest: &Digest) -> Option<(Pull, Vec<Layer>)> {
        let after = |image: &mut Image, at: usize| {
            (!image.is_left).then(|| (image.pull.clone(), image.layers[at + 1..].to_vec()))
        };
        self.with(digest, after)?
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

/// A client that reads a layer. When it is dropped before its end, the client has left.
#[derive(Debug)]
pub(crate) struct LayerRead {
    downloads: Arc<Downloads>,
    digest: Digest,
    is_over: bool,
}

impl LayerRead {
    pub(crate) fn end(mut self) {
        self.is_over = true;
    }
}

impl Drop for LayerRead {
    fn drop(&mut self) {
        self.downloads.ahead.with(&self.digest, |image, _| {
            // The manifest of another image with this layer may have been read meanwhile.
            image.reads = image.reads.saturating_sub(1);
            image.is_left |= !self.is_over && image.reads == 0;
        });
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
        let known = images.iter().position(|image| image.layers == layers);
        let reads = known.and_then(|at| images.remove(at)).map_or(0, |image| image.reads);
        images.push_front(Image { pull: pull.clone(), layers, reads, is_left: false });
        images.truncate(IMAGES_MAX);
    }

    /// A client asks for a layer. If it was fetched ahead, a further one may be.
    pub(crate) fn note_asked(self: &Arc<Self>, digest: &Digest) -> LayerRead {
        self.ahead.with(digest, |image, _| {
            image.reads += 1;
            image.is_left = false;
        });
        if self.ahead.started.lock().remove(digest).is_some() {
            tokio::spawn(self.clone().fetch_ahead(digest.clone()));
        }
        LayerRead { downloads: self.clone(), digest: digest.clone(), is_over: false }
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
                Ok(_) if self.ahead.after(&digest).is_none() => {
                    self.ahead.started.lock().remove(&layer);
                }
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
