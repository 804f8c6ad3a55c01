use std::path::PathBuf;

/// Why the settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The file cannot be read.
    #[error("cannot read the settings file {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The text is not TOML.
    #[error("{from} is not TOML: {message}")]
    NotToml {
        /// The file, variable or flag it came from.
        from: String,
        /// What the parser says, with line and column.
        message: String,
    },
    /// There is no such key.
    #[error("{from}: there is no setting `{key}`{}", did_you_mean(.nearest))]
    UnknownKey {
        /// The file, variable or flag it came from.
        from: String,
        /// The key as written.
        key: String,
        /// The key that was probably meant.
        nearest: Option<String>,
    },
    /// The value does not fit its key.
    #[error("{from}: {message}")]
    BadValue {
        /// The file, variable or flag it came from.
        from: String,
        /// What is wrong with it.
        message: String,
    },
}

fn did_you_mean(key: &Option<String>) -> String {
    key.as_ref().map_or_else(String::new, |key| format!("; did you mean `{key}`?"))
}
