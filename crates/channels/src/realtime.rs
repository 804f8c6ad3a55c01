//! The wire format of `@supabase/realtime-js`, as far as it differs from that of Phoenix.

use serde::Serialize;
use serde_json::value::RawValue;

/// The beginning of the topics of that client.
pub const TOPIC_PREFIX: &str = "realtime:";
/// The event of its channels, and the type of the payload, for every event of the application.
pub const BROADCAST: &str = "broadcast";
/// The payload of such an event is bytes.
pub const BINARY_ENCODING: u8 = 0;
/// The payload of such an event is JSON.
pub const JSON_ENCODING: u8 = 1;

/// The payload of the event [`BROADCAST`], around that of the application's event.
#[derive(Serialize)]
pub struct BroadcastPayload<'a> {
    r#type: &'static str,
    event: &'a str,
    payload: &'a RawValue,
}

impl<'a> BroadcastPayload<'a> {
    pub const fn new(event: &'a str, payload: &'a RawValue) -> Self {
        BroadcastPayload { r#type: BROADCAST, event, payload }
    }
}
