use parking_lot::{Mutex, MutexGuard};
use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, LazyLock};

use bytes::Bytes;

/// Shorter buffers are not pooled.
const POOLED_BYTES_MIN: usize = 64 * 1024;

/// Free memory in the pool. Beyond it the oldest buffers are returned to the system.
const FREE_BYTES_MAX: usize = 8 * 1024 * 1024;

/// A message is slightly longer than the block in it. With this extra room, one buffer fits both.
const ENVELOPE_BYTES: usize = 4096;

/// A pool of buffers for chunks of files and for messages with blocks. New memory costs more: it
/// has to be cleared, and the system maps it page by page.
#[derive(Clone, Debug, Default)]
struct Pool(Arc<Mutex<FreeBuffers>>);

static SHARED: LazyLock<Pool> = LazyLock::new(Pool::default);

#[derive(Debug, Default)]
struct FreeBuffers {
    /// The buffer that was returned last is the last one.
    buffers: VecDeque<Vec<u8>>,
    bytes: usize,
}

/// A buffer from the pool. Its initial content is undefined, and may be the content of an earlier buffer.
///
/// ```
/// let mut buffer = watchfire_store::PooledBuffer::with_len(1 << 20);
/// buffer.fill(7);
/// assert_eq!(buffer.freeze(), vec![7; 1 << 20]);
/// ```
#[derive(Debug)]
pub struct PooledBuffer {
    bytes: Vec<u8>,
    len: usize,
    pool: Option<Pool>,
}

impl Pool {
    fn take(&self, len: usize) -> PooledBuffer {
        if len < POOLED_BYTES_MIN {
            return PooledBuffer { bytes: vec![0; len], len, pool: None };
        }
        // The kernel clears the pages as they are filled.
        let new = || vec![0; (len + ENVELOPE_BYTES).next_multiple_of(POOLED_BYTES_MIN)];
        let bytes = self.lock().take(len).unwrap_or_else(new);
        PooledBuffer { bytes, len, pool: Some(self.clone()) }
    }

    fn lock(&self) -> MutexGuard<'_, FreeBuffers> {
        self.0.lock()
    }
}

impl FreeBuffers {
    /// Returns a free buffer of this length, or one that is slightly longer.
    fn take(&mut self, len: usize) -> Option<Vec<u8>> {
        let fits = |free: &Vec<u8>| (len..=len + len / 8).contains(&free.len());
        let at = self.buffers.iter().rposition(fits)?;
        let buffer = self.buffers.remove(at)?;
        self.bytes -= buffer.len();
        Some(buffer)
    }

    fn put(&mut self, buffer: Vec<u8>) {
        self.bytes += buffer.len();
        self.buffers.push_back(buffer);
        while self.bytes > FREE_BYTES_MAX
            && let Some(oldest) = self.buffers.pop_front()
        {
            self.bytes -= oldest.len();
        }
    }
}

impl PooledBuffer {
    /// Returns a buffer of `len` bytes.
    pub fn with_len(len: usize) -> Self {
        SHARED.take(len)
    }

    /// Returns the content. The memory returns to the pool when the last part of it is dropped.
    pub fn freeze(mut self) -> Bytes {
        match self.pool {
            Some(_) => Bytes::from_owner(self),
            None => Bytes::from(std::mem::take(&mut self.bytes)),
        }
    }
}

impl Deref for PooledBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl DerefMut for PooledBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.len]
    }
}

impl AsRef<[u8]> for PooledBuffer {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Drop for PooledBuffer {
    fn drop(&mut self) {
        if let Some(pool) = self.pool.take() {
            pool.lock().put(std::mem::take(&mut self.bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1024 * 1024;

    fn filled(pool: &Pool, len: usize, with: u8) -> Bytes {
        let mut buffer = pool.take(len);
        buffer.fill(with);
        buffer.freeze()
    }

    #[test]
    fn memory_is_reused_when_the_last_part_of_it_is_dropped() {
        let pool = Pool::default();
        let message = filled(&pool, MIB, 1);
        let (part, at) = (message.slice(5..), message.as_ptr());
        drop(message);
        assert_ne!(pool.take(MIB).as_ptr(), at);
        drop(part);
        let again = filled(&pool, MIB - 100, 2);
        assert_eq!((again.as_ptr(), again.len()), (at, MIB - 100));
        assert!(again.iter().all(|byte| *byte == 2));
    }

    #[test]
    fn a_message_fits_into_the_buffer_of_the_block_in_it() {
        let pool = Pool::default();
        let at = filled(&pool, MIB, 1).as_ptr();
        let message = filled(&pool, MIB + 100, 2);
        assert_eq!((message.as_ptr(), message.len()), (at, MIB + 100));
    }

    #[test]
    fn a_much_shorter_message_gets_a_buffer_of_its_own() {
        let pool = Pool::default();
        let at = filled(&pool, MIB, 1).as_ptr();
        let (half, whole) = (pool.take(MIB / 2), pool.take(MIB));
        assert_ne!(half.as_ptr(), at);
        assert_eq!(whole.as_ptr(), at);
        drop(filled(&pool, 10, 1));
        assert_eq!(filled(&pool, 10, 2), vec![2; 10]);
    }

    #[test]
    fn the_pool_keeps_no_more_than_its_limit() {
        let pool = Pool::default();
        let messages: Vec<_> = (0..20).map(|n| filled(&pool, MIB, n)).collect();
        let last = messages[19].as_ptr();
        drop(messages);
        let kept = || {
            let free = pool.lock();
            (free.buffers.len(), free.bytes)
        };
        let each = MIB + POOLED_BYTES_MIN;
        assert_eq!(kept(), (FREE_BYTES_MAX / each, FREE_BYTES_MAX / each * each));
        assert_eq!(pool.take(MIB).as_ptr(), last);
        drop(filled(&pool, FREE_BYTES_MAX + 1, 0));
        assert_eq!(kept(), (0, 0));
    }
}
