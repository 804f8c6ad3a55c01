//! Writing in pieces: what is written at once, a file system keeps in memory that is of one piece
//! too, and that is the dearest there is. In a virtual machine it was likely given back to the host,
//! who has to find it again page by page: on such a one, 300 MiB in writes of 1 MiB took 0.3 to
//! 0.6 s of CPU, and 0.07 s in these.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;

const PIECE_BYTES: usize = 64 * 1024;

/// Writes all of it where the file stands.
pub(crate) fn write(file: &mut File, bytes: &[u8]) -> io::Result<()> {
    bytes.chunks(PIECE_BYTES).try_for_each(|piece| file.write_all(piece))
}

/// Writes all of it from `offset` on.
pub(crate) fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    let offsets = (offset..).step_by(PIECE_BYTES);
    bytes.chunks(PIECE_BYTES).zip(offsets).try_for_each(|(piece, at)| file.write_all_at(piece, at))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek, SeekFrom};

    use super::*;

    #[test]
    fn pieces_lie_one_behind_the_other() {
        let name = format!("watchfire-pieces-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let bytes: Vec<u8> = (0..2 * PIECE_BYTES + 7).map(|at| (at % 251) as u8).collect();
        let mut file = File::create_new(&path).unwrap();
        write(&mut file, &bytes).unwrap();
        write_at(&file, &bytes, 3).unwrap();
        write_at(&file, b"", u64::MAX).unwrap();

        let mut file = File::open(&path).unwrap();
        let mut found = Vec::new();
        file.seek(SeekFrom::Start(3)).unwrap();
        file.read_to_end(&mut found).unwrap();
        std::fs::remove_file(path).unwrap();
        assert!(found == bytes);
    }
}
