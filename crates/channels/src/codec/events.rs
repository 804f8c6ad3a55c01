//! Server-sent events (HTML, 9.2): what a client gets that reads one topic over HTTP. An event has no topic and no join,
//! because its stream has only one of each.

use super::elements::write_text;
use crate::frame::{Reply, event};
use crate::reference::Ref;

/// Appends one event. A ref is its id, from which a client continues after a cut.
pub(super) fn encode(id: &Ref, event: &str, payload: &str, out: &mut Vec<u8>) {
    write_field("event: ", event, out);
    write_id(id, out);
    write_field("data: ", payload, out);
    out.push(b'\n');
}

/// Appends an id alone: the client continues from it, and gets no event.
pub(super) fn encode_id(id: &Ref, out: &mut Vec<u8>) {
    write_id(id, out);
    out.push(b'\n');
}

pub(super) fn encode_reply(reply: &Reply<'_>, response: &str, out: &mut Vec<u8>) {
    write_field("event: ", event::REPLY, out);
    out.extend_from_slice(br#"data: {"status":"#);
    write_text(reply.status, out);
    write_field(r#","response":"#, response, out);
    out.pop();
    out.extend_from_slice(b"}\n\n");
}

fn write_id(id: &Ref, out: &mut Vec<u8>) {
    if !id.is_null() {
        write_field("id: ", &id.text(), out);
    }
}

/// Writes a line. A line end in an event's name would begin a field of the sender's choice. In JSON it is only space
/// between two tokens.
fn write_field(name: &str, value: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(name.as_bytes());
    let space = |byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { byte };
    out.extend(value.bytes().map(space));
    out.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(encode: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        encode(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn an_event_has_a_name_a_position_and_one_line_of_data() {
        let id = Ref::from_text("z:7").unwrap();
        let event = text(|out| encode(&id, "note", "{\r\n \"n\": 1\n}", out));
        assert_eq!(event, "event: note\nid: z:7\ndata: {   \"n\": 1 }\n\n");
        assert_eq!(text(|out| encode(&Ref::NULL, "note", "{}", out)), "event: note\ndata: {}\n\n");
        assert_eq!(text(|out| encode_id(&id, out)), "id: z:7\n\n");
    }

    #[test]
    fn the_name_of_an_event_adds_no_field() {
        let event = text(|out| encode(&Ref::NULL, "a\nid: z:9\r\rdata: x", "{}", out));
        assert_eq!(event, "event: a id: z:9  data: x\ndata: {}\n\n");
    }
}
