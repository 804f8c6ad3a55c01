//! The promises of this crate, through its public API: a file for each topic, one program for all.

mod admin;
mod api;
mod applications;
mod arrows;
mod embedded;
mod gateway;
mod history;
mod hooks;
mod http;
mod long_poll;
mod operator;
mod operator_view;
mod pages;
mod proxies;
mod rules;
mod sites;
mod sprites;
mod support;
mod tls;
