//! `watchfire mirror preload --follow`: loads each image again when its tag names another one.
//!
//! Each tag is followed at each mirror by a task of its own, so one that fails delays no other.

use std::collections::{BTreeMap, HashMap};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use tokio::sync::{Mutex, Semaphore};
use tokio::task::JoinSet;
use watchfire_mirror::client::{ClientError, ImageName, MirrorClient, Platforms};
use watchfire_mirror::oci::{Digest, Reference};
use watchfire_report::units::{binary_bytes, count};
use watchfire_types::Rng;

use super::display::Display;
use super::{Arguments, IMAGES_AT_ONCE, Summary, load_blobs};
use crate::serve::print_line;

/// How much the time between two questions differs, as a share. Otherwise all mirrors and images would ask together.
const JITTER: f64 = 0.1;
/// The longest pause that a registry may ask for.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(3600);

#[derive(Clone)]
struct Follower {
    client: MirrorClient,
    mirror: String,
    image: ImageName,
    platforms: Platforms,
    interval: Duration,
    json: bool,
    /// The loads of one mirror.
    loads: Arc<Semaphore>,
    /// Until when each registry asks for no more requests.
    pauses: Arc<Mutex<HashMap<String, Instant>>>,
}

/// Follows all images at all mirrors. It ends only if a task panics.
pub(super) async fn follow(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let pauses = Arc::default();
    let mut following = JoinSet::new();
    for mirror in &arguments.mirror {
        let client = MirrorClient::new(mirror)?;
        let loads = Arc::new(Semaphore::new(IMAGES_AT_ONCE));
        for image in &arguments.images {
            let mut seed = [0; 8];
            // Without randomness, all ask at the same time.
            let _ = getrandom::fill(&mut seed);
            let follower = Follower {
                client: client.clone(),
                mirror: mirror.base_url().to_owned(),
                image: image.clone(),
                platforms: arguments.platforms(),
                interval: arguments.interval,
                json: arguments.json,
                loads: Arc::clone(&loads),
                pauses: Arc::clone(&pauses),
            };
            following.spawn(follower.run(Rng::from_seed(u64::from_ne_bytes(seed))));
        }
    }
    match following.join_next().await {
        Some(Err(error)) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        _ => Ok(ExitCode::FAILURE),
    }
}

impl Follower {
    async fn run(self, mut rng: Rng) {
        let mut before: Option<Digest> = None;
        let mut error_before = None;
        loop {
            let pause = self.pauses.lock().await.get(&self.image.registry).copied();
            if let Some(until) = pause {
                let late = self.interval.mul_f64(JITTER * rng.fraction());
                tokio::time::sleep_until((until + late).into()).await;
            }
            match self.load_if_new(before.as_ref()).await {
                Ok(Some(digest)) => (before, error_before) = (Some(digest), None),
                Ok(None) => error_before = None,
                Err((error, retry_after)) => {
                    if let Some(time) = retry_after {
                        let until = Instant::now() + time.min(RETRY_AFTER_MAX);
                        self.pauses.lock().await.insert(self.image.registry.clone(), until);
                    }
                    // A repeated error is printed once.
                    if error_before.as_ref() != Some(&error) {
                        self.print_error(&error);
                    }
                    error_before = Some(error);
                }
            }
            let share = 1.0 - JITTER + 2.0 * JITTER * rng.fraction();
            tokio::time::sleep(self.interval.mul_f64(share)).await;
        }
    }

    /// Loads the image if its tag names another one than before. Returns its digest.
    async fn load_if_new(
        &self,
        before: Option<&Digest>,
    ) -> Result<Option<Digest>, (String, Option<Duration>)> {
        let failed = |error: ClientError| {
            let wait = match &error {
                ClientError::Refused { retry_after, .. } => *retry_after,
                _ => None,
            };
            (error.to_string(), wait)
        };
        let digest = self.client.newest(&self.image).await.map_err(failed)?;
        if before == Some(&digest) {
            return Ok(None);
        }
        let _permit = self.loads.acquire().await;
        let started = Instant::now();
        // The tag may move again meanwhile.
        let image =
            ImageName { reference: Reference::Digest(digest.clone()), ..self.image.clone() };
        let plan = self.client.load_manifests(&image, &self.platforms).await.map_err(failed)?;
        let blobs = plan.blobs.into_iter().map(|blob| (blob, vec![0])).collect();
        let mut failures = BTreeMap::new();
        let loaded = load_blobs(&self.client, blobs, &mut Display::default(), &mut failures).await;
        match failures.remove(&0) {
            Some(error) => Err((error, None)),
            None => {
                self.print(before, &digest, &loaded, started.elapsed());
                Ok(Some(digest))
            }
        }
    }

    fn print(&self, before: Option<&Digest>, digest: &Digest, loaded: &Summary, took: Duration) {
        let Follower { mirror, image, .. } = self;
        let (blobs, bytes) = loaded.loaded;
        if self.json {
            return print_line(serde_json::json!({
                "at": now(),
                "image": image.to_string(),
                "mirror": mirror,
                "digest": digest.to_string(),
                "before": before.map(ToString::to_string),
                "loaded_blobs": blobs,
                "loaded_bytes": bytes,
                "present_blobs": loaded.present.0,
                "present_bytes": loaded.present.1,
                "seconds": took.as_secs_f64(),
            }));
        }
        let moved = before.map_or(String::new(), |before| format!(", before {before}"));
        print_line(format_args!(
            "{} {image} at {mirror}: {digest}{moved}; loaded {} ({} blobs) in {:.1} s",
            now(),
            binary_bytes(bytes),
            count(blobs),
            took.as_secs_f64()
        ));
    }

    fn print_error(&self, error: &str) {
        let Follower { mirror, image, .. } = self;
        if self.json {
            let (at, image) = (now(), image.to_string());
            let line =
                serde_json::json!({ "at": at, "image": image, "mirror": mirror, "error": error });
            return print_line(line);
        }
        eprintln!("{} error: cannot load {image} at {mirror}: {error}", now());
    }
}

fn now() -> String {
    humantime::format_rfc3339_seconds(SystemTime::now()).to_string()
}
