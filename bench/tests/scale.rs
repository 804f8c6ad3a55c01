//! Bad input to `make scale`.

use std::process::Command;

#[test]
fn an_invalid_percentage_is_rejected() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_watchfire-bench"));
    let output = command.args(["scale", "million", "--percent", "0"]).output().unwrap();
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("above 0, at most 100"));
}
