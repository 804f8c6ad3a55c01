//! A disk that ignores requests to flush, for one program of a node.
//!
//! **Without it**, each host waits for the data of all: real hosts have a disk each, and here all share one. containerd flushes
//! each layer that it has fetched, so with 32 hosts a flush of one would write 32 layers first.
//!
//! So the program runs on an overlay that is mounted `volatile`: a flush does nothing there. The overlay is in a mount
//! namespace of the program. When the program ends, in whatever way, the kernel removes both, and nothing has to be
//! unmounted. The folder of the node is then removed like any other.
//!
//! It needs root.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::drivers::processes::host::Site;

/// Mounts the disk in the folder `$1`, and runs the rest of its arguments. Linux mounts no overlay on an overlay, so a
/// program that mounts its own gets a plain folder for them at `$2` of the disk.
const SCRIPT: &str = r#"
set -e
node=$PWD
cd "$1"
mkdir lower upper work disk
mount -t overlay overlay -o volatile,lowerdir=lower,upperdir=upper,workdir=work disk
if [ -n "$2" ]; then
  mkdir -p plain "disk/$2"
  mount --bind plain "disk/$2"
fi
cd "$node"
shift 2
exec "$@"
"#;
const LAYER: &str = "upper";

/// The disk of one program.
pub struct Disk {
    folder: PathBuf,
}

impl Disk {
    /// A disk in the folder of a node. It exists as long as its program runs.
    pub fn new(site: &Site, name: &str) -> std::io::Result<Disk> {
        let folder = site.folder.join(format!("{name}-disk"));
        std::fs::create_dir(&folder)?;
        Ok(Disk { folder })
    }

    /// Its path. Only its program sees what is there.
    pub fn path(&self) -> PathBuf {
        self.folder.join("disk")
    }

    /// The path at which other programs see what its program has written.
    pub fn written(&self) -> PathBuf {
        self.folder.join(LAYER)
    }

    /// The command that runs a command with this disk, of which `plain` is a folder that is not on the overlay.
    pub fn command(&self, command: &Command, plain: Option<&Path>) -> Command {
        let mut wrapped = Command::new("unshare");
        wrapped.args(["--mount", "--propagation", "private", "--", "sh", "-c", SCRIPT, "disk"]);
        wrapped.arg(&self.folder).arg(plain.unwrap_or(Path::new("")));
        wrapped.arg(command.get_program()).args(command.get_args());
        let set = command.get_envs().filter_map(|(name, value)| Some((name, value?)));
        wrapped.envs(set);
        wrapped
    }
}
