//! The images of sprites: drawings that every desktop has, and pictures from files.

use std::io::{Cursor, Read as _};
use std::path::Path;

use anyhow::Context as _;
use image_webp::WebPDecoder;
use zune_jpeg::JpegDecoder;
use zune_png::zune_core::bit_depth::BitDepth;
use zune_png::zune_core::colorspace::ColorSpace;
use zune_png::zune_core::options::{DecoderOptions, EncoderOptions};
use zune_png::{PngDecoder, PngEncoder};

use super::physics::RADIUS;

/// Width and height of a sprite's window, in pixels.
pub const SIDE: u32 = 2 * RADIUS as u32;
/// The limits of a file, as in a browser.
const FILE_BYTES_MAX: u64 = 32 << 20;
const FILE_PIXELS_MAX: usize = 100_000_000;
/// The longest side of the picture of a neighbour.
const PICTURE_SIDE_MAX: usize = 1_024;
/// Width and height of a picture that neighbours get: its PNG has less than 64 KiB.
const PAGE_SIDE: usize = 120;

/// The drawings that a browser knows too, with their colours.
pub const DRAWINGS: [(&str, [u8; 3]); 8] = [
    ("cat", [0xe8, 0x93, 0x4a]),
    ("kite", [0x3f, 0x8f, 0xd2]),
    ("ball", [0xd2, 0x48, 0x3f]),
    ("ghost", [0xcf, 0xc4, 0xe8]),
    ("fish", [0x2f, 0xa5, 0x8a]),
    ("star", [0xf0, 0xb4, 0x29]),
    ("snail", [0xa8, 0x67, 0x3f]),
    ("ember", [0xe8, 0x59, 0x0c]),
];

/// Pixels of [`SIDE`] times [`SIDE`], as blue, green, red and alpha.
pub type Pixels = Vec<[u8; 4]>;

/// Draws a sprite by its name. An unknown one is grey.
pub fn drawing(sprite: &str) -> Pixels {
    let known = DRAWINGS.iter().find(|(name, _)| *name == sprite);
    let [r, g, b] = known.map_or([0x8d, 0x87, 0x93], |(_, colour)| *colour);
    let pixel = |x: i32, y: i32| {
        let near =
            |cx: i32, cy: i32, radius: i32| (x - cx).pow(2) + (y - cy).pow(2) <= radius.pow(2);
        let is_ear = sprite == "cat"
            && (8..26).contains(&y)
            && ((x - 14).abs() < y - 7 && x < 26 || (x - 50).abs() < y - 7 && x > 38);
        let is_inside = match sprite {
            "kite" => (x - 32).abs() * 26 + (y - 30).abs() * 20 < 520,
            "ghost" => near(32, 26, 20) || (26..58).contains(&y) && (12..52).contains(&x),
            "fish" => near(38, 32, 20) || x < 26 && (y - 32).abs() < 30 - x,
            _ => near(32, 38, 26) || is_ear,
        };
        match is_inside {
            true if near(25, 30, 3) || near(39, 30, 3) => [0x1a, 0x1d, 0x22, 255],
            true => [b, g, r, 255],
            false => [0; 4],
        }
    };
    let side = SIDE as i32;
    (0..side * side).map(|i| pixel(i % side, i / side)).collect()
}

/// A picture from a file of this machine.
pub struct Own {
    pub pixels: Pixels,
    /// The page that neighbours get: a PNG without the metadata of the file.
    pub page: Vec<u8>,
}

/// Reads a PNG, a JPEG or a WebP.
pub fn read(path: &Path) -> anyhow::Result<Own> {
    let name = path.display();
    // Opening a pipe would wait for its writer.
    let kind = path.metadata().with_context(|| format!("cannot read {name}"))?;
    anyhow::ensure!(kind.is_file(), "cannot show {name}: it is not a file");
    let file = std::fs::File::open(path).with_context(|| format!("cannot read {name}"))?;
    let length = file.metadata()?.len();
    anyhow::ensure!(
        length <= FILE_BYTES_MAX,
        "cannot show {name}: it has {length} bytes; choose a picture of at most {FILE_BYTES_MAX}"
    );
    let mut bytes = Vec::new();
    let reading = file.take(FILE_BYTES_MAX).read_to_end(&mut bytes);
    reading.with_context(|| format!("cannot read {name}"))?;
    let picture = Picture::decode(&bytes, |width, height| match width.saturating_mul(height) {
        0 => Err("it has no pixels; choose another picture".to_owned()),
        FILE_PIXELS_MAX.. => Err(format!(
            "it has {width} x {height} pixels; choose a picture of less than 100 megapixels"
        )),
        _ => Ok(()),
    });
    let picture = picture.map_err(|problem| anyhow::anyhow!("cannot show {name}: {problem}"))?;
    let samples: Vec<u8> =
        picture.fitted(PAGE_SIDE).into_iter().flat_map(|[b, g, r, a]| [r, g, b, a]).collect();
    let options = EncoderOptions::default()
        .set_width(PAGE_SIDE)
        .set_height(PAGE_SIDE)
        .set_depth(BitDepth::Eight)
        .set_colorspace(ColorSpace::RGBA);
    let mut page = Vec::new();
    let encoded = PngEncoder::new(&samples, options).encode(&mut page);
    encoded.map_err(|error| anyhow::anyhow!("cannot send {name}: {error:?}"))?;
    Ok(Own { pixels: picture.fitted(SIDE as usize), page })
}

/// Decodes the picture of a neighbour; `None` if it may not be shown.
pub fn of_neighbour(bytes: &[u8]) -> Option<Pixels> {
    let is_within = |side| (1..=PICTURE_SIDE_MAX).contains(&side);
    let check = |width, height| match is_within(width) && is_within(height) {
        true => Ok(()),
        false => Err("it is too large".to_owned()),
    };
    Some(Picture::decode(bytes, check).ok()?.fitted(SIDE as usize))
}

/// Decoded pixels: grey or red, green and blue, with or without alpha.
struct Picture {
    width: usize,
    height: usize,
    samples: Vec<u8>,
}

impl Picture {
    /// `check` gets the width and the height before anything is decoded.
    fn decode(
        bytes: &[u8],
        check: impl Fn(usize, usize) -> Result<(), String>,
    ) -> Result<Self, String> {
        let unreadable = |error: &dyn std::fmt::Display| {
            let error = error.to_string();
            let error = error.trim_end();
            format!("it cannot be read as a picture ({error}); choose a PNG, a JPEG or a WebP")
        };
        let options =
            DecoderOptions::default().set_max_width(usize::MAX).set_max_height(usize::MAX);
        if bytes.starts_with(b"RIFF") {
            let mut decoder =
                WebPDecoder::new(Cursor::new(bytes)).map_err(|error| unreadable(&error))?;
            let (width, height) = decoder.dimensions();
            let (width, height) = (width as usize, height as usize);
            check(width, height)?;
            if decoder.is_animated() {
                return Err(unreadable(&"it moves"));
            }
            let length =
                decoder.output_buffer_size().ok_or_else(|| unreadable(&"it is too large"))?;
            let mut samples = vec![0; length];
            decoder.read_image(&mut samples).map_err(|error| unreadable(&error))?;
            return Ok(Picture { width, height, samples });
        }
        if bytes.starts_with(&[0xff, 0xd8]) {
            let options = options.jpeg_set_out_colorspace(ColorSpace::RGB);
            let mut decoder = JpegDecoder::new_with_options(Cursor::new(bytes), options);
            decoder.decode_headers().map_err(|error| unreadable(&error))?;
            let (width, height) =
                decoder.dimensions().ok_or_else(|| unreadable(&"it has no size"))?;
            check(width, height)?;
            let samples = decoder.decode().map_err(|error| unreadable(&error))?;
            return Ok(Picture { width, height, samples });
        }
        let options = options.png_set_strip_to_8bit(true).png_set_add_alpha_channel(true);
        let mut decoder = PngDecoder::new_with_options(Cursor::new(bytes), options);
        decoder.decode_headers().map_err(|error| unreadable(&error))?;
        let (width, height) = decoder.dimensions().ok_or_else(|| unreadable(&"it has no size"))?;
        check(width, height)?;
        let samples = decoder.decode().map_err(|error| unreadable(&error))?;
        let samples = samples.u8().ok_or_else(|| unreadable(&"its samples are unknown"))?;
        Ok(Picture { width, height, samples })
    }

    /// Scales it to a square, in the middle of the lower edge. Each pixel is the average of those that it stands for.
    fn fitted(&self, side: usize) -> Pixels {
        let &Picture { width, height, .. } = self;
        let longer = width.max(height);
        let (columns, rows) = ((width * side / longer).max(1), (height * side / longer).max(1));
        let (left, top) = ((side - columns) / 2, side - rows);
        // The pixels of the picture that one pixel of the sprite stands for: at least one.
        let part = |i: usize, of: usize, span: usize| {
            let start = i * span / of;
            start..((i + 1) * span / of).max(start + 1)
        };
        let mut pixels = vec![[0; 4]; side * side];
        for (x, y) in (0..rows).flat_map(|y| (0..columns).map(move |x| (x, y))) {
            let (mut sums, mut count) = ([0_u64; 4], 0);
            for from_y in part(y, rows, height) {
                for from_x in part(x, columns, width) {
                    let [b, g, r, a] = self.pixel(from_x, from_y).map(u64::from);
                    // A transparent pixel has no colour.
                    sums = [sums[0] + b * a, sums[1] + g * a, sums[2] + r * a, sums[3] + a];
                    count += 1;
                }
            }
            let [b, g, r, a] = sums;
            let weight = a.max(1);
            pixels[(y + top) * side + x + left] =
                [b / weight, g / weight, r / weight, a / count].map(|n| n as u8);
        }
        pixels
    }

    fn pixel(&self, x: usize, y: usize) -> [u8; 4] {
        let channels = self.samples.len() / (self.width * self.height);
        match self.samples[(y * self.width + x) * channels..][..channels] {
            [grey] => [grey, grey, grey, 255],
            [grey, alpha] => [grey, grey, grey, alpha],
            [r, g, b] => [b, g, r, 255],
            [r, g, b, a, ..] => [b, g, r, a],
            [] => [0; 4],
        }
    }
}
