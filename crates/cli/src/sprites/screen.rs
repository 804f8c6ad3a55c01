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

use super::drops::Drops;
use super::image::{Pixels, SIDE};
use super::physics::{Body, Floor, Place, RADIUS};

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
    windows: HashMap<u32, Shown>,
    pub drops: Drops,
}

/// The window of a sprite: what it shows, and where.
struct Shown {
    window: Window,
    image: String,
    x: i32,
    y: i32,
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
        let drops = Drops::new(&connection)?;
        let (images, windows) = Default::default();
        Ok(Screen { connection, root, images, windows, drops })
    }

    /// The monitors. A display without any is one as a whole.
    pub fn monitors(&self) -> anyhow::Result<Vec<Place>> {
        let asked = self.connection.randr_get_monitors(self.root, true)?.reply()?.monitors;
        let mut monitors: Vec<Place> =
            asked.iter().map(|m| place(m.x, m.y, m.width, m.height)).collect();
        if monitors.is_empty() {
            let root = self.connection.get_geometry(self.root)?.reply()?;
            monitors.push(place(0, 0, root.width, root.height));
        }
        Ok(monitors)
    }

    /// The floors: the lower edges of the monitors, and the upper edges of windows.
    pub fn floors(&self, monitors: &[Place]) -> anyhow::Result<Vec<Floor>> {
        let connection = &self.connection;
        let lower = |&Place { left, right, bottom: y, .. }: &Place| Floor { left, right, y };
        let mut floors: Vec<Floor> = monitors.iter().map(lower).collect();
        // The windows of the root are the frames of a window manager, or the windows where there is none. The lowest is first.
        let windows = connection.query_tree(self.root)?.reply()?.children;
        let ours: Vec<Window> = self.windows.values().map(|shown| shown.window).collect();
        let mut asked = Vec::new();
        for window in windows.into_iter().filter(|window| !ours.contains(window)) {
            asked.push((
                connection.get_window_attributes(window)?,
                connection.get_geometry(window)?,
            ));
        }
        let mut shown = Vec::new();
        for (attributes, geometry) in asked {
            // A window may be gone meanwhile.
            let (Ok(attributes), Ok(at)) = (attributes.reply(), geometry.reply()) else {
                continue;
            };
            if attributes.map_state == MapState::VIEWABLE
                && attributes.class == WindowClass::INPUT_OUTPUT
            {
                shown.push(place(at.x, at.y, at.width, at.height));
            }
        }
        floors.extend(upper_edges(&shown).into_iter().filter(|floor| floor.y >= 2.0 * RADIUS));
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

    /// Removes the images whose names do not satisfy `is_kept`. Windows with such an image keep it until they are drawn
    /// again.
    pub fn keep_images(&mut self, is_kept: impl Fn(&str) -> bool) -> anyhow::Result<()> {
        for (_, image) in self.images.extract_if(|name, _| !is_kept(name)) {
            self.connection.free_pixmap(image.pixmap)?;
        }
        Ok(())
    }

    /// The name of the image of a sprite.
    fn image_of<'a>(&self, body: &'a Body) -> &'a str {
        let names = [body.picture.as_deref(), Some(&*body.sprite)];
        let mut known = names.into_iter().flatten().filter(|name| self.has_image(name));
        known.next().unwrap_or(super::UNKNOWN)
    }

    /// Shows the sprites where they are. Only those that moved or got a picture cause a request.
    pub fn draw(&mut self, bodies: &[Body]) -> anyhow::Result<()> {
        let mut windows = std::mem::take(&mut self.windows);
        let is_gone = |id: &u32, shown: &mut Shown| match bodies.iter().find(|body| body.id == *id)
        {
            Some(body) => shown.image != self.image_of(body),
            None => true,
        };
        for (_, Shown { window, .. }) in windows.extract_if(is_gone) {
            self.connection.destroy_window(window)?;
        }
        for body in bodies {
            let (x, y) = ((body.x - RADIUS).round() as i32, (body.y - RADIUS).round() as i32);
            let Some(shown) = windows.get_mut(&body.id) else {
                let image = self.image_of(body).to_owned();
                let window = self.create(&image, x, y)?;
                windows.insert(body.id, Shown { window, image, x, y });
                continue;
            };
            if (shown.x, shown.y) != (x, y) {
                (shown.x, shown.y) = (x, y);
                let place = ConfigureWindowAux::new().x(x).y(y);
                self.connection.configure_window(shown.window, &place)?;
            }
        }
        self.windows = windows;
        Ok(self.connection.flush()?)
    }

    fn create(&self, name: &str, x: i32, y: i32) -> anyhow::Result<Window> {
        let connection = &self.connection;
        let window = connection.generate_id()?;
        let image = self.images.get(name).context("each sprite has an image")?;
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
        self.drops.accept(connection, window)?;
        connection.map_window(window)?;
        Ok(window)
    }

    /// The sprite of a window.
    pub fn sprite_of(&self, window: Window) -> Option<u32> {
        self.windows.iter().find(|(_, shown)| shown.window == window).map(|(id, _)| *id)
    }
}

fn place(x: i16, y: i16, width: u16, height: u16) -> Place {
    let (left, top) = (f64::from(x), f64::from(y));
    Place { left, right: left + f64::from(width), top, bottom: top + f64::from(height) }
}

/// The visible parts of the upper edges of windows. The lowest window is first.
fn upper_edges(windows: &[Place]) -> Vec<Floor> {
    let mut floors = Vec::new();
    for (i, &Place { left, right, top: y, .. }) in windows.iter().enumerate() {
        let mut parts = vec![(left, right)];
        for above in windows[i + 1..].iter().filter(|above| (above.top..above.bottom).contains(&y))
        {
            let beside = |(left, right): (f64, f64)| {
                [(left, right.min(above.left)), (left.max(above.right), right)]
            };
            parts =
                parts.into_iter().flat_map(beside).filter(|(left, right)| left < right).collect();
        }
        floors.extend(parts.into_iter().map(|(left, right)| Floor { left, right, y }));
    }
    floors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hidden_part_of_an_edge_is_no_floor() {
        let place = |left, right, top, bottom| Place { left, right, top, bottom };
        let floor = |left, right, y| Floor { left, right, y };
        let (low, high) = (place(0.0, 500.0, 200.0, 400.0), place(100.0, 300.0, 150.0, 300.0));
        let seen =
            [floor(0.0, 100.0, 200.0), floor(300.0, 500.0, 200.0), floor(100.0, 300.0, 150.0)];
        assert_eq!(upper_edges(&[low, high]), seen);
        let all = [floor(100.0, 300.0, 150.0), floor(0.0, 500.0, 200.0)];
        assert_eq!(upper_edges(&[high, low]), all);
        assert_eq!(upper_edges(&[high, place(0.0, 500.0, 0.0, 400.0)]).len(), 1);
    }
}
