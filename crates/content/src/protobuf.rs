//! The subset of Protocol Buffers that content uses.
//!
//! Decoding is strict: varints must be minimal, and groups are rejected. So a message with known
//! fields in a known order encodes to the same bytes again.

use crate::varint::{self, VarintError};

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtobufError {
    #[error("field {field} is truncated")]
    Truncated { field: u64 },
    #[error(transparent)]
    Varint(#[from] VarintError),
    #[error("field {field} has the unsupported wire type {wire_type}")]
    WireType { field: u64, wire_type: u8 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// A variable-length integer.
    Varint(u64),
    /// Bytes, preceded by their length.
    Bytes(&'a [u8]),
    /// Four bytes.
    Fixed32(u32),
}

impl Value<'_> {
    /// Returns the wire type in the key of the field.
    pub const fn wire_type(&self) -> u8 {
        match self {
            Value::Varint(_) => 0,
            Value::Bytes(_) => 2,
            Value::Fixed32(_) => 5,
        }
    }
}

/// An iterator over the fields of a message. It ends after an error.
#[derive(Clone, Debug)]
pub struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    /// Creates an iterator over the message in all of `bytes`.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Fields { rest: bytes }
    }

    fn varint(&mut self) -> Result<u64, VarintError> {
        let (value, len) = varint::decode(self.rest)?;
        self.rest = &self.rest[len..];
        Ok(value)
    }

    fn bytes(&mut self, field: u64, len: u64) -> Result<&'a [u8], ProtobufError> {
        let (bytes, rest) = usize::try_from(len)
            .ok()
            .and_then(|len| self.rest.split_at_checked(len))
            .ok_or(ProtobufError::Truncated { field })?;
        self.rest = rest;
        Ok(bytes)
    }

    fn field(&mut self) -> Result<(u64, Value<'a>), ProtobufError> {
        let key = self.varint()?;
        let (field, wire_type) = (key >> 3, (key & 7) as u8);
        let value = match wire_type {
            0 => Value::Varint(self.varint()?),
            2 => {
                let len = self.varint()?;
                Value::Bytes(self.bytes(field, len)?)
            }
            5 => {
                let bytes = self.bytes(field, 4)?;
                Value::Fixed32(bytes.iter().rev().fold(0, |value, &b| value << 8 | u32::from(b)))
            }
            wire_type => return Err(ProtobufError::WireType { field, wire_type }),
        };
        Ok((field, value))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Value<'a>), ProtobufError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.rest = &[];
        }
        Some(field)
    }
}

pub fn encode_field(field: u64, value: Value<'_>, bytes: &mut Vec<u8>) {
    varint::encode(field << 3 | u64::from(value.wire_type()), bytes);
    match value {
        Value::Varint(value) => varint::encode(value, bytes),
        Value::Bytes(value) => {
            varint::encode(value.len() as u64, bytes);
            bytes.extend_from_slice(value);
        }
        Value::Fixed32(value) => bytes.extend_from_slice(&value.to_le_bytes()),
    }
}

/// Returns the encoded length of a field of `len` bytes, whose number is below 16.
pub(crate) const fn bytes_field_len(len: usize) -> usize {
    1 + varint::encoded_len(len as u64) + len
}

/// Returns the encoded length of a varint field, whose number is below 16.
pub(crate) const fn varint_field_len(value: u64) -> usize {
    1 + varint::encoded_len(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_fields_are_decoded_again() {
        let written = [
            (1, Value::Varint(300)),
            (2, Value::Bytes(b"two")),
            (2, Value::Bytes(b"")),
            (90, Value::Fixed32(0xdead_beef)),
        ];
        let mut bytes = Vec::new();
        for (field, value) in written {
            encode_field(field, value, &mut bytes);
        }
        assert_eq!(Fields::new(&bytes).collect::<Result<Vec<_>, _>>().unwrap(), written);
    }

    #[test]
    fn a_truncated_message_is_rejected_once() {
        let truncated: &[&[u8]] = &[&[0x0a, 3, 1, 2], &[0x0d, 1, 2, 3], &[0x0a, 0xff, 0xff, 0x7f]];
        for bytes in truncated {
            let mut fields = Fields::new(bytes);
            assert_eq!(fields.next(), Some(Err(ProtobufError::Truncated { field: 1 })));
            assert_eq!(fields.next(), None);
        }
    }

    #[test]
    fn groups_and_eight_byte_values_are_rejected() {
        for wire_type in [1, 3, 4, 6, 7] {
            let bytes = [1 << 3 | wire_type, 0];
            let error = ProtobufError::WireType { field: 1, wire_type };
            assert_eq!(Fields::new(&bytes).next(), Some(Err(error)));
        }
    }
}
