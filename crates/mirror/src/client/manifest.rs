//! The content that a manifest names, and its platforms.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;

use crate::oci::Digest;

const INDEX_TYPES: [&str; 2] = [
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
];
/// The distance of a platform of 32 bits: it is farther than each version of 64 bits.
const OF_32_BITS: u32 = 100_000;

/// A platform, such as `linux/amd64` or `linux/arm/v7`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize)]
pub struct Platform {
    #[serde(default)]
    os: String,
    #[serde(default)]
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

    /// How far an image for `offered` is from this platform: 0 is equal. `None`: it does not run there. The
    /// order is that of containerd: a lower version of the same architecture, then its 32-bit form.
    fn distance(&self, offered: &Platform) -> Option<u32> {
        if self.os != offered.os {
            return None;
        }
        if self.architecture == offered.architecture && self.variant() == offered.variant() {
            return Some(0);
        }
        let (wanted, found) = (self.version()?, offered.version()?);
        let of_arm = |highest: u32| highest.checked_sub(found).filter(|_| found >= 500);
        match (self.architecture.as_str(), offered.architecture.as_str()) {
            ("amd64", "amd64") => wanted.checked_sub(found),
            ("amd64", "386") => Some(OF_32_BITS),
            ("arm", "arm") => of_arm(wanted),
            ("arm64", "arm64") => {
                // Version 9.0 has what 8.5 has.
                let highest = if wanted >= 900 && found < 900 { wanted - 95 } else { wanted };
                highest.checked_sub(found).map(|_| wanted - found)
            }
            ("arm64", "arm") => of_arm(800).map(|distance| OF_32_BITS + distance),
            _ => None,
        }
    }

    fn variant(&self) -> &str {
        self.variant.as_deref().unwrap_or_default()
    }

    /// The version of the architecture: 802 for v8.2. An image without a variant is for the first one in use.
    fn version(&self) -> Option<u32> {
        let first = match self.architecture.as_str() {
            "arm64" => "v8",
            "arm" => "v7",
            _ => "v1",
        };
        let variant = if self.variant().is_empty() { first } else { self.variant() };
        let variant = variant.trim_start_matches('v');
        let (major, minor) = variant.split_once('.').unwrap_or((variant, "0"));
        Some(u32::from(major.parse::<u8>().ok()?) * 100 + u32::from(minor.parse::<u8>().ok()?))
    }
}

impl FromStr for Platform {
    type Err = PlatformError;

    fn from_str(text: &str) -> Result<Self, PlatformError> {
        let parts: Vec<&str> = text.split('/').collect();
        let is_part = |part: &&str| {
            !part.is_empty()
                && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'.')
        };
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
    /// Whether the registry may lack it: its type says that not everybody may distribute it.
    pub(super) may_be_elsewhere: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Named {
    /// The manifests of an index that are for the platforms, or that may name them.
    Manifests(Vec<Digest>),
    /// An index without an image for the platform has images for these.
    OtherPlatforms(Vec<String>),
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
        return choose(&offered, platforms);
    }
    let mut blobs = Vec::new();
    for one in json.config.into_iter().chain(json.layers.into_iter().flatten()) {
        let may_be_elsewhere =
            one.media_type.contains(".foreign.") || one.media_type.contains(".nondistributable.");
        blobs.push(NamedBlob { digest: digest(&one.digest)?, bytes: one.size, may_be_elsewhere });
    }
    for layer in json.fs_layers.into_iter().flatten() {
        let digest = digest(&layer.blob_sum)?;
        blobs.push(NamedBlob { digest, bytes: None, may_be_elsewhere: false });
    }
    Ok(Named::Blobs(blobs))
}

fn digest(text: &str) -> Result<Digest, String> {
    text.parse().map_err(|error| format!("the manifest names {text:?}: {error}"))
}

/// Chooses as containerd does: the nearest platform, and what names no platform only if none is near. Of several
/// indexes without a platform, each may have the image.
fn choose(offered: &[Descriptor], platforms: &Platforms) -> Result<Named, String> {
    let digests = |chosen: &[&Descriptor]| {
        let digests = chosen.iter().map(|one| digest(&one.digest));
        digests.collect::<Result<_, _>>().map(Named::Manifests)
    };
    let Platforms::One(wanted) = platforms else {
        return digests(&offered.iter().collect::<Vec<_>>());
    };
    let near =
        offered.iter().filter_map(|one| Some((wanted.distance(one.platform.as_ref()?)?, one)));
    if let Some((_, nearest)) = near.min_by_key(|(distance, _)| *distance) {
        return digests(&[nearest]);
    }
    let unnamed: Vec<_> = offered.iter().filter(|one| one.platform.is_none()).collect();
    let is_index = |one: &&Descriptor| INDEX_TYPES.contains(&one.media_type.as_str());
    let indexes: Vec<_> = unnamed.iter().copied().filter(is_index).collect();
    match (indexes.is_empty(), unnamed.first()) {
        (false, _) => digests(&indexes),
        (true, Some(first)) => digests(&[first]),
        (true, None) => {
            let names = offered.iter().filter_map(|one| one.platform.as_ref());
            let names = names.filter(|platform| platform.os != "unknown");
            Ok(Named::OtherPlatforms(names.map(ToString::to_string).collect()))
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
        // As containerd: without a variant it is v7.
        assert_eq!(read(&platform("linux/arm")), one("v7"));
        let all = ["amd", "v6", "v7", "other"].map(digest).to_vec();
        assert_eq!(read(&Platforms::All), Ok(Named::Manifests(all)));
        assert_eq!(read(&platform("linux/s390x")), one("other"), "it may be for any platform");
        let others = text.replace(&format!(r#", {{"digest": "{}"}}"#, digest("other")), "");
        let found = super::read(others.as_bytes(), &platform("linux/s390x"));
        let names = ["linux/amd64", "linux/arm/v6", "linux/arm/v7"].map(str::to_owned).to_vec();
        assert_eq!(found, Ok(Named::OtherPlatforms(names)));
    }

    #[test]
    fn the_platform_is_chosen_as_containerd_chooses_it() {
        for (wanted, offered, chosen) in [
            ("amd64", &["amd64/v3", "amd64"][..], Some("amd64")),
            ("amd64", &["amd64/v3", "386"], Some("386")),
            ("amd64", &["386", "amd64/v1"], Some("amd64/v1")),
            ("amd64", &["amd64/v2"], None),
            ("amd64/v3", &["amd64", "amd64/v4", "amd64/v2"], Some("amd64/v2")),
            ("arm64/v8", &["arm/v7", "arm64"], Some("arm64")),
            ("arm64", &["arm64/v9", "arm64/v8"], Some("arm64/v8")),
            ("arm64", &["arm/v6", "arm/v7"], Some("arm/v7")),
            ("arm64/v9", &["arm64", "arm64/v8.6", "arm64/v8.5"], Some("arm64/v8.5")),
            ("arm", &["arm/v5", "arm/v8", "arm/v6"], Some("arm/v6")),
            ("arm/v6", &["arm/v7"], None),
            ("riscv64", &["riscv64/rva23", "riscv64"], Some("riscv64")),
            ("riscv64", &["s390x"], None),
        ] {
            let parse = |text: &str| format!("linux/{text}").parse::<Platform>().unwrap();
            let near =
                offered.iter().filter_map(|one| Some((parse(wanted).distance(&parse(one))?, *one)));
            let found = near.min_by_key(|(distance, _)| *distance).map(|(_, one)| one);
            assert_eq!(found, chosen, "{wanted} of {offered:?}");
        }
        let windows = Platform { os: "windows".into(), ..Platform::of_host() };
        assert_eq!(Platform::of_host().distance(&windows), None);
    }

    #[test]
    fn each_index_without_a_platform_may_have_the_image() {
        let [a, b, c] = ["a", "b", "c"].map(|name| Digest::sha256(name.as_bytes()));
        let text = format!(
            r#"{{"manifests": [{{"digest": "{a}"}}, {{"digest": "{b}", "mediaType": "{0}"}}, {{"digest": "{c}", "mediaType": "{0}"}}]}}"#,
            INDEX_TYPES[0]
        );
        assert_eq!(
            read(text.as_bytes(), &platform("linux/amd64")),
            Ok(Named::Manifests(vec![b, c]))
        );
    }

    #[test]
    fn a_manifest_names_its_config_and_its_layers() {
        let digest = |name: &str| Digest::sha256(name.as_bytes());
        let text = format!(
            r#"{{"config": {{"digest": "{}", "size": 5}}, "layers": [{{"digest": "{}", "size": 6}},
                {{"digest": "{}", "mediaType": "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip"}}]}}"#,
            digest("config"),
            digest("layer"),
            digest("foreign"),
        );
        let blob = |name: &str, bytes, may_be_elsewhere| NamedBlob {
            digest: digest(name),
            bytes,
            may_be_elsewhere,
        };
        let found = read(text.as_bytes(), &Platforms::All);
        let foreign = blob("foreign", None, true);
        let own = [blob("config", Some(5), false), blob("layer", Some(6), false)];
        assert_eq!(found, Ok(Named::Blobs([&own[..], &[foreign]].concat())));
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
