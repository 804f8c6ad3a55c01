//! `watchfire sprites`: sprites on the desktop of this machine.

mod drops;
mod grid;
mod image;
mod physics;
mod pictures;
mod screen;

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};
use watchfire_page_client::ServerUrl;
use x11rb::connection::Connection as _;
use x11rb::protocol::Event as DisplayEvent;

use self::drops::Dropped;
use self::grid::{Event, Grid, Transport};
use self::image::Pixels;
use self::physics::{Crossing, Physics, Place, SPRITES_MAX, STEP_S, Velocity, bounds};
use self::pictures::Pictures;
use self::screen::Screen;
use crate::signals::Signals;

const FRAME: Duration = Duration::from_nanos(1_000_000_000 / 60);
/// Longest movement that one frame catches up on, as after a pause of the process, in seconds.
const CATCH_UP_S: f64 = 0.1;
/// How often the desktop's windows are looked at.
const FLOORS_INTERVAL: Duration = Duration::from_millis(500);
/// Messages of the grid that wait for the desktop. Beyond it, the polls wait.
const EVENTS_MAX: usize = 64;
/// How often a search for a picture of a neighbour may begin.
const SEARCH_INTERVAL: Duration = Duration::from_millis(100);
/// Dropped files that are read at the same time. Further ones are ignored.
const READS_MAX: usize = 8;
/// The last part of a drag that determines the speed of the throw, in milliseconds.
const DRAG_WINDOW_MS: u32 = 80;

/// Arguments of `watchfire sprites`.
///
/// Needs an X11 display. On Wayland, it works through XWayland, and sprites see only X11 windows.
#[derive(clap::Args)]
pub struct Arguments {
    /// The name of the grid: letters, digits and `- . _ ~`.
    #[arg(value_name = "GRID", default_value = "meadow")]
    grid: String,
    /// The server.
    #[arg(long, value_name = "URL", default_value = "http://localhost:4000")]
    to: ServerUrl,
    /// Also show this PNG, JPEG or WebP as a sprite. Neighbours get it with the sprite.
    #[arg(long, value_name = "FILE")]
    image: Vec<PathBuf>,
    /// How messages travel.
    #[arg(long, value_enum, default_value_t = Transport::Websocket)]
    transport: Transport,
    /// The number of drawn sprites at the start.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(0..=SPRITES_MAX as i64))]
    count: u8,
}

/// Shows sprites until a signal arrives, or the display ends.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let grid = &arguments.grid;
    watchfire_pages::check_grid_name(grid)
        .map_err(|problem| anyhow::anyhow!("cannot join the grid {grid:?}: {problem}"))?;
    let screen = Screen::open()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let (sender, arrived) = mpsc::channel(EVENTS_MAX);
        let pictures = Pictures::start(&arguments.to, sender).await?;
        Desktop::new(arguments, screen, pictures)?.run(arguments, arrived).await
    })
}

/// Where a pointer was: x, y and milliseconds.
type Places = VecDeque<(f64, f64, u32)>;

struct Desktop {
    screen: Screen,
    physics: Physics,
    /// The sprite that a pointer holds, and where the pointer was.
    held: Option<(u32, Places)>,
    /// The sprite that stands still, because files are dragged over it.
    waiting: Option<u32>,
    pictures: Pictures,
    /// Files that a thread reads, which were dropped at a place.
    reading: JoinSet<(anyhow::Result<image::Own>, PathBuf, f64, f64)>,
}

impl Desktop {
    fn new(arguments: &Arguments, screen: Screen, pictures: Pictures) -> anyhow::Result<Self> {
        let physics = Physics::new(screen.monitors()?);
        let Place { left, right, top, bottom } = bounds(&physics.monitors);
        let (width, height) = (right - left, bottom - top);
        let reading = JoinSet::new();
        let mut desktop = Desktop { screen, physics, held: None, waiting: None, pictures, reading };
        let step = width / (f64::from(arguments.count) + 1.0);
        for (i, (name, _)) in
            image::DRAWINGS.iter().cycle().take(arguments.count.into()).enumerate()
        {
            desktop.physics.put(name, None, left + step * (i + 1) as f64, top + height / 2.0);
        }
        for path in &arguments.image {
            desktop.add(image::read(path)?, path, left + width / 2.0, top + height / 3.0)?;
        }
        Ok(desktop)
    }

    /// Adds a sprite with an own picture.
    fn add(&mut self, own: image::Own, path: &Path, x: f64, y: f64) -> anyhow::Result<()> {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let name: String = stem.chars().filter(|c| !c.is_control()).take(16).collect();
        let cid = self.pictures.add(own.page)?;
        self.show(&cid, &own.pixels)?;
        self.physics.put(if name.is_empty() { UNKNOWN } else { &name }, Some(cid), x, y);
        Ok(())
    }

    fn show(&mut self, cid: &str, pixels: &Pixels) -> anyhow::Result<()> {
        let is_drawing = |name: &str| image::DRAWINGS.iter().any(|(known, _)| *known == name);
        let pictures = &self.pictures;
        let is_kept = |name: &str| name == UNKNOWN || is_drawing(name) || pictures.keeps(name);
        self.screen.keep_images(is_kept)?;
        if self.pictures.keeps(cid) && !self.screen.has_image(cid) {
            self.screen.add_image(cid, pixels)?;
        }
        Ok(())
    }

    async fn run(
        &mut self,
        arguments: &Arguments,
        mut arrived: mpsc::Receiver<pictures::Arrived>,
    ) -> anyhow::Result<ExitCode> {
        let mut signals = Signals::listen()?;
        let (sender, mut events) = mpsc::channel(EVENTS_MAX);
        let grid = Grid::new(&arguments.to, &arguments.grid, arguments.transport, sender)?;
        let (throws, thrown) = mpsc::channel(EVENTS_MAX);
        tokio::spawn(Arc::clone(&grid).run(thrown));
        let mut frames = interval(FRAME);
        frames.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let (mut last, mut behind) = (Instant::now(), 0.0);
        let (mut floors_at, mut search_at) = (last, last);
        let mut is_lost = false;
        loop {
            tokio::select! {
                _ = signals.next() => {
                    grid.leave().await;
                    return Ok(ExitCode::SUCCESS);
                }
                Some(event) = events.recv() => match event {
                    Event::Arrived(crossing) => self.physics.enter(crossing),
                    Event::Neighbours(open) => {
                        is_lost &= open.is_empty();
                        self.physics.open = open;
                    }
                    Event::Lost(reason) => {
                        if !std::mem::replace(&mut is_lost, true) {
                            eprintln!("watchfire: {}: {reason}; trying again", arguments.to);
                        }
                    }
                },
                Some(picture) = arrived.recv() => {
                    self.show(&picture.cid, &picture.pixels).context(DISPLAY_ENDED)?;
                }
                Some(read) = self.reading.join_next() => {
                    let (own, path, x, y) = read?;
                    match own {
                        Ok(own) => self.add(own, &path, x, y).context(DISPLAY_ENDED)?,
                        Err(error) => eprintln!("watchfire: {error:#}"),
                    }
                }
                now = frames.tick() => {
                    self.read_display().context(DISPLAY_ENDED)?;
                    if now >= floors_at {
                        floors_at = now + FLOORS_INTERVAL;
                        self.look().context(DISPLAY_ENDED)?;
                    }
                    if now >= search_at {
                        search_at = now + SEARCH_INTERVAL;
                        let bodies = self.physics.bodies.iter().rev();
                        let wanted = bodies.filter_map(|body| body.picture.as_deref());
                        self.pictures.fetch_missing(wanted)?;
                    }
                    behind = f64::min(behind + (now - last).as_secs_f64(), CATCH_UP_S);
                    last = now;
                    while behind >= STEP_S {
                        behind -= STEP_S;
                        for crossing in self.physics.step() {
                            if let Err(error) = throws.try_send(crossing) {
                                let crossing = error.into_inner();
                                let edge = crossing.edge.opposite();
                                self.physics.enter(Crossing { edge, ..crossing });
                            }
                        }
                    }
                    self.draw().context(DISPLAY_ENDED)?;
                }
            }
        }
    }

    fn look(&mut self) -> anyhow::Result<()> {
        self.physics.monitors = self.screen.monitors()?;
        self.physics.floors = self.screen.floors(&self.physics.monitors)?;
        self.screen.drops.check_source(&self.screen.connection)
    }

    fn draw(&mut self) -> anyhow::Result<()> {
        for body in &mut self.physics.bodies {
            if self.screen.has_image(&body.sprite) {
                continue;
            }
            // All unknown sprites share one image, so that neighbours cannot fill the display's memory.
            let is_known = image::DRAWINGS.iter().any(|(name, _)| *name == body.sprite);
            let name = if is_known { body.sprite.clone() } else { UNKNOWN.to_owned() };
            if !self.screen.has_image(&name) {
                self.screen.add_image(&name, &image::drawing(&name))?;
            }
        }
        self.screen.draw(&self.physics.bodies)
    }

    fn read_display(&mut self) -> anyhow::Result<()> {
        while let Some(event) = self.screen.connection.poll_for_event()? {
            match event {
                DisplayEvent::ButtonPress(press) if press.detail == 1 => {
                    let Some(id) = self.screen.sprite_of(press.event) else { continue };
                    self.physics.grab(id);
                    let place = (press.root_x.into(), press.root_y.into(), press.time);
                    self.held = Some((id, VecDeque::from([place])));
                }
                DisplayEvent::MotionNotify(motion) => {
                    let Some((id, places)) = &mut self.held else { continue };
                    let (x, y) = (motion.root_x.into(), motion.root_y.into());
                    self.physics.drag(*id, x, y);
                    places.push_back((x, y, motion.time));
                    forget_before(places, motion.time);
                }
                DisplayEvent::ButtonRelease(release) if release.detail == 1 => {
                    let Some((id, mut places)) = self.held.take() else { continue };
                    forget_before(&mut places, release.time);
                    self.physics.release(id, velocity(&places));
                }
                DisplayEvent::ClientMessage(message) => {
                    self.screen.drops.message(&self.screen.connection, &message)?;
                }
                DisplayEvent::SelectionNotify(notify) => {
                    let drops = &mut self.screen.drops;
                    let dropped = drops.selection(&self.screen.connection, &notify)?;
                    let Some(Dropped { files, x, y }) = dropped else { continue };
                    for path in files.into_iter().take(READS_MAX - self.reading.len()) {
                        self.reading.spawn_blocking(move || (image::read(&path), path, x, y));
                    }
                }
                _ => {}
            }
        }
        let target = self.screen.drops.target();
        let waiting = target.and_then(|window| self.screen.sprite_of(window));
        let before = std::mem::replace(&mut self.waiting, waiting);
        if before != waiting {
            before.into_iter().for_each(|id| self.physics.release(id, Velocity::default()));
            waiting.into_iter().for_each(|id| self.physics.grab(id));
        }
        Ok(())
    }
}

const DISPLAY_ENDED: &str = "cannot show sprites: the display has ended";
/// The image of sprites that this program has no drawing of.
pub const UNKNOWN: &str = "stranger";

fn forget_before(places: &mut Places, now: u32) {
    // The display's clock wraps after 49 days.
    places.retain(|(_, _, ms)| now.wrapping_sub(*ms) <= DRAG_WINDOW_MS);
}

/// Pixels per second over the last moment before the release; zero after a pause.
fn velocity(places: &Places) -> Velocity {
    let (Some(first), Some(last)) = (places.front(), places.back()) else {
        return Velocity::default();
    };
    let seconds = f64::from(last.2.wrapping_sub(first.2)) / 1_000.0;
    if seconds <= 0.0 {
        return Velocity::default();
    }
    Velocity { x: (last.0 - first.0) / seconds, y: (last.1 - first.1) / seconds }
}
