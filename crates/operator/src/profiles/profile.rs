//! The result of a profile: stacks of functions, and how often each was seen.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use pprof::{Frames, Symbol, UnresolvedReport};

pub struct Profile {
    pub(super) began: SystemTime,
    pub(super) duration: Duration,
    pub(super) samples_per_second: u64,
    pub(super) stacks: Vec<Stack>,
}

/// One stack of a thread, and how often it was seen.
pub(super) struct Stack {
    pub thread: Arc<str>,
    /// The functions, the innermost first.
    pub functions: Vec<Function>,
    pub samples: u64,
}

#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Function {
    pub name: Arc<str>,
    pub file: Arc<str>,
    /// 0 if it is not known.
    pub line: u32,
}

impl Profile {
    /// Finds the names of all functions. Takes long.
    pub(super) fn resolve(report: UnresolvedReport) -> Profile {
        let mut texts = Texts::default();
        let stacks = report.data.into_iter().map(|(frames, samples)| {
            let frames = Frames::from(frames);
            Stack {
                thread: texts.shared(frames.thread_name_or_id()),
                functions: frames.frames.iter().flatten().map(|s| texts.function(s)).collect(),
                samples: u64::try_from(samples).unwrap_or_default(),
            }
        });
        Profile {
            stacks: stacks.collect(),
            began: report.timing.start_time,
            duration: report.timing.duration,
            samples_per_second: u64::try_from(report.timing.frequency).unwrap_or(1).max(1),
        }
    }

    pub(super) fn samples(&self) -> u64 {
        self.stacks.iter().map(|stack| stack.samples).sum()
    }
}

/// Names and files, each of them once.
#[derive(Default)]
struct Texts(HashMap<String, Arc<str>>);

impl Texts {
    fn shared(&mut self, text: String) -> Arc<str> {
        self.0.entry(text).or_insert_with_key(|text| text.as_str().into()).clone()
    }

    fn function(&mut self, symbol: &Symbol) -> Function {
        Function {
            name: self.shared(symbol.name()),
            file: self.shared(symbol.filename().into_owned()),
            line: symbol.lineno(),
        }
    }
}
