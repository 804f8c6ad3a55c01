//! `watchfire mirror cid`: the CIDs of an image.

use std::process::ExitCode;

use anyhow::Context as _;
use serde_json::json;
use watchfire_mirror::ContentCid;
use watchfire_mirror::client::{ImageName, MirrorClient, Platform, Platforms};
use watchfire_mirror::upstream::Registry;
use watchfire_report::units::binary_bytes;

use crate::serve::print_line;

/// Arguments of `watchfire mirror cid`.
#[derive(clap::Args)]
pub struct Arguments {
    /// An image, such as nginx, ghcr.io/owner/app:v1, app@sha256:<digest>, or ipfs://<cid>.
    #[arg(value_name = "IMAGE")]
    image: ImageName,
    /// The address of the mirror. It tells CIDs only to programs of its own host.
    #[arg(
        long,
        value_name = "URL",
        default_value = "http://127.0.0.1:5000",
        value_parser = super::parse_address
    )]
    mirror: Registry,
    /// The platform, such as linux/arm64, of the image if there are several (default: that of this host).
    #[arg(long, value_name = "OS/ARCH")]
    platform: Option<Platform>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Prints the CIDs. The exit code is 1 if the store of the mirror lacks any content.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(print(arguments))
}

async fn print(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let Arguments { image, mirror, platform, json } = arguments;
    let client = MirrorClient::new(mirror)?;
    let platform = platform.clone().unwrap_or_else(Platform::of_host);
    let plan = client.load_manifests(image, &Platforms::One(platform)).await?;
    let manifest = plan.images.first().with_context(|| format!("{image} is not an image"))?;
    let contents = client.cids(manifest).await?;
    let without =
        || format!("cannot show the CIDs of {image}: the mirror named no content; update it");
    let (folder, parts) = contents.split_first().with_context(without)?;
    let pull = folder.cid.as_ref().map(|cid| format!("{}/ipfs/{cid}@{manifest}", mirror.name()));
    if *json {
        let json = json!({ "pull": pull, "contents": contents });
        print_line(serde_json::to_string_pretty(&json)?);
    } else {
        for ContentCid { kind, digest, bytes, cid, is_public } in &contents {
            let size = bytes.map_or("-".to_owned(), binary_bytes);
            let cid = cid.as_deref().unwrap_or("-");
            let public = if *is_public { "" } else { "  not public" };
            print_line(format_args!("{kind:<8}  {digest}  {size:>10}  {cid}{public}"));
        }
        if let Some(pull) = pull {
            print_line(format_args!("Container engines pull it as {pull}"));
        }
    }
    if parts.iter().any(|content| content.cid.is_none()) {
        anyhow::bail!("the store lacks a part of {image}: run `watchfire mirror preload {image}`");
    }
    Ok(ExitCode::SUCCESS)
}
