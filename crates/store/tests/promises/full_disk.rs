//! A real full disk: a file system of one megabyte in its own mount namespace.

use std::path::Path;
use std::process::Command;

use watchfire_content::Block;
use watchfire_store::{ReadBlocks, StoreError, WriteBlocks};

use crate::scratch::{Scratch, files_below};
use crate::{block, open};

/// The environment variable with the path of the small file system, for the child process.
const SMALL_DISK: &str = "WATCHFIRE_TEST_SMALL_DISK";

#[test]
#[ignore = "needs mounts in user namespaces: `make rust-test` runs it where they are"]
fn a_full_disk_is_reported_and_removes_nothing_from_the_store() {
    if let Some(disk) = std::env::var_os(SMALL_DISK) {
        return fill(Path::new(&disk));
    }
    let scratch = Scratch::new();
    let mount = "mount -t tmpfs -o size=1m none \"$0\" && exec \"$@\"";
    let run = |program: &Path, arguments: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount", "sh", "-c", mount]);
        command.arg(&*scratch).arg(program).args(arguments).env(SMALL_DISK, &*scratch);
        command.output()
    };
    let name = "full_disk::a_full_disk_is_reported_and_removes_nothing_from_the_store";
    let ours = std::env::current_exe().unwrap();
    let ran = run(&ours, &["--ignored", "--exact", name, "--nocapture"]).unwrap();
    let output = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success() && output.contains("filled"), "{output}");
}

fn fill(disk: &Path) {
    let folder = disk.join("store");
    let store = open(&folder, 1 << 20).unwrap();
    let large = |number: u8| Block::raw(vec![number; 100_000].into()).unwrap();
    let mut written = Vec::new();
    let error = loop {
        let block = large(written.len() as u8);
        match store.put(&block) {
            Ok(()) => written.push(block),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, StoreError::DiskFull { .. }), "{error}");
    assert!((5..11).contains(&written.len()), "{}", written.len());
    assert_eq!(files_below(&folder.join("temp")).len(), 0);
    for block in &written {
        assert_eq!(store.get(block.cid()).unwrap().as_ref(), Some(block));
    }
    // A pin that cannot be written is not set.
    let ballast = disk.join("ballast");
    let _ = std::fs::write(&ballast, vec![0; 1 << 20]);
    let error = store.pin(written[0].cid()).unwrap_err();
    assert!(matches!(error, StoreError::DiskFull { .. }), "{error}");
    assert_eq!((store.pins(), store.totals().pinned_blocks), (vec![], 0));

    std::fs::remove_file(&ballast).unwrap();
    assert!(store.remove(written[0].cid()).unwrap());
    store.put(&block(0)).unwrap();
    assert!(store.pin(block(0).cid()).unwrap());
    eprintln!("filled with {} blocks", written.len());
}
