//! The names of files that other people chose: how they are shown, compared and saved.
//!
//! Another person can choose a name that looks like a different one, that moves the cursor of a terminal,
//! or that no file system takes. Every part of the terminal that shows, compares or saves a name asks
//! this module. The web client has the same rules in `web/app/src/names`, and for saving also the rules of
//! Windows; both pass `tests/vectors/names.json`.
//!
//! Names inside blocks and archives (CAR) stay as they are: they are part of what a CID names.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use icu_normalizer::{ComposingNormalizerBorrowed, DecomposingNormalizerBorrowed};

use crate::StoreError;
use crate::error::IoContext as _;

/// The longest name on nearly every file system, in bytes.
pub const NAME_BYTES_MAX: usize = 255;

/// The longest name on file systems that encrypt names, in bytes.
const PORTABLE_BYTES_MAX: usize = 143;

/// The longest extension that is kept when a name is cut, in characters without the dot.
const EXTENSION_CHARS_MAX: usize = 16;

/// Characters besides controls that have no shape, or change the order of others: soft hyphen, marks of
/// direction, separators of lines, word joiners, annotations. Joiners and variation selectors are not
/// among them, because scripts and emoji need them.
const HIDDEN: &[(char, char)] = &[
    ('\u{ad}', '\u{ad}'),
    ('\u{61c}', '\u{61c}'),
    ('\u{180e}', '\u{180e}'),
    ('\u{200b}', '\u{200b}'),
    ('\u{200e}', '\u{200f}'),
    ('\u{2028}', '\u{202e}'),
    ('\u{2060}', '\u{206f}'),
    ('\u{feff}', '\u{feff}'),
    ('\u{fff9}', '\u{fffb}'),
];

fn is_hidden(c: char) -> bool {
    c.is_control() || HIDDEN.iter().any(|(from, to)| (*from..=*to).contains(&c))
}

/// The name as it is shown: each hidden character as U+FFFD.
///
/// ```
/// use watchfire_store::names;
///
/// assert_eq!(names::shown("photo\u{202e}gpj.exe"), "photo\u{fffd}gpj.exe");
/// ```
pub fn shown(name: &str) -> Cow<'_, str> {
    match name.contains(is_hidden) {
        true => name.replace(is_hidden, "\u{fffd}").into(),
        false => name.into(),
    }
}

/// The name under which a file is saved on this system: without hidden characters and path separators,
/// and short enough. It is never empty, `.` or `..`.
pub fn saved(name: &str) -> String {
    let plain: String = name.chars().filter(|c| !is_hidden(*c)).collect();
    let plain = plain.replace('/', "_");
    if plain.chars().all(|c| c == '.') { "_".to_owned() } else { cut(&plain, NAME_BYTES_MAX) }
}

/// Shortens a name to `bytes_max`, and keeps a short extension.
pub fn cut(name: &str, bytes_max: usize) -> String {
    if name.len() <= bytes_max {
        return name.to_owned();
    }
    let (_, extension) = split_extension(name);
    let room = bytes_max.saturating_sub(extension.len());
    let stem = &name[..name.len() - extension.len()];
    format!("{}{extension}", &stem[..stem.floor_char_boundary(room)])
}

/// The stem of a name, and its extension with the dot; empty without a short one.
fn split_extension(name: &str) -> (&str, &str) {
    let Some(dot) = name.rfind('.') else { return (name, "") };
    let chars = name[dot + 1..].chars().count();
    match dot > 0 && (1..=EXTENSION_CHARS_MAX).contains(&chars) {
        true => name.split_at(dot),
        false => (name, ""),
    }
}

/// The form of a name in which equal names are equal. Systems write an accent with its letter or after it.
pub fn sameness(name: &str) -> Cow<'_, str> {
    ComposingNormalizerBorrowed::new_nfc().normalize(name)
}

/// The name, and the other forms in which systems write it.
pub(crate) fn forms(name: &str) -> Vec<String> {
    let mut forms = vec![name.to_owned()];
    let decomposed = DecomposingNormalizerBorrowed::new_nfd().normalize(name).into_owned();
    for form in [sameness(name).into_owned(), decomposed] {
        if !forms.contains(&form) {
            forms.push(form);
        }
    }
    forms
}

/// Whether a file system that did not create an entry may take its [`portable`] name. Drivers in user
/// space say that the entry is not found.
pub(crate) fn is_refused(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidFilename, InvalidInput, NotFound};
    matches!(error.kind(), InvalidInput | InvalidFilename | NotFound)
}

/// The name for file systems that do not take [`saved`] names: with the rules of Windows, and short.
pub(crate) fn portable(name: &str) -> String {
    let plain = sameness(&saved(name)).replace(['\\', ':', '*', '?', '"', '<', '>', '|'], "_");
    // Windows drops dots and spaces at the end, so two names could become one.
    let ended = plain.trim_start_matches(' ').trim_end_matches(['.', ' ']);
    let prefix = if ended.is_empty() || is_device(ended) { "_" } else { "" };
    let cut = cut(&format!("{prefix}{ended}"), PORTABLE_BYTES_MAX);
    cut.trim_end_matches(['.', ' ']).to_owned()
}

/// Whether a name is that of a device on Windows, with any extension.
fn is_device(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or_default().to_ascii_lowercase();
    let is_numbered = |digit: &str| matches!(digit, "¹" | "²" | "³") || digit.parse::<u8>().is_ok();
    let number = stem.strip_prefix("com").or_else(|| stem.strip_prefix("lpt"));
    matches!(&*stem, "con" | "prn" | "aux" | "nul" | "conin$" | "conout$")
        || number.is_some_and(|digit| digit.chars().count() == 1 && is_numbered(digit))
}

/// Finds names that nothing has.
#[derive(Default)]
pub(crate) struct UnusedNames {
    /// The next number to try for each path that was taken, so that thousands of equal names take no
    /// minutes.
    numbers: HashMap<PathBuf, u64>,
}

impl UnusedNames {
    /// The path of a new file in a folder. The file system decides which names are equal.
    pub(crate) fn path(&mut self, folder: &Path, name: &str) -> PathBuf {
        let is_taken = |path: &Path| path.symlink_metadata().is_ok();
        let name = saved(name);
        let path = folder.join(&name);
        if !is_taken(&path) {
            return path;
        }
        let (stem, extension) = split_extension(&name);
        let next = self.numbers.entry(path).or_insert(2);
        loop {
            let mark = format!(" ({next}){extension}");
            *next += 1;
            let path = folder.join(cut_stem(stem, NAME_BYTES_MAX - mark.len()) + &mark);
            if !is_taken(&path) {
                return path;
            }
        }
    }
}

fn cut_stem(stem: &str, bytes_max: usize) -> String {
    stem[..stem.floor_char_boundary(bytes_max)].to_owned()
}

/// Creates the files below a folder that are saved together.
pub(crate) struct SavedPaths {
    /// The path of each folder, by its path among the names.
    folders: HashMap<String, PathBuf>,
    unused: UnusedNames,
}

impl SavedPaths {
    pub(crate) fn below(folder: &Path) -> Self {
        let folders = [(String::new(), folder.to_owned())].into();
        SavedPaths { folders, unused: UnusedNames::default() }
    }

    /// Creates an empty file, whose path has names that are separated by slashes.
    pub(crate) fn file(&mut self, path: &str) -> Result<PathBuf, StoreError> {
        self.create(path, |path| File::create_new(path).map(drop))
    }

    /// The path of a folder, which is created at the first call.
    pub(crate) fn folder(&mut self, path: &str) -> Result<PathBuf, StoreError> {
        if let Some(known) = self.folders.get(path) {
            return Ok(known.clone());
        }
        let saved = self.create(path, |path| fs::create_dir(path))?;
        self.folders.insert(path.to_owned(), saved.clone());
        Ok(saved)
    }

    fn create(
        &mut self,
        path: &str,
        create: impl Fn(&Path) -> io::Result<()>,
    ) -> Result<PathBuf, StoreError> {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        let folder = self.folder(folder)?;
        let mut path = self.unused.path(&folder, name);
        let mut created = create(&path);
        if created.as_ref().is_err_and(is_refused) {
            path = self.unused.path(&folder, &portable(name));
            created = create(&path);
        }
        created.doing("create", &path)?;
        Ok(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    /// `tests/vectors/names.json`.
    #[derive(Deserialize)]
    struct Vectors {
        names: Vec<Name>,
        same: Vec<(String, String)>,
        different: Vec<(String, String)>,
    }

    #[derive(Deserialize)]
    struct Name {
        about: String,
        name: String,
        shown: Option<String>,
        /// Saved by the web client, for any system.
        saved: Option<String>,
        /// Saved on Unix. On other systems, only the web client saves.
        saved_unix: Option<String>,
    }

    fn vectors() -> Vectors {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/vectors/names.json");
        serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap()
    }

    #[test]
    fn names_are_shown_and_saved_as_the_web_client_does_it() {
        for Name { about, name, shown: expected, saved_unix, .. } in vectors().names {
            assert_eq!(shown(&name), expected.as_deref().unwrap_or(&name), "{about}");
            assert_eq!(saved(&name), saved_unix.as_deref().unwrap_or(&name), "{about}");
        }
    }

    #[test]
    fn names_with_composed_and_decomposed_accents_are_the_same() {
        for (one, other) in vectors().same {
            assert_eq!(sameness(&one), sameness(&other));
            assert!(forms(&one).contains(&other) && forms(&other).contains(&one));
        }
        for (one, other) in vectors().different {
            assert_ne!(sameness(&one), sameness(&other));
        }
    }

    #[test]
    fn a_portable_name_is_the_one_that_the_web_client_saves() {
        for Name { about, name, saved: expected, .. } in vectors().names {
            let expected = expected.as_deref().unwrap_or(&name);
            let short = cut(expected, PORTABLE_BYTES_MAX);
            assert_eq!(portable(&name), short.trim_end_matches(['.', ' ']), "{about}");
        }
    }

    #[test]
    fn names_that_become_equal_are_numbered() {
        let folder = tempfile::tempdir().unwrap();
        let mut paths = SavedPaths::below(folder.path());
        let saved: Vec<PathBuf> =
            ["a.txt", "a\u{200b}.txt", "a (2).txt", "b\u{202e}/1", "b/1", "b\u{202e}/2"]
                .map(|path| paths.file(path).unwrap())
                .into();
        let expected = ["a.txt", "a (2).txt", "a (2) (2).txt", "b/1", "b (2)/1", "b/2"];
        assert_eq!(saved, expected.map(|path| folder.path().join(path)));
    }

    #[test]
    fn the_file_system_decides_which_names_are_equal() {
        let folder = tempfile::tempdir().unwrap();
        let mut paths = SavedPaths::below(folder.path());
        // So does a file system without case after `Docs`.
        std::fs::create_dir(folder.path().join("docs")).unwrap();
        let saved = ["Docs/a", "docs/a", "docs/b"].map(|path| paths.file(path).unwrap());
        let expected = ["Docs/a", "docs (2)/a", "docs (2)/b"];
        assert_eq!(saved, expected.map(|path| folder.path().join(path)));
    }
}
