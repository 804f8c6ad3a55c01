use std::path::PathBuf;

/// Why the settings cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// The file cannot be read.
    #[error("cannot read the settings file {}: {cause}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The cause.
        cause: std::io::Error,
    },
    /// The text is not TOML.
    #[error("cannot parse {from} as TOML: {message}")]
    NotToml {
        /// The file, variable or flag with the error.
        from: String,
        /// The parser's message, with line and column.
        message: String,
    },
    /// The key does not exist.
    #[error("{from}: there is no setting `{key}`{}", did_you_mean(.nearest))]
    UnknownKey {
        /// The file, variable or flag with the error.
        from: String,
        /// The key as written.
        key: String,
        /// The most similar key.
        nearest: Option<String>,
    },
    /// The key names a bound that no setting changes.
    #[error("{from}: cannot set `{key}`: its value is fixed; remove it")]
    Fixed {
        /// The file, variable or flag with the error.
        from: String,
        /// The key as written.
        key: String,
    },
    /// The value is invalid for its key.
    #[error("{from}: {message}")]
    BadValue {
        /// The file, variable or flag with the error.
        from: String,
        /// The cause.
        message: String,
    },
}

fn did_you_mean(key: &Option<String>) -> String {
    key.as_ref().map_or_else(String::new, |key| format!("; did you mean `{key}`?"))
}
