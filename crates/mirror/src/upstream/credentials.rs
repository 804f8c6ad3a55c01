//! Credentials for upstream registries, from the files of Docker, Podman and Kubernetes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use tokio::io::AsyncWriteExt as _;

const FILE_BYTES_MAX: u64 = 1 << 20;
const HELPER_TIMEOUT: Duration = Duration::from_secs(10);
/// The key under which Docker stores the credentials of Docker Hub.
const DOCKER_HUB_KEY: &str = "https://index.docker.io/v1/";
/// The name with which a credential helper returns an identity token.
const TOKEN_USER: &str = "<token>";

#[derive(Clone, PartialEq, Eq)]
pub enum Credential {
    Basic {
        user: String,
        password: String,
    },
    /// A refresh token, which the token server exchanges.
    IdentityToken(String),
}

impl std::fmt::Debug for Credential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Credential")
    }
}

#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    #[error("cannot read the credentials file {}: {error}", path.display())]
    Read { path: PathBuf, error: std::io::Error },
    #[error("cannot read the credentials file {}: it has more than {FILE_BYTES_MAX} bytes", path.display())]
    TooLarge { path: PathBuf },
    #[error(
        "cannot read the credentials file {}: it is not a Docker config.json: {error}", path.display()
    )]
    Format { path: PathBuf, error: serde_json::Error },
    #[error(
        "cannot read the credentials for {registry} in {}: \"auth\" is not base64 of <name>:<password>", path.display()
    )]
    Auth { path: PathBuf, registry: String },
    #[error("cannot get credentials from {helper}: {cause}")]
    Helper { helper: String, cause: String },
}

/// Files with credentials. Each is read again for each request of a new token, so a changed file
/// needs no restart.
#[derive(Clone, Debug, Default)]
pub struct CredentialFiles {
    /// The files: `config.json` of Docker, `auth.json` of Podman, or the `.dockerconfigjson` of a
    /// Kubernetes pull secret. The first file with an entry for a registry is used.
    pub files: Vec<PathBuf>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct DockerConfig {
    // Programs in Go write null for an empty map.
    auths: Option<BTreeMap<String, Option<AuthEntry>>>,
    cred_helpers: Option<BTreeMap<String, String>>,
    creds_store: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct AuthEntry {
    auth: Option<String>,
    username: Option<String>,
    password: Option<String>,
    identitytoken: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct HelperAnswer {
    username: String,
    secret: String,
}

impl CredentialFiles {
    /// The credential for a registry, and, where the file has one, for a repository of it.
    pub async fn find(
        &self,
        registry: &str,
        repository: &str,
    ) -> Result<Option<Credential>, CredentialsError> {
        for path in &self.files {
            let config = read(path).await?;
            if let Some(credential) = config.find(path, registry, repository).await? {
                return Ok(Some(credential));
            }
        }
        Ok(None)
    }

    /// Reads every file, to report mistakes at the start.
    pub async fn check(&self) -> Result<(), CredentialsError> {
        for path in &self.files {
            read(path).await?;
        }
        Ok(())
    }
}

async fn read(path: &Path) -> Result<DockerConfig, CredentialsError> {
    let failed = |error| CredentialsError::Read { path: path.to_owned(), error };
    if tokio::fs::metadata(path).await.map_err(failed)?.len() > FILE_BYTES_MAX {
        return Err(CredentialsError::TooLarge { path: path.to_owned() });
    }
    let text = tokio::fs::read(path).await.map_err(failed)?;
    serde_json::from_slice(&text)
        .map_err(|error| CredentialsError::Format { path: path.to_owned(), error })
}

impl DockerConfig {
    async fn find(
        &self,
        path: &Path,
        registry: &str,
        repository: &str,
    ) -> Result<Option<Credential>, CredentialsError> {
        let keys = keys(registry, repository);
        let helpers = self.cred_helpers.as_ref();
        if let Some(helper) = helpers.and_then(|all| keys.iter().find_map(|key| all.get(key))) {
            return ask_helper(helper, registry).await;
        }
        let auths = self.auths.as_ref();
        let entry = auths.and_then(|all| keys.iter().find_map(|key| all.get(key)?.as_ref()));
        if let Some(credential) = entry.map(|entry| entry.credential()) {
            match credential {
                Some(Ok(credential)) => return Ok(Some(credential)),
                Some(Err(())) => {
                    let registry = registry.to_owned();
                    return Err(CredentialsError::Auth { path: path.to_owned(), registry });
                }
                // Docker writes an empty entry when a store has the credential.
                None => {}
            }
        }
        match &self.creds_store {
            Some(helper) => ask_helper(helper, registry).await,
            None => Ok(None),
        }
    }
}

impl AuthEntry {
    fn credential(&self) -> Option<Result<Credential, ()>> {
        if let Some(token) = self.identitytoken.as_ref().filter(|token| !token.is_empty()) {
            return Some(Ok(Credential::IdentityToken(token.clone())));
        }
        if let (Some(user), Some(password)) = (&self.username, &self.password) {
            let (user, password) = (user.clone(), password.clone());
            return Some(Ok(Credential::Basic { user, password }));
        }
        let auth = self.auth.as_ref().filter(|auth| !auth.is_empty())?;
        Some(decode_auth(auth).ok_or(()))
    }
}

fn decode_auth(auth: &str) -> Option<Credential> {
    let text = String::from_utf8(STANDARD.decode(auth.trim()).ok()?).ok()?;
    let (user, password) = text.split_once(':')?;
    let (user, password) = (user.to_owned(), password.trim_end_matches('\0').to_owned());
    Some(Credential::Basic { user, password })
}

/// The keys under which a file may have an entry for a repository, the most specific first.
fn keys(registry: &str, repository: &str) -> Vec<String> {
    let mut keys = Vec::new();
    let mut path = format!("{registry}/{repository}");
    while path.len() > registry.len() {
        keys.push(path.clone());
        path.truncate(path.rfind('/').unwrap_or(0));
    }
    keys.push(registry.to_owned());
    keys.push(format!("https://{registry}"));
    keys.push(format!("https://{registry}/"));
    keys.push(format!("http://{registry}"));
    keys.push(format!("https://{registry}/v1/"));
    keys.push(format!("https://{registry}/v2/"));
    if registry == "docker.io" {
        keys.extend([DOCKER_HUB_KEY.to_owned(), "index.docker.io".to_owned()]);
    }
    keys
}

/// Runs `docker-credential-<helper> get`.
async fn ask_helper(helper: &str, registry: &str) -> Result<Option<Credential>, CredentialsError> {
    let program = format!("docker-credential-{helper}");
    let failed = |cause: String| CredentialsError::Helper { helper: program.clone(), cause };
    // A helper is a program on the PATH. A path in its name would start any file.
    if helper.contains('/') {
        return Err(failed("its name contains a slash".into()));
    }
    let server = if registry == "docker.io" { DOCKER_HUB_KEY } else { registry };
    let run = async {
        let mut child = tokio::process::Command::new(&program)
            .arg("get")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(server.as_bytes()).await?;
        }
        child.wait_with_output().await
    };
    let output = tokio::time::timeout(HELPER_TIMEOUT, run)
        .await
        .map_err(|_| failed(format!("it did not answer within {HELPER_TIMEOUT:?}")))?
        .map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stdout);
        if said.contains("credentials not found") {
            return Ok(None);
        }
        return Err(failed(format!("{}: {}", output.status, said.trim())));
    }
    let answer: HelperAnswer = serde_json::from_slice(&output.stdout)
        .map_err(|error| failed(format!("invalid answer: {error}")))?;
    Ok(Some(match answer.username.as_str() {
        TOKEN_USER => Credential::IdentityToken(answer.secret),
        _ => Credential::Basic { user: answer.username, password: answer.secret },
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn basic(user: &str, password: &str) -> Option<Credential> {
        Some(Credential::Basic { user: user.into(), password: password.into() })
    }

    #[tokio::test]
    async fn a_file_has_credentials_for_registries_and_repositories() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.json");
        let auth = STANDARD.encode("ann:se:cret");
        let text = format!(
            r#"{{"auths": {{"a.example": {{"auth": "{auth}"}},
                "a.example/team": {{"username": "team", "password": "p"}},
                "https://index.docker.io/v1/": {{"identitytoken": "t"}},
                "bad.example": {{"auth": "?"}}, "empty.example": {{}}, "null.example": null}},
                "credHelpers": null}}"#
        );
        std::fs::write(&path, text).unwrap();
        let files = CredentialFiles { files: vec![path] };
        let find = async |registry, repository| files.find(registry, repository).await;
        assert_eq!(find("a.example", "other/image").await.unwrap(), basic("ann", "se:cret"));
        assert_eq!(find("a.example", "team/image").await.unwrap(), basic("team", "p"));
        let hub = find("docker.io", "library/debian").await.unwrap();
        assert_eq!(hub, Some(Credential::IdentityToken("t".into())));
        assert_eq!(find("empty.example", "x").await.unwrap(), None);
        assert_eq!(find("unknown.example", "x").await.unwrap(), None);
        assert_eq!(find("null.example", "x").await.unwrap(), None);
        let error = find("bad.example", "x").await.unwrap_err();
        assert!(error.to_string().contains("bad.example"), "{error}");
        assert_eq!(format!("{:?}", basic("ann", "secret")), "Some(Credential)");
    }

    #[tokio::test]
    async fn a_missing_and_an_invalid_file_are_errors() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.json");
        let files = CredentialFiles { files: vec![path.clone()] };
        assert!(matches!(files.check().await, Err(CredentialsError::Read { .. })));
        std::fs::write(&path, r#"{"auths": null}"#).unwrap();
        files.check().await.unwrap();
        std::fs::write(&path, "[").unwrap();
        assert!(matches!(files.check().await, Err(CredentialsError::Format { .. })));
        std::fs::write(&path, vec![b' '; FILE_BYTES_MAX as usize + 1]).unwrap();
        assert!(matches!(files.check().await, Err(CredentialsError::TooLarge { .. })));
    }

    #[tokio::test]
    async fn a_helper_that_is_missing_or_a_path_is_an_error() {
        for helper in ["watchfire-no-such-helper", "../../bin/sh"] {
            let error = ask_helper(helper, "a.example").await.unwrap_err();
            assert!(error.to_string().contains(helper), "{error}");
        }
    }
}
