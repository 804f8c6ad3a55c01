use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::marker::PhantomData;
use std::path::Path;

use toml::{Table, Value};

use crate::error::SettingsError;
use crate::sections::{SectionType, Sections};

const PREFIX: &str = "WATCHFIRE_";
/// The variable that names the settings file.
const FILE_VARIABLE: &str = "WATCHFIRE_CONFIG";
const HIDDEN: &str = "(hidden)";

/// All settings of a program: the sections that it always has, and those that its features bring.
pub trait AllSettings: Sized {
    /// Variables with the prefix `WATCHFIRE_` that are not settings.
    const OTHER_VARIABLES: &'static [&'static str];

    /// The sections that the program always has, in the order of the file.
    fn own_sections() -> Vec<SectionType>;

    /// The settings of these sections. A section that is not among them has its defaults.
    fn from_sections(sections: Sections) -> Self;
}

/// Collects settings in layers: the defaults, then each layer overrides those before it.
///
/// ```
/// # use serde::{Deserialize, Serialize};
/// # use watchfire_settings::{AllSettings, SectionType, Sections, section};
/// # section! {
/// #     "parcels";
/// #     #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
/// #     pub struct ParcelSettings {
/// #         /// Parcels of one sender.
/// #         parcels_max: u32 = 7;
/// #     }
/// # }
/// struct Settings {
///     parcels: ParcelSettings,
/// }
///
/// impl AllSettings for Settings {
///     const OTHER_VARIABLES: &'static [&'static str] = &[];
///
///     fn own_sections() -> Vec<SectionType> {
///         vec![SectionType::of::<ParcelSettings>()]
///     }
///
///     fn from_sections(mut sections: Sections) -> Self {
///         Settings { parcels: sections.take() }
///     }
/// }
///
/// let mut layers = watchfire_settings::Layers::<Settings>::new();
/// layers.text("site.toml", "[parcels]\nparcels_max = 5").unwrap();
/// layers.assign("--set", "parcels.parcels_max=6").unwrap();
/// assert_eq!(layers.settings().unwrap().parcels.parcels_max, 6);
///
/// let error = layers.assign("--set", "parcels.parcel_max=7").unwrap_err();
/// assert!(error.to_string().contains("did you mean `parcels.parcels_max`?"));
/// ```
#[derive(Clone, Debug)]
pub struct Layers<S> {
    types: Vec<SectionType>,
    known: Vec<(String, Value)>,
    table: Table,
    /// The layer that set each value that is not a default.
    sources: BTreeMap<String, String>,
    settings: PhantomData<fn() -> S>,
}

impl<S: AllSettings> Default for Layers<S> {
    fn default() -> Self {
        Self::new()
    }
}

impl<S: AllSettings> Layers<S> {
    /// Starts with the defaults of the program's own sections.
    pub fn new() -> Self {
        let layers = Layers {
            types: Vec::new(),
            known: Vec::new(),
            table: Table::new(),
            sources: BTreeMap::new(),
            settings: PhantomData,
        };
        layers.with(S::own_sections())
    }

    /// Adds the sections that a feature brings, with their defaults.
    pub fn with(mut self, sections: impl IntoIterator<Item = SectionType>) -> Self {
        for of in sections {
            // A section in another one has its defaults there.
            if !of.name.contains('.') {
                let section = self.table.entry(of.name).or_insert_with(|| Table::new().into());
                section.as_table_mut().expect("sections are tables").extend((of.defaults)());
            }
            self.types.push(of);
        }
        self.known = entries(&self.table);
        self
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
            if name == FILE_VARIABLE || S::OTHER_VARIABLES.contains(&&*name) {
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
    pub fn settings(&self) -> Result<S, SettingsError> {
        let mut sections = Sections::default();
        for of in self.types.iter().filter(|of| !of.name.contains('.')) {
            if self.sources.keys().any(|key| of.owns(key)) {
                read("settings", of, &self.table, &mut sections)?;
            }
        }
        Ok(S::from_sections(sections))
    }

    /// Every setting with its value as TOML, and where the value comes from. Secrets are replaced.
    pub fn print(&self) -> String {
        let mut text = String::new();
        let mut current = String::new();
        for (key, mut value) in entries(&self.table) {
            let (section, name) = split(&key);
            for of in self.types.iter().filter(|of| of.name == section) {
                of.secrets.iter().for_each(|secret| hide(&mut value, name, secret));
            }
            if section != current {
                let between = if current.is_empty() { "" } else { "\n" };
                let _ = writeln!(text, "{between}[{section}]");
                section.clone_into(&mut current);
            }
            let source = self.sources.get(&key).map_or("default", String::as_str);
            let _ = writeln!(text, "{name} = {value}  # {source}");
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
                let bad = || {
                    let message = format!("`{text}` is not a valid value for `{key}`");
                    SettingsError::BadValue { from: from.into(), message }
                };
                let mut lines: Table = format!("value = {text}").parse().map_err(|_| bad())?;
                let value = lines.remove("value");
                // A text of several lines could have more keys, which would be lost.
                value.filter(|_| lines.is_empty()).ok_or_else(bad)?
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
        let of = self.types.iter().find(|of| of.owns(key)).expect("its key is known");
        read(from, of, &alone, &mut Sections::default()).map_err(|error| {
            let SettingsError::BadValue { from, message } = error else { return error };
            let message = format!("`{key}`: {}", message.trim());
            SettingsError::BadValue { from, message }
        })?;
        insert(&mut self.table, key, value);
        self.sources.insert(key.into(), from.into());
        Ok(())
    }

    fn unknown(&self, from: &str, key: &str) -> SettingsError {
        let (from, key) = (from.into(), key.to_owned());
        if self.is_fixed(&key) {
            return SettingsError::Fixed { from, key };
        }
        SettingsError::UnknownKey { from, nearest: self.nearest(&key), key }
    }

    /// Whether a key such as `limits.longpoll_frames_max` names a bound that no setting changes.
    fn is_fixed(&self, key: &str) -> bool {
        let Some((section, name)) = key.rsplit_once('.') else { return false };
        let of_name = self.types.iter().filter(|of| of.name == section);
        of_name.flat_map(|of| (of.rows)()).any(|row| row.is_fixed && row.key == name)
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

/// Reads a section, and those in it, from its keys in the table of all.
fn read(
    from: &str,
    of: &SectionType,
    all: &Table,
    into: &mut Sections,
) -> Result<(), SettingsError> {
    let section = all.get(of.name).and_then(Value::as_table).expect("sections are tables");
    let own = section.iter().filter(|(name, _)| of.owns(&format!("{}.{name}", of.name)));
    let own = own.map(|(name, value)| (name.clone(), value.clone())).collect();
    into.read(*of, own).map_err(|error| SettingsError::BadValue {
        from: from.into(),
        message: error.message().into(),
    })
}

/// Replaces the value of a setting by a note if it is the secret, and the secret in each table of a list.
fn hide(value: &mut Value, name: &str, secret: &str) {
    if let (Some((list, secret)), Value::Array(tables)) = (secret.split_once('.'), &mut *value)
        && list == name
    {
        let tables = tables.iter_mut().filter_map(Value::as_table_mut);
        tables.for_each(|table| drop(table.insert(secret.into(), HIDDEN.into())));
    }
    let is_empty = value.as_str() == Some("") || value.as_array().is_some_and(Vec::is_empty);
    if secret == name && !is_empty {
        *value = HIDDEN.into();
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

    struct Nothing;

    impl AllSettings for Nothing {
        const OTHER_VARIABLES: &'static [&'static str] = &["WATCHFIRE_LINK"];

        fn own_sections() -> Vec<SectionType> {
            Vec::new()
        }

        fn from_sections(_: Sections) -> Self {
            Nothing
        }
    }

    #[test]
    fn variables_of_kubernetes_services_are_no_settings() {
        let environment = |name: &str, value: &str| {
            Layers::<Nothing>::new().environment([(name.to_owned(), value.to_owned())]).is_ok()
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
            ("WATCHFIRE_CONFIG", "my.toml"),
            ("WATCHFIRE_LINK", "7"),
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
}
