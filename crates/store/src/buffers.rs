use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

/// What is shorter than this gets memory of its own.
const REUSED_MIN: usize = 64 * 1024;

/// Most memory that is kept for what is to come. What comes back beyond it goes to the system, the oldest first.
const SPARE_BYTES_MAX: usize = 8 * 1024 * 1024;

/// A message is a little longer than the block in it: with so much more, either fits where the other was.
const ENVELOPE_BYTES: usize = 4096;

/// Memory for pieces of files and messages with them, used again: what is given anew has to be cleared first, and what
/// the system gives is handed out page by page besides.
#[derive(Clone, Debug, Default)]
struct Buffers(Arc<Mutex<Spare>>);

/// That of the process.
static SHARED: LazyLock<Buffers> = LazyLock::new(Buffers::default);

#[derive(Debug, Default)]
struct Spare {
    /// Those that came back last behind.
    buffers: VecDeque<Vec<u8>>,
    bytes: usize,
}

/// Memory for one of them. What is in it at first may be another one.
///
/// ```
/// let mut buffer = store::Buffer::of(1 << 20);
/// buffer.fill(7);
/// assert_eq!(buffer.freeze(), vec![7; 1 << 20]);
/// ```
#[derive(Debug)]
pub struct Buffer {
    bytes: Vec<u8>,
    len: usize,
    home: Option<Buffers>,
}

impl Buffers {
    fn take(&self, len: usize) -> Buffer {
        if len < REUSED_MIN {
            return Buffer { bytes: vec![0; len], len, home: None };
        }
        // Zeroed by the kernel, and then only as it is filled.
        let anew = || vec![0; (len + ENVELOPE_BYTES).next_multiple_of(REUSED_MIN)];
        let bytes = self.lock().take(len).unwrap_or_else(anew);
        Buffer { bytes, len, home: Some(self.clone()) }
    }

    fn lock(&self) -> MutexGuard<'_, Spare> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Spare {
    /// One that is as long, or a little longer.
    fn take(&mut self, len: usize) -> Option<Vec<u8>> {
        let fits = |spare: &Vec<u8>| (len..=len + len / 8).contains(&spare.len());
        let at = self.buffers.iter().rposition(fits)?;
        let buffer = self.buffers.remove(at)?;
        self.bytes -= buffer.len();
        Some(buffer)
    }

    fn put(&mut self, buffer: Vec<u8>) {
        self.bytes += buffer.len();
        self.buffers.push_back(buffer);
        while self.bytes > SPARE_BYTES_MAX
            && let Some(oldest) = self.buffers.pop_front()
        {
            self.bytes -= oldest.len();
        }
    }
}

impl Buffer {
    /// So many bytes.
    pub fn of(len: usize) -> Self {
        SHARED.take(len)
    }

    /// What was written into it. Its memory comes back when nobody holds any of it.
    pub fn freeze(mut self) -> Bytes {
        match self.home {
            Some(_) => Bytes::from_owner(self),
            None => Bytes::from(std::mem::take(&mut self.bytes)),
        }
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.len]
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(home) = self.home.take() {
            home.lock().put(std::mem::take(&mut self.bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1024 * 1024;

    fn filled(buffers: &Buffers, len: usize, with: u8) -> Bytes {
        let mut buffer = buffers.take(len);
        buffer.fill(with);
        buffer.freeze()
    }

    #[test]
    fn memory_is_used_again_once_nobody_holds_any_of_it() {
        let buffers = Buffers::default();
        let message = filled(&buffers, MIB, 1);
        let (part, at) = (message.slice(5..), message.as_ptr());
        drop(message);
        assert_ne!(buffers.take(MIB).as_ptr(), at);
        drop(part);
        let again = filled(&buffers, MIB - 100, 2);
        assert_eq!((again.as_ptr(), again.len()), (at, MIB - 100));
        assert!(again.iter().all(|byte| *byte == 2));
    }

    #[test]
    fn a_message_fits_where_the_block_in_it_was() {
        let buffers = Buffers::default();
        let at = filled(&buffers, MIB, 1).as_ptr();
        let message = filled(&buffers, MIB + 100, 2);
        assert_eq!((message.as_ptr(), message.len()), (at, MIB + 100));
    }

    #[test]
    fn a_much_shorter_message_gets_memory_of_its_own() {
        let buffers = Buffers::default();
        let at = filled(&buffers, MIB, 1).as_ptr();
        let (half, whole) = (buffers.take(MIB / 2), buffers.take(MIB));
        assert_ne!(half.as_ptr(), at);
        assert_eq!(whole.as_ptr(), at);
        drop(filled(&buffers, 10, 1));
        assert_eq!(filled(&buffers, 10, 2), vec![2; 10]);
    }

    #[test]
    fn no_more_is_kept_than_may_be() {
        let buffers = Buffers::default();
        let messages: Vec<_> = (0..20).map(|n| filled(&buffers, MIB, n)).collect();
        let last = messages[19].as_ptr();
        drop(messages);
        let kept = || {
            let spare = buffers.lock();
            (spare.buffers.len(), spare.bytes)
        };
        let each = MIB + REUSED_MIN;
        assert_eq!(kept(), (SPARE_BYTES_MAX / each, SPARE_BYTES_MAX / each * each));
        assert_eq!(buffers.take(MIB).as_ptr(), last);
        drop(filled(&buffers, SPARE_BYTES_MAX + 1, 0));
        assert_eq!(kept(), (0, 0));
    }
}
