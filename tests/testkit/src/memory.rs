//! Counts the bytes that a thread has allocated, and their peak.

#![allow(unsafe_code, reason = "only an allocator can count allocations")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// Negative when the thread freed bytes of other threads.
    static ALLOCATED: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

/// The allocator of a program that counts. It has the number of bytes that an allocation of a size takes:
/// `#[global_allocator] static ALLOCATOR: CountingAllocator = CountingAllocator(|size| size);`
pub struct CountingAllocator(pub fn(usize) -> usize);

/// The bytes that this thread allocated and has not freed.
pub fn allocated() -> isize {
    ALLOCATED.get()
}

/// Runs `work` on this thread. Returns its result and its peak of allocated bytes.
pub fn peak_of<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = ALLOCATED.get();
    PEAK.set(before);
    let result = work();
    (result, PEAK.get().saturating_sub(before).unsigned_abs())
}

impl CountingAllocator {
    fn taken(&self, size: usize) -> isize {
        (self.0)(size) as isize
    }
}

fn count(bytes: isize) {
    // Thread-locals without a destructor exist as long as their thread.
    let allocated = ALLOCATED.get() + bytes;
    ALLOCATED.set(allocated);
    PEAK.set(PEAK.get().max(allocated));
}

// SAFETY: every call is handed to `System` with the caller's own arguments, so its guarantees are
// ours. Counting touches only `Cell`s in thread-locals that are initialised at compile time and
// have no destructor, so it neither allocates nor unwinds.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(self.taken(layout.size()));
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(self.taken(layout.size()));
        // SAFETY: the caller keeps the contract of `alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-self.taken(layout.size()));
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(self.taken(size) - self.taken(layout.size()));
        // SAFETY: the caller keeps the contract of `realloc`.
        unsafe { System.realloc(pointer, layout, size) }
    }
}
