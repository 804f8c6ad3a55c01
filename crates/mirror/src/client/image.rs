//! Names of images, as users write them.

use std::fmt;
use std::str::FromStr;

use watchfire_content::Cid;

use crate::images::IPFS;
use crate::oci::{Reference, Repository};

/// An image of a registry.
///
/// ```
/// use watchfire_mirror::client::ImageName;
///
/// let short: ImageName = "nginx".parse().unwrap();
/// assert_eq!(short.to_string(), "docker.io/library/nginx:latest");
/// let long: ImageName = "ghcr.io/owner/app:v1".parse().unwrap();
/// assert_eq!(long.registry, "ghcr.io");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ImageName {
    /// The registry, with a port if it has one.
    pub registry: String,
    pub repository: Repository,
    pub reference: Reference,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid image name {text:?}: {cause}; write it as in nginx:1.27, ghcr.io/owner/app:v1, app@sha256:<digest>, or ipfs://<cid>"
)]
pub struct ImageNameError {
    pub text: String,
    cause: String,
}

impl FromStr for ImageName {
    type Err = ImageNameError;

    fn from_str(text: &str) -> Result<Self, ImageNameError> {
        let invalid = |cause: String| ImageNameError { text: text.to_owned(), cause };
        if let Some(cid) = text.strip_prefix(IPFS) {
            let cid: Cid = cid.parse().map_err(|error| invalid(format!("{error}")))?;
            let cid = Cid::v1(cid.codec(), cid.hash().clone());
            let repository =
                format!("ipfs/{cid}").parse().map_err(|error| invalid(format!("{error}")))?;
            let latest = "latest".parse().expect("it is a valid tag");
            let (registry, reference) = (IPFS.to_owned(), Reference::Tag(latest));
            return Ok(ImageName { registry, repository, reference });
        }
        let (name, digest) = match text.split_once('@') {
            Some((name, digest)) => (name, Some(digest)),
            None => (text, None),
        };
        let (registry, path) = match name.split_once('/') {
            Some((first, rest)) if is_registry(first) => (first, rest),
            _ => ("docker.io", name),
        };
        let registry = match registry {
            "index.docker.io" | "registry-1.docker.io" => "docker.io",
            registry => registry,
        };
        let (path, tag) = match path.split_once(':') {
            Some((path, tag)) => (path, Some(tag)),
            None => (path, None),
        };
        let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte);
        if !registry.bytes().all(is_host) {
            return Err(invalid(format!("{registry:?} is no registry")));
        }
        // Docker Hub's own images are in the repositories `library/…`.
        let is_short = registry == "docker.io" && !path.contains('/');
        let full = if is_short { format!("library/{path}") } else { path.to_owned() };
        let repository = full.parse().map_err(|_| {
            invalid(format!(
                "the repository {path:?} is not of lower-case letters and digits, with '.', '_' or '-' between them, separated by '/'"
            ))
        })?;
        let tag = tag.unwrap_or("latest").parse().map_err(|error| invalid(format!("{error}")))?;
        let reference = match digest {
            // A digest beside a tag says more than the tag.
            Some(digest) => {
                Reference::Digest(digest.parse().map_err(|error| invalid(format!("{error}")))?)
            }
            None => Reference::Tag(tag),
        };
        Ok(ImageName { registry: registry.to_owned(), repository, reference })
    }
}

/// Whether the first part of a name is a registry, as Docker decides it.
fn is_registry(first: &str) -> bool {
    first.contains(['.', ':']) || first == "localhost"
}

impl fmt::Display for ImageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ImageName { registry, repository, reference } = self;
        if registry == IPFS {
            return write!(f, "{IPFS}{}", repository.as_str().trim_start_matches("ipfs/"));
        }
        let separator = match reference {
            Reference::Tag(_) => ':',
            Reference::Digest(_) => '@',
        };
        write!(f, "{registry}/{repository}{separator}{reference}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oci::Digest;

    const IPFS_IMAGE: &str = "ipfs://bafkreigzafgemjeejks3vqyuo46ww2e22rt7utq5djikdofjtvnjl5zp6u";
    const EMPTY_FOLDER: &str = "ipfs://bafybeiczsscdsbs7ffqz55asqdf3smv6klcw3gofszvwlyarci47bgf354";

    #[test]
    fn names_are_read_as_docker_reads_them() {
        let digest = Digest::sha256(b"x");
        let pinned = format!("app/web:v1@{digest}");
        let pinned_full = format!("docker.io/app/web@{digest}");
        for (text, full) in [
            ("nginx", "docker.io/library/nginx:latest"),
            ("nginx:1.27-alpine", "docker.io/library/nginx:1.27-alpine"),
            ("docker.io/nginx", "docker.io/library/nginx:latest"),
            ("index.docker.io/library/nginx", "docker.io/library/nginx:latest"),
            ("owner/app", "docker.io/owner/app:latest"),
            ("ghcr.io/a/b:tag", "ghcr.io/a/b:tag"),
            ("quay.io/app", "quay.io/app:latest"),
            ("localhost/app", "localhost/app:latest"),
            // A host alone is the name of a repository.
            ("a.example", "docker.io/library/a.example:latest"),
            ("127.0.0.1:5000/a/b", "127.0.0.1:5000/a/b:latest"),
            ("[::1]:5000/a:v1", "[::1]:5000/a:v1"),
            (&pinned, &pinned_full),
            (IPFS_IMAGE, IPFS_IMAGE),
            ("ipfs://QmUNLLsPACCz1vLxQVkXqqLX5R1X345qqfHbsf67hvA3Nn", EMPTY_FOLDER),
        ] {
            assert_eq!(text.parse::<ImageName>().unwrap().to_string(), full, "{text}");
        }
    }

    #[test]
    fn other_texts_are_errors_that_name_the_text() {
        for text in [
            "",
            ":",
            "/",
            "a/",
            "Nginx",
            "nginx:",
            "nginx:a b",
            "nginx:-x",
            "a//b",
            "a@",
            "a@sha256:0",
            "http://a.example/b",
            "a.example:x/",
            "é",
            "a.ex ample/b",
            "a:b:c",
            "a@b@c",
            "https://a.example:5000/b:v1",
            "a.b?ns=c/d",
            "ipfs://",
            "ipfs://latest",
            "ipfs://bafy/x",
        ] {
            let error = text.parse::<ImageName>().unwrap_err().to_string();
            assert!(error.contains(&format!("{text:?}")), "{error}");
        }
    }
}
