use std::borrow::Cow;
use std::mem;

use super::Opcode;
use super::close::{CONTROL_BYTES_MAX, close_code_is_valid};

/// The longest header of a client's frame: with a mask and an eight-byte length.
const CLIENT_HEADER_BYTES_MAX: usize = 14;

/// Decodes the frames of one client.
///
/// It has the size of a pointer, and holds no memory between messages. A frame that arrives whole
/// is unmasked in place and borrowed. The buffer of a partial message grows with the bytes that
/// arrived, never with the announced length.
///
/// ```
/// use watchfire_sockets::frame::{Decoder, Incoming};
///
/// let mut decoder = Decoder::default();
/// let mut bytes = *b"\x81\x82\x01\x02\x03\x04ik";
/// let mut input = &mut bytes[..];
/// let message = decoder.decode(&mut input, 1000).unwrap();
/// assert_eq!(message, Some(Incoming::Text("hi".into())));
/// assert_eq!(decoder.decode(&mut input, 1000), Ok(None));
/// ```
#[derive(Debug, Default)]
pub struct Decoder {
    partial: Option<Box<Partial>>,
}

/// A message or control frame from a client.
#[derive(Debug, PartialEq, Eq)]
pub enum Incoming<'a> {
    Text(Cow<'a, str>),
    Binary(Cow<'a, [u8]>),
    /// A ping; the reply is a pong with the same payload.
    Ping(Cow<'a, [u8]>),
    Pong,
    /// A close with its code, if it has one. Later frames are to be ignored.
    Close(Option<u16>),
}

/// An error in a client's bytes. The decoder cannot continue after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    #[error("protocol error: {0}")]
    Protocol(&'static str),
    #[error("not UTF-8")]
    Utf8,
    #[error("a message of at least {len} bytes is over the limit of {max}")]
    TooBig {
        /// Bytes received so far, plus the announced length of the current frame.
        len: u64,
        max: usize,
    },
}

impl DecodeError {
    pub const fn close_code(self) -> u16 {
        match self {
            DecodeError::Protocol(_) => 1002,
            DecodeError::Utf8 => 1007,
            DecodeError::TooBig { .. } => 1009,
        }
    }
}

/// The received part of a frame or message that is not complete.
#[derive(Debug, Default)]
struct Partial {
    header: [u8; CLIENT_HEADER_BYTES_MAX],
    header_len: u8,
    /// The frame whose payload is arriving.
    frame: Option<Header>,
    /// The received part of a control frame's payload.
    control: Vec<u8>,
    /// The data message that is arriving.
    message: Option<Message>,
}

#[derive(Debug)]
struct Message {
    is_text: bool,
    payload: Vec<u8>,
    /// The length of the prefix that was verified as UTF-8; text only.
    checked: usize,
}

/// A frame's header; `remaining` and `mask` are updated as payload arrives.
#[derive(Clone, Copy, Debug)]
struct Header {
    opcode: Opcode,
    is_final: bool,
    remaining: usize,
    mask: [u8; 4],
}

impl Decoder {
    /// Decodes the next message or control frame, and removes its bytes from the front of `input`.
    /// Call it until it returns `None`; then all input is consumed.
    pub fn decode<'a>(
        &mut self,
        input: &mut &'a mut [u8],
        message_bytes_max: usize,
    ) -> Result<Option<Incoming<'a>>, DecodeError> {
        loop {
            let Some(header) = self.header(input, message_bytes_max)? else {
                return Ok(None);
            };
            if input.len() < header.remaining {
                self.keep(header, mem::take(input))?;
                return Ok(None);
            }
            let (payload, rest) = mem::take(input).split_at_mut(header.remaining);
            *input = rest;
            if let Some(incoming) = self.finish_frame(header, payload)? {
                return Ok(Some(incoming));
            }
        }
    }

    /// Memory that the decoder holds, in bytes.
    pub fn buffered_bytes(&self) -> usize {
        let Some(partial) = &self.partial else {
            return 0;
        };
        let message = partial.message.as_ref().map_or(0, |message| message.payload.capacity());
        mem::size_of::<Partial>() + partial.control.capacity() + message
    }

    /// The header of the current frame: the one whose payload is arriving, or the next in `input`.
    fn header(
        &mut self,
        input: &mut &mut [u8],
        message_bytes_max: usize,
    ) -> Result<Option<Header>, DecodeError> {
        let Some(partial) = &mut self.partial else {
            let Some((header, len)) = parse_header(input)? else {
                if !input.is_empty() {
                    self.partial = Some(Box::new(Partial::of_header(&*mem::take(input))));
                }
                return Ok(None);
            };
            *input = &mut mem::take(input)[len..];
            check_place(&header, None, message_bytes_max)?;
            return Ok(Some(header));
        };
        if let Some(frame) = partial.frame.take() {
            return Ok(Some(frame));
        }
        loop {
            let held = usize::from(partial.header_len);
            if let Some((header, _)) = parse_header(&partial.header[..held])? {
                partial.header_len = 0;
                check_place(&header, partial.message.as_ref(), message_bytes_max)?;
                return Ok(Some(header));
            }
            let Some((first, rest)) = mem::take(input).split_first_mut() else {
                return Ok(None);
            };
            partial.header[held] = *first;
            partial.header_len += 1;
            *input = rest;
        }
    }

    /// Keeps the first part of a frame's payload.
    fn keep(&mut self, mut header: Header, payload: &mut [u8]) -> Result<(), DecodeError> {
        let partial = self.partial.get_or_insert_default();
        header.unmask(payload);
        if header.opcode.is_control() {
            partial.control.extend_from_slice(payload);
        } else {
            partial.message_of(&header).append(payload, header.remaining)?;
        }
        partial.frame = Some(header);
        Ok(())
    }

    /// Handles the payload of a frame, or the rest of it.
    fn finish_frame<'a>(
        &mut self,
        mut header: Header,
        payload: &'a mut [u8],
    ) -> Result<Option<Incoming<'a>>, DecodeError> {
        header.unmask(payload);
        if header.opcode.is_control() {
            return self.finish_control(header.opcode, payload).map(Some);
        }
        let in_pieces = self.partial.as_ref().is_some_and(|partial| partial.message.is_some());
        if header.is_final && !in_pieces {
            // The header may have arrived in pieces.
            self.partial = None;
            return whole(header.opcode, payload).map(Some);
        }
        let partial = self.partial.get_or_insert_default();
        let message = partial.message_of(&header);
        message.append(payload, 0)?;
        if !header.is_final {
            return Ok(None);
        }
        let message = partial.message.take();
        self.partial = None;
        message.expect("a message that was just appended to").finish().map(Some)
    }

    fn finish_control<'a>(
        &mut self,
        opcode: Opcode,
        payload: &'a mut [u8],
    ) -> Result<Incoming<'a>, DecodeError> {
        let mut whole = Cow::Borrowed(&*payload);
        if let Some(partial) = &mut self.partial {
            if !partial.control.is_empty() {
                let mut control = mem::take(&mut partial.control);
                control.extend_from_slice(payload);
                whole = Cow::Owned(control);
            }
            if partial.message.is_none() {
                self.partial = None;
            }
        }
        match opcode {
            Opcode::Close => close_code(&whole).map(Incoming::Close),
            Opcode::Ping => Ok(Incoming::Ping(whole)),
            _ => Ok(Incoming::Pong),
        }
    }
}

impl Partial {
    fn of_header(bytes: &[u8]) -> Self {
        let mut partial = Partial { header_len: bytes.len() as u8, ..Partial::default() };
        partial.header[..bytes.len()].copy_from_slice(bytes);
        partial
    }

    fn message_of(&mut self, header: &Header) -> &mut Message {
        self.message.get_or_insert_with(|| Message {
            is_text: header.opcode == Opcode::Text,
            payload: Vec::new(),
            checked: 0,
        })
    }
}

impl Message {
    /// Appends unmasked payload. `remaining` bytes of its frame have not arrived yet.
    fn append(&mut self, payload: &[u8], remaining: usize) -> Result<(), DecodeError> {
        let len = self.payload.len() + payload.len();
        if len > self.payload.capacity() {
            // Grow with the received bytes, up to the announced length.
            let wanted = (2 * self.payload.capacity()).clamp(len, len + remaining);
            self.payload.reserve_exact(wanted - self.payload.len());
        }
        self.payload.extend_from_slice(payload);
        if self.is_text { self.check() } else { Ok(()) }
    }

    /// Fails as soon as no continuation could make the text valid UTF-8.
    fn check(&mut self) -> Result<(), DecodeError> {
        match simdutf8::compat::from_utf8(&self.payload[self.checked..]) {
            Ok(_) => self.checked = self.payload.len(),
            // No error length: only the last character is incomplete.
            Err(error) if error.error_len().is_none() => self.checked += error.valid_up_to(),
            Err(_) => return Err(DecodeError::Utf8),
        }
        Ok(())
    }

    fn finish(self) -> Result<Incoming<'static>, DecodeError> {
        if !self.is_text {
            return Ok(Incoming::Binary(Cow::Owned(self.payload)));
        }
        let text = String::from_utf8(self.payload).map_err(|_| DecodeError::Utf8)?;
        Ok(Incoming::Text(Cow::Owned(text)))
    }
}

impl Header {
    /// Unmasks the next part of the payload in place.
    fn unmask(&mut self, payload: &mut [u8]) {
        unmask(payload, self.mask);
        self.remaining -= payload.len();
        self.mask.rotate_left(payload.len() % 4);
    }
}

/// A message that arrived whole in one frame.
fn whole(opcode: Opcode, payload: &[u8]) -> Result<Incoming<'_>, DecodeError> {
    if opcode == Opcode::Binary {
        return Ok(Incoming::Binary(Cow::Borrowed(payload)));
    }
    let text = simdutf8::basic::from_utf8(payload).map_err(|_| DecodeError::Utf8)?;
    Ok(Incoming::Text(Cow::Borrowed(text)))
}

/// A header and its length; `None` when more bytes are needed.
fn parse_header(bytes: &[u8]) -> Result<Option<(Header, usize)>, DecodeError> {
    let &[first, second, ..] = bytes else {
        return match bytes.first() {
            Some(&first) => parse_first(first).map(|_| None),
            None => Ok(None),
        };
    };
    let (is_final, opcode) = parse_first(first)?;
    if second & 0x80 == 0 {
        return Err(DecodeError::Protocol("a client's frame must be masked"));
    }
    let short = second & 0x7f;
    if opcode.is_control() && usize::from(short) > CONTROL_BYTES_MAX {
        return Err(DecodeError::Protocol("a control frame is too long"));
    }
    let (len, at) = match (short, &bytes[2..]) {
        (126, [a, b, ..]) => (u64::from(u16::from_be_bytes([*a, *b])), 4),
        (127, long) => match long.first_chunk() {
            Some(long) => (u64::from_be_bytes(*long), 10),
            None => return Ok(None),
        },
        (126, _) => return Ok(None),
        _ => (u64::from(short), 2),
    };
    if len >> 63 != 0 {
        return Err(DecodeError::Protocol("a length's highest bit is set"));
    }
    let is_minimal = match short {
        126 => len > 125,
        127 => len > 0xffff,
        _ => true,
    };
    if !is_minimal {
        return Err(DecodeError::Protocol("a length is not minimally encoded"));
    }
    let Some(&mask) = bytes[at..].first_chunk() else {
        return Ok(None);
    };
    let remaining = usize::try_from(len).unwrap_or(usize::MAX);
    Ok(Some((Header { opcode, is_final, remaining, mask }, at + 4)))
}

fn parse_first(first: u8) -> Result<(bool, Opcode), DecodeError> {
    if first & 0x70 != 0 {
        return Err(DecodeError::Protocol("a reserved bit is set"));
    }
    let is_final = first & 0x80 != 0;
    match Opcode::from_bits(first & 0x0f) {
        None => Err(DecodeError::Protocol("an unknown opcode")),
        Some(opcode) if opcode.is_control() && !is_final => {
            Err(DecodeError::Protocol("a control frame is fragmented"))
        }
        Some(opcode) => Ok((is_final, opcode)),
    }
}

/// Checks that a frame is allowed at this point of the message, with this length.
fn check_place(
    header: &Header,
    message: Option<&Message>,
    message_bytes_max: usize,
) -> Result<(), DecodeError> {
    if header.opcode.is_control() {
        return Ok(());
    }
    match (header.opcode, message) {
        (Opcode::Continuation, None) => {
            return Err(DecodeError::Protocol("a continuation frame without a message"));
        }
        (Opcode::Text | Opcode::Binary, Some(_)) => {
            return Err(DecodeError::Protocol("a message between the fragments of another"));
        }
        _ => {}
    }
    let so_far = message.map_or(0, |message| message.payload.len());
    match so_far.saturating_add(header.remaining) {
        len if len > message_bytes_max => {
            Err(DecodeError::TooBig { len: len as u64, max: message_bytes_max })
        }
        _ => Ok(()),
    }
}

/// The code in a close frame's payload.
fn close_code(payload: &[u8]) -> Result<Option<u16>, DecodeError> {
    let Some((code, reason)) = payload.split_first_chunk() else {
        return match payload {
            [] => Ok(None),
            _ => Err(DecodeError::Protocol("a close code has two bytes")),
        };
    };
    let code = u16::from_be_bytes(*code);
    if !close_code_is_valid(code) {
        return Err(DecodeError::Protocol("an invalid close code"));
    }
    simdutf8::basic::from_utf8(reason).map_err(|_| DecodeError::Utf8)?;
    Ok(Some(code))
}

/// XOR with the mask, eight bytes at a time, which the compiler vectorizes.
fn unmask(payload: &mut [u8], mask: [u8; 4]) {
    let [a, b, c, d] = mask;
    let wide = u64::from_ne_bytes([a, b, c, d, a, b, c, d]);
    let mut words = payload.chunks_exact_mut(8);
    for word in &mut words {
        let masked = u64::from_ne_bytes((&*word).try_into().expect("a chunk of eight"));
        word.copy_from_slice(&(masked ^ wide).to_ne_bytes());
    }
    for (byte, mask) in words.into_remainder().iter_mut().zip(mask.iter().cycle()) {
        *byte ^= mask;
    }
}

#[cfg(test)]
mod tests;
