//! `[variables]`: random values of each user.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

use crate::scenario::ScenarioError;
use crate::scenario::text::Draw;
use watchfire_report::scenario::SourceText;

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum VariableFile {
    /// A whole number between two bounds, inclusive.
    Number([u64; 2]),
    /// That many random letters.
    Letters(u64),
    /// One of several texts.
    Choice(Vec<String>),
}

pub(super) fn drawn_variables(
    variables: &BTreeMap<String, Spanned<VariableFile>>,
    source: &SourceText<'_>,
) -> Result<Vec<(String, Draw)>, ScenarioError> {
    let mut drawn = Vec::new();
    for (name, variable) in variables {
        let error = |problem: &str| source.error(variable.span().start, name, problem);
        if super::BUILT_IN.contains(&name.as_str()) {
            return Err(error("this name is built in"));
        }
        let draw = match variable.get_ref() {
            VariableFile::Number([min, max]) => {
                Draw::number(*min, *max).ok_or("the bounds of number must be in order")
            }
            VariableFile::Letters(len) => {
                Draw::letters(*len).ok_or("letters must be at most 1,000,000")
            }
            VariableFile::Choice(choices) if choices.is_empty() => {
                Err("choice needs at least one text")
            }
            VariableFile::Choice(choices) => Ok(Draw::Choice(choices.clone())),
        };
        let draw = draw.map_err(error)?;
        drawn.push((name.clone(), draw));
    }
    Ok(drawn)
}
