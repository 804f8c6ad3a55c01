//! `watchfire mirror preload`: loads images into the store of a running mirror.

mod display;
mod follow;

use std::collections::{BTreeMap, HashMap};
use std::ops::RangeInclusive;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use watchfire_mirror::client::{
    BlobSource, ClientError, ImageBlob, ImageName, ImagePlan, MirrorClient, Platform, Platforms,
};
use watchfire_mirror::upstream::Registry;
use watchfire_report::units::{binary_bytes, count};

use crate::serve::print_line;
use crate::signals::Signals;
use display::Display;

/// Images whose manifests are loaded at the same time.
const IMAGES_AT_ONCE: usize = 4;
/// Blobs that are loaded at the same time.
const BLOBS_AT_ONCE: usize = 6;
/// Time between two changes of the progress bars.
const REDRAW_INTERVAL: Duration = Duration::from_millis(200);
/// What --interval may be.
const INTERVALS: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(86_400);

/// Arguments of `watchfire mirror preload`.
#[derive(clap::Args)]
pub struct Arguments {
    /// An image, such as nginx, ghcr.io/owner/app:v1, app@sha256:<digest>, or ipfs://<cid>.
    #[arg(value_name = "IMAGE", required = true)]
    images: Vec<ImageName>,
    /// The address of the mirror; with --follow, it can be repeated.
    #[arg(
        long,
        value_name = "URL",
        default_value = "http://127.0.0.1:5000",
        value_parser = super::parse_address
    )]
    mirror: Vec<Registry>,
    /// Run on until you press Ctrl-C: ask the registry for each tag again and again, and load the image
    /// when the tag names another one.
    #[arg(long)]
    follow: bool,
    /// With --follow, the time between two questions for a tag.
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = humantime::parse_duration, requires = "follow")]
    interval: Duration,
    /// With --follow, print a line of JSON for each image that was loaded, and for each error.
    #[arg(long, requires = "follow")]
    json: bool,
    /// The platform, such as linux/arm64, of which an image is loaded if there are several (default:
    /// that of this host).
    #[arg(long, value_name = "OS/ARCH", conflicts_with = "all_platforms")]
    platform: Option<Platform>,
    /// Load the images of all platforms.
    #[arg(long)]
    all_platforms: bool,
}

impl Arguments {
    fn platforms(&self) -> Platforms {
        match (&self.platform, self.all_platforms) {
            (_, true) => Platforms::All,
            (Some(platform), false) => Platforms::One(platform.clone()),
            (None, false) => Platforms::One(Platform::of_host()),
        }
    }
}

struct BlobProgress {
    blob: ImageBlob,
    received: AtomicU64,
    started: Instant,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Summary {
    loaded: (u64, u64),
    present: (u64, u64),
    failed: u64,
}

/// Loads all images. The exit code is 1 if any could not be loaded.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    if arguments.mirror.len() > 1 && !arguments.follow {
        anyhow::bail!("cannot load into several mirrors: repeat --mirror only with --follow");
    }
    anyhow::ensure!(
        INTERVALS.contains(&arguments.interval),
        "invalid --interval: write a time from 1s to 1day"
    );
    runtime.block_on(async {
        let mut signals = Signals::listen()?;
        let work = async {
            match arguments.follow {
                true => follow::follow(arguments).await,
                false => load(arguments).await,
            }
        };
        tokio::select! {
            code = work => code,
            code = signals.next() => Ok(ExitCode::from(if arguments.follow { 0 } else { code })),
        }
    })
}

async fn load(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let client = MirrorClient::new(&arguments.mirror[0])?;
    let started = Instant::now();
    let platforms = arguments.platforms();
    let mut display = Display::start();
    // The failures are in the order of the images.
    let mut failures: BTreeMap<usize, String> = BTreeMap::new();
    let mut blobs: Vec<(ImageBlob, Vec<usize>)> = Vec::new();
    let mut places: HashMap<ImageBlob, usize> = HashMap::new();
    for (image, plan) in load_manifests(&client, &arguments.images, &platforms).await {
        let name = &arguments.images[image];
        match plan {
            Ok(plan) => {
                let bytes: u64 = plan.blobs.iter().filter_map(|blob| blob.bytes).sum();
                let number = count(plan.blobs.len() as u64);
                display.print(&format!("{name}: {} ({number} blobs)", binary_bytes(bytes)));
                for blob in plan.blobs {
                    let place = *places.entry(blob.clone()).or_insert_with(|| {
                        blobs.push((blob, Vec::new()));
                        blobs.len() - 1
                    });
                    blobs[place].1.push(image);
                }
            }
            Err(error) => drop(failures.insert(image, error.to_string())),
        }
    }
    let summary = load_blobs(&client, blobs, &mut display, &mut failures).await;
    display.end();
    print_line(summary.text(arguments.images.len(), failures.len(), started.elapsed()));
    for (image, error) in &failures {
        eprintln!("error: cannot load {}: {error}", arguments.images[*image]);
    }
    Ok(if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Loads the manifests of all images, and returns what each has.
async fn load_manifests(
    client: &MirrorClient,
    images: &[ImageName],
    platforms: &Platforms,
) -> BTreeMap<usize, Result<ImagePlan, ClientError>> {
    let permits = Arc::new(Semaphore::new(IMAGES_AT_ONCE));
    let mut loading = JoinSet::new();
    for (place, image) in images.iter().cloned().enumerate() {
        let (client, platforms, permits) = (client.clone(), platforms.clone(), permits.clone());
        loading.spawn(async move {
            let _permit = permits.acquire_owned().await;
            (place, client.load_manifests(&image, &platforms).await)
        });
    }
    loading.join_all().await.into_iter().collect()
}

/// Loads blobs, each for the images at these places.
async fn load_blobs(
    client: &MirrorClient,
    blobs: Vec<(ImageBlob, Vec<usize>)>,
    display: &mut Display,
    failures: &mut BTreeMap<usize, String>,
) -> Summary {
    let mut summary = Summary::default();
    let total: u64 = blobs.iter().filter_map(|(blob, _)| blob.bytes).sum();
    let mut waiting = blobs.into_iter();
    let mut running: Vec<Arc<BlobProgress>> = Vec::new();
    let mut loading = JoinSet::new();
    let mut redraw = tokio::time::interval(REDRAW_INTERVAL);
    redraw.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        while loading.len() < BLOBS_AT_ONCE
            && let Some((blob, images)) = waiting.next()
        {
            let (received, started) = (AtomicU64::new(0), Instant::now());
            let progress = Arc::new(BlobProgress { blob, received, started });
            running.push(progress.clone());
            let client = client.clone();
            loading.spawn(async move {
                let result = client.load_blob(&progress.blob, &progress.received).await;
                (progress, images, result)
            });
        }
        tokio::select! {
            ended = loading.join_next() => {
                let Some(ended) = ended else { return summary };
                let (progress, images, result) = match ended {
                    Ok(ended) => ended,
                    Err(error) => std::panic::resume_unwind(error.into_panic()),
                };
                running.retain(|one| !Arc::ptr_eq(one, &progress));
                let received = progress.received.load(Ordering::Relaxed);
                match &result {
                    Ok(source) => {
                        let bytes = progress.blob.bytes.unwrap_or(received);
                        summary.add(*source, bytes);
                        display.print_blob(&progress.blob, *source, bytes, progress.started.elapsed());
                    }
                    // Engines get it from the address that the manifest names.
                    Err(error) if progress.blob.may_be_elsewhere && error.is_unknown_blob() => {
                        display.print(&format!(
                            "{}  not in the registry, which need not have it: engines fetch it from elsewhere",
                            progress.blob.digest
                        ));
                    }
                    Err(error) => {
                        summary.failed += 1;
                        for image in images {
                            failures.entry(image).or_insert_with(|| error.to_string());
                        }
                    }
                }
            }
            _ = redraw.tick() => display.draw(&running, &summary, total),
        }
    }
}

impl Summary {
    fn add(&mut self, source: BlobSource, bytes: u64) {
        let counts = match source {
            BlobSource::Store => &mut self.present,
            BlobSource::Registry | BlobSource::Fleet => &mut self.loaded,
        };
        counts.0 += 1;
        counts.1 += bytes;
    }

    fn text(&self, images: usize, failed_images: usize, took: Duration) -> String {
        let part = |(blobs, bytes): (u64, u64)| {
            format!("{} ({} blobs)", binary_bytes(bytes), count(blobs))
        };
        let rate = self.loaded.1 as f64 / took.as_secs_f64().max(0.001);
        let mut text = format!(
            "In the store: {} of {} images. Loaded {} in {:.1} s, {}/s; there before {}",
            count((images - failed_images) as u64),
            count(images as u64),
            part(self.loaded),
            took.as_secs_f64(),
            binary_bytes(rate as u64),
            part(self.present),
        );
        if self.failed > 0 {
            text += &format!("; failed {} blobs", count(self.failed));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_separates_what_was_there() {
        let mut summary = Summary::default();
        summary.add(BlobSource::Registry, 3 << 20);
        summary.add(BlobSource::Fleet, 1 << 20);
        summary.add(BlobSource::Store, 1024);
        summary.failed = 1;
        let expected = "In the store: 2 of 3 images. Loaded 4.0 MiB (2 blobs) in 2.0 s, 2.0 MiB/s; \
                        there before 1.0 KiB (1 blobs); failed 1 blobs";
        assert_eq!(summary.text(3, 1, Duration::from_secs(2)), expected);
    }
}
