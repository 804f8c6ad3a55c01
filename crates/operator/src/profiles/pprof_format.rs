//! A profile in the format of `go tool pprof`: the message `Profile` of `profile.proto`, as protocol buffers.
//!
//! Each function of a stack is a location of its own, those that the compiler inlined too.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use super::profile::{Function, Profile};

impl Profile {
    /// The profile in the format of `go tool pprof`, not compressed.
    pub fn to_pprof(&self) -> Vec<u8> {
        let mut texts = Texts::new();
        let mut message = Message::default();
        let period = 1_000_000_000 / self.samples_per_second;
        for (kind, unit) in [("samples", "count"), ("cpu", "nanoseconds")] {
            message.message(1, &value_type(&mut texts, kind, unit));
        }
        let mut locations = HashMap::<&Function, u64>::new();
        for stack in &self.stacks {
            let ids = stack.functions.iter().map(|function| {
                // In this format, 0 stands for no location.
                let next = locations.len() as u64 + 1;
                *locations.entry(function).or_insert(next)
            });
            let ids: Vec<u64> = ids.collect();
            let mut label = Message::default();
            label.number(1, texts.index("thread"));
            label.number(2, texts.index(&stack.thread));
            let mut sample = Message::default();
            sample.numbers(1, &ids);
            sample.numbers(2, &[stack.samples, stack.samples * period]);
            sample.message(3, &label);
            message.message(2, &sample);
        }
        let mut locations: Vec<_> = locations.into_iter().collect();
        locations.sort_by_key(|(_, id)| *id);
        for (function, id) in locations {
            let mut line = Message::default();
            line.number(1, id);
            line.number(2, function.line.into());
            let mut location = Message::default();
            location.number(1, id);
            location.message(4, &line);
            message.message(4, &location);
            let mut described = Message::default();
            described.number(1, id);
            described.number(2, texts.index(&function.name));
            described.number(4, texts.index(&function.file));
            message.message(5, &described);
        }
        let began = self.began.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        message.number(9, nanoseconds(began));
        message.number(10, nanoseconds(self.duration));
        message.message(11, &value_type(&mut texts, "cpu", "nanoseconds"));
        message.number(12, period);
        // The texts are last, because every field above may add one.
        for text in &texts.list {
            message.bytes(6, text.as_bytes());
        }
        message.0
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn value_type<'a>(texts: &mut Texts<'a>, kind: &'a str, unit: &'a str) -> Message {
    let mut message = Message::default();
    message.number(1, texts.index(kind));
    message.number(2, texts.index(unit));
    message
}

/// The table of texts. Its first one is empty.
struct Texts<'a> {
    list: Vec<&'a str>,
    indices: HashMap<&'a str, u64>,
}

impl<'a> Texts<'a> {
    fn new() -> Self {
        Texts { list: vec![""], indices: HashMap::from([("", 0)]) }
    }

    fn index(&mut self, text: &'a str) -> u64 {
        *self.indices.entry(text).or_insert_with(|| {
            self.list.push(text);
            self.list.len() as u64 - 1
        })
    }
}

/// A message of protocol buffers.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn number(&mut self, field: u64, value: u64) {
        self.varint(field << 3);
        self.varint(value);
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn message(&mut self, field: u64, message: &Message) {
        self.bytes(field, &message.0);
    }

    fn numbers(&mut self, field: u64, values: &[u64]) {
        let mut packed = Message::default();
        values.iter().for_each(|value| packed.varint(*value));
        self.message(field, &packed);
    }
}

#[cfg(test)]
mod tests {
    use super::super::profile::Stack;
    use super::*;

    #[test]
    fn a_profile_is_encoded_field_by_field() {
        let function = |name: &str, line| Function { name: name.into(), file: "f".into(), line };
        let profile = Profile {
            began: SystemTime::UNIX_EPOCH + Duration::from_nanos(300),
            duration: Duration::from_nanos(2),
            samples_per_second: 1_000_000_000,
            stacks: vec![Stack {
                thread: "t".into(),
                functions: vec![function("in", 7), function("out", 0)],
                samples: 3,
            }],
        };
        // Texts: 1 samples, 2 count, 3 cpu, 4 nanoseconds, 5 thread, 6 t, 7 in, 8 f, 9 out.
        let mut expected: Vec<u8> = vec![
            0x0a, 4, 8, 1, 16, 2, // sample_type
            0x0a, 4, 8, 3, 16, 4, //
            0x12, 14, 0x0a, 2, 1, 2, 0x12, 2, 3, 3, 0x1a, 4, 8, 5, 16, 6, // sample
            0x22, 8, 8, 1, 0x22, 4, 8, 1, 16, 7, // location
            0x2a, 6, 8, 1, 16, 7, 32, 8, // function
            0x22, 8, 8, 2, 0x22, 4, 8, 2, 16, 0, //
            0x2a, 6, 8, 2, 16, 9, 32, 8, //
            72, 0xac, 2, // time_nanos
            80, 2, // duration_nanos
            0x5a, 4, 8, 3, 16, 4, // period_type
            96, 1, // period
        ];
        for text in ["", "samples", "count", "cpu", "nanoseconds", "thread", "t", "in", "f", "out"]
        {
            expected.extend([0x32, text.len() as u8]);
            expected.extend(text.as_bytes());
        }
        assert_eq!(profile.to_pprof(), expected);
    }
}
