//! Runs a scenario whose users send every message back. `make outside` lets the Autobahn test suite judge them.
//!
//! `cargo run -p watchfire-load --example echo_client -- SCENARIO URL`

use std::path::Path;

use anyhow::Context as _;
use watchfire_load::Source;

fn main() -> anyhow::Result<()> {
    let mut args = std::env::args().skip(1);
    let scenario = args.next().context("cannot run: give the file of a scenario")?;
    let mut source = Source::read(Path::new(&scenario))?;
    source.targets = args.next().into_iter().collect();
    watchfire_load::echo(&source)
}
