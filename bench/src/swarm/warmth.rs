//! Memory that nobody has to wait for.
//!
//! A virtual machine may give memory that is free back to its host, and pay a good deal more for a page when it is
//! used again than the page is worth. Who writes the most after a pause, or comes first, would pay for the others.

use std::fs;

use anyhow::Result;

use crate::process::kibibytes;

/// What stays free for everything else meanwhile.
const SPARE_BYTES: u64 = 2 << 30;
/// How many bytes are touched for each that will be used: some are given back again before.
const MARGIN: f64 = 1.5;
const PIECE_BYTES: usize = 64 << 20;

/// Has so many bytes of free memory in use for a moment, or as many as there are.
pub fn warm(bytes: u64) -> Result<()> {
    let free = kibibytes(&fs::read_to_string("/proc/meminfo")?, "MemFree:")? * 1024;
    let wanted = ((bytes as f64 * MARGIN) as u64).min(free.saturating_sub(SPARE_BYTES));
    let pieces = wanted / PIECE_BYTES as u64;
    let touched: Vec<Vec<u8>> = (0..pieces).map(|_| vec![1; PIECE_BYTES]).collect();
    // Or the compiler would see that nobody looks at it.
    std::hint::black_box(&touched);
    Ok(())
}
