//! The images of sprites: drawings that every desktop has, and pictures from files.

use std::path::Path;

use anyhow::Context as _;

use super::physics::RADIUS;

/// Width and height of a sprite's window, in pixels.
pub const SIDE: u32 = 2 * RADIUS as u32;
/// The limits of a file, as in a browser.
const FILE_BYTES_MAX: u64 = 32 << 20;
const FILE_PIXELS_MAX: u64 = 100_000_000;
/// Memory for the decoder: the pixels of the largest picture, in 8 bits a channel.
const DECODER_BYTES_MAX: u64 = 4 * FILE_PIXELS_MAX;

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

/// Reads a picture, and fits it into a sprite's window.
pub fn read(path: &Path) -> anyhow::Result<Pixels> {
    let name = path.display();
    let bytes = path.metadata().with_context(|| format!("cannot read {name}"))?.len();
    anyhow::ensure!(
        bytes <= FILE_BYTES_MAX,
        "cannot show {name}: it has {bytes} bytes; choose a picture of at most {FILE_BYTES_MAX}"
    );
    let open = || -> anyhow::Result<_> {
        let reader = image::ImageReader::open(path)?;
        Ok(reader.with_guessed_format()?)
    };
    let unreadable = || format!("cannot show {name}; choose a PNG or a JPEG");
    let (width, height) = open()?.into_dimensions().with_context(unreadable)?;
    anyhow::ensure!(
        u64::from(width) * u64::from(height) < FILE_PIXELS_MAX,
        "cannot show {name}: it has {width} x {height} pixels; choose a picture of less than 100 megapixels"
    );
    let mut reader = open()?;
    let mut limits = image::Limits::default();
    limits.max_alloc = Some(DECODER_BYTES_MAX);
    reader.limits(limits);
    let small = reader.decode().with_context(unreadable)?.thumbnail(SIDE, SIDE).into_rgba8();
    let mut pixels = vec![[0; 4]; (SIDE * SIDE) as usize];
    let (left, top) = ((SIDE - small.width()) / 2, SIDE - small.height());
    for (x, y, &image::Rgba([r, g, b, a])) in small.enumerate_pixels() {
        pixels[((y + top) * SIDE + x + left) as usize] = [b, g, r, a];
    }
    Ok(pixels)
}
