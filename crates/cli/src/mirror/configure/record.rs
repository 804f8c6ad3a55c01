//! Changes of files, and the record of what `configure` replaced.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use serde::{Deserialize, Serialize};
use similar::TextDiff;

use super::host::Host;

/// Only root reads the record: a configuration may contain passwords.
const RECORD_MODE: u32 = 0o600;
const FILE_MODE: u32 = 0o644;

/// A change of one file. `None` means that the file does not exist.
#[derive(Debug, PartialEq)]
pub(super) struct Change {
    pub(super) path: PathBuf,
    pub(super) from: Option<String>,
    pub(super) to: Option<String>,
}

impl Change {
    /// The change as a unified diff.
    pub(super) fn diff(&self, host: &Host) -> String {
        let path = host.path(&self.path).unwrap_or_else(|_| self.path.clone());
        let name = path.display().to_string();
        let header = |text: &Option<String>| match text {
            Some(_) => name.clone(),
            None => "/dev/null".to_owned(),
        };
        let (from, to) = (self.from.as_deref().unwrap_or(""), self.to.as_deref().unwrap_or(""));
        TextDiff::from_lines(from, to)
            .unified_diff()
            .header(&header(&self.from), &header(&self.to))
            .to_string()
    }
}

/// The files that `configure` replaced and created on a host.
#[derive(Debug)]
pub(super) struct Record {
    path: PathBuf,
    is_stored: bool,
    entries: Entries,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entries {
    files: BTreeMap<PathBuf, Replaced>,
    /// The folders that were created, the outermost first.
    folders: Vec<PathBuf>,
}

/// A file before the first `configure` (`None` if it did not exist), and after the last.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Replaced {
    before: Option<String>,
    after: String,
}

impl Replaced {
    /// Whether nothing but `configure` wrote the file. It may not have been written yet, if the computer
    /// went off after the record was.
    fn is_ours(&self, text: Option<&str>) -> bool {
        text == Some(&self.after) || text == self.before.as_deref()
    }
}

impl Record {
    /// Reads the record of a host. It is empty if nothing is configured.
    pub(super) fn read(host: &Host, path: &Path) -> anyhow::Result<Record> {
        let text = host.read(path)?;
        let is_stored = text.is_some();
        let entries = match text {
            Some(text) => serde_json::from_str(&text).with_context(|| {
                let path = path.display();
                format!("cannot read {path}; if the engine is configured as you want it, remove this file")
            })?,
            None => Entries::default(),
        };
        Ok(Record { path: path.to_owned(), is_stored, entries })
    }

    /// Whether the host has a record.
    pub(super) fn is_stored(&self) -> bool {
        self.is_stored
    }

    /// The text of a file without the changes of `configure`.
    pub(super) fn base(&self, host: &Host, path: &Path) -> anyhow::Result<Option<String>> {
        let text = host.read(path)?;
        match self.entries.files.get(path) {
            Some(replaced) if replaced.is_ours(text.as_deref()) => Ok(replaced.before.clone()),
            _ => Ok(text),
        }
    }

    /// The change that gives a file its new text, if it has another one.
    pub(super) fn change(
        &self,
        host: &Host,
        path: &Path,
        after: String,
    ) -> anyhow::Result<Option<Change>> {
        let from = host.read(path)?;
        if from.as_ref() == Some(&after) {
            return Ok(None);
        }
        if let Some(replaced) = self.entries.files.get(path)
            && !replaced.is_ours(from.as_deref())
        {
            bail!(
                "cannot change {}: it was changed after `configure` wrote it. Change it yourself; or remove {}, which keeps its earlier text for --undo, and run the command again",
                host.path(path)?.display(),
                host.path(&self.path)?.display()
            );
        }
        Ok(Some(Change { path: path.to_owned(), from, to: Some(after) }))
    }

    /// Applies changes, all or none, after it noted what they replace.
    pub(super) fn apply(&mut self, host: &Host, changes: &[Change]) -> anyhow::Result<()> {
        let earlier = host.read(&self.path)?;
        let before = self.entries.clone();
        self.note(host, changes)?;
        let created = self.entries.folders[before.folders.len()..].to_vec();
        let applied = self.store(host).and_then(|()| write_all(host, changes));
        if let Err(error) = applied {
            let from =
                changes.iter().map(|one| (one.path.as_path(), one.from.as_deref(), FILE_MODE));
            let record = (self.path.as_path(), earlier.as_deref(), RECORD_MODE);
            // The record comes last: as long as a file differs, --undo needs it.
            if let Err(second) = from.chain([record]).try_for_each(|one| restore(host, one)) {
                bail!("{error:#}. {second:#}. Some files are changed: run the command with --undo");
            }
            remove_folders(host, &created);
            self.entries = before;
            bail!("{error:#}. Nothing was changed");
        }
        self.is_stored = true;
        Ok(())
    }

    fn note(&mut self, host: &Host, changes: &[Change]) -> anyhow::Result<()> {
        let paths = changes.iter().map(|change| change.path.as_path()).chain([self.path.as_path()]);
        for path in paths {
            for folder in host.missing_folders(path)? {
                if !self.entries.folders.contains(&folder) {
                    self.entries.folders.push(folder);
                }
            }
        }
        for Change { path, from, to } in changes {
            let Some(after) = to.clone() else { continue };
            match self.entries.files.get_mut(path) {
                Some(replaced) => replaced.after = after,
                None => {
                    let replaced = Replaced { before: from.clone(), after };
                    self.entries.files.insert(path.clone(), replaced);
                }
            }
        }
        Ok(())
    }

    fn store(&self, host: &Host) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(&self.entries)?;
        host.write(&self.path, &(text + "\n"), RECORD_MODE)
    }

    /// The changes that restore all files. It is an error if anything else changed one of them.
    pub(super) fn reverse(&self, host: &Host) -> anyhow::Result<Vec<Change>> {
        let mut changes = Vec::new();
        for (path, replaced) in &self.entries.files {
            let from = host.read(path)?;
            if !replaced.is_ours(from.as_deref()) {
                let path = host.path(path)?.display().to_string();
                let state = if from.is_some() { "changed" } else { "removed" };
                bail!(
                    "cannot undo the change of {path}: the file was {state} after `configure` wrote it. Nothing was changed. {} has its text before and after; edit {path} yourself to either of them, and run the command again",
                    host.path(&self.path)?.display()
                );
            }
            if from != replaced.before {
                changes.push(Change { path: path.clone(), from, to: replaced.before.clone() });
            }
        }
        Ok(changes)
    }

    /// Restores all files, and removes the record and the folders that `configure` created. Returns the
    /// folders that stay because something else is in them.
    pub(super) fn undo(self, host: &Host, changes: &[Change]) -> anyhow::Result<Vec<PathBuf>> {
        write_all(host, changes)?;
        host.remove(&self.path)?;
        let mut stay = Vec::new();
        for folder in self.entries.folders.iter().rev() {
            if !host.remove_folder(folder)? {
                stay.push(host.path(folder)?);
            }
        }
        Ok(stay)
    }
}

fn remove_folders(host: &Host, folders: &[PathBuf]) {
    for folder in folders.iter().rev() {
        let _ = host.remove_folder(folder);
    }
}

/// Gives a file its earlier text, if it has another one.
fn restore(host: &Host, (path, text, mode): (&Path, Option<&str>, u32)) -> anyhow::Result<()> {
    match host.read(path)?.as_deref() == text {
        true => Ok(()),
        false => write(host, path, text, mode),
    }
}

fn write_all(host: &Host, changes: &[Change]) -> anyhow::Result<()> {
    changes.iter().try_for_each(|one| write(host, &one.path, one.to.as_deref(), FILE_MODE))
}

fn write(host: &Host, path: &Path, text: Option<&str>, mode: u32) -> anyhow::Result<()> {
    match text {
        Some(text) => host.write(path, text, mode),
        None => host.remove(path),
    }
}
