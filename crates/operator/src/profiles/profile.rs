//! The result of a profile: stacks of functions, and how often each was seen.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
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

    pub(super) fn empty(samples_per_second: u64) -> Profile {
        let (began, duration) = (SystemTime::UNIX_EPOCH, Duration::ZERO);
        Profile { began, duration, samples_per_second, stacks: Vec::new() }
    }

    /// The stacks as text. Each of the most frequent ones has a line with its samples, the number of names that it shares
    /// with the line before, and its other names: the thread, and the functions from the outermost on. All others have one
    /// line together.
    pub(super) fn to_text(&self, stacks_max: usize) -> String {
        let mut samples = BTreeMap::<String, u64>::new();
        for stack in &self.stacks {
            let functions = stack.functions.iter().rev().map(|function| &*function.name);
            let names: Vec<&str> = [&*stack.thread].into_iter().chain(functions).collect();
            *samples.entry(names.join("\t")).or_default() += stack.samples;
        }
        let mut stacks: Vec<_> = samples.into_iter().collect();
        stacks.sort_by_key(|(_, samples)| Reverse(*samples));
        let rare = stacks.split_off(stacks_max.min(stacks.len()));
        if !rare.is_empty() {
            stacks.push(("(rare stacks)".into(), rare.iter().map(|(_, samples)| samples).sum()));
        }
        stacks.sort();
        let (mut text, mut before) = (String::new(), Vec::new());
        for (names, samples) in &stacks {
            let names: Vec<&str> = names.split('\t').collect();
            let shared = names.iter().zip(&before).take_while(|(name, same)| name == same).count();
            text += &format!("{samples} {shared} {}\n", names[shared..].join("\t"));
            before = names;
        }
        text
    }

    /// Adds the stacks of a text.
    pub(super) fn add_text(&mut self, text: &str) {
        let (mut texts, file, mut names) = (Texts::default(), Arc::<str>::from(""), Vec::new());
        for line in text.lines() {
            let mut words = line.splitn(3, ' ');
            let mut number = || words.next()?.parse::<u32>().ok();
            let (samples, shared) = (number().unwrap_or_default(), number().unwrap_or_default());
            let others = words.next().unwrap_or_default().split('\t');
            names.truncate(shared as usize);
            // A line without other names is the line of rare stacks once more.
            let others = others.filter(|name| !name.is_empty());
            names.extend(others.map(|name| texts.shared(name.to_owned())));
            let Some((thread, functions)) = names.split_first() else { continue };
            let functions = functions.iter().rev().cloned();
            let functions = functions.map(|name| Function { name, file: file.clone(), line: 0 });
            let (thread, functions) = (thread.clone(), functions.collect());
            self.stacks.push(Stack { thread, functions, samples: samples.into() });
        }
    }

    /// All functions: the name, its own samples, and those with what it called. The most own samples come first.
    pub(super) fn functions(&self) -> Vec<(String, u64, u64)> {
        let mut counts = BTreeMap::<&str, (u64, u64)>::new();
        for Stack { functions, samples, .. } in &self.stacks {
            for (index, Function { name, .. }) in functions.iter().enumerate() {
                let (own, total) = counts.entry(name).or_default();
                *own += if index == 0 { *samples } else { 0 };
                // A function that calls itself counts once.
                let is_counted = functions[..index].iter().any(|inner| inner.name == *name);
                *total += if is_counted { 0 } else { *samples };
            }
        }
        let functions = counts.into_iter().map(|(name, (own, total))| (name.into(), own, total));
        let mut functions: Vec<(String, u64, u64)> = functions.collect();
        functions.sort_by_key(|(_, own, total)| Reverse((*own, *total)));
        functions
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
