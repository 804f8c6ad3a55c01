//! Regions: the hosts of each are a fleet of their own, with one key file for all.

use std::fmt;
use std::str::FromStr;

use hkdf::Hkdf;
use sha2::Sha256;

const NAME_BYTES_MAX: usize = 64;
/// Keeps the keys of regions apart from other uses of the fleet's key.
const SALT: &[u8] = b"watchfire mirror region";

/// The name of a region.
///
/// ```
/// use watchfire_mirror::Region;
/// assert_eq!("eu-west-1".parse::<Region>().unwrap().to_string(), "eu-west-1");
/// assert!("EU West".parse::<Region>().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region(String);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid region {0:?}: use 1 to 64 lower-case letters, digits and hyphens, such as eu-west-1"
)]
pub struct RegionError(String);

impl FromStr for Region {
    type Err = RegionError;

    fn from_str(text: &str) -> Result<Self, RegionError> {
        let is_allowed =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        match (1..=NAME_BYTES_MAX).contains(&text.len()) && text.bytes().all(is_allowed) {
            true => Ok(Region(text.to_owned())),
            false => Err(RegionError(text.to_owned())),
        }
    }
}

impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Region {
    /// The key of the region's network. Hosts of other regions do not have it.
    pub(super) fn network_key(&self, fleet_key: &[u8; 32]) -> [u8; 32] {
        let mut key = [0; 32];
        Hkdf::<Sha256>::new(Some(SALT), fleet_key)
            .expand(self.0.as_bytes(), &mut key)
            .expect("HKDF makes up to 255 hashes");
        key
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(name: &str) -> Region {
        name.parse().unwrap()
    }

    #[test]
    fn a_name_has_lower_case_letters_digits_and_hyphens() {
        for name in ["a", "eu-west-1", "0", &"a".repeat(64)] {
            assert_eq!(region(name).to_string(), name);
        }
        for name in ["", "EU", "eu west", "eu_west", "é", "a\0", &"a".repeat(65)] {
            let error = name.parse::<Region>().unwrap_err().to_string();
            assert!(error.contains("lower-case letters"), "{error}");
        }
    }

    #[test]
    fn each_region_and_each_fleet_has_its_own_key() {
        let key = region("eu").network_key(&[1; 32]);
        assert_eq!(key, region("eu").network_key(&[1; 32]));
        assert_ne!(key, region("us").network_key(&[1; 32]));
        assert_ne!(key, region("eu").network_key(&[2; 32]));
        assert_ne!(key, [1; 32]);
    }

    #[test]
    fn the_key_of_a_region_is_the_same_in_all_versions() {
        let key = region("eu-west-1").network_key(&[7; 32]);
        let digits: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(digits, "107f64029de0d9b3c8b16f776b414ce8b88ab1831a3f0edea4917a3b583dd2ec");
    }
}
