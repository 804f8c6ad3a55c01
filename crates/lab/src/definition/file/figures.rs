//! The figures of a page, and the targets of an experiment.

use serde::Deserialize;
use toml::Spanned;
use watchfire_report::scenario::SourceText;

use crate::definition::{DefinitionError, Experiment, Figure, PageFigure, Target, TargetBound};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TargetFile {
    trial: String,
    figure: String,
    #[serde(default)]
    relative_to: Vec<String>,
    at_most: Option<f64>,
    at_least: Option<f64>,
}

/// A figure, or the name of one.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum FigureFile {
    Name(String),
    Figure(NamedFigureFile),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NamedFigureFile {
    figure: String,
    title: Option<String>,
    times: Option<f64>,
}

pub(super) fn check_targets(
    targets: Vec<Spanned<TargetFile>>,
    experiment: &Experiment,
    source: &SourceText<'_>,
) -> Result<Vec<Target>, DefinitionError> {
    let mut checked = Vec::new();
    for target in targets {
        let (at, file) = (target.span().start, target.into_inner());
        for (key, name) in std::iter::once(("trial", &file.trial))
            .chain(file.relative_to.iter().map(|name| ("relative_to", name)))
        {
            experiment.trial(name).map_err(|error| source.error(at, key, error))?;
        }
        check_figure(at, &file.figure, source)?;
        let bound = match (file.at_most, file.at_least) {
            (Some(bound), None) => TargetBound::AtMost(bound),
            (None, Some(bound)) => TargetBound::AtLeast(bound),
            _ => return Err(source.error(at, "targets", "needs either at_most or at_least")),
        };
        let TargetFile { trial, figure, relative_to, .. } = file;
        checked.push(Target { trial, figure, relative_to, bound });
    }
    Ok(checked)
}

pub(super) fn check_figures(
    figures: Vec<Spanned<FigureFile>>,
    source: &SourceText<'_>,
) -> Result<Vec<PageFigure>, DefinitionError> {
    let checked = figures.into_iter().map(|figure| {
        let (at, file) = (figure.span().start, figure.into_inner());
        let file = match file {
            FigureFile::Name(figure) => NamedFigureFile { figure, title: None, times: None },
            FigureFile::Figure(file) => file,
        };
        check_figure(at, &file.figure, source)?;
        let times = file.times.unwrap_or(1.0);
        if !(times.is_finite() && times > 0.0) {
            return Err(source.error(at, "times", "must be above 0"));
        }
        if file.title.as_ref().is_some_and(|title| title.contains(char::is_control)) {
            return Err(source.error(at, "title", "must be one line"));
        }
        let title = file.title.unwrap_or_else(|| file.figure.clone());
        Ok(PageFigure { figure: file.figure, title, times })
    });
    checked.collect()
}

fn check_figure(at: usize, figure: &str, source: &SourceText<'_>) -> Result<(), DefinitionError> {
    if Figure::with_name(figure).is_some() || figure.contains(':') {
        return Ok(());
    }
    let problem =
        format!("no figure {figure:?}; known: {}", Figure::ALL.map(Figure::name).join(", "));
    Err(source.error(at, "figure", problem))
}
