//! Runs one target with libFuzzer. The environment variable `FUZZ_TARGET` names the target, and the
//! arguments are libFuzzer's. `make fuzz` builds this with the compiler's coverage counters.

#![no_main]

use std::env;
use std::sync::LazyLock;

use fuzz::{TARGETS, Target};

static TARGET: LazyLock<&Target> = LazyLock::new(|| {
    let name = env::var("FUZZ_TARGET").expect("cannot fuzz: FUZZ_TARGET is not set");
    let target = TARGETS.iter().find(|target| target.name == name);
    target.unwrap_or_else(|| {
        panic!("cannot fuzz: no target {name}; fuzz/seeds has a folder for each")
    })
});

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    if let Err(failure) = TARGET.run(input) {
        panic!("{} {failure}", TARGET.name);
    }
});
