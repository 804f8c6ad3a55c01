//! Loads the certificate again when its files change.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};

use tokio::signal::unix::Signal;
use tokio::time::{MissedTickBehavior, interval};
use watchfire_sockets::{Certificate, Certificates, TlsError, TlsFiles};

use super::expiry::Validity;
use super::files::FileVersions;
use super::metrics::TlsCounts;

/// How often the files are checked.
const CHECK_PERIOD: Duration = Duration::from_secs(2);

/// How often a certificate that is near its end is reported.
const ADVICE_PERIOD: Duration = Duration::from_secs(24 * 3600);

/// Loads the certificate again when its files change.
#[derive(Debug)]
pub(super) struct Reloader {
    files: TlsFiles,
    certificates: Arc<Certificates>,
    /// Whether an operator renews the files, rather than this server.
    is_renewed_by_hand: bool,
    /// The files at the last check.
    seen: FileVersions,
    /// The files that were loaded, or whose error was reported.
    settled: Option<FileVersions>,
    counts: Arc<TlsCounts>,
    advised_at: Option<Instant>,
}

/// The result of a check of the files.
#[derive(Debug)]
enum Checked {
    Unchanged,
    /// The files changed and cannot be used. They may be in the middle of a change, so the error
    /// counts only if the next check finds the same.
    Changing,
    Loaded(Certificate),
    Failed(TlsError),
}

impl Reloader {
    /// `certificates` has what the files had at `seen`, which was taken before they were read.
    pub fn new(
        files: TlsFiles,
        certificates: Arc<Certificates>,
        seen: FileVersions,
        counts: Arc<TlsCounts>,
        is_renewed_by_hand: bool,
    ) -> Self {
        let settled = certificates.current().map(|_| seen.clone());
        Reloader {
            files,
            certificates,
            is_renewed_by_hand,
            seen,
            settled,
            counts,
            advised_at: None,
        }
    }

    /// Checks the files forever.
    pub async fn run(mut self, mut hangup: Signal) {
        if let Some(certificate) = self.certificates.current() {
            report("using the TLS certificate", &self.files.cert, &certificate);
        }
        let mut ticks = interval(CHECK_PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let is_asked = tokio::select! {
                _ = ticks.tick() => false,
                Some(()) = hangup.recv() => true,
            };
            if is_asked {
                self.reload_now();
            } else {
                self.reload_if_changed();
            }
            self.advise();
        }
    }

    fn reload_if_changed(&mut self) {
        match self.check() {
            Checked::Loaded(certificate) => {
                report("loaded a new TLS certificate", &self.files.cert, &certificate);
            }
            Checked::Failed(error) => self.report_failure(&error),
            Checked::Unchanged | Checked::Changing => {}
        }
    }

    /// Reads the files, even if they have not changed, and reports the result.
    fn reload_now(&mut self) {
        self.seen = FileVersions::of(&self.files);
        match self.load() {
            Ok(certificate) => {
                report("SIGHUP: loaded the TLS certificate", &self.files.cert, &certificate);
            }
            Err(error) => self.report_failure(&error),
        }
        self.settled = Some(self.seen.clone());
    }

    fn check(&mut self) -> Checked {
        let now = FileVersions::of(&self.files);
        let is_stable = now == self.seen;
        self.seen = now;
        if self.settled.as_ref() == Some(&self.seen) {
            return Checked::Unchanged;
        }
        let result = match self.load() {
            Ok(certificate) => Checked::Loaded(certificate),
            Err(error) if is_stable => Checked::Failed(error),
            Err(_) => return Checked::Changing,
        };
        self.settled = Some(self.seen.clone());
        result
    }

    fn load(&mut self) -> Result<Certificate, TlsError> {
        let certificate = Certificate::read(&self.files)?;
        self.certificates.replace(certificate.clone());
        self.counts.loads.fetch_add(1, Ordering::Relaxed);
        self.advised_at = None;
        Ok(certificate)
    }

    fn report_failure(&self, error: &TlsError) {
        if self.certificates.current().is_none() {
            // An ACME server has not issued one yet.
            return;
        }
        self.counts.load_failures.fetch_add(1, Ordering::Relaxed);
        tracing::error!(
            "cannot load the new TLS certificate: {error}; the server keeps using the old one"
        );
    }

    /// Warns about a certificate near its end, once a day.
    fn advise(&mut self) {
        let is_due = self.advised_at.is_none_or(|at| at.elapsed() >= ADVICE_PERIOD);
        if !self.is_renewed_by_hand || !is_due {
            return;
        }
        self.advised_at = Some(Instant::now());
        let validity = self.certificates.current().as_ref().and_then(Validity::of);
        let Some(validity) = validity else { return };
        if let Some(advice) = validity.advice(SystemTime::now()) {
            tracing::warn!(certificate = %validity, "{advice}");
        }
    }
}

fn report(event: &str, file: &Path, certificate: &Certificate) {
    let file = file.display();
    match Validity::of(certificate) {
        Some(validity) => tracing::info!(%file, certificate = %validity, "{event}"),
        None => tracing::info!(%file, "{event}"),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use tempfile::TempDir;

    use super::*;

    /// A folder with a certificate and its key.
    struct Folder(TempDir);

    impl Folder {
        fn new() -> Self {
            Folder(tempfile::tempdir().unwrap())
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        fn files(&self) -> TlsFiles {
            TlsFiles { cert: self.path("cert.pem"), key: self.path("key.pem") }
        }

        fn reloader(&self) -> Reloader {
            let seen = FileVersions::of(&self.files());
            let current = Certificate::read(&self.files()).ok();
            let is_renewed_by_hand = current.is_some();
            let certificates = Arc::new(Certificates::new(current));
            Reloader::new(self.files(), certificates, seen, Arc::default(), is_renewed_by_hand)
        }
    }

    /// A new certificate and its key, as PEM.
    fn pair() -> (String, String) {
        let pair = rcgen::generate_simple_self_signed(vec!["a.example".into()]).unwrap();
        (pair.cert.pem(), pair.signing_key.serialize_pem())
    }

    fn write(files: &TlsFiles, (cert, key): &(String, String)) {
        fs::write(&files.cert, cert).unwrap();
        fs::write(&files.key, key).unwrap();
    }

    #[test]
    fn a_new_pair_is_loaded_once() {
        let folder = Folder::new();
        write(&folder.files(), &pair());
        let mut reloader = folder.reloader();
        assert!(matches!(reloader.check(), Checked::Unchanged));
        let first = reloader.certificates.current().unwrap();
        write(&folder.files(), &pair());
        assert!(matches!(reloader.check(), Checked::Loaded(_)));
        assert!(matches!(reloader.check(), Checked::Unchanged));
        assert_ne!(reloader.certificates.current(), Some(first));
    }

    #[test]
    fn a_pair_in_the_middle_of_a_change_is_not_an_error() {
        let folder = Folder::new();
        write(&folder.files(), &pair());
        let mut reloader = folder.reloader();
        let (cert, key) = pair();
        fs::write(folder.files().cert, cert).unwrap();
        assert!(matches!(reloader.check(), Checked::Changing));
        fs::write(folder.files().key, key).unwrap();
        assert!(matches!(reloader.check(), Checked::Loaded(_)));
    }

    #[test]
    fn an_invalid_pair_is_reported_once_and_the_old_one_stays() {
        let folder = Folder::new();
        write(&folder.files(), &pair());
        let mut reloader = folder.reloader();
        let first = reloader.certificates.current();
        let (other, key) = (pair().0, pair().1);
        let changes: [&dyn Fn(); 3] = [
            &|| write(&folder.files(), &(other.clone(), key.clone())),
            &|| write(&folder.files(), &("garbage".into(), "garbage".into())),
            &|| fs::remove_file(folder.files().cert).unwrap(),
        ];
        for change in changes {
            change();
            assert!(matches!(reloader.check(), Checked::Changing));
            assert!(matches!(reloader.check(), Checked::Failed(_)));
            assert!(matches!(reloader.check(), Checked::Unchanged));
            assert_eq!(reloader.certificates.current(), first);
        }
        write(&folder.files(), &pair());
        assert!(matches!(reloader.check(), Checked::Loaded(_)));
    }

    #[test]
    fn a_replaced_link_is_a_change() {
        let folder = Folder::new();
        // Kubernetes swaps the link to the folder; the files are links into it.
        let link = |to: &str| {
            let _ = fs::remove_file(folder.path("next"));
            std::os::unix::fs::symlink(to, folder.path("next")).unwrap();
            fs::rename(folder.path("next"), folder.path("data")).unwrap();
        };
        for version in ["first", "second"] {
            let inside = folder.path(version);
            fs::create_dir_all(&inside).unwrap();
            write(
                &TlsFiles { cert: inside.join("cert.pem"), key: inside.join("key.pem") },
                &pair(),
            );
        }
        link("first");
        for name in ["cert.pem", "key.pem"] {
            std::os::unix::fs::symlink(format!("data/{name}"), folder.path(name)).unwrap();
        }
        let mut reloader = folder.reloader();
        assert!(matches!(reloader.check(), Checked::Unchanged));
        link("second");
        assert!(matches!(reloader.check(), Checked::Loaded(_)));
    }

    #[test]
    fn a_certificate_that_is_issued_later_is_loaded() {
        let folder = Folder::new();
        let mut reloader = folder.reloader();
        assert!(matches!(reloader.check(), Checked::Failed(_)));
        assert!(matches!(reloader.check(), Checked::Unchanged));
        write(&folder.files(), &pair());
        assert!(matches!(reloader.check(), Checked::Loaded(_)));
    }
}
