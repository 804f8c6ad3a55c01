//! `[rows.NAME]`: files with one record in each line.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;
use watchfire_report::scenario::SourceText;

use super::BUILT_IN;
use crate::scenario::rows::{Columns, Rows};
use crate::scenario::{Files, ScenarioError, file_text};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RowsFile {
    file: Spanned<String>,
    /// The variables of the columns.
    pub(super) columns: Vec<String>,
    #[serde(default = "comma")]
    delimiter: String,
    #[serde(default)]
    order: OrderFile,
}

fn comma() -> String {
    ",".to_owned()
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum OrderFile {
    #[default]
    Next,
    Random,
}

impl RowsFile {
    /// How the file with this index is divided into columns.
    pub(super) fn columns(&self, file: usize) -> Columns {
        let is_random = self.order == OrderFile::Random;
        Columns { file, delimiter: self.delimiter.clone(), is_random, may_be_quoted: true }
    }
}

/// Reads the files, in the order of their names.
pub(super) fn read_rows(
    all: &BTreeMap<String, Spanned<RowsFile>>,
    source: &SourceText<'_>,
    files: &mut Files<'_>,
) -> Result<Vec<Rows>, ScenarioError> {
    let read = all.iter().map(|(name, rows)| {
        let rows = rows.get_ref();
        let (at, file) = (rows.file.span().start, rows.file.get_ref());
        if rows.columns.is_empty() || rows.delimiter.is_empty() {
            return Err(source.error(at, name, "needs columns and a delimiter"));
        }
        if let Some(column) = rows.columns.iter().find(|name| BUILT_IN.contains(&name.as_str())) {
            return Err(source.error(at, name, format!("the name {column} is built in")));
        }
        let text = file_text(files, file);
        let columns = Some((rows.delimiter.as_str(), rows.columns.len()));
        let parsed = text.and_then(|text| Rows::parse(file, &text, columns));
        parsed.map_err(|problem| source.error(at, "file", problem))
    });
    read.collect()
}
