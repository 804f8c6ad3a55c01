//! A certificate chain with its private key, and the errors in their files.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::sign::CertifiedKey;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

/// Largest file of a certificate chain or key, in bytes. A chain has a few kilobytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

#[derive(Clone, Debug, PartialEq)]
pub struct TlsFiles {
    /// The certificate chain, the server's certificate first.
    pub cert: PathBuf,
    /// The private key of the server's certificate, in PKCS#8, PKCS#1 or SEC1.
    pub key: PathBuf,
}

/// A certificate chain with the private key of its first certificate.
#[derive(Clone, Debug)]
pub struct Certificate(pub(super) Arc<CertifiedKey>);

#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error(
        "cannot read {}: {cause}; check the path, and that the server's user may read it",
        path.display()
    )]
    Unreadable { path: PathBuf, cause: io::Error },
    #[error(
        "cannot read {}: it has more than {FILE_BYTES_MAX} bytes; name a PEM file of a certificate or key",
        path.display()
    )]
    TooLong { path: PathBuf },
    #[error("cannot read {} as PEM: {reason}; replace it with a PEM file", path.display())]
    NotPem { path: PathBuf, reason: String },
    #[error(
        "cannot find a certificate in {}: it has no block BEGIN CERTIFICATE; write the chain into it as PEM",
        path.display()
    )]
    NoCertificate { path: PathBuf },
    #[error(
        "cannot find a private key in {}: it has no block BEGIN PRIVATE KEY; write the key into it as PEM, without a passphrase",
        path.display()
    )]
    NoKey { path: PathBuf },
    #[error(
        "cannot use the certificate {} with the key {}: {cause}; write a certificate and its own key",
        cert.display(),
        key.display()
    )]
    Unusable { cert: PathBuf, key: PathBuf, cause: rustls::Error },
}

impl Certificate {
    /// Reads a certificate and its key. Both may be in the same file.
    pub fn read(files: &TlsFiles) -> Result<Self, TlsError> {
        let (chain, key) = parse(files)?;
        let certified = CertifiedKey::from_der(chain, key, &ring::default_provider());
        certified.map(Self::new).map_err(|cause| unusable(files, cause))
    }

    /// Reads the certificate of a challenge (RFC 8737). Its critical extension is unknown to
    /// verifiers, so this does not check that the key belongs to the certificate.
    pub fn read_challenge(files: &TlsFiles) -> Result<Self, TlsError> {
        let (chain, key) = parse(files)?;
        let key = ring::default_provider().key_provider.load_private_key(key);
        let key = key.map_err(|cause| unusable(files, cause))?;
        Ok(Self::new(CertifiedKey::new(chain, key)))
    }

    fn new(certified: CertifiedKey) -> Self {
        Certificate(Arc::new(certified))
    }

    /// The server's own certificate in DER, the first one of the chain.
    pub fn end_entity_der(&self) -> &[u8] {
        self.0.cert.first().map_or(&[], |first| first.as_ref())
    }
}

impl PartialEq for Certificate {
    /// Whether both have the same chain. Then they also have the same key.
    fn eq(&self, other: &Self) -> bool {
        self.0.cert == other.0.cert
    }
}

type Parsed = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn parse(files: &TlsFiles) -> Result<Parsed, TlsError> {
    let cert = pem(&files.cert)?;
    let chain = CertificateDer::pem_slice_iter(&cert).collect::<Result<Vec<_>, _>>();
    let chain = chain.map_err(|error| not_pem(&files.cert, &error))?;
    if chain.is_empty() {
        return Err(TlsError::NoCertificate { path: files.cert.clone() });
    }
    let key = PrivateKeyDer::pem_slice_iter(&pem(&files.key)?).next();
    let key = key.ok_or_else(|| TlsError::NoKey { path: files.key.clone() })?;
    Ok((chain, key.map_err(|error| not_pem(&files.key, &error))?))
}

fn unusable(files: &TlsFiles, cause: rustls::Error) -> TlsError {
    TlsError::Unusable { cert: files.cert.clone(), key: files.key.clone(), cause }
}

fn pem(path: &Path) -> Result<Vec<u8>, TlsError> {
    let unreadable = |cause| TlsError::Unreadable { path: path.to_owned(), cause };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    match bytes.len() as u64 > FILE_BYTES_MAX {
        true => Err(TlsError::TooLong { path: path.to_owned() }),
        false => Ok(bytes),
    }
}

fn not_pem(path: &Path, error: &rustls_pki_types::pem::Error) -> TlsError {
    TlsError::NotPem { path: path.to_owned(), reason: error.to_string() }
}
