//! Blocks on disk: files named by their CIDs, and files that are shared where they lie.
