//! The paths below `/v2/`.

use super::digest::Digest;
use super::error::{ApiError, ErrorCode};
use super::name::Repository;
use super::reference::{Reference, ReferenceError};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resource {
    /// `/v2/`: whether the server speaks this protocol.
    Root,
    Manifest(Repository, Reference),
    Blob(Repository, Digest),
    Tags(Repository),
    /// The manifests that refer to a manifest, such as signatures.
    Referrers(Repository, Digest),
}

/// The resource of a path, such as `/v2/library/debian/manifests/latest`. `None`: the path is not
/// one of this protocol.
pub fn parse_path(path: &str) -> Option<Result<Resource, ApiError>> {
    let rest = match path {
        "/v2" | "/v2/" => return Some(Ok(Resource::Root)),
        path => path.strip_prefix("/v2/")?,
    };
    let (rest, last) = rest.rsplit_once('/')?;
    let (name, kind) = rest.rsplit_once('/')?;
    let resource = match (kind, last) {
        ("manifests", reference) => manifest(name, reference),
        ("blobs", digest) => blob(name, digest),
        ("tags", "list") => repository(name).map(Resource::Tags),
        ("referrers", digest) => referrers(name, digest),
        _ => return None,
    };
    Some(resource)
}

fn repository(name: &str) -> Result<Repository, ApiError> {
    name.parse().map_err(|error| invalid(ErrorCode::NameInvalid, &error))
}

fn manifest(name: &str, reference: &str) -> Result<Resource, ApiError> {
    let reference = reference.parse().map_err(|error| match error {
        ReferenceError::Digest(error) => invalid(ErrorCode::DigestInvalid, &error),
        ReferenceError::Tag(error) => invalid(ErrorCode::TagInvalid, &error),
    })?;
    Ok(Resource::Manifest(repository(name)?, reference))
}

fn blob(name: &str, digest: &str) -> Result<Resource, ApiError> {
    let digest = digest.parse().map_err(|error| invalid(ErrorCode::DigestInvalid, &error))?;
    Ok(Resource::Blob(repository(name)?, digest))
}

fn referrers(name: &str, digest: &str) -> Result<Resource, ApiError> {
    let digest = digest.parse().map_err(|error| invalid(ErrorCode::DigestInvalid, &error))?;
    Ok(Resource::Referrers(repository(name)?, digest))
}

fn invalid(code: ErrorCode, error: &dyn std::error::Error) -> ApiError {
    ApiError::new(code, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_resources() {
        let digest = Digest::sha256(b"");
        let name: Repository = "a/manifests/b".parse().unwrap();
        let parsed = |path: &str| parse_path(path).unwrap().unwrap();
        assert_eq!(parsed("/v2/"), Resource::Root);
        assert_eq!(
            parsed("/v2/a/manifests/b/manifests/v1"),
            Resource::Manifest(name.clone(), "v1".parse().unwrap())
        );
        assert_eq!(
            parsed(&format!("/v2/a/manifests/b/blobs/{digest}")),
            Resource::Blob(name.clone(), digest.clone())
        );
        assert_eq!(parsed("/v2/a/manifests/b/tags/list"), Resource::Tags(name.clone()));
        assert_eq!(
            parsed(&format!("/v2/a/manifests/b/referrers/{digest}")),
            Resource::Referrers(name, digest)
        );
    }

    #[test]
    fn other_paths_are_refused_or_not_found() {
        let code = |path: &str| parse_path(path).unwrap().unwrap_err().code;
        assert_eq!(code("/v2/a/manifests/sha256:00"), ErrorCode::DigestInvalid);
        assert_eq!(code("/v2/a/blobs/latest"), ErrorCode::DigestInvalid);
        assert_eq!(code("/v2/a/manifests/.x"), ErrorCode::TagInvalid);
        assert_eq!(code("/v2/A/manifests/x"), ErrorCode::NameInvalid);
        assert_eq!(code("/v2//manifests/x"), ErrorCode::NameInvalid);
        for path in ["/", "/v1/a", "/v2/a", "/v2/a/b", "/v2/a/uploads/1", "/v2/a/tags/all"] {
            assert_eq!(parse_path(path), None, "{path}");
        }
    }
}
