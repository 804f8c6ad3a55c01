/// The `User-Agent` of our requests to servers of others, and of our terminal commands to a Watchfire server.
/// Many firewalls refuse requests that do not name their program (RFC 9110, 10.1.5).
pub const USER_AGENT: &str = concat!("watchfire/", env!("CARGO_PKG_VERSION"));
