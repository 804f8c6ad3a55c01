//! The windows of sprites on an X11 display.

use std::collections::HashMap;

use anyhow::Context as _;
use x11rb::COPY_DEPTH_FROM_PARENT;
use x11rb::connection::Connection as _;
use x11rb::protocol::randr::ConnectionExt as _;
use x11rb::protocol::shape::{ConnectionExt as _, SK, SO};
use x11rb::protocol::xproto::{
    ClipOrdering, ConfigureWindowAux, ConnectionExt as _, CreateGCAux, CreateWindowAux, EventMask,
    ImageFormat, MapState, Pixmap, Rectangle, Window, WindowClass,
};
use x11rb::rust_connection::RustConnection;

use super::image::{Pixels, SIDE};
use super::physics::{Body, Floor, RADIUS};

/// An image in the display: sprites share it.
#[derive(Clone)]
struct SharedImage {
    pixmap: Pixmap,
    /// The opaque pixels. They are the shape of the window, so clicks on others reach the window below.
    opaque: Vec<Rectangle>,
}

pub struct Screen {
    pub connection: RustConnection,
    root: Window,
    images: HashMap<String, SharedImage>,
    /// The window of each sprite, and where it is.
    windows: HashMap<u32, (Window, i32, i32)>,
}

impl Screen {
    /// Connects to the display that `DISPLAY` names.
    pub fn open() -> anyhow::Result<Self> {
        anyhow::ensure!(
            std::env::var_os("DISPLAY").is_some_and(|display| !display.is_empty()),
            "there is no display; set DISPLAY, such as DISPLAY=:0, or start this in a desktop session"
        );
        let (connection, screen) =
            x11rb::connect(None).context("cannot connect to the display; check DISPLAY")?;
        let screen = &connection.setup().roots[screen];
        anyhow::ensure!(
            matches!(screen.root_depth, 24 | 32),
            "cannot show sprites: the display has {} bits a pixel; set it to 24",
            screen.root_depth
        );
        let root = screen.root;
        Ok(Screen { connection, root, images: HashMap::new(), windows: HashMap::new() })
    }

    pub fn size(&self) -> anyhow::Result<(f64, f64)> {
        let root = self.connection.get_geometry(self.root)?.reply()?;
        Ok((root.width.into(), root.height.into()))
    }

    /// The floors: the lower edges of the monitors, and the upper edges of windows.
    pub fn floors(&self) -> anyhow::Result<Vec<Floor>> {
        let connection = &self.connection;
        let floor = |left: i32, width: i32, y: i32| Floor {
            left: left.into(),
            right: (left + width).into(),
            y: y.into(),
        };
        let monitors = connection.randr_get_monitors(self.root, true)?.reply()?.monitors;
        let mut floors: Vec<Floor> = monitors
            .iter()
            .map(|m| floor(m.x.into(), m.width.into(), i32::from(m.y) + i32::from(m.height)))
            .collect();
        // The windows of the root are the frames of a window manager, or the windows where there is none.
        let windows = connection.query_tree(self.root)?.reply()?.children;
        let ours: Vec<Window> = self.windows.values().map(|(window, ..)| *window).collect();
        let mut asked = Vec::new();
        for window in windows.into_iter().filter(|window| !ours.contains(window)) {
            asked.push((
                connection.get_window_attributes(window)?,
                connection.get_geometry(window)?,
            ));
        }
        for (attributes, geometry) in asked {
            // A window may be gone meanwhile.
            let (Ok(attributes), Ok(place)) = (attributes.reply(), geometry.reply()) else {
                continue;
            };
            let is_shown = attributes.map_state == MapState::VIEWABLE
                && attributes.class == WindowClass::INPUT_OUTPUT;
            if is_shown && f64::from(place.y) >= 2.0 * RADIUS {
                floors.push(floor(place.x.into(), place.width.into(), place.y.into()));
            }
        }
        Ok(floors)
    }

    /// Stores an image under a name of a sprite.
    pub fn add_image(&mut self, name: &str, pixels: &Pixels) -> anyhow::Result<()> {
        let connection = &self.connection;
        let pixmap = connection.generate_id()?;
        let side = SIDE as u16;
        let depth = connection.get_geometry(self.root)?.reply()?.depth;
        connection.create_pixmap(depth, pixmap, self.root, side, side)?;
        let gc = connection.generate_id()?;
        connection.create_gc(gc, pixmap, &CreateGCAux::new())?;
        let bytes = pixels.as_flattened();
        connection.put_image(
            ImageFormat::Z_PIXMAP,
            pixmap,
            gc,
            side,
            side,
            0,
            0,
            0,
            depth,
            bytes,
        )?;
        connection.free_gc(gc)?;
        let mut opaque = Vec::new();
        for (y, row) in pixels.chunks(SIDE as usize).enumerate() {
            let mut x = 0;
            for run in row.chunk_by(|a, b| (a[3] >= 128) == (b[3] >= 128)) {
                if run[0][3] >= 128 {
                    opaque.push(Rectangle { x, y: y as i16, width: run.len() as u16, height: 1 });
                }
                x += run.len() as i16;
            }
        }
        self.images.insert(name.to_owned(), SharedImage { pixmap, opaque });
        Ok(())
    }

    pub fn has_image(&self, name: &str) -> bool {
        self.images.contains_key(name)
    }

    /// Shows the sprites where they are. Only those that moved cause a request.
    pub fn draw(&mut self, bodies: &[Body]) -> anyhow::Result<()> {
        let connection = &self.connection;
        let gone = |id: &u32| !bodies.iter().any(|body| body.id == *id);
        for (_, (window, ..)) in self.windows.extract_if(|id, _| gone(id)) {
            connection.destroy_window(window)?;
        }
        for body in bodies {
            let (x, y) = ((body.x - RADIUS).round() as i32, (body.y - RADIUS).round() as i32);
            let Some((window, was_x, was_y)) = self.windows.get_mut(&body.id) else {
                let window = self.create(&body.sprite, x, y)?;
                self.windows.insert(body.id, (window, x, y));
                continue;
            };
            if (*was_x, *was_y) != (x, y) {
                (*was_x, *was_y) = (x, y);
                connection.configure_window(*window, &ConfigureWindowAux::new().x(x).y(y))?;
            }
        }
        Ok(connection.flush()?)
    }

    fn create(&self, sprite: &str, x: i32, y: i32) -> anyhow::Result<Window> {
        let connection = &self.connection;
        let window = connection.generate_id()?;
        let image = self.images.get(sprite).or_else(|| self.images.get(super::UNKNOWN));
        let image = image.context("each sprite has an image")?;
        let mask = EventMask::BUTTON_PRESS | EventMask::BUTTON_RELEASE | EventMask::BUTTON_MOTION;
        let how = CreateWindowAux::new()
            .override_redirect(1)
            .background_pixmap(image.pixmap)
            .event_mask(mask);
        let (side, class) = (SIDE as u16, WindowClass::INPUT_OUTPUT);
        connection.create_window(
            COPY_DEPTH_FROM_PARENT,
            window,
            self.root,
            x as i16,
            y as i16,
            side,
            side,
            0,
            class,
            0,
            &how,
        )?;
        for kind in [SK::BOUNDING, SK::INPUT] {
            let order = ClipOrdering::YX_BANDED;
            connection.shape_rectangles(SO::SET, kind, order, window, 0, 0, &image.opaque)?;
        }
        connection.map_window(window)?;
        Ok(window)
    }

    /// The sprite of a window.
    pub fn sprite_of(&self, window: Window) -> Option<u32> {
        self.windows.iter().find(|(_, (of, ..))| *of == window).map(|(id, _)| *id)
    }
}
