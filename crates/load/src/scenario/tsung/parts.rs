//! Parts of the scenario that several elements add to.

use super::Result;
use super::element::Element;
use crate::scenario::rows::Rows;
use crate::scenario::text::Variables;
use crate::scenario::{Files, Target, file_text};

/// The findings of the elements of a file so far.
pub(super) struct Parts<'f> {
    pub(super) files: &'f mut Files<'f>,
    pub(super) targets: Vec<Target>,
    /// How many of the targets are `<server>`s.
    pub(super) servers: usize,
    pub(super) rows: Vec<Rows>,
    pub(super) variables: Variables,
    pub(super) notes: Vec<String>,
}

impl Parts<'_> {
    /// Notes that a part of the file has no effect.
    pub(super) fn note(&mut self, element: &Element<'_, '_>, text: &str) {
        let note = element.error(text).to_string();
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    pub(super) fn read(&mut self, file: &str) -> std::result::Result<String, String> {
        file_text(self.files, file)
    }

    pub(super) fn read_bytes(&mut self, file: &str) -> std::result::Result<Vec<u8>, String> {
        (self.files)(file).map_err(|cause| format!("cannot read {file}: {cause}"))
    }

    /// The index of a server, which is added unless it is known. Users do not begin at an added one.
    pub(super) fn target(&mut self, url: &str) -> std::result::Result<u16, String> {
        let target = Target::parse(url, 0.0)?;
        let known = self.targets.iter().position(|known| known.is_same_server(&target));
        let index = known.unwrap_or(self.targets.len());
        if known.is_none() {
            self.targets.push(target);
        }
        u16::try_from(index).map_err(|_| "more than 65,536 servers".to_owned())
    }
}

/// The URL of a server with the type of its transport.
pub(super) fn server_url(
    element: &Element<'_, '_>,
    attribute: &str,
    host: &str,
    port: &str,
) -> Result<String> {
    let known = ["tcp", "ssl", "tcp6", "ssl6", "websocket", "websocket_ssl"];
    let scheme = match element.one_of(attribute, &known)? {
        "ssl" | "ssl6" | "websocket_ssl" => "wss",
        _ => "ws",
    };
    let is_bare = host.parse::<std::net::Ipv6Addr>().is_ok();
    Ok(if is_bare {
        format!("{scheme}://[{host}]:{port}")
    } else {
        format!("{scheme}://{host}:{port}")
    })
}
