//! The promises of this crate, through its public API: a file for each topic, one program for all.

mod arrows;
mod border;
mod car;
mod cid;
mod demo;
mod documented_commands;
mod errors;
mod lab;
mod lab_hosts;
#[cfg(feature = "mirror")]
mod lab_images;
mod lab_loads;
mod lab_standing;
mod live_pages;
mod load;
mod load_swarm;
mod memory;
#[cfg(feature = "mirror")]
mod mirror_configure;
mod neighbours;
mod networks;
mod outputs;
mod pages;
mod report;
mod security_guide;
mod serving;
mod sharing;
mod support;
