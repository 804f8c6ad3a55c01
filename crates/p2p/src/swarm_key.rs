use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Why the key of a private network cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SwarmKeyError {
    #[error("cannot read the swarm key {}: {cause}", path.display())]
    Unreadable { path: PathBuf, cause: io::Error },
    #[error(
        "{} is not a swarm key: it must have the lines /key/swarm/psk/1.0.0/, /base16/ and 64 hexadecimal digits",
        path.display()
    )]
    NotAKey { path: PathBuf },
}

/// Reads a key file in the format of private IPFS networks.
pub fn read_swarm_key(file: &Path) -> Result<[u8; 32], SwarmKeyError> {
    let path = || file.to_owned();
    let text = fs::read_to_string(file);
    let text = text.map_err(|cause| SwarmKeyError::Unreadable { path: path(), cause })?;
    parse(&text).ok_or_else(|| SwarmKeyError::NotAKey { path: path() })
}

fn parse(text: &str) -> Option<[u8; 32]> {
    let lines: Vec<&str> = text.split_whitespace().collect();
    let ["/key/swarm/psk/1.0.0/", "/base16/", digits] = lines[..] else { return None };
    let is_hex = digits.len() == 64 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    if !is_hex {
        return None;
    }
    let mut key = [0; 32];
    for (byte, at) in key.iter_mut().zip((0..).step_by(2)) {
        *byte = u8::from_str_radix(&digits[at..at + 2], 16).ok()?;
    }
    Some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn swarm_keys_in_the_ipfs_format_are_parsed() {
        let digits = "00ff".repeat(16);
        let key = parse(&format!("/key/swarm/psk/1.0.0/\n/base16/\n{digits}\n")).unwrap();
        assert_eq!((key[0], key[1], key[31]), (0, 255, 255));
        for text in [
            "",
            "/base16/",
            "/key/swarm/psk/1.0.0/\n/base16/\nabc",
            "/key/swarm/psk/1.0.0/\n/base16/\n+f",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
        let signed = format!("/key/swarm/psk/1.0.0/\n/base16/\n{}", "+f".repeat(32));
        assert_eq!(parse(&signed), None);
    }
}
