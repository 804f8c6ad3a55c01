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
const NOT_SETTINGS: [&str; 3] = [
    FILE_VARIABLE,
    watchfire_cluster::workers::CONTROL_VARIABLE,
    watchfire_cluster::workers::PREDECESSOR_VARIABLE,
];
/// The values of these settings are not printed.
const SECRETS: &[&str] =
    &["admin.token", "api.key", "auth.hs256_secret", "cluster.key", "cluster.nats", "hooks.secret"];
const HIDDEN: &str = "(hidden)";
/// The list of tables whose secrets are not printed, and the name of the secret in each table.
const SECRET_TABLES: (&str, &str) = ("api.keys", "key");

/// Collects settings in layers: the defaults, then each layer overrides those before it.
///
/// ```
/// let mut layers = watchfire::Layers::new();
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
        let known = entries(&table);
        Layers { known, table, sources: BTreeMap::new() }
    }

    /// Adds a file as a layer.
    pub fn file(&mut self, path: &Path) -> Result<(), SettingsError> {
        let text = std::fs::read_to_string(path)
            .map_err(|cause| SettingsError::Unreadable { path: path.into(), cause })?;
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
            self.set_section(from, &section, keys)?;
        }
        Ok(())
    }

    /// Adds environment variables as a layer. Ignores those without the prefix `WATCHFIRE_`, and those
    /// that Kubernetes sets for a service whose name begins with `watchfire`.
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
                if is_service_link(rest, &text) {
                    continue;
                }
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
        let mut current = String::new();
        for (key, mut value) in entries(&self.table) {
            let (section, name) = split(&key);
            if let (true, Some(tables)) = (key == SECRET_TABLES.0, value.as_array_mut()) {
                let tables = tables.iter_mut().filter_map(Value::as_table_mut);
                tables.for_each(|table| drop(table.insert(SECRET_TABLES.1.into(), HIDDEN.into())));
            }
            if section != current {
                let between = if current.is_empty() { "" } else { "\n" };
                let _ = writeln!(text, "{between}[{section}]");
                section.clone_into(&mut current);
            }
            let source = self.sources.get(&key).map_or("default", String::as_str);
            let is_empty =
                value.as_str() == Some("") || value.as_array().is_some_and(Vec::is_empty);
            let is_hidden = SECRETS.contains(&&key[..]) && !is_empty;
            let shown = if is_hidden { Value::from(HIDDEN) } else { value };
            let _ = writeln!(text, "{name} = {shown}  # {source}");
        }
        text
    }

    /// Sets the keys of a section and of the sections in it.
    fn set_section(&mut self, from: &str, section: &str, keys: Table) -> Result<(), SettingsError> {
        if !self.has_section(section) {
            return Err(self.unknown_section(from, section));
        }
        for (name, value) in keys {
            let key = format!("{section}.{name}");
            match value {
                Value::Table(keys) if self.has_section(&key) => {
                    self.set_section(from, &key, keys)?;
                }
                value => self.set(from, &key, value)?,
            }
        }
        Ok(())
    }

    fn has_section(&self, section: &str) -> bool {
        self.known.iter().any(|(key, _)| split(key).0 == section)
    }

    /// Sets a value as it is written in a shell: text without quotes, a list without brackets.
    fn set_text(&mut self, from: &str, key: &str, text: &str) -> Result<(), SettingsError> {
        let Some((_, default)) = self.known.iter().find(|(known, _)| known == key) else {
            return Err(self.unknown(from, key));
        };
        let value = match default {
            Value::String(_) => Value::String(text.into()),
            Value::Array(_) if text.is_empty() => Value::Array(Vec::new()),
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
        // Checked alone, so that the error names the source of the bad value.
        let mut alone = Table::new();
        insert(&mut alone, key, value.clone());
        parse(from, alone).map_err(|error| match error {
            SettingsError::BadValue { from, message } => {
                SettingsError::BadValue { from, message: format!("`{key}`: {}", message.trim()) }
            }
            other => other,
        })?;
        insert(&mut self.table, key, value);
        self.sources.insert(key.into(), from.into());
        Ok(())
    }

    fn unknown(&self, from: &str, key: &str) -> SettingsError {
        let (from, key) = (from.into(), key.to_owned());
        if Settings::is_fixed(&key) {
            return SettingsError::Fixed { from, key };
        }
        SettingsError::UnknownKey { from, nearest: self.nearest(&key), key }
    }

    fn unknown_section(&self, from: &str, section: &str) -> SettingsError {
        let names = self.known.iter().map(|(key, _)| split(key).0);
        let nearest = closest(section, names).map(|name| format!("[{name}]"));
        SettingsError::UnknownKey { from: from.into(), key: format!("[{section}]"), nearest }
    }

    fn nearest(&self, key: &str) -> Option<String> {
        closest(key, self.known.iter().map(|(known, _)| known.as_str()))
    }
}

/// Whether Kubernetes set the variable to tell where a service is. A service `watchfire` in the namespace
/// gives each container `WATCHFIRE_SERVICE_HOST`, `WATCHFIRE_PORT=tcp://…` and more. `rest` is the name
/// after the prefix.
fn is_service_link(rest: &str, value: &str) -> bool {
    // The service `watchfire-web` puts a part between the prefix and these words.
    let has = |word: &str| format!("_{rest}_").contains(&format!("_{word}_"));
    let is_url = || ["tcp://", "udp://", "sctp://"].iter().any(|scheme| value.starts_with(scheme));
    let is_of_port = || {
        let words: Vec<&str> = rest.split('_').collect();
        words.windows(3).any(|words| {
            let [port, number, protocol] = words else { return false };
            *port == "PORT"
                && number.parse::<u16>().is_ok()
                && ["TCP", "UDP", "SCTP"].contains(protocol)
        })
    };
    has("SERVICE_HOST") || has("SERVICE_PORT") || (has("PORT") && is_url()) || is_of_port()
}

/// The section of a key, such as `tls.acme`, and its name in the section.
fn split(key: &str) -> (&str, &str) {
    key.rsplit_once('.').expect("every setting is in a section")
}

/// Every setting with its full name, in the order of the sections. A section is followed by the
/// sections in it.
fn entries(table: &Table) -> Vec<(String, Value)> {
    let (mut own, mut inner) = (Vec::new(), Vec::new());
    for (name, value) in table {
        match value {
            Value::Table(keys) => inner.extend(
                entries(keys).into_iter().map(|(key, value)| (format!("{name}.{key}"), value)),
            ),
            value => own.push((name.clone(), value.clone())),
        }
    }
    own.append(&mut inner);
    own
}

/// Sets a value in a table, in the section that the key names.
fn insert(table: &mut Table, key: &str, value: Value) {
    match key.split_once('.') {
        Some((section, rest)) => {
            let inner = table.entry(section).or_insert_with(|| Value::Table(Table::new()));
            insert(inner.as_table_mut().expect("sections are tables"), rest, value);
        }
        None => drop(table.insert(key.to_owned(), value)),
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
        layers.assign("--set", "auth.hs256_secret=0123456789abcdef").unwrap();
        let text = layers.print();
        for line in [
            "[limits]",
            "idle_timeout = \"5s\"  # my.toml",
            "level = \"debug\"  # WATCHFIRE_LOG_LEVEL",
            "token = \"(hidden)\"  # --set",
            "hs256_secret = \"(hidden)\"  # --set",
            "listen = [\"127.0.0.1:4000\"]  # default",
        ] {
            assert!(text.lines().any(|printed| printed == line), "{line} in {text}");
        }
        let again: Settings = toml::from_str(&text).expect("the output is a settings file");
        assert_eq!(again.socket, layers.settings().unwrap().socket);
    }

    #[test]
    fn the_keys_of_the_api_are_read_from_each_layer_and_hidden() {
        let mut layers = Layers::new();
        let file =
            "[[api.keys]]\nkey = \"0123456789abcdef\"\nname = \"shop\"\nscopes = [\"publish\"]";
        layers.text("my.toml", file).unwrap();
        let key = layers.settings().unwrap().api.keys.remove(0);
        assert_eq!((&*key.key, &*key.name), ("0123456789abcdef", "shop"));
        let text = layers.print();
        assert!(text.contains("shop") && !text.contains("0123456789abcdef"), "{text}");
        let again: Settings = toml::from_str(&text).expect("the output is a settings file");
        assert_eq!(again.api.keys[0].scopes, [crate::settings::ApiScope::Publish]);

        let list = "[{ key = \"fedcba9876543210\", name = \"crm\", scopes = [\"info\"] }]";
        layers.environment([("WATCHFIRE_API_KEYS".to_owned(), list.to_owned())]).unwrap();
        assert_eq!(layers.settings().unwrap().api.keys[0].name, "crm");
        let error =
            layers.assign("--set", "api.keys=[{ key = \"k\", name = \"n\", scopes = [\"x\"] }]");
        assert!(error.unwrap_err().to_string().contains("unknown variant `x`"));
    }

    #[test]
    fn the_error_for_an_unknown_key_names_the_nearest_known_key() {
        let mut layers = Layers::new();
        let error = layers.text("my.toml", "[limits]\nframe_byte_max = 1").unwrap_err();
        assert_eq!(
            error.to_string(),
            "my.toml: there is no setting `limits.frame_byte_max`; did you mean `limits.frame_bytes_max`?"
        );
        let error = layers.text("my.toml", "[limits]\ngrids_max = 1").unwrap_err().to_string();
        assert_eq!(error, "my.toml: cannot set `limits.grids_max`: its value is fixed; remove it");
        let error = layers.text("my.toml", "[limit]\nframe_bytes_max = 1").unwrap_err();
        assert!(error.to_string().ends_with("did you mean `[limits]`?"), "{error}");
        let variable = ("WATCHFIRE_SERVER_LISTN".to_owned(), "x".to_owned());
        let error = layers.environment([variable]).unwrap_err();
        assert!(error.to_string().ends_with("did you mean `WATCHFIRE_SERVER_LISTEN`?"), "{error}");
        let variable = ("WATCHFIRE_LIMTS_PEERS_PER_PAGE_MAX".to_owned(), "9".to_owned());
        let error = layers.environment([variable]).unwrap_err().to_string();
        let nearest = "did you mean `WATCHFIRE_LIMITS_PEERS_PER_PAGE_MAX`?";
        assert!(error.ends_with(nearest), "{error}");
    }

    #[test]
    fn variables_of_kubernetes_services_are_no_settings() {
        let environment = |name: &str, value: &str| {
            Layers::new().environment([(name.to_owned(), value.to_owned())]).is_ok()
        };
        for (name, value) in [
            ("WATCHFIRE_SERVICE_HOST", "10.0.0.1"),
            ("WATCHFIRE_SERVICE_PORT", "80"),
            ("WATCHFIRE_SERVICE_PORT_HTTP", "80"),
            ("WATCHFIRE_PORT", "tcp://10.0.0.1:80"),
            ("WATCHFIRE_PORT_80_TCP", "tcp://10.0.0.1:80"),
            ("WATCHFIRE_PORT_80_TCP_ADDR", "10.0.0.1"),
            ("WATCHFIRE_PORT_4000_UDP_PROTO", "udp"),
            ("WATCHFIRE_WEB_SERVICE_HOST", "10.0.0.1"),
            ("WATCHFIRE_WEB_PORT", "tcp://10.0.0.1:80"),
        ] {
            assert!(environment(name, value), "{name}={value}");
        }
        for (name, value) in [
            ("WATCHFIRE_PORT", "4000"),
            ("WATCHFIRE_SERVICE", "x"),
            ("WATCHFIRE_SERVER_PORT", "4000"),
            ("WATCHFIRE_PORT_HTTP_TCP", "80"),
        ] {
            assert!(!environment(name, value), "{name}={value}");
        }
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
    fn a_section_in_a_section_has_the_same_forms() {
        let mut layers = Layers::new();
        layers.text("my.toml", "[tls.acme]\ndomains = [\"a.example\"]").unwrap();
        let variable = ("WATCHFIRE_TLS_ACME_STATE_DIR".to_owned(), "/state".to_owned());
        layers.environment([variable]).unwrap();
        layers.assign("--set", "tls.acme.challenge=http-01").unwrap();
        let acme = layers.settings().unwrap().tls.acme;
        assert_eq!(acme.domains, ["a.example"]);
        assert_eq!(acme.state_dir, std::path::Path::new("/state"));
        assert_eq!(acme.challenge, crate::settings::AcmeChallenge::Http01);
        assert!(layers.print().contains("\n[tls.acme]\n"), "{}", layers.print());

        let error = layers.text("my.toml", "[tls.acme]\ndomain = []").unwrap_err();
        assert!(error.to_string().ends_with("did you mean `tls.acme.domains`?"), "{error}");
        let error = layers.text("my.toml", "[tls.acne]\ndomains = []").unwrap_err();
        assert!(error.to_string().contains("no setting `tls.acne`"), "{error}");
    }

    #[test]
    fn channel_rules_are_written_as_tables_or_in_one_line() {
        let mut layers = Layers::new();
        let text = "[[channels.rules]]\npattern = \"a\"\n[[channels.rules]]\npattern = \"b\"\npresence = true";
        layers.text("my.toml", text).unwrap();
        assert_eq!(layers.settings().unwrap().channels.rules.len(), 2);
        let again: Settings =
            toml::from_str(&layers.print()).expect("the output is a settings file");
        assert_eq!(again.channels, layers.settings().unwrap().channels);

        layers.assign("--set", "channels.rules=[{ pattern = \"c\", join = \"anyone\" }]").unwrap();
        assert_eq!(layers.settings().unwrap().channels.rules[0].pattern, "c");
        let error = layers.text("my.toml", "[[channels.rules]]\njoin = \"token\"").unwrap_err();
        assert!(error.to_string().starts_with("my.toml: `channels.rules`:"), "{error}");
    }

    #[test]
    fn a_list_may_be_written_with_commas() {
        let mut layers = Layers::new();
        layers.assign("--listen", "server.listen=127.0.0.1:1, [::1]:1").unwrap();
        assert_eq!(layers.settings().unwrap().server.listen.len(), 2);
        layers.environment([("WATCHFIRE_ADMIN_LISTEN".to_owned(), String::new())]).unwrap();
        assert_eq!(layers.settings().unwrap().admin.listen, []);
    }
}
