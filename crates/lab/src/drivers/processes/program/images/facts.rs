//! Facts that the nodes of a run find about each other, in files of the folder that their folders are in.

use std::path::{Path, PathBuf};

use crate::drivers::processes::host::Site;
use crate::drivers::processes::program::content::Content;
use crate::drivers::processes::program::contract::Ticket;

/// The port of registries, caches and mirrors.
pub const PORT: u16 = 5000;
/// The name by which engines know the registry.
pub const NAME: &str = "registry.lab.example";

/// The folder that the folders of all nodes are in.
pub fn nodes_folder(site: &Site) -> &Path {
    site.folder.parent().unwrap_or(&site.folder)
}

/// The file that names an image as others pull it. Names of nodes do not begin with a dot.
pub fn image_file(site: &Site, object: &str) -> PathBuf {
    nodes_folder(site).join(format!(".image.{object}"))
}

/// The images that registries of this run have, as the files in the folder of all nodes tell.
pub fn known_tickets(site: &Site, contents: &[Content]) -> Option<Vec<Ticket>> {
    let ticket = |(object, content): (usize, &Content)| {
        let name = std::fs::read_to_string(image_file(site, &content.name)).ok()?;
        Some(Ticket { object, name, bytes: content.bytes })
    };
    contents.iter().enumerate().map(ticket).collect()
}
