//! Embeds the web client again after each build of it.

fn main() {
    println!("cargo::rerun-if-changed=web-client");
}
