//! The promises of this crate, through its public API: a file for each topic, one program for all.

mod fleet;
mod http_answers;
mod ipfs;
mod liar;
mod regions;
mod registries;
mod signatures;
mod starts;
mod support;
mod tenants;
mod versions;
