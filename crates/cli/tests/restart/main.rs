//! Restarts, the service manager's protocol, and the health of a server as a real process.

mod health;
mod restarting;
mod server;
mod service_manager;
mod under_load;
