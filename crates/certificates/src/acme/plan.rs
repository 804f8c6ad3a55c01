//! The checked settings of ACME.

use std::io;
use std::path::{Path, PathBuf};

use http::Uri;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use watchfire_sockets::{Certificate, TlsFiles};

use super::state_dir::StateDir;
use crate::expiry::Validity;
use crate::settings::{AcmeChallenge, AcmeSettings};

/// Names of one certificate. Let's Encrypt permits no more.
const DOMAINS_MAX: usize = 100;

/// Longest domain, in bytes (RFC 1035).
const DOMAIN_LEN_MAX: usize = 253;

/// Why certificates cannot be ordered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AcmeSetupError {
    /// An entry of `tls.acme.domains` is not a domain.
    #[error("cannot use tls.acme.domains {domain:?}: {reason}")]
    Domain {
        /// The entry.
        domain: String,
        /// Why it is invalid.
        reason: DomainError,
    },
    /// Too many domains.
    #[error(
        "cannot use tls.acme.domains: it has {domains} names, and one certificate has at most {DOMAINS_MAX}; remove some"
    )]
    TooManyDomains {
        /// The number of domains.
        domains: usize,
    },
    /// An entry of `tls.acme.contact` is not an address.
    #[error(
        "cannot use tls.acme.contact {contact:?}: write an address such as mailto:admin@example.org"
    )]
    Contact {
        /// The entry.
        contact: String,
    },
    /// `tls.acme.directory_url` is not a URL.
    #[error(
        "cannot use tls.acme.directory_url {url:?}: write an address that begins with https://"
    )]
    DirectoryUrl {
        /// The value of the setting.
        url: String,
    },
    /// `tls.acme.state_dir` is empty.
    #[error(
        "cannot use tls.acme.domains without tls.acme.state_dir: set a folder that survives restarts, such as /var/lib/watchfire/acme"
    )]
    NoStateDir,
    /// The folder cannot be used.
    #[error(
        "cannot use tls.acme.state_dir {}: {cause}; name a folder in which the server's user can write",
        path.display()
    )]
    StateDir {
        /// The folder.
        path: PathBuf,
        /// The cause.
        cause: io::Error,
    },
    /// `tls.acme.ca_file` cannot be used.
    #[error("cannot use tls.acme.ca_file {}: {reason}; name a PEM file with certificates", path.display())]
    CaFile {
        /// The file.
        path: PathBuf,
        /// The cause.
        reason: String,
    },
}

/// Why a name cannot be in a certificate of an ACME server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DomainError {
    /// A wildcard.
    #[error(
        "a wildcard needs the challenge DNS-01, which is not supported; use tls.cert and tls.key"
    )]
    Wildcard,
    /// An IP address.
    #[error("it is an IP address; write a domain")]
    Address,
    /// Not a domain.
    #[error(
        "it is not a domain; write labels of letters, digits and hyphens, such as www.example.org"
    )]
    Invalid,
    /// It is in the list before.
    #[error("it is named twice; remove one")]
    Duplicate,
}

/// The checked settings of ACME. Every process has them.
#[derive(Debug)]
pub(crate) struct AcmePlan {
    /// In lower case, each once.
    domains: Vec<String>,
    pub(super) contact: Vec<String>,
    pub(super) directory_url: String,
    pub(super) ca_file: Option<PathBuf>,
    pub(super) state: StateDir,
    challenge: AcmeChallenge,
}

impl AcmePlan {
    pub fn new(settings: &AcmeSettings) -> Result<Self, AcmeSetupError> {
        let domains = domains(&settings.domains)?;
        let is_address = |contact: &&String| {
            let address = contact.strip_prefix("mailto:").and_then(|rest| rest.split_once('@'));
            address.is_some_and(|(user, host)| !user.is_empty() && !host.is_empty())
                && contact.bytes().all(|byte| byte.is_ascii_graphic())
        };
        if let Some(contact) = settings.contact.iter().find(|contact| !is_address(contact)) {
            return Err(AcmeSetupError::Contact { contact: contact.clone() });
        }
        let url = settings.directory_url.parse::<Uri>().ok();
        let is_https = |url: Uri| url.scheme_str() == Some("https") && url.host().is_some();
        if !url.is_some_and(is_https) {
            return Err(AcmeSetupError::DirectoryUrl { url: settings.directory_url.clone() });
        }
        if settings.state_dir.as_os_str().is_empty() {
            return Err(AcmeSetupError::NoStateDir);
        }
        let ca_file = Some(settings.ca_file.clone()).filter(|file| !file.as_os_str().is_empty());
        ca_file.as_deref().map(ca_certificates).transpose()?;
        Ok(AcmePlan {
            domains,
            contact: settings.contact.clone(),
            directory_url: settings.directory_url.clone(),
            ca_file,
            state: StateDir::new(&settings.state_dir),
            challenge: settings.challenge,
        })
    }

    pub fn domains(&self) -> &[String] {
        &self.domains
    }

    pub fn challenge(&self) -> AcmeChallenge {
        self.challenge
    }

    /// Checks the folder, without creating it.
    pub fn check(&self) -> Result<(), AcmeSetupError> {
        self.state.check().map_err(|cause| self.state_dir_error(cause))
    }

    /// Creates the folder.
    pub fn prepare(&self) -> Result<(), AcmeSetupError> {
        self.state.create().map_err(|cause| self.state_dir_error(cause))
    }

    fn state_dir_error(&self, cause: io::Error) -> AcmeSetupError {
        AcmeSetupError::StateDir { path: self.state.path().to_owned(), cause }
    }

    /// Where the certificate is, once there is one.
    pub fn certificate_files(&self) -> TlsFiles {
        let path = self.state.certificate_path();
        TlsFiles { cert: path.clone(), key: path }
    }

    /// Describes what the server would do, a line for each part.
    pub fn describe(&self) -> Vec<String> {
        let challenge = match self.challenge {
            AcmeChallenge::TlsAlpn01 => "tls-alpn-01",
            AcmeChallenge::Http01 => "http-01",
        };
        let certificate = Certificate::read(&self.certificate_files()).ok();
        let validity = certificate.as_ref().and_then(Validity::of);
        let now = match validity {
            Some(validity) => format!("its certificate: {validity}"),
            None => "it has no certificate yet, so handshakes fail until the first order".into(),
        };
        vec![
            format!("TLS: ACME for {}", self.domains.join(", ")),
            format!("would order from {} with {challenge}", self.directory_url),
            format!("ACME state in {}; {now}", self.state.path().display()),
        ]
    }

    /// The certificate that proves control of a domain to an ACME server.
    pub fn tls_answer(&self, domain: &str) -> Option<Certificate> {
        // Only names of the settings become names of files.
        let domain = self.domains.iter().find(|known| *known == domain)?;
        let path = self.state.tls_challenge_path(domain);
        let read = Certificate::read_challenge(&TlsFiles { cert: path.clone(), key: path });
        read.inspect_err(|error| tracing::debug!(%error, "no answer to a challenge")).ok()
    }

    /// The content of the file with which HTTP-01 proves control of a domain.
    pub fn http_answer(&self, token: &str) -> Option<Vec<u8>> {
        self.state.read_http_challenge(token)
    }
}

/// The certificates of `tls.acme.ca_file`.
pub(super) fn ca_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, AcmeSetupError> {
    let failed = |reason: String| AcmeSetupError::CaFile { path: path.to_owned(), reason };
    let found: Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(path).and_then(|certificates| certificates.collect());
    match found {
        Ok(certificates) if certificates.is_empty() => Err(failed("it has no certificate".into())),
        Ok(certificates) => Ok(certificates),
        Err(error) => Err(failed(error.to_string())),
    }
}

fn domains(entries: &[String]) -> Result<Vec<String>, AcmeSetupError> {
    if entries.len() > DOMAINS_MAX {
        return Err(AcmeSetupError::TooManyDomains { domains: entries.len() });
    }
    let mut domains: Vec<String> = Vec::new();
    for entry in entries {
        let failed = |reason| AcmeSetupError::Domain { domain: entry.clone(), reason };
        let domain = domain(entry).map_err(failed)?;
        if domains.contains(&domain) {
            return Err(failed(DomainError::Duplicate));
        }
        domains.push(domain);
    }
    Ok(domains)
}

/// A domain in lower case.
fn domain(entry: &str) -> Result<String, DomainError> {
    if entry.starts_with("*.") {
        return Err(DomainError::Wildcard);
    }
    let bare = entry.trim_matches(['[', ']']);
    if bare.parse::<std::net::IpAddr>().is_ok() {
        return Err(DomainError::Address);
    }
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    match entry.len() <= DOMAIN_LEN_MAX && entry.split('.').all(is_label) {
        true => Ok(entry.to_ascii_lowercase()),
        false => Err(DomainError::Invalid),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_domain_is_labels_without_a_wildcard() {
        assert_eq!(domain("WWW.Example.org").unwrap(), "www.example.org");
        assert_eq!(domain("xn--bcher-kva.example").unwrap(), "xn--bcher-kva.example");
        assert_eq!(domain("*.example.org"), Err(DomainError::Wildcard));
        for address in ["192.0.2.1", "2001:db8::1", "[2001:db8::1]"] {
            assert_eq!(domain(address), Err(DomainError::Address), "{address}");
        }
        let long = "a".repeat(64);
        for text in
            ["", ".", "a..b", "a.", "../x", "a/b", "-a.b", "a-.b", "a b", "bücher.de", &long]
        {
            assert_eq!(domain(text), Err(DomainError::Invalid), "{text}");
        }
        let twice = ["a.example".to_owned(), "A.example".to_owned()];
        assert!(domains(&twice).unwrap_err().to_string().contains("named twice"));
    }

    #[test]
    fn the_settings_are_checked() {
        let good = AcmeSettings {
            domains: vec!["a.example".into()],
            contact: vec!["mailto:admin@a.example".into()],
            state_dir: "/state".into(),
            ..AcmeSettings::default()
        };
        assert!(AcmePlan::new(&good).is_ok());
        let with = |change: &dyn Fn(&mut AcmeSettings)| {
            let mut settings = good.clone();
            change(&mut settings);
            AcmePlan::new(&settings).unwrap_err()
        };
        let error = with(&|settings| settings.contact = vec!["admin@a.example".into()]);
        assert!(matches!(error, AcmeSetupError::Contact { .. }), "{error}");
        let error = with(&|settings| settings.directory_url = "http://a.example".into());
        assert!(matches!(error, AcmeSetupError::DirectoryUrl { .. }), "{error}");
        let error = with(&|settings| settings.state_dir = PathBuf::new());
        assert!(matches!(error, AcmeSetupError::NoStateDir), "{error}");
        let error = with(&|settings| settings.ca_file = "/nonexistent".into());
        assert!(matches!(error, AcmeSetupError::CaFile { .. }), "{error}");
        let error = with(&|settings| settings.domains = vec!["a.example".into(); 101]);
        assert!(matches!(error, AcmeSetupError::TooManyDomains { domains: 101 }), "{error}");
    }
}
