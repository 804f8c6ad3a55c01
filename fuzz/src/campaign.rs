use std::fmt;

use crate::mutation::mutated;
use crate::watchdog::Watchdog;
use crate::{Target, Usage};
use watchfire_types::Rng;

/// Many inputs into one target.
pub struct Campaign<'a> {
    target: &'a Target,
    seeds: Vec<Vec<u8>>,
    seed: u64,
}

/// An input that a target did not cope with.
#[derive(Debug)]
pub struct Failure {
    /// The target's name.
    pub target: &'static str,
    /// The seed of the rng, and which throw it was; `None` for an input that was not thrown.
    pub thrown: Option<(u64, u64)>,
    /// The input.
    pub input: Vec<u8>,
    /// Which promise was broken.
    pub why: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} with {} bytes", self.target, self.why, self.input.len())?;
        match self.thrown {
            Some((seed, throw)) => write!(f, ", throw {throw} of seed {seed}"),
            None => Ok(()),
        }
    }
}

impl<'a> Campaign<'a> {
    /// Inputs that are mutations of `seeds`, by rng of this `seed`.
    pub fn new(target: &'a Target, seeds: Vec<Vec<u8>>, seed: u64) -> Self {
        Campaign { target, seeds, seed }
    }

    /// Runs the target with each seed as it is.
    pub fn run_seeds(&self) -> Result<(), Box<Failure>> {
        let name = self.target.name;
        let watchdog = Watchdog::new(move |index| format!("{name}, seed {index} of its folder,"));
        for input in &self.seeds {
            self.run_one(input.clone(), None)?;
            watchdog.pat();
        }
        Ok(())
    }

    /// Runs the target with the inputs of the throws from 0 on, for as long as `goes_on` says so
    /// and none fails. The largest costs of any input are returned, which need not be those of
    /// the same.
    pub fn run(&self, goes_on: impl Fn(u64) -> bool) -> Result<Usage, Box<Failure>> {
        let mut most = Usage::default();
        let (name, seed) = (self.target.name, self.seed);
        let watchdog = Watchdog::new(move |throw| format!("{name}, throw {throw} of seed {seed},"));
        for throw in (0..).take_while(|throw| goes_on(*throw)) {
            let input = mutated(&self.seeds, &mut Rng::for_purpose(self.seed, throw));
            let usage = self.run_one(input, Some((self.seed, throw)))?;
            most.time = most.time.max(usage.time);
            watchdog.pat();
            most.memory_bytes = most.memory_bytes.max(usage.memory_bytes);
        }
        Ok(most)
    }

    fn run_one(&self, input: Vec<u8>, thrown: Option<(u64, u64)>) -> Result<Usage, Box<Failure>> {
        let target = self.target.name;
        self.target.run(&input).map_err(|why| Box::new(Failure { target, thrown, input, why }))
    }
}
