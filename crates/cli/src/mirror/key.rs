//! `watchfire mirror key`: makes the key of a fleet.

use std::fmt::Write as _;

/// Prints a new key, in the format of private IPFS networks.
pub fn print() -> anyhow::Result<()> {
    let mut key = [0; 32];
    getrandom::fill(&mut key).map_err(|error| {
        anyhow::anyhow!(
            "cannot generate a key: the operating system returned no random bytes: {error}"
        )
    })?;
    let digits = key.iter().fold(String::new(), |mut digits, byte| {
        write!(digits, "{byte:02x}").expect("writing to a string never fails");
        digits
    });
    println!("/key/swarm/psk/1.0.0/\n/base16/\n{digits}");
    Ok(())
}
