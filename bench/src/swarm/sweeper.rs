use std::io;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Waits for the end of its input, whatever ended it, and removes what it was named. The terminal's
/// signals are not for it.
const SCRIPT: &str = "trap '' HUP INT TERM; read -r _; rm -rf -- \"$@\"";

/// Removes files when this is dropped, or when this process ends, however it does: they may be tens
/// of gigabytes.
pub struct Sweeper(Child);

impl Sweeper {
    pub fn watch(paths: &[&Path]) -> io::Result<Self> {
        let mut command = Command::new("sh");
        command.args(["-c", SCRIPT, "sweeper"]).args(paths);
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        command.spawn().map(Sweeper)
    }
}

impl Drop for Sweeper {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait(); // fails only when it has ended already
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_it_watches_goes_with_it() {
        let folder = std::env::temp_dir().join(format!("bench sweeper {}", std::process::id()));
        std::fs::create_dir_all(folder.join("below")).unwrap();
        let sweeper = Sweeper::watch(&[&folder]).unwrap();
        assert!(folder.exists());
        drop(sweeper);
        assert!(!folder.exists());
    }
}
