//! The processes that descend from one.

use std::fs;

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
}
