//! The media types that a client accepts, and which answers for one client serve another.

use http::HeaderValue;

use crate::oci::Digest;

/// The media types that are asked for when a client names none.
const DEFAULT: &str = "application/vnd.oci.image.index.v1+json, \
    application/vnd.oci.image.manifest.v1+json, \
    application/vnd.docker.distribution.manifest.list.v2+json, \
    application/vnd.docker.distribution.manifest.v2+json, */*";
/// The types that name the manifests of several platforms.
const LISTS: [&str; 2] = [
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
];
/// A longer key is replaced by its hash.
const KEY_BYTES_MAX: usize = 1024;

/// The media types that a client accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Accept {
    pub(crate) header: HeaderValue,
    /// Equal for headers that accept the same.
    pub(crate) key: String,
}

impl Default for Accept {
    fn default() -> Self {
        Accept::of(HeaderValue::from_static(DEFAULT))
    }
}

impl Accept {
    /// The lines of a request's headers. A client may send several, and a registry looks at all of them.
    /// Some registries do not understand that `*/*` includes the types of OCI, so it is replaced by a
    /// list.
    pub(crate) fn of_lines<'a>(lines: impl Iterator<Item = &'a HeaderValue>) -> Self {
        let lines: Vec<_> = lines.filter_map(|line| line.to_str().ok()).collect();
        if lines.iter().all(|line| line.trim() == "*/*") {
            return Accept::default();
        }
        match HeaderValue::from_str(&lines.join(", ")) {
            Ok(header) if !header.is_empty() => Accept::of(header),
            _ => Accept::default(),
        }
    }

    fn of(header: HeaderValue) -> Self {
        let text = header.to_str().unwrap_or_default().to_ascii_lowercase();
        let mut ranges: Vec<String> = text
            .split(',')
            .map(|range| range.chars().filter(|one| !one.is_whitespace()).collect())
            .filter(|range: &String| !range.is_empty())
            .collect();
        ranges.sort_unstable();
        ranges.dedup();
        let mut key = ranges.join(",");
        if key.len() > KEY_BYTES_MAX {
            key = Digest::sha256(key.as_bytes()).to_string();
        }
        Accept { header, key }
    }

    pub(crate) fn accepts(&self, media_type: &str) -> bool {
        accepts(&self.key, media_type)
    }
}

/// Whether a manifest that a registry named for one client may serve another one, while the registry
/// cannot be asked. Both are keys of [`Accept`].
///
/// A list of platforms may, if its type is accepted. The manifest of one platform may only if the first
/// client accepted every form of list that the other one accepts: otherwise the registry may have chosen
/// a platform for a client without lists.
pub(crate) fn may_serve(named_for: &str, wanted_by: &str, media_type: &str) -> bool {
    let is_list = LISTS.contains(&media_type.to_ascii_lowercase().as_str());
    let had_choice =
        || LISTS.iter().all(|list| accepts(named_for, list) || !accepts(wanted_by, list));
    accepts(wanted_by, media_type) && (is_list || had_choice())
}

/// Whether a parameter is `q=0`: the type is not accepted (RFC 9110, 12.4.2).
fn is_weight_of_none(parameter: &str) -> bool {
    let weight = parameter.strip_prefix("q=").map(str::parse::<f32>);
    weight.is_some_and(|weight| weight == Ok(0.0))
}

fn accepts(key: &str, media_type: &str) -> bool {
    key.split(',').any(|range| {
        let (range, parameters) = range.split_once(';').unwrap_or((range, ""));
        if parameters.split(';').any(is_weight_of_none) {
            return false;
        }
        range == "*/*" || range.eq_ignore_ascii_case(media_type) || range == "application/*"
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCKER: &str = "application/vnd.docker.distribution.manifest.v2+json";
    const OCI_INDEX: &str = LISTS[0];
    const DOCKER_LIST: &str = LISTS[1];

    fn accept(lines: &[&'static str]) -> Accept {
        let lines: Vec<_> = lines.iter().map(|line| HeaderValue::from_static(line)).collect();
        Accept::of_lines(lines.iter())
    }

    #[test]
    fn several_accept_headers_are_one_list() {
        let both = accept(&["application/a", "application/b;q=0.5, text/plain"]);
        assert_eq!(both.header, "application/a, application/b;q=0.5, text/plain");
        assert!(both.accepts("application/b") && !both.accepts("application/c"));
        let refused = accept(&["application/a;q=0, application/b; q=0.000, application/c;q=0.1"]);
        assert!(!refused.accepts("application/a") && !refused.accepts("application/b"));
        assert!(refused.accepts("application/c"));
        for lines in [&[][..], &["*/*"]] {
            let accept = accept(lines);
            assert_eq!(accept.header, DEFAULT);
            assert!(accept.accepts("anything/else"));
        }
    }

    #[test]
    fn headers_that_accept_the_same_have_one_key() {
        let key = |lines: &[&'static str]| accept(lines).key;
        assert_eq!(key(&["b/c;q=0.5 , A/b"]), key(&["a/b", "b/c; q=0.5", "a/b"]));
        assert_ne!(key(&["a/b;q=0.5"]), key(&["a/b"]));
        let long: &'static str = "application/x,".repeat(10).leak();
        let many: Vec<String> = (0..200).map(|n| format!("{long}application/{n}")).collect();
        let many: &'static str = many.join(",").leak();
        assert!(key(&[many]).starts_with("sha256:"));
    }

    #[test]
    fn a_manifest_of_one_platform_serves_only_a_client_without_further_lists() {
        let both = format!("{DOCKER},{DOCKER_LIST}");
        // The registry had to choose a platform for the first client.
        assert!(!may_serve(DOCKER, &both, DOCKER));
        assert!(!may_serve(DOCKER, "*/*", DOCKER));
        assert!(!may_serve(&both, &format!("{both},{OCI_INDEX}"), DOCKER));
        assert!(may_serve(&both, DOCKER, DOCKER) && may_serve(&both, &both, DOCKER));
        // A list serves everyone that reads it.
        assert!(may_serve(&both, &format!("{DOCKER_LIST},{OCI_INDEX}"), DOCKER_LIST));
        assert!(!may_serve(&both, DOCKER, DOCKER_LIST));
    }
}
