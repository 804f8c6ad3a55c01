//! Which registry a request is for.

use std::sync::Arc;

use http::request::Parts;
use percent_encoding::percent_decode_str;

use super::Shared;
use crate::images::Pull;
use crate::oci::{ApiError, ErrorCode, Repository};
use crate::upstream::Upstream;

/// The registry that `?ns=` names, such as `docker.io` or `registry.example:8443`.
pub(super) fn of_query(query: Option<&str>) -> Option<String> {
    let pairs = query?.split('&').filter_map(|pair| pair.split_once('='));
    let (_, value) = pairs.into_iter().find(|(name, _)| *name == "ns")?;
    Some(percent_decode_str(value).decode_utf8_lossy().into_owned())
}

impl Shared {
    /// The registry and the repository of a request.
    ///
    /// `?ns=` names the registry, as containerd sends it. Without it, the first part of the
    /// repository's name may be a registry, such as `/v2/ghcr.io/owner/image`. Otherwise it is the
    /// first registry of the settings.
    pub(super) fn pull(&self, request: &Parts, repository: &Repository) -> Result<Pull, ApiError> {
        let find = |name: &str| {
            let name = if is_docker_hub(name) { "docker.io" } else { name };
            self.upstreams.iter().find(|one| one.registry().name() == name).cloned()
        };
        if let Some(name) = of_query(request.uri.query()) {
            let unknown = || {
                let message =
                    format!("the registry {name:?} is not mirrored: add it with --upstream");
                ApiError::new(ErrorCode::NameUnknown, message)
            };
            return Ok(pull(find(&name).ok_or_else(unknown)?, repository));
        }
        if let Some((name, rest)) = repository.as_str().split_once('/')
            && let Some(upstream) = find(name)
            && let Ok(rest) = rest.parse()
        {
            return Ok(pull(upstream, &rest));
        }
        let upstream = self.upstreams.first().cloned().ok_or_else(|| {
            let message = "no registry is mirrored: name one with --upstream";
            ApiError::new(ErrorCode::NameUnknown, message)
        })?;
        Ok(pull(upstream, repository))
    }
}

fn is_docker_hub(name: &str) -> bool {
    matches!(name, "docker.io" | "index.docker.io" | "registry-1.docker.io")
}

/// Docker Hub's own images are in the repositories `library/…`.
fn pull(upstream: Arc<Upstream>, repository: &Repository) -> Pull {
    let is_short = upstream.registry().name() == "docker.io" && !repository.as_str().contains('/');
    let full = is_short.then(|| format!("library/{repository}").parse().ok()).flatten();
    Pull { upstream, repository: full.unwrap_or_else(|| repository.clone()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_namespace_is_decoded() {
        let of = |query| of_query(Some(query));
        assert_eq!(of("ns=other.example%3A8443").as_deref(), Some("other.example:8443"));
        assert_eq!(of("a=b&ns=docker.io&n=1").as_deref(), Some("docker.io"));
        assert_eq!(of("nsx=1"), None);
        assert_eq!(of("ns"), None);
        assert_eq!(of("ns=%ff\u{fffd}").as_deref(), Some("\u{fffd}\u{fffd}"));
    }
}
