//! The objects of a trial on disk.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use super::random_image::{self, rng_of};
use crate::definition::{Object, ObjectPlan};
use crate::drivers::driver::{DriverError, object_bytes};

/// An object that nodes can share.
#[derive(Clone, Debug)]
pub struct Content {
    pub name: String,
    pub path: PathBuf,
    pub bytes: u64,
}

/// Makes an object in a folder, or finds it where it is.
pub fn content(plan: &ObjectPlan, seed: u64, folder: &Path) -> Result<Content, DriverError> {
    let error = |source| DriverError::Object { object: plan.name.clone(), source };
    let path = match &plan.object {
        Object::Random { bytes } => {
            let path = folder.join(&plan.name);
            write_random(&path, *bytes, seed, &plan.name).map_err(error)?;
            path
        }
        Object::Path(path) => fs::canonicalize(path).map_err(error)?,
        Object::Image(layout) => {
            fs::metadata(layout.join("oci-layout")).map_err(error)?;
            fs::canonicalize(layout.join("blobs")).map_err(error)?
        }
        Object::RandomImage(layers) => {
            let layout = folder.join(&plan.name);
            random_image::write(layers, seed, &layout).map_err(error)?;
            layout.join("blobs")
        }
    };
    let made = match &plan.object {
        // It has a manifest beside its layers.
        Object::RandomImage(_) => object_bytes(&Object::Path(path.clone())),
        other => object_bytes(other),
    };
    let bytes = made.map_err(error)?;
    Ok(Content { name: plan.name.clone(), path, bytes })
}

/// Writes random bytes, the same for each run with this seed.
fn write_random(path: &Path, bytes: u64, seed: u64, name: &str) -> io::Result<()> {
    let mut rng = rng_of(seed, name);
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let mut left = bytes;
    let mut piece = [0; 4096];
    while left > 0 {
        rng.fill(&mut piece);
        let part = left.min(piece.len() as u64);
        out.write_all(&piece[..part as usize])?;
        left -= part;
    }
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_objects_depend_on_seed_and_name() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = temporary.path();
        let bytes = |name: &str, seed| {
            let plan =
                ObjectPlan { name: name.to_owned(), object: Object::Random { bytes: 10_001 } };
            let content = content(&plan, seed, folder).unwrap();
            assert_eq!(content.bytes, 10_001);
            fs::read(content.path).unwrap()
        };
        assert_eq!(bytes("a", 1), bytes("a", 1));
        assert_ne!(bytes("a", 1), bytes("a", 2));
        assert_ne!(bytes("a", 1), bytes("b", 1));
        assert_eq!(bytes("a", 1).len(), 10_001);
    }
}
