use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::Failure;

fn fuzz_folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Where the seeds of all targets are, a folder for each.
pub fn seeds_folder() -> PathBuf {
    fuzz_folder().join("seeds")
}

/// The seeds of a target, in the order of their names.
pub fn read_seeds(target: &str) -> io::Result<Vec<Vec<u8>>> {
    let folder = fs::read_dir(seeds_folder().join(target))?;
    let mut paths = folder.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    paths.into_iter().map(fs::read).collect()
}

/// Writes the input of a failure to `fuzz/artifacts/`, and says how to run it again.
pub fn artifact(failure: &Failure) -> io::Result<String> {
    let folder = fuzz_folder().join("artifacts");
    fs::create_dir_all(&folder)?;
    let name = match failure.thrown {
        Some((seed, throw)) => format!("{}-{seed}-{throw}", failure.target),
        None => format!("{}-seed", failure.target),
    };
    fs::write(folder.join(&name), &failure.input)?;
    let target = failure.target;
    Ok(format!("cargo run -p watchfire-fuzz -- {target} fuzz/artifacts/{name}"))
}
