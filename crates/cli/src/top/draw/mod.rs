//! Draws the session. Every text from the server is made visible and cut before it is drawn.

mod connections;
mod events;
mod frame;
mod home;
mod processes;
mod rows;
mod tables;
#[cfg(test)]
mod tests;
mod theme;
mod topics;

pub use frame::draw;
pub use theme::Theme;
