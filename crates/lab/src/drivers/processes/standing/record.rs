//! The record of a standing cluster: a file in its folder.

use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::drivers::processes::host::{ProcessId, STANDING};

/// A standing cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    pub name: String,
    /// The file that defines the cluster, its text at that time, and the cluster's name in it.
    pub file: PathBuf,
    pub text: String,
    pub cluster: String,
    /// The block of its addresses.
    pub block: u8,
    pub nodes: Vec<NodeRecord>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeRecord {
    pub name: String,
    pub program: PathBuf,
    /// The commit that the program was built from, if the lab built it.
    pub commit: Option<String>,
    pub address: Ipv4Addr,
    /// The identity by which other nodes dial it.
    pub peer: Option<String>,
    pub process: ProcessId,
}

impl Record {
    pub fn read(folder: &Path) -> io::Result<Record> {
        let text = fs::read_to_string(folder.join(STANDING))?;
        serde_json::from_str(&text).map_err(io::Error::other)
    }

    /// Writes the file as a whole, or not at all.
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        let part = folder.join("cluster.part");
        fs::write(&part, serde_json::to_string_pretty(self).map_err(io::Error::other)?)?;
        fs::rename(part, folder.join(STANDING))
    }
}
