//! The paths between the regions of a cluster.

use serde::Deserialize;
use toml::Spanned;
use watchfire_report::scenario::SourceText;
use watchfire_report::units::{DurationText, Share};

use crate::definition::{DefinitionError, Path};

/// Most regions of a cluster: each pair of them has a path.
const REGIONS_MAX: usize = 1000;
/// The largest share of packets that a path may lose.
const LOSS_MAX: f64 = 0.5;

/// A path: two regions, or one region twice. Values that it leaves out are those of the other paths.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PathFile {
    between: [String; 2],
    latency: Option<DurationText>,
    jitter: Option<DurationText>,
    loss: Option<Share>,
}

/// The paths between all regions, both ways: one row for each region, with one path for each.
pub(super) fn check_paths(
    usual: Path,
    paths: &[Spanned<PathFile>],
    regions: &[String],
    source: &SourceText<'_>,
) -> Result<Vec<Vec<Path>>, DefinitionError> {
    if regions.len() > REGIONS_MAX {
        let problem = format!("{} are more than {REGIONS_MAX}", regions.len());
        return Err(source.error_in_file("region", problem));
    }
    let mut all = vec![vec![usual; regions.len()]; regions.len()];
    for path in paths {
        let (at, path) = (path.span().start, path.get_ref());
        let mut ends = [0; 2];
        for (end, region) in ends.iter_mut().zip(&path.between) {
            let found = regions.iter().position(|known| known == region);
            let problem = || format!("no group is in region {region:?}");
            *end = found.ok_or_else(|| source.error(at, "between", problem()))?;
        }
        let path = Path {
            delay: path.latency.map_or(usual.delay, |span| span.0),
            jitter: path.jitter.map_or(usual.jitter, |span| span.0),
            loss: path.loss.map_or(usual.loss, |part| part.0),
        };
        all[ends[0]][ends[1]] = path;
        all[ends[1]][ends[0]] = path;
    }
    if all.iter().flatten().any(|path| path.loss > LOSS_MAX) {
        return Err(source.error_in_file("loss", "must be at most 0.5"));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn paths_are_both_ways_and_regions_are_bounded() {
        let source = SourceText { name: "x.toml", text: "" };
        let path = PathFile {
            between: ["eu", "us"].map(str::to_owned),
            latency: Some(DurationText(Duration::from_millis(40))),
            jitter: None,
            loss: None,
        };
        let paths = [Spanned::new(0..0, path)];
        let regions = ["us", "eu"].map(str::to_owned);
        let usual = Path { loss: 0.1, ..Path::default() };
        let all = check_paths(usual, &paths, &regions, &source).unwrap();
        assert_eq!((all[0][1], all[0][0]), (all[1][0], usual));
        assert_eq!((all[0][1].delay.as_millis(), all[0][1].loss), (40, 0.1));

        let error = check_paths(usual, &paths, &regions[..1], &source).unwrap_err();
        assert!(error.to_string().ends_with("no group is in region \"eu\""), "{error}");
        let many: Vec<String> = (0..1001).map(|number| number.to_string()).collect();
        let error = check_paths(usual, &[], &many, &source).unwrap_err();
        assert!(error.to_string().ends_with("region: 1001 are more than 1000"), "{error}");
    }
}
