//! The content that a manifest names, and its platforms.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;

use crate::oci::Digest;

/// A platform, such as `linux/amd64` or `linux/arm/v7`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize)]
pub struct Platform {
    os: String,
    architecture: String,
    #[serde(default)]
    variant: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid platform {text:?}: expected <os>/<architecture>, such as linux/amd64 or linux/arm/v7"
)]
pub struct PlatformError {
    text: String,
}

impl Platform {
    /// The platform of containers on this host.
    pub fn of_host() -> Self {
        let (architecture, variant) = match std::env::consts::ARCH {
            "x86_64" => ("amd64", None),
            "x86" => ("386", None),
            "aarch64" => ("arm64", None),
            "arm" => ("arm", Some("v7".to_owned())),
            "powerpc64" => ("ppc64le", None),
            "loongarch64" => ("loong64", None),
            other => (other, None),
        };
        Platform { os: "linux".into(), architecture: architecture.into(), variant }
    }

    /// Whether an image for `offered` is one for this platform.
    fn is(&self, offered: &Platform) -> bool {
        self.os == offered.os
            && self.architecture == offered.architecture
            && (self.variant.is_none() || self.variant == offered.variant)
    }
}

impl FromStr for Platform {
    type Err = PlatformError;

    fn from_str(text: &str) -> Result<Self, PlatformError> {
        let parts: Vec<&str> = text.split('/').collect();
        let is_part =
            |part: &&str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let (os, architecture, variant) = match parts[..] {
            [os, architecture] => (os, architecture, None),
            [os, architecture, variant] => (os, architecture, Some(variant.to_owned())),
            _ => return Err(PlatformError { text: text.to_owned() }),
        };
        match parts.iter().all(is_part) {
            true => Ok(Platform { os: os.into(), architecture: architecture.into(), variant }),
            false => Err(PlatformError { text: text.to_owned() }),
        }
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.os, self.architecture)?;
        match &self.variant {
            Some(variant) => write!(f, "/{variant}"),
            None => Ok(()),
        }
    }
}

/// The platforms whose images are loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Platforms {
    One(Platform),
    All,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NamedBlob {
    pub(super) digest: Digest,
    pub(super) bytes: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Named {
    /// The manifests of an index that are for the platforms.
    Manifests(Vec<Digest>),
    Blobs(Vec<NamedBlob>),
}

#[derive(Deserialize)]
struct ManifestJson {
    config: Option<Descriptor>,
    layers: Option<Vec<Descriptor>>,
    manifests: Option<Vec<Descriptor>>,
    #[serde(rename = "fsLayers")]
    fs_layers: Option<Vec<SchemaOneLayer>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor {
    digest: String,
    size: Option<u64>,
    platform: Option<Platform>,
    #[serde(default)]
    media_type: String,
}

#[derive(Deserialize)]
struct SchemaOneLayer {
    #[serde(rename = "blobSum")]
    blob_sum: String,
}

/// Reads a manifest or an index. The error is the cause.
pub(super) fn read(bytes: &[u8], platforms: &Platforms) -> Result<Named, String> {
    let json: ManifestJson = serde_json::from_slice(bytes)
        .map_err(|error| format!("the manifest is invalid: {error}"))?;
    if let Some(offered) = json.manifests {
        return choose(offered, platforms).map(Named::Manifests);
    }
    let mut blobs = Vec::new();
    for one in json.config.into_iter().chain(json.layers.into_iter().flatten()) {
        // Such a layer is not in the registry.
        let is_elsewhere =
            one.media_type.contains(".foreign.") || one.media_type.contains(".nondistributable.");
        if !is_elsewhere {
            blobs.push(NamedBlob { digest: digest(&one.digest)?, bytes: one.size });
        }
    }
    for layer in json.fs_layers.into_iter().flatten() {
        blobs.push(NamedBlob { digest: digest(&layer.blob_sum)?, bytes: None });
    }
    Ok(Named::Blobs(blobs))
}

fn digest(text: &str) -> Result<Digest, String> {
    text.parse().map_err(|error| format!("the manifest names {text:?}: {error}"))
}

fn choose(offered: Vec<Descriptor>, platforms: &Platforms) -> Result<Vec<Digest>, String> {
    let Platforms::One(wanted) = platforms else {
        return offered.iter().map(|one| digest(&one.digest)).collect();
    };
    let is_wanted = |one: &&Descriptor| one.platform.as_ref().is_some_and(|one| wanted.is(one));
    match offered.iter().find(is_wanted) {
        Some(one) => Ok(vec![digest(&one.digest)?]),
        None => {
            let mut names: Vec<String> = offered
                .iter()
                .filter_map(|one| one.platform.as_ref())
                .filter(|platform| platform.os != "unknown")
                .map(ToString::to_string)
                .collect();
            names.dedup();
            let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            Err(format!(
                "it has no image for {wanted}; choose another --platform, of these: {names}"
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn platform(text: &str) -> Platforms {
        Platforms::One(text.parse().unwrap())
    }

    #[test]
    fn an_index_names_the_image_of_a_platform() {
        let digest = |name: &str| Digest::sha256(name.as_bytes());
        let entry = |name: &str, rest: &str| {
            format!(
                r#"{{"digest": "{}", "size": 1, "platform": {{"os": "linux", {rest}}}}}"#,
                digest(name)
            )
        };
        let text = format!(
            r#"{{"manifests": [{}, {}, {}, {{"digest": "{}"}}]}}"#,
            entry("amd", r#""architecture": "amd64""#),
            entry("v6", r#""architecture": "arm", "variant": "v6""#),
            entry("v7", r#""architecture": "arm", "variant": "v7""#),
            digest("other"),
        );
        let read = |platforms: &Platforms| read(text.as_bytes(), platforms);
        let one = |name: &str| Ok(Named::Manifests(vec![digest(name)]));
        assert_eq!(read(&platform("linux/amd64")), one("amd"));
        assert_eq!(read(&platform("linux/arm/v7")), one("v7"));
        assert_eq!(read(&platform("linux/arm")), one("v6"));
        let all = ["amd", "v6", "v7", "other"].map(digest).to_vec();
        assert_eq!(read(&Platforms::All), Ok(Named::Manifests(all)));
        let error = read(&platform("linux/s390x")).unwrap_err();
        assert!(error.ends_with("linux/amd64, linux/arm/v6, linux/arm/v7"), "{error}");
    }

    #[test]
    fn a_manifest_names_its_config_and_the_layers_of_the_registry() {
        let digest = |name: &str| Digest::sha256(name.as_bytes());
        let text = format!(
            r#"{{"config": {{"digest": "{}", "size": 5}}, "layers": [{{"digest": "{}", "size": 6}},
                {{"digest": "{}", "mediaType": "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip"}}]}}"#,
            digest("config"),
            digest("layer"),
            digest("foreign"),
        );
        let blob = |name: &str, bytes| NamedBlob { digest: digest(name), bytes: Some(bytes) };
        let found = read(text.as_bytes(), &Platforms::All);
        assert_eq!(found, Ok(Named::Blobs(vec![blob("config", 5), blob("layer", 6)])));
        for text in ["", "[]", r#"{"layers": 1}"#, r#"{"layers": [{"digest": "x"}]}"#] {
            assert!(read(text.as_bytes(), &Platforms::All).is_err(), "{text}");
        }
    }

    #[test]
    fn a_platform_has_two_or_three_parts() {
        for text in ["linux/amd64", "linux/arm/v7"] {
            assert_eq!(text.parse::<Platform>().unwrap().to_string(), text);
        }
        for text in ["", "linux", "linux/", "/amd64", "a/b/c/d", "linux/amd 64"] {
            assert!(text.parse::<Platform>().is_err(), "{text}");
        }
        assert_eq!(Platform::of_host().os, "linux");
    }
}
