//! Memory of processes, and the processes that descend from one.

use std::fs;

use anyhow::{Context, Result};

use crate::process::kibibytes;

/// Proportional set size of several processes: pages that they share count once.
pub fn pss(processes: &[u32]) -> Result<u64> {
    let mut bytes = 0;
    for id in processes {
        let path = format!("/proc/{id}/smaps_rollup");
        let text = fs::read_to_string(&path).with_context(|| path)?;
        bytes += kibibytes(&text, "Pss:")? * 1024;
    }
    Ok(bytes)
}

/// A process and its descendants; the process is first.
pub fn process_tree(root: u32) -> Vec<u32> {
    let mut tree = vec![root];
    let mut next = 0;
    while let Some(&parent) = tree.get(next) {
        next += 1;
        let tasks = fs::read_dir(format!("/proc/{parent}/task")).into_iter().flatten().flatten();
        for task in tasks {
            // A thread may have ended meanwhile; its children then belong to another thread.
            let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            tree.extend(children.split_whitespace().filter_map(|id| id.parse::<u32>().ok()));
        }
    }
    tree
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_tree_contains_the_children() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let tree = process_tree(std::process::id());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(tree.contains(&child.id()), "{tree:?} is without {}", child.id());
    }

    #[test]
    fn memory_of_a_process_is_read() {
        assert!(pss(&[std::process::id()]).unwrap() > 0);
    }
}
