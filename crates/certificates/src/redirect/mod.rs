//! Plain HTTP at `tls.redirect_listen`: redirects to HTTPS, and answers HTTP-01.

mod listener;
mod rules;

pub(super) use listener::RedirectListener;
pub(super) use rules::{RedirectRules, Redirects};
