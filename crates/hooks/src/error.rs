use std::path::PathBuf;

/// The least length of the secret, in bytes.
pub(crate) const SECRET_BYTES_MIN: usize = 32;

/// Why the settings of `hooks` cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HookError {
    /// `hooks.url` is not a URL.
    #[error(
        "cannot use hooks.url {url:?}: write an address such as https://example.org/watchfire-hooks, without a user"
    )]
    Url {
        /// The value of the setting.
        url: String,
    },
    /// The server should ask about clients that connect, and there is no backend.
    #[error("cannot use hooks.connect: hooks.url is empty; set it, or set hooks.connect = false")]
    NoBackend,
    /// There is no secret.
    #[error("cannot sign requests to hooks.url: set hooks.secret or hooks.secret_file")]
    NoSecret,
    /// Both `secret` and `secret_file` are set.
    #[error("cannot use both hooks.secret and hooks.secret_file: remove one of them")]
    TwoSecrets,
    /// The secret is too short, so it could be guessed.
    #[error(
        "cannot use the secret of hooks: it has {len} bytes; generate one of at least {SECRET_BYTES_MIN} random bytes"
    )]
    ShortSecret {
        /// Its length in bytes.
        len: usize,
    },
    /// The file of the secret cannot be read.
    #[error("cannot read hooks.secret_file {}: {cause}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The cause.
        cause: std::io::Error,
    },
    /// A setting permits no request at all.
    #[error("cannot use {name} = 0: set it to a larger value")]
    Zero {
        /// The name of the setting.
        name: &'static str,
    },
    /// The thread that sends the requests cannot start.
    #[error("cannot start the thread of hooks.url: {0}")]
    Thread(std::io::Error),
    /// The TLS of the requests cannot be set up.
    #[error("cannot set up TLS for hooks.url: {0}")]
    Tls(String),
}
