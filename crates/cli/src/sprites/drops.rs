//! Files that are dropped on a sprite, by the protocol XDND in version 5: <https://www.freedesktop.org/wiki/Specifications/XDND/>

use std::path::PathBuf;

use percent_encoding::percent_decode_str;
use x11rb::connection::Connection;
use x11rb::protocol::xproto::{
    AtomEnum, ClientMessageEvent, ConnectionExt as _, EventMask, PropMode, SelectionNotifyEvent,
    Timestamp, Window,
};
use x11rb::rust_connection::RustConnection;
use x11rb::wrapper::ConnectionExt as _;

const VERSION: u32 = 5;
/// Files of one drop, and the length of their list in units of four bytes. Further ones are ignored.
const FILES_MAX: usize = 8;
const LIST_WORDS_MAX: u32 = 16 * 1024;

x11rb::atom_manager! {
    Atoms: AtomsCookie {
        XdndAware,
        XdndEnter,
        XdndPosition,
        XdndStatus,
        XdndLeave,
        XdndDrop,
        XdndFinished,
        XdndSelection,
        XdndTypeList,
        XdndActionCopy,
        FILES: b"text/uri-list",
    }
}

/// The drag over a sprite's window, if any.
pub struct Drops {
    atoms: Atoms,
    drag: Option<Drag>,
}

struct Drag {
    source: Window,
    /// The window that it is over.
    target: Window,
    has_files: bool,
    /// Where the pointer was last.
    x: f64,
    y: f64,
}

/// Files that were dropped, and where.
pub struct Dropped {
    pub files: Vec<PathBuf>,
    pub x: f64,
    pub y: f64,
}

impl Drops {
    pub fn new(connection: &RustConnection) -> anyhow::Result<Self> {
        Ok(Drops { atoms: Atoms::new(connection)?.reply()?, drag: None })
    }

    /// The window over which files are dragged.
    pub fn target(&self) -> Option<Window> {
        self.drag.as_ref().filter(|drag| drag.has_files).map(|drag| drag.target)
    }

    /// Forgets the drag if its program has ended.
    pub fn check_source(&mut self, connection: &RustConnection) -> anyhow::Result<()> {
        if let Some(drag) = &self.drag
            && connection.get_window_attributes(drag.source)?.reply().is_err()
        {
            self.drag = None;
        }
        Ok(())
    }

    /// Tells other programs that the window takes drops.
    pub fn accept(&self, connection: &RustConnection, window: Window) -> anyhow::Result<()> {
        let (property, kind) = (self.atoms.XdndAware, AtomEnum::ATOM);
        connection.change_property32(PropMode::REPLACE, window, property, kind, &[VERSION])?;
        Ok(())
    }

    /// Handles a message of the program from which something is dragged.
    pub fn message(
        &mut self,
        connection: &RustConnection,
        message: &ClientMessageEvent,
    ) -> anyhow::Result<()> {
        let (atoms, data) = (self.atoms, message.data.as_data32());
        let source = data[0];
        if message.type_ == atoms.XdndEnter {
            let has_files = if data[1] & 1 == 0 {
                data[2..].contains(&atoms.FILES)
            } else {
                // More than three types are in a property.
                let types = connection.get_property(
                    false,
                    source,
                    atoms.XdndTypeList,
                    AtomEnum::ATOM,
                    0,
                    LIST_WORDS_MAX,
                )?;
                let types = types.reply().ok();
                types.is_some_and(|types| {
                    types.value32().is_some_and(|mut types| types.any(|kind| kind == atoms.FILES))
                })
            };
            self.drag = Some(Drag { source, target: message.window, has_files, x: 0.0, y: 0.0 });
        }
        let Some(drag) = self.drag.as_mut().filter(|drag| drag.source == source) else {
            return Ok(());
        };
        if message.type_ == atoms.XdndPosition {
            (drag.x, drag.y) = (f64::from(data[2] >> 16), f64::from(data[2] & 0xffff));
            let (is_accepted, action) = match drag.has_files {
                true => (1, atoms.XdndActionCopy),
                false => (0, 0),
            };
            let status = [message.window, is_accepted, 0, 0, action];
            send(connection, source, atoms.XdndStatus, status)?;
        } else if message.type_ == atoms.XdndLeave {
            self.drag = None;
        } else if message.type_ == atoms.XdndDrop {
            let (selection, time): (_, Timestamp) = (atoms.XdndSelection, data[2]);
            let window = message.window;
            connection.convert_selection(window, selection, atoms.FILES, selection, time)?;
        }
        Ok(())
    }

    /// Reads the files of a drop.
    pub fn selection(
        &mut self,
        connection: &RustConnection,
        notify: &SelectionNotifyEvent,
    ) -> anyhow::Result<Option<Dropped>> {
        let atoms = self.atoms;
        if notify.selection != atoms.XdndSelection {
            return Ok(None);
        }
        let Some(drag) = self.drag.take() else { return Ok(None) };
        let (window, words) = (notify.requestor, LIST_WORDS_MAX);
        let list =
            connection.get_property(true, window, notify.property, AtomEnum::ANY, 0, words)?;
        let list = list.reply().map(|list| list.value).unwrap_or_default();
        let files: Vec<PathBuf> =
            String::from_utf8_lossy(&list).lines().filter_map(file).take(FILES_MAX).collect();
        let is_accepted = u32::from(!files.is_empty());
        let finished = [window, is_accepted, atoms.XdndActionCopy * is_accepted, 0, 0];
        send(connection, drag.source, atoms.XdndFinished, finished)?;
        Ok(Some(Dropped { files, x: drag.x, y: drag.y }))
    }
}

fn send(connection: &RustConnection, to: Window, kind: u32, data: [u32; 5]) -> anyhow::Result<()> {
    let message = ClientMessageEvent::new(32, to, kind, data);
    connection.send_event(false, to, EventMask::NO_EVENT, message)?;
    Ok(connection.flush()?)
}

/// The file of a line such as `file:///home/ada/cat.png`.
fn file(line: &str) -> Option<PathBuf> {
    let path = line.strip_prefix("file://")?;
    let path = path.strip_prefix("localhost").unwrap_or(path);
    let path = percent_decode_str(path.trim_end()).decode_utf8().ok()?;
    path.starts_with('/').then(|| PathBuf::from(path.into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_this_machine_are_read() {
        let path = |line| file(line).map(|path| path.display().to_string());
        assert_eq!(path("file:///tmp/a%20b.png"), Some("/tmp/a b.png".to_owned()));
        assert_eq!(path("file://localhost/tmp/a.png"), Some("/tmp/a.png".to_owned()));
        for line in ["# a comment", "https://example.org/a.png", "file://other/a.png", "a.png", ""]
        {
            assert_eq!(path(line), None, "{line}");
        }
    }
}
