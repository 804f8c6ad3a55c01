//! The images of sprites: drawings that every desktop has, and pictures from files.

use std::io::BufReader;
use std::path::Path;

use anyhow::Context as _;
use zune_png::PngDecoder;
use zune_png::error::PngDecodeErrors;
use zune_png::zune_core::options::DecoderOptions;

use super::physics::RADIUS;

/// Width and height of a sprite's window, in pixels.
pub const SIDE: u32 = 2 * RADIUS as u32;
/// The limits of a file, as in a browser.
const FILE_BYTES_MAX: u64 = 32 << 20;
const FILE_PIXELS_MAX: usize = 100_000_000;

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

/// Reads a PNG, and fits it into a sprite's window.
pub fn read(path: &Path) -> anyhow::Result<Pixels> {
    let name = path.display();
    let file = std::fs::File::open(path).with_context(|| format!("cannot read {name}"))?;
    let bytes = file.metadata()?.len();
    anyhow::ensure!(
        bytes <= FILE_BYTES_MAX,
        "cannot show {name}: it has {bytes} bytes; choose a picture of at most {FILE_BYTES_MAX}"
    );
    let unreadable = |error: PngDecodeErrors| {
        anyhow::anyhow!("cannot show {name}: {}; choose a PNG", error.to_string().trim_end())
    };
    let options = DecoderOptions::default()
        .set_max_width(FILE_PIXELS_MAX)
        .set_max_height(FILE_PIXELS_MAX)
        .png_set_strip_to_8bit(true)
        .png_set_add_alpha_channel(true);
    let mut decoder = PngDecoder::new_with_options(BufReader::new(file), options);
    decoder.decode_headers().map_err(unreadable)?;
    let (width, height) = decoder.dimensions().context("a header has dimensions")?;
    anyhow::ensure!(
        width.saturating_mul(height) < FILE_PIXELS_MAX,
        "cannot show {name}: it has {width} x {height} pixels; choose a picture of less than 100 megapixels"
    );
    let samples = decoder.decode().map_err(unreadable)?.u8().context("samples have 8 bits")?;
    let channels = samples.len() / (width * height);
    let (green, blue) = match channels {
        2 => (0, 0),
        4 => (1, 2),
        _ => anyhow::bail!("cannot show {name}: its colours are unknown; choose another PNG"),
    };
    let pixel = |x: usize, y: usize| {
        let samples = &samples[(y * width + x) * channels..][..channels];
        [samples[blue], samples[green], samples[0], samples[channels - 1]]
    };
    Ok(fitted(width, height, pixel))
}

/// Scales a picture to [`SIDE`], in the middle of the lower edge. Each pixel is the average of those that it stands for.
fn fitted(width: usize, height: usize, pixel: impl Fn(usize, usize) -> [u8; 4]) -> Pixels {
    let side = SIDE as usize;
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
                let [b, g, r, a] = pixel(from_x, from_y).map(u64::from);
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
