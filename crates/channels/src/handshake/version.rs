//! The `vsn` parameter: the client's serializer version.

use crate::codec::Serializer;

/// The client requested an unknown serializer version. It is refused with 403.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("vsn must be 1.0.x or 2.0.x, not {asked}")]
pub struct UnsupportedVersion {
    /// The requested version, as JSON text.
    pub asked: String,
}

impl Serializer {
    /// The serializer for a `vsn` parameter: `~> 1.0.0` or `~> 2.0.0`; none means 1.0.0.
    ///
    /// ```
    /// use watchfire_channels::Serializer;
    ///
    /// assert_eq!(Serializer::from_vsn(None), Ok(Serializer::V1));
    /// assert_eq!(Serializer::from_vsn(Some("2.0.0")), Ok(Serializer::V2));
    /// assert!(Serializer::from_vsn(Some("3.0.0")).is_err());
    /// ```
    pub fn from_vsn(vsn: Option<&str>) -> Result<Serializer, UnsupportedVersion> {
        let Some(vsn) = vsn else { return Ok(Serializer::V1) };
        let major = match vsn {
            // The version of nearly every client.
            "2.0.0" => Some(2),
            vsn => major_of_patch_release(vsn),
        };
        match major {
            Some(1) => Ok(Serializer::V1),
            Some(2) => Ok(Serializer::V2),
            _ => Err(UnsupportedVersion { asked: format!("{vsn:?}") }),
        }
    }
}

/// The `X` of a version `X.0.Z`. A pre-release of `X.0.0` precedes it, so it does not match.
fn major_of_patch_release(vsn: &str) -> Option<u32> {
    let (version, pre) = match vsn.split_once('+').map_or(vsn, |(version, _build)| version) {
        version if version.contains('-') => version.split_once('-')?,
        version => (version, ""),
    };
    let mut numbers = version.split('.').map(number);
    let (major, minor, patch) = (numbers.next()??, numbers.next()??, numbers.next()??);
    let is_release = pre.is_empty() || patch > 0;
    (numbers.next().is_none() && minor == 0 && is_release).then_some(major)
}

fn number(digits: &str) -> Option<u32> {
    let canonical = digits == "0" || !digits.starts_with(['0', '+']);
    digits.parse().ok().filter(|_| canonical)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_patch_of_1_0_and_2_0_is_supported() {
        for vsn in ["1.0.0", "1.0.7", "1.0.1-rc.1", "1.0.0+build"] {
            assert_eq!(Serializer::from_vsn(Some(vsn)), Ok(Serializer::V1), "{vsn}");
        }
        for vsn in ["2.0.0", "2.0.5", "2.0.10", "2.0.1-dev+a-b"] {
            assert_eq!(Serializer::from_vsn(Some(vsn)), Ok(Serializer::V2), "{vsn}");
        }
    }

    #[test]
    fn no_vsn_means_the_first_version() {
        assert_eq!(Serializer::from_vsn(None), Ok(Serializer::V1));
    }

    #[test]
    fn no_other_version_is_supported() {
        let others = [
            "2.1.0",
            "3.0.0",
            "0.0.0",
            "x",
            "",
            "2",
            "2.0",
            "2.0.0.0",
            "2.0.0-rc",
            "02.0.0",
            "2.0.00",
            "2.0.+1",
            " 2.0.0",
            "-2.0.0",
            "2.0.99999999999",
        ];
        for vsn in others {
            let refused = Err(UnsupportedVersion { asked: format!("{vsn:?}") });
            assert_eq!(Serializer::from_vsn(Some(vsn)), refused, "{vsn}");
        }
    }
}
