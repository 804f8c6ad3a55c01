//! Random images with the files of a usual image, as OCI layouts. The same seed makes the same bytes.

use std::f64::consts::TAU;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use watchfire_types::Rng;

use crate::definition::RandomLayer;

/// Median and logarithmic spread of the file sizes in a layer.
const FILE_BYTES_MEDIAN: f64 = 36_000.0;
const FILE_BYTES_SPREAD: f64 = 1.55;
const FILE_BYTES_MAX: f64 = 8e6;
/// One file in so many is text; the others have random bytes, as compressed files do.
const TEXT_FILE_EVERY: usize = 4;
const FILES_PER_FOLDER: usize = 64;
const WORDS: usize = 4096;
/// A layer ends when fewer bytes than these are missing.
const MISSING_BYTES_MAX: u64 = 1024;

/// The number that divides the bytes of objects from other random numbers of the same seed.
const BYTES_PURPOSE: u64 = 0x0b1;

/// The random numbers of an object. Two objects of one trial differ.
pub fn rng_of(seed: u64, name: &str) -> Rng {
    let mut rng = Rng::for_purpose(seed, BYTES_PURPOSE);
    let skipped =
        name.bytes().fold(0_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    Rng::from_seed(rng.next_u64() ^ skipped)
}

/// Writes an image to a folder, which it creates.
pub fn write(layers: &[RandomLayer], seed: u64, folder: &Path) -> io::Result<()> {
    let blobs = folder.join("blobs/sha256");
    fs::create_dir_all(&blobs)?;
    let written = layers.iter().map(|layer| {
        let mut rng = rng_of(seed, &layer.image);
        let rng = Rng::from_seed(rng.next_u64() ^ u64::from(layer.index));
        Layer::write(&blobs, layer.index, layer.bytes, rng)
    });
    let layers: Vec<Layer> = written.collect::<io::Result<_>>()?;
    let config = json!({
        "architecture": "amd64",
        "os": "linux",
        "config": { "Cmd": ["/none"] },
        "rootfs": {
            "type": "layers",
            "diff_ids": layers.iter().map(|layer| &layer.content_digest).collect::<Vec<_>>(),
        },
    });
    let config = put_json(&blobs, &config, "application/vnd.oci.image.config.v1+json")?;
    let layers: Vec<Value> = layers.iter().map(Layer::descriptor).collect();
    let kind = "application/vnd.oci.image.manifest.v1+json";
    let manifest =
        json!({ "schemaVersion": 2, "mediaType": kind, "config": config, "layers": layers });
    let manifest = put_json(&blobs, &manifest, kind)?;
    let index = json!({ "schemaVersion": 2, "manifests": [manifest] });
    fs::write(folder.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#)?;
    fs::write(folder.join("index.json"), index.to_string())
}

/// Writes a JSON blob, and returns its descriptor.
fn put_json(blobs: &Path, value: &Value, kind: &str) -> io::Result<Value> {
    let text = value.to_string();
    let digest = hex(&Sha256::digest(&text));
    fs::write(blobs.join(&digest), &text)?;
    Ok(json!({ "mediaType": kind, "digest": format!("sha256:{digest}"), "size": text.len() }))
}

struct Layer {
    digest: String,
    bytes: u64,
    /// The digest of the uncompressed layer.
    content_digest: String,
}

impl Layer {
    fn write(blobs: &Path, index: u32, bytes: u64, mut rng: Rng) -> io::Result<Self> {
        let path = blobs.join(format!("layer-{index}"));
        let file = BufWriter::with_capacity(1 << 20, File::create(&path)?);
        let compressed = GzEncoder::new(Hashed::new(file), Compression::fast());
        let mut files = tar::Builder::new(Hashed::new(compressed));
        let words = words(&mut rng);
        let mut number = 0;
        loop {
            let written = files.get_ref().inner.get_ref().bytes;
            let missing = bytes.saturating_sub(written);
            if missing < MISSING_BYTES_MAX {
                break;
            }
            let size = (file_bytes(&mut rng) as u64).min(missing) as usize;
            let is_text = rng.once_in(TEXT_FILE_EVERY);
            let content =
                if is_text { text(&mut rng, &words, size) } else { noise(&mut rng, size) };
            let mut header = tar::Header::new_ustar();
            header.set_mode(0o644);
            header.set_size(content.len() as u64);
            let folder = number / FILES_PER_FOLDER;
            let name = format!("layer-{index}/{folder}/file-{number}");
            files.append_data(&mut header, name, &content[..])?;
            files.get_mut().flush()?; // so that the number of written bytes is that of all files
            number += 1;
        }
        let (content_digest, _, compressed) = files.into_inner()?.finish();
        let (digest, bytes, mut file) = compressed.finish()?.finish();
        file.flush()?;
        fs::rename(path, blobs.join(&digest))?;
        let content_digest = format!("sha256:{content_digest}");
        Ok(Layer { digest, bytes, content_digest })
    }

    fn descriptor(&self) -> Value {
        json!({
            "mediaType": "application/vnd.oci.image.layer.v1.tar+gzip",
            "digest": format!("sha256:{}", self.digest),
            "size": self.bytes,
        })
    }
}

/// A size from a lognormal distribution.
fn file_bytes(rng: &mut Rng) -> f64 {
    // Box and Muller: two uniform numbers make a normal one.
    let (one, other) = (1.0 - rng.fraction(), rng.fraction());
    let normal = (-2.0 * one.ln()).sqrt() * (TAU * other).cos();
    (FILE_BYTES_MEDIAN * (FILE_BYTES_SPREAD * normal).exp()).clamp(1.0, FILE_BYTES_MAX)
}

fn words(rng: &mut Rng) -> Vec<String> {
    let letter = |rng: &mut Rng| char::from(b'a' + rng.index(26) as u8);
    (0..WORDS).map(|_| (0..3 + rng.index(7)).map(|_| letter(rng)).collect()).collect()
}

fn text(rng: &mut Rng, words: &[String], bytes: usize) -> Vec<u8> {
    let mut text = Vec::with_capacity(bytes + 16);
    while text.len() < bytes {
        // Some words are more frequent than others.
        let index = (rng.fraction() * rng.fraction() * words.len() as f64) as usize;
        text.extend_from_slice(words[index].as_bytes());
        text.push(b' ');
    }
    text.truncate(bytes);
    text
}

fn noise(rng: &mut Rng, bytes: usize) -> Vec<u8> {
    let mut noise = vec![0; bytes];
    rng.fill(&mut noise);
    noise
}

/// A writer that counts and hashes what it passes on.
struct Hashed<W> {
    inner: W,
    hash: Sha256,
    bytes: u64,
}

impl<W> Hashed<W> {
    fn new(inner: W) -> Self {
        Hashed { inner, hash: Sha256::new(), bytes: 0 }
    }

    /// The digest, the number of bytes, and the writer below.
    fn finish(self) -> (String, u64, W) {
        (hex(&self.hash.finalize()), self.bytes, self.inner)
    }
}

impl<W: Write> Write for Hashed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.hash.update(&bytes[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io::Read;

    use super::*;

    fn layer(image: &str, index: u32) -> RandomLayer {
        RandomLayer { image: image.to_owned(), index, bytes: 200_000 }
    }

    /// The blobs of a layout by name. The name of each is its digest.
    fn blobs(layout: &Path) -> BTreeMap<String, Vec<u8>> {
        let blob = |entry: io::Result<fs::DirEntry>| {
            let entry = entry.unwrap();
            let content = fs::read(entry.path()).unwrap();
            assert_eq!(*hex(&Sha256::digest(&content)), *entry.file_name());
            (hex(&Sha256::digest(&content)), content)
        };
        fs::read_dir(layout.join("blobs/sha256")).unwrap().map(blob).collect()
    }

    #[test]
    fn an_image_depends_on_its_seed_and_has_the_requested_size() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = temporary.path();
        let write = |name: &str, seed, layers: &[RandomLayer]| {
            write(layers, seed, &folder.join(name)).unwrap();
            blobs(&folder.join(name))
        };
        let all = [0, 1, 2].map(|index| layer("a", index));
        let one = write("one", 1, &all);
        assert_eq!(one, write("again", 1, &all));
        assert_eq!(one.len(), 3 + 2);
        for content in one.values().filter(|content| content.len() > 10_000) {
            assert!((198_000..202_000).contains(&content.len()), "{}", content.len());
            let mut files = Vec::new();
            flate2::read::GzDecoder::new(&content[..]).read_to_end(&mut files).unwrap();
            assert!(files.len() >= 200_000);
        }
        let common = |other: &BTreeMap<String, Vec<u8>>| {
            other.keys().filter(|name| one.contains_key(*name)).count()
        };
        let next = write("next", 1, &[layer("a", 0), layer("a", 1), layer("b", 2)]);
        assert_eq!(common(&next), 2, "two images share the layers of one of them");
        assert_eq!(common(&write("other", 2, &all)), 0);
    }
}
