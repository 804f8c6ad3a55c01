//! Secrets in files of their own.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// The longest file with a secret. Without a bound, a device such as `/dev/random` would fill the memory.
const BYTES_MAX: u64 = 64 << 10;

/// Reads a secret from its file, without the line break that editors and `echo` add.
pub fn read_secret(path: &Path) -> io::Result<Vec<u8>> {
    let mut secret = Vec::new();
    File::open(path)?.take(BYTES_MAX + 1).read_to_end(&mut secret)?;
    if secret.len() as u64 > BYTES_MAX {
        let message = format!("the file of a secret has at most {BYTES_MAX} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    for end in [b'\n', b'\r'] {
        if secret.last() == Some(&end) {
            secret.pop();
        }
    }
    Ok(secret)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_break_at_the_end_is_not_part_of_a_secret() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for (written, secret) in
            [("a b", "a b"), ("a b\n", "a b"), ("a b\r\n", "a b"), ("a\nb\n\n", "a\nb\n"), ("", "")]
        {
            std::fs::write(&file, written).unwrap();
            assert_eq!(read_secret(file.path()).unwrap(), secret.as_bytes(), "{written:?}");
        }
    }

    #[test]
    fn a_file_without_an_end_is_no_secret() {
        let error = read_secret(Path::new("/dev/zero")).unwrap_err();
        assert_eq!(error.to_string(), "the file of a secret has at most 65536 bytes");
    }
}
