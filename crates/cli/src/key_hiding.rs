//! Keeps the key of a private page out of the list of processes, where every user could read it.

use std::env;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use watchfire_content::encryption::{Key, KeyError};

/// The environment variable with the key, which only the owner of the process can read.
const KEY_VARIABLE: &str = "WATCHFIRE_LINK_KEY";

/// Restarts this program with the key in the environment if an argument is a link with a key.
/// Returns if there is no key.
pub fn hide_keys() -> io::Result<()> {
    let arguments: Vec<OsString> = env::args_os().collect();
    let Some((hidden, key)) = without_keys(&arguments) else { return Ok(()) };
    let mut restarted = Command::new(env::current_exe()?);
    if let Some(name) = hidden.first() {
        restarted.arg0(name);
    }
    Err(restarted.args(hidden.iter().skip(1)).env(KEY_VARIABLE, key).exec())
}

/// The key from the environment, set by this program or by its caller.
pub fn hidden_key() -> Result<Option<Key>, KeyError> {
    let key = env::var(KEY_VARIABLE).ok().filter(|key| !key.is_empty());
    key.map(|key| key.parse()).transpose()
}

/// The arguments without keys, and the last key; `None` when there was no key.
fn without_keys(arguments: &[OsString]) -> Option<(Vec<OsString>, String)> {
    let verb = arguments.get(1)?.to_str()?;
    let takes_links = matches!(verb, "get" | "hold");
    let mut found = None;
    let hidden = arguments.iter().map(|argument| {
        let parts = argument.to_str().and_then(|text| text.split_once('#'));
        let Some((link, fragment)) = parts else { return argument.clone() };
        let mut rest = Vec::new();
        for part in fragment.split('&') {
            match part.strip_prefix("key=") {
                // A file name with a valid key after `key=` is unlikely.
                Some(key) if takes_links || key.parse::<Key>().is_ok() => {
                    found = Some(key.to_owned());
                }
                _ => rest.push(part),
            }
        }
        if rest.is_empty() { link.into() } else { format!("{link}#{}", rest.join("&")).into() }
    });
    let hidden = hidden.collect();
    Some((hidden, found?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hidden(arguments: &[&str]) -> Option<(Vec<OsString>, String)> {
        without_keys(&arguments.iter().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn keys_leave_the_arguments_and_the_rest_stays() {
        let key = Key::from_bytes([1; 32]).to_link();
        let link = format!("http://host/p/bafk#filename=x&key={key}&file=a");
        let (arguments, found) = hidden(&["watchfire", "get", &link, "--json"]).unwrap();
        assert_eq!(
            arguments,
            ["watchfire", "get", "http://host/p/bafk#filename=x&file=a", "--json"]
        );
        assert_eq!(found, key);
        let (arguments, _) = hidden(&["watchfire", "hold", &format!("bafk#key={key}")]).unwrap();
        assert_eq!(arguments, ["watchfire", "hold", "bafk"]);
    }

    #[test]
    fn a_truncated_key_is_hidden_too() {
        let (arguments, found) = hidden(&["watchfire", "get", "bafk#key=short"]).unwrap();
        assert_eq!((arguments[2].to_str(), &*found), (Some("bafk"), "short"));
    }

    #[test]
    fn arguments_without_a_key_stay_unchanged() {
        assert_eq!(hidden(&["watchfire"]), None);
        assert_eq!(hidden(&["watchfire", "get", "bafk#filename=key"]), None);
        assert_eq!(hidden(&["watchfire", "share", "notes#key=of-c"]), None);
    }
}
