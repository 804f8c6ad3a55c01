//! The key pair of a host, which determines its peer id.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use libp2p::identity::Keypair;

use crate::error::StartError;

/// Reads the key pair from the file at `path`, and creates the file if it is missing.
pub(crate) fn load_or_create(path: Option<&Path>) -> Result<Keypair, StartError> {
    let Some(path) = path else { return Ok(Keypair::generate_ed25519()) };
    let failed = |error: String| StartError::Identity { path: path.to_owned(), error };
    match fs::read(path) {
        Ok(bytes) => Keypair::from_protobuf_encoding(&bytes).map_err(|e| failed(e.to_string())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let keypair = Keypair::generate_ed25519();
            let bytes = keypair.to_protobuf_encoding().map_err(|e| failed(e.to_string()))?;
            write_secret(path, &bytes).map_err(|e| failed(e.to_string()))?;
            Ok(keypair)
        }
        Err(error) => Err(failed(error.to_string())),
    }
}

/// Checks the file at `path`, if it is there.
pub(crate) fn check(path: Option<&Path>) -> Result<(), StartError> {
    match path {
        // A missing file is created at the start.
        Some(path) if path.exists() => load_or_create(Some(path)).map(drop),
        _ => Ok(()),
    }
}

/// Writes a file atomically, readable by its owner only.
fn write_secret(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(format!(".{}.new", std::process::id()));
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&unfinished)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&unfinished, path)
}
