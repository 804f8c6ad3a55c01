//! The folder with the account, the certificate and the answers to pending challenges.
//!
//! A file is written beside its place, synced and renamed, so that a reader in another process sees
//! the whole old file or the whole new one. All files are readable for the server's user only.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

/// Longest token of a challenge that is looked up.
const TOKEN_LEN_MAX: usize = 128;

/// Largest file of an answer to HTTP-01, or of an account.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// Free space that is required before a certificate is ordered. A chain with its key has less.
const SPACE_BYTES: usize = 64 << 10;

const ACCOUNT: &str = "account.json";
const CERTIFICATE: &str = "certificate.pem";
const CHALLENGES: &str = "challenges";
const LOCK: &str = "lock";
const RETRY: &str = "retry.json";
const SPACE: &str = "space";

/// The folder of `tls.acme.state_dir`.
#[derive(Debug)]
pub(super) struct StateDir {
    path: PathBuf,
}

/// While it exists, no other process orders certificates.
#[derive(Debug)]
pub(super) struct StateLock {
    _file: File,
}

impl StateDir {
    pub fn new(path: &Path) -> Self {
        StateDir { path: path.to_owned() }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the folder can be written, or created.
    pub fn check(&self) -> io::Result<()> {
        let existing = self.path.ancestors().find(|folder| folder.exists());
        let existing = existing.unwrap_or(Path::new("."));
        if !existing.is_dir() {
            return Err(io::Error::from(io::ErrorKind::NotADirectory));
        }
        Ok(access(existing, Access::WRITE_OK | Access::EXEC_OK)?)
    }

    /// Creates the folder unless it exists.
    pub fn create(&self) -> io::Result<()> {
        let folder = self.path.join(CHALLENGES);
        DirBuilder::new().recursive(true).mode(0o700).create(folder)
    }

    /// `None` while another process has the lock.
    pub fn lock(&self) -> io::Result<Option<StateLock>> {
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).write(true).mode(0o600);
        let file = options.open(self.path.join(LOCK))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(StateLock { _file: file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Checks that a certificate can be stored.
    pub fn check_space(&self) -> io::Result<()> {
        self.write(SPACE, &[0; SPACE_BYTES])?;
        self.remove(SPACE)
    }

    /// The chain and its key, in one file.
    pub fn certificate_path(&self) -> PathBuf {
        self.path.join(CERTIFICATE)
    }

    pub fn write_certificate(&self, pem: &str) -> io::Result<()> {
        self.write(CERTIFICATE, pem.as_bytes())
    }

    /// The text before the first block of the certificate's file.
    pub fn certificate_note(&self) -> Option<String> {
        let text = self.read(CERTIFICATE).ok()??;
        let text = String::from_utf8(text).ok()?;
        Some(text.split("-----BEGIN").next()?.trim().to_owned())
    }

    pub fn read_account(&self) -> io::Result<Option<Vec<u8>>> {
        self.read(ACCOUNT)
    }

    pub fn write_account(&self, json: &[u8]) -> io::Result<()> {
        self.write(ACCOUNT, json)
    }

    pub fn remove_account(&self) -> io::Result<()> {
        self.remove(ACCOUNT)
    }

    pub fn read_retry(&self) -> Option<Vec<u8>> {
        self.read(RETRY).ok()?
    }

    pub fn write_retry(&self, json: &[u8]) -> io::Result<()> {
        self.write(RETRY, json)
    }

    pub fn remove_retry(&self) -> io::Result<()> {
        self.remove(RETRY)
    }

    /// Where the answer to TLS-ALPN-01 for a valid domain is.
    pub fn tls_challenge_path(&self, domain: &str) -> PathBuf {
        self.path.join(tls_challenge(domain))
    }

    pub fn write_tls_challenge(&self, domain: &str, pem: &str) -> io::Result<()> {
        self.write(&tls_challenge(domain), pem.as_bytes())
    }

    /// The answer to HTTP-01; `None` if the token is invalid or no such challenge is pending.
    pub fn read_http_challenge(&self, token: &str) -> Option<Vec<u8>> {
        is_token(token).then(|| self.read(&http_challenge(token)).ok()).flatten()?
    }

    pub fn write_http_challenge(&self, token: &str, answer: &str) -> io::Result<()> {
        if !is_token(token) {
            return Err(io::Error::from(io::ErrorKind::InvalidFilename));
        }
        self.write(&http_challenge(token), answer.as_bytes())
    }

    /// Removes the answers to all challenges.
    pub fn clear_challenges(&self) -> io::Result<()> {
        for entry in fs::read_dir(self.path.join(CHALLENGES))? {
            fs::remove_file(entry?.path())?;
        }
        Ok(())
    }

    fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        let file = match File::open(self.path.join(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let mut bytes = Vec::new();
        file.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
        Ok(Some(bytes))
    }

    fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let place = self.path.join(name);
        let beside = self.path.join(format!("{name}.new"));
        let written = write_file(&beside, bytes).and_then(|()| fs::rename(&beside, &place));
        if written.is_err() {
            // It may hold a part of a key, and takes space. An error here changes nothing.
            let _ = fs::remove_file(&beside);
        }
        written?;
        File::open(place.parent().unwrap_or(&self.path))?.sync_all()
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        match fs::remove_file(self.path.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

fn write_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    // A file that a killed process left may have other permissions.
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn tls_challenge(domain: &str) -> String {
    format!("{CHALLENGES}/tls-{domain}.pem")
}

fn http_challenge(token: &str) -> String {
    format!("{CHALLENGES}/http-{token}")
}

/// Whether a token has only the characters of base64url (RFC 8555, 8.3). So it cannot name another
/// folder.
fn is_token(token: &str) -> bool {
    (1..=TOKEN_LEN_MAX).contains(&token.len())
        && token.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn with_state_dir(test: impl FnOnce(&StateDir)) {
        let root = tempfile::tempdir().unwrap();
        let state = StateDir::new(&root.path().join("acme"));
        state.check().unwrap();
        state.create().unwrap();
        test(&state);
    }

    #[test]
    fn files_are_whole_and_readable_for_their_owner_only() {
        with_state_dir(|state| {
            state.write_account(b"first").unwrap();
            // A killed process left a part of a file.
            fs::write(state.path().join("account.json.new"), b"part").unwrap();
            state.write_account(b"second").unwrap();
            assert_eq!(state.read_account().unwrap().unwrap(), b"second");
            let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode(&state.path().join("account.json")), 0o600);
            assert_eq!(mode(state.path()), 0o700);
            state.check_space().unwrap();
            let names = fs::read_dir(state.path()).unwrap().map(|entry| entry.unwrap().file_name());
            let mut names: Vec<_> = names.collect();
            names.sort();
            assert_eq!(names, ["account.json", "challenges"]);
        });
    }

    #[test]
    fn a_token_cannot_name_another_file() {
        with_state_dir(|state| {
            state.write_http_challenge("aZ_-9", "answer").unwrap();
            assert_eq!(state.read_http_challenge("aZ_-9").unwrap(), b"answer");
            state.write_account(b"secret").unwrap();
            let long = "a".repeat(129);
            for token in ["", ".", "..", "../account.json", "/etc/passwd", "a\0", "a%2e", &long] {
                assert_eq!(state.read_http_challenge(token), None, "{token}");
                assert!(state.write_http_challenge(token, "x").is_err(), "{token}");
            }
            state.clear_challenges().unwrap();
            assert_eq!(state.read_http_challenge("aZ_-9"), None);
        });
    }

    #[test]
    fn only_one_process_orders_certificates() {
        with_state_dir(|state| {
            let first = state.lock().unwrap();
            assert!(first.is_some());
            assert!(state.lock().unwrap().is_none());
            drop(first);
            assert!(state.lock().unwrap().is_some());
        });
    }
}
