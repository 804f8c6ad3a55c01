//! The images of the registries: which manifest a tag names for which client, and which content this mirror
//! may serve under which repository.

mod accept;
mod access;
mod catalog;
mod flights;
mod manifest_fetcher;

pub(crate) use accept::{Accept, may_serve};
pub(crate) use access::{Access, Pull};
pub(crate) use catalog::{Catalog, IPFS, RepositoryId, TagRecord, layers_of};
pub(crate) use flights::Flights;
pub(crate) use manifest_fetcher::{ManifestError, ManifestFetcher};
