//! Which registry a request is for.

use std::sync::Arc;

use http::request::Parts;
use percent_encoding::percent_decode_str;

use super::Shared;
use crate::images::Pull;
use crate::oci::{ApiError, ErrorCode, Repository, Resource, parse_path};
use crate::upstream::Upstream;

/// The registry that `?ns=` names, such as `docker.io` or `registry.example:8443`.
pub(super) fn of_query(query: Option<&str>) -> Option<String> {
    let pairs = query?.split('&').filter_map(|pair| pair.split_once('='));
    let (_, value) = pairs.into_iter().find(|(name, _)| *name == "ns")?;
    Some(percent_decode_str(value).decode_utf8_lossy().into_owned())
}

/// The registry of a request, or why there is none.
pub(super) type Target = Result<Arc<Upstream>, ApiError>;

impl Shared {
    /// The resource of a request, with the registry of its repository.
    ///
    /// `?ns=` names the registry, as containerd sends it. Without it, the first part of the
    /// repository's name may be a registry, such as `/v2/ghcr.io/owner/image`, which is no part of the name
    /// at that registry. Otherwise it is the first registry of the settings.
    pub(super) fn resource(&self, request: &Parts) -> Option<Result<(Target, Resource), ApiError>> {
        // Some clients escape the colon of a digest.
        let path = percent_decode_str(request.uri.path()).decode_utf8().ok()?;
        let unnamed = |target: Target| Some(parse_path(&path)?.map(|resource| (target, resource)));
        if let Some(name) = of_query(request.uri.query()) {
            return unnamed(self.find(&name).ok_or_else(|| {
                let message =
                    format!("the registry {name:?} is not mirrored: add it with --upstream");
                ApiError::new(ErrorCode::NameUnknown, message)
            }));
        }
        let of_registry = || {
            let (name, rest) = path.strip_prefix("/v2/")?.split_once('/')?;
            let upstream = self.find(name).filter(|_| !rest.is_empty())?;
            Some(parse_path(&format!("/v2/{rest}"))?.map(|resource| (Ok(upstream), resource)))
        };
        of_registry().or_else(|| {
            unnamed(self.upstreams.first().cloned().ok_or_else(|| {
                let message = "no registry is mirrored: name one with --upstream";
                ApiError::new(ErrorCode::NameUnknown, message)
            }))
        })
    }

    fn find(&self, name: &str) -> Option<Arc<Upstream>> {
        let name = name.to_ascii_lowercase();
        let name = if is_docker_hub(&name) { "docker.io" } else { &name };
        self.upstreams.iter().find(|one| one.registry().name() == name).cloned()
    }
}

fn is_docker_hub(name: &str) -> bool {
    matches!(name, "docker.io" | "index.docker.io" | "registry-1.docker.io")
}

/// Docker Hub's own images are in the repositories `library/…`.
pub(super) fn pull(target: Target, repository: Repository) -> Result<Pull, ApiError> {
    let upstream = target?;
    let is_short = upstream.registry().name() == "docker.io" && !repository.as_str().contains('/');
    let full = is_short.then(|| format!("library/{repository}").parse().ok()).flatten();
    Ok(Pull { upstream, repository: full.unwrap_or(repository) })
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
