use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use toml::{Table, Value};

use super::error::SettingsError;
use super::sections::Settings;

const PREFIX: &str = "WATCHFIRE_";
/// The variable that names the settings file.
const FILE_VARIABLE: &str = "WATCHFIRE_CONFIG";
/// Variables that are not settings: the settings file, and the links to the supervisor and to the
/// server that this program replaces.
const NOT_SETTINGS: [&str; 3] =
    [FILE_VARIABLE, watchfire_workers::CONTROL_VARIABLE, watchfire_workers::PREDECESSOR_VARIABLE];
/// The values of these settings are not printed.
const SECRETS: &[&str] = &["admin.token"];

/// Collects settings in layers: the defaults, then each layer overrides those before it.
///
/// ```
/// let mut layers = watchfire_server::Layers::new();
/// layers.text("site.toml", "[limits]\nchannels_per_socket_max = 5").unwrap();
/// layers.environment([("WATCHFIRE_SERVER_SHARDS".into(), "1".into())]).unwrap();
/// layers.assign("--set", "socket.idle_timeout=2m").unwrap();
/// let settings = layers.settings().unwrap();
/// assert_eq!(settings.limits.channels_per_socket_max, 5);
/// assert_eq!(settings.server.shards, 1);
///
/// let error = layers.assign("--set", "limits.chanels_per_socket_max=7").unwrap_err();
/// assert!(error.to_string().contains("did you mean `limits.channels_per_socket_max`?"));
/// ```
#[derive(Clone, Debug)]
pub struct Layers {
    known: Vec<(String, Value)>,
    table: Table,
    /// The layer that set each value that is not a default.
    sources: BTreeMap<String, String>,
}

impl Default for Layers {
    fn default() -> Self {
        Self::new()
    }
}

impl Layers {
    /// Starts with the defaults.
    pub fn new() -> Self {
        let table = Table::try_from(Settings::default()).expect("settings have a TOML form");
        let mut known = Vec::new();
        for (section, keys) in &table {
            for (key, value) in keys.as_table().expect("every setting is in a section") {
                known.push((format!("{section}.{key}"), value.clone()));
            }
        }
        Layers { known, table, sources: BTreeMap::new() }
    }

    /// Adds a file as a layer.
    pub fn file(&mut self, path: &Path) -> Result<(), SettingsError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| SettingsError::Unreadable { path: path.into(), source })?;
        self.text(&path.display().to_string(), &text)
    }

    /// Adds TOML text as a layer; `from` names it in errors.
    pub fn text(&mut self, from: &str, text: &str) -> Result<(), SettingsError> {
        let layer: Table = text.parse().map_err(|error: toml::de::Error| {
            SettingsError::NotToml { from: from.into(), message: error.to_string() }
        })?;
        for (section, keys) in layer {
            let Value::Table(keys) = keys else {
                return Err(self.unknown(from, &section));
            };
            if !self.table.contains_key(&section) {
                return Err(self.unknown_section(from, &section));
            }
            for (key, value) in keys {
                self.set(from, &format!("{section}.{key}"), value)?;
            }
        }
        Ok(())
    }

    /// Adds environment variables as a layer. Ignores those without the prefix `WATCHFIRE_`.
    pub fn environment(
        &mut self,
        variables: impl IntoIterator<Item = (String, String)>,
    ) -> Result<(), SettingsError> {
        for (name, text) in variables {
            let Some(rest) = name.strip_prefix(PREFIX) else { continue };
            if NOT_SETTINGS.contains(&name.as_str()) {
                continue;
            }
            let wanted = rest.to_lowercase();
            let key = self.known.iter().map(|(key, _)| key).find(|k| k.replace('.', "_") == wanted);
            let Some(key) = key.cloned() else {
                let nearest = self.nearest(&wanted);
                let nearest =
                    nearest.map(|k| format!("{PREFIX}{}", k.replace('.', "_").to_uppercase()));
                let from = "environment".into();
                return Err(SettingsError::UnknownKey { from, key: name, nearest });
            };
            self.set_text(&name, &key, &text)?;
        }
        Ok(())
    }

    /// Adds one `section.key=value` as a layer; `from` names it in errors.
    pub fn assign(&mut self, from: &str, assignment: &str) -> Result<(), SettingsError> {
        let Some((key, text)) = assignment.split_once('=') else {
            let message = format!("`{assignment}` does not have the form section.key=value");
            return Err(SettingsError::BadValue { from: from.into(), message });
        };
        self.set_text(from, key.trim(), text.trim())
    }

    /// Returns the resulting settings.
    pub fn settings(&self) -> Result<Settings, SettingsError> {
        parse("settings", self.table.clone())
    }

    /// Every setting with its value as TOML, and where the value comes from. Secrets are replaced.
    pub fn print(&self) -> String {
        let mut text = String::new();
        for (section, keys) in &self.table {
            let _ = writeln!(text, "[{section}]");
            for (name, value) in keys.as_table().expect("every setting is in a section") {
                let key = format!("{section}.{name}");
                let source = self.sources.get(&key).map_or("default", String::as_str);
                let is_hidden = SECRETS.contains(&&key[..]) && value.as_str() != Some("");
                let shown = if is_hidden { Value::from("(hidden)") } else { value.clone() };
                let _ = writeln!(text, "{name} = {shown}  # {source}");
            }
            text.push('\n');
        }
        text
    }

    /// Sets a value as it is written in a shell: text without quotes, a list without brackets.
    fn set_text(&mut self, from: &str, key: &str, text: &str) -> Result<(), SettingsError> {
        let Some((_, default)) = self.known.iter().find(|(known, _)| known == key) else {
            return Err(self.unknown(from, key));
        };
        let value = match default {
            Value::String(_) => Value::String(text.into()),
            Value::Array(_) if !text.starts_with('[') => {
                let items = text.split(',').map(|item| Value::String(item.trim().into()));
                Value::Array(items.collect())
            }
            _ => {
                let mut line: Table = format!("value = {text}").parse().map_err(|_| {
                    let message = format!("`{text}` is not a valid value for `{key}`");
                    SettingsError::BadValue { from: from.into(), message }
                })?;
                line.remove("value").expect("the line has one key")
            }
        };
        self.set(from, key, value)
    }

    fn set(&mut self, from: &str, key: &str, value: Value) -> Result<(), SettingsError> {
        if !self.known.iter().any(|(known, _)| known == key) {
            return Err(self.unknown(from, key));
        }
        let (section, name) = key.split_once('.').expect("known keys have a section");
        // Checked alone, so that the error names the source of the bad value.
        let mut alone = Table::new();
        alone.insert(
            section.into(),
            Value::Table([(name.to_owned(), value.clone())].into_iter().collect()),
        );
        parse(from, alone).map_err(|error| match error {
            SettingsError::BadValue { from, message } => {
                SettingsError::BadValue { from, message: format!("`{key}`: {}", message.trim()) }
            }
            other => other,
        })?;
        let table = self.table[section].as_table_mut().expect("sections are tables");
        table.insert(name.into(), value);
        self.sources.insert(key.into(), from.into());
        Ok(())
    }

    fn unknown(&self, from: &str, key: &str) -> SettingsError {
        SettingsError::UnknownKey { from: from.into(), key: key.into(), nearest: self.nearest(key) }
    }

    fn unknown_section(&self, from: &str, section: &str) -> SettingsError {
        let names = self.table.keys().map(String::as_str);
        let nearest = closest(section, names).map(|name| format!("[{name}]"));
        SettingsError::UnknownKey { from: from.into(), key: format!("[{section}]"), nearest }
    }

    fn nearest(&self, key: &str) -> Option<String> {
        closest(key, self.known.iter().map(|(known, _)| known.as_str()))
    }
}

fn parse(from: &str, table: Table) -> Result<Settings, SettingsError> {
    table.try_into().map_err(|error: toml::de::Error| SettingsError::BadValue {
        from: from.into(),
        message: error.message().into(),
    })
}

fn closest<'a>(wanted: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    known
        .map(|known| (strsim::jaro_winkler(wanted, known), known))
        .filter(|(likeness, _)| *likeness > 0.7)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, known)| known.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_example_file_has_every_setting_with_its_default() {
        let text = include_str!("../../../../config.example.toml");
        let written: Settings = toml::from_str(text).expect("the example file parses");
        assert_eq!(written, Settings::default());

        let table: Table = text.parse().unwrap();
        for (key, _) in Layers::new().known {
            let (section, name) = key.split_once('.').unwrap();
            assert!(table[section].get(name).is_some(), "{key} is missing in the example file");
        }
    }

    #[test]
    fn later_layers_override_earlier_ones() {
        let mut layers = Layers::new();
        layers.text("file", "[socket]\nidle_timeout = \"5s\"").unwrap();
        layers
            .environment([("WATCHFIRE_SOCKET_IDLE_TIMEOUT".to_owned(), "6s".to_owned())])
            .unwrap();
        assert_eq!(layers.settings().unwrap().socket.idle_timeout, Duration::from_secs(6));
        layers.assign("--set", "socket.idle_timeout=7s").unwrap();
        assert_eq!(layers.settings().unwrap().socket.idle_timeout, Duration::from_secs(7));
    }

    #[test]
    fn printed_settings_name_their_source_and_hide_secrets() {
        let mut layers = Layers::new();
        layers.text("my.toml", "[socket]\nidle_timeout = \"5s\"").unwrap();
        layers.environment([("WATCHFIRE_LOG_LEVEL".to_owned(), "debug".to_owned())]).unwrap();
        layers.assign("--set", "admin.token=0123456789abcdef").unwrap();
        let text = layers.print();
        for line in [
            "[limits]",
            "idle_timeout = \"5s\"  # my.toml",
            "level = \"debug\"  # WATCHFIRE_LOG_LEVEL",
            "token = \"(hidden)\"  # --set",
            "listen = [\"127.0.0.1:4000\"]  # default",
        ] {
            assert!(text.lines().any(|printed| printed == line), "{line} in {text}");
        }
        let again: Settings = toml::from_str(&text).expect("the output is a settings file");
        assert_eq!(again.socket, layers.settings().unwrap().socket);
    }

    #[test]
    fn the_error_for_an_unknown_key_names_the_nearest_known_key() {
        let mut layers = Layers::new();
        let error = layers.text("my.toml", "[limits]\nframe_byte_max = 1").unwrap_err();
        assert_eq!(
            error.to_string(),
            "my.toml: there is no setting `limits.frame_byte_max`; did you mean `limits.frame_bytes_max`?"
        );
        let error = layers.text("my.toml", "[limit]\nframe_bytes_max = 1").unwrap_err();
        assert!(error.to_string().ends_with("did you mean `[limits]`?"), "{error}");
        let variable = ("WATCHFIRE_SERVER_LISTN".to_owned(), "x".to_owned());
        let error = layers.environment([variable]).unwrap_err();
        assert!(error.to_string().ends_with("did you mean `WATCHFIRE_SERVER_LISTEN`?"), "{error}");
    }

    #[test]
    fn the_error_for_a_bad_value_names_its_key_and_its_source() {
        let mut layers = Layers::new();
        let error = layers.assign("--set", "socket.idle_timeout=soon").unwrap_err().to_string();
        assert!(error.starts_with("--set: `socket.idle_timeout`:"), "{error}");
        let error = layers.text("my.toml", "[limits]\nframe_bytes_max = -1").unwrap_err();
        assert!(error.to_string().starts_with("my.toml: `limits.frame_bytes_max`:"), "{error}");
    }

    #[test]
    fn a_list_may_be_written_with_commas() {
        let mut layers = Layers::new();
        layers.assign("--listen", "server.listen=127.0.0.1:1, [::1]:1").unwrap();
        assert_eq!(layers.settings().unwrap().server.listen.len(), 2);
    }
}
