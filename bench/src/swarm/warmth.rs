//! Memory that nobody has to wait for.
//!
//! A virtual machine may give memory that is free back to its host, and pay a good deal more for a page when it is
//! used again than the page is worth. Who writes the most after a pause, or comes first, would pay for the others.

use std::fs;

use anyhow::Result;

use crate::process::kibibytes;

/// What stays free for everything else meanwhile.
const SPARE_BYTES: u64 = 2 << 30;
/// Machines with more than this are hardly anybody's guest, and would take minutes.
const WARMED_BYTES_MAX: u64 = 64 << 30;
const PIECE_BYTES: usize = 64 << 20;

/// Has all free memory in use for a moment. Which part of it comes next, nobody knows.
pub fn warm() -> Result<()> {
    let free = kibibytes(&fs::read_to_string("/proc/meminfo")?, "MemFree:")? * 1024;
    let wanted = free.saturating_sub(SPARE_BYTES).min(WARMED_BYTES_MAX);
    let pieces = wanted / PIECE_BYTES as u64;
    let touched: Vec<Vec<u8>> = (0..pieces).map(|_| vec![1; PIECE_BYTES]).collect();
    // Or the compiler would see that nobody looks at it.
    std::hint::black_box(&touched);
    Ok(())
}
