//! The movement of sprites on a desktop. It is pure: the caller gives it the time that passes, and the floors.
//!
//! The constants and terms are those of the browser (`web/app/src/sprites/physics.ts`). A browser shows its sprites from
//! above. On a desktop there is gravity: sprites fall, stand on floors, and walk there.

/// Length of a simulation step in seconds. It is fixed, so that the frame rate does not change a throw.
pub const STEP_S: f64 = 1.0 / 120.0;
/// Half the width of a sprite, in pixels.
pub const RADIUS: f64 = 32.0;
/// Sprites on one desktop; beyond it, the oldest one is removed.
pub const SPRITES_MAX: usize = 150;
/// Speed towards an edge above which a thrown sprite crosses it instead of bouncing, in pixels per second.
pub const THROW_SPEED: f64 = 260.0;

const SPEED_MAX: f64 = 4_000.0;
/// Speed of an arriving sprite: minimum, maximum, and maximum per pixel of the way across.
const ENTER_SPEED: f64 = 260.0;
const ENTER_SPEED_MAX: f64 = 900.0;
const ENTER_SPEED_PER_PIXEL: f64 = 0.7;
const BOUNCE: f64 = 0.7;
/// Acceleration downwards, in pixels per second squared.
const GRAVITY: f64 = 1_200.0;
const WALK_SPEED: f64 = 40.0;
/// Speed below which a sprite stays on a floor instead of bouncing.
const LAND_SPEED: f64 = 160.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Edge {
    Left,
    Right,
    Up,
    Down,
}

impl Edge {
    pub const ALL: [Edge; 4] = [Edge::Left, Edge::Right, Edge::Up, Edge::Down];

    pub fn opposite(self) -> Self {
        match self {
            Edge::Left => Edge::Right,
            Edge::Right => Edge::Left,
            Edge::Up => Edge::Down,
            Edge::Down => Edge::Up,
        }
    }

    fn is_side(self) -> bool {
        matches!(self, Edge::Left | Edge::Right)
    }
}

/// Pixels per second; y grows downwards.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Velocity {
    pub x: f64,
    pub y: f64,
}

/// A sprite that leaves over an edge, or arrives at one, as in the sprites protocol.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Crossing {
    pub sprite: String,
    pub edge: Edge,
    /// Position along the edge, from its top or left end: 0 to 1.
    pub at: f64,
    pub velocity: Velocity,
    /// The CID of its picture.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub picture: Option<String>,
}

/// The upper side of something that sprites stand on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Floor {
    pub left: f64,
    pub right: f64,
    pub y: f64,
}

/// The edges of a window or a monitor, in pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Place {
    pub left: f64,
    pub right: f64,
    pub top: f64,
    pub bottom: f64,
}

impl Place {
    /// The position in it that is nearest to another one, and this far from its edges.
    fn nearest(&self, x: f64, y: f64, margin: f64) -> (f64, f64) {
        let x = between(x, self.left + margin, self.right - margin);
        (x, between(y, self.top + margin, self.bottom - margin))
    }
}

#[derive(Clone, Debug)]
pub struct Body {
    pub id: u32,
    pub sprite: String,
    pub picture: Option<String>,
    pub x: f64,
    pub y: f64,
    pub v: Velocity,
    pub is_held: bool,
    /// The edge of a monitor that it is crossing, and whether inwards.
    over: Option<(Edge, bool, Place)>,
    /// Whether it was thrown downwards: one that only falls does not leave over the lower edge.
    is_thrown_down: bool,
    walks_left: bool,
}

/// The sprites of one desktop.
#[derive(Default)]
pub struct Physics {
    pub bodies: Vec<Body>,
    /// The visible parts of the desktop; at least one. What is between them or beside a smaller one is not visible.
    pub monitors: Vec<Place>,
    pub floors: Vec<Floor>,
    /// The edges with a neighbour. A sprite bounces at the others.
    pub open: Vec<Edge>,
    next_id: u32,
}

impl Physics {
    /// A desktop without sprites.
    pub fn new(monitors: Vec<Place>) -> Self {
        Physics { monitors, ..Physics::default() }
    }

    /// Puts a sprite at a position, at rest.
    pub fn put(&mut self, sprite: &str, picture: Option<String>, x: f64, y: f64) {
        let crossing = Crossing {
            sprite: sprite.to_owned(),
            edge: Edge::Up,
            at: 0.0,
            velocity: Velocity::default(),
            picture,
        };
        self.add(crossing, x, y, None);
    }

    /// Lets a sprite enter over an edge, fast enough to get inside and not right through.
    pub fn enter(&mut self, mut arrival: Crossing) {
        let edge = arrival.edge;
        let Place { left, right, top, bottom } = bounds(&self.monitors);
        let (x, y) = (left + arrival.at * (right - left), top + arrival.at * (bottom - top));
        let (x, y) = match edge {
            Edge::Left => (left, y),
            Edge::Right => (right, y),
            Edge::Up => (x, top),
            Edge::Down => (x, bottom),
        };
        let monitor = monitor_at(&self.monitors, x, y);
        let (x, y) = monitor.nearest(x, y, RADIUS);
        let (x, y) = match edge {
            Edge::Left => (monitor.left - RADIUS, y),
            Edge::Right => (monitor.right + RADIUS, y),
            Edge::Up => (x, monitor.top - RADIUS),
            Edge::Down => (x, monitor.bottom + RADIUS),
        };
        let span = if edge.is_side() { right - left } else { bottom - top };
        let most = between(ENTER_SPEED_PER_PIXEL * span, ENTER_SPEED, ENTER_SPEED_MAX);
        let v = &mut arrival.velocity;
        *v = limited(*v, most);
        match edge {
            Edge::Left => v.x = v.x.max(ENTER_SPEED),
            Edge::Right => v.x = v.x.min(-ENTER_SPEED),
            Edge::Up => v.y = v.y.max(ENTER_SPEED),
            Edge::Down => v.y = v.y.min(-ENTER_SPEED),
        }
        self.add(arrival, x, y, Some((edge, true, monitor)));
    }

    fn add(
        &mut self,
        Crossing { sprite, picture, velocity: v, .. }: Crossing,
        x: f64,
        y: f64,
        over: Option<(Edge, bool, Place)>,
    ) {
        if self.bodies.len() >= SPRITES_MAX {
            self.bodies.remove(0);
        }
        self.next_id += 1;
        let id = self.next_id;
        let walks_left = id.is_multiple_of(2);
        let (is_held, is_thrown_down) = (false, false);
        self.bodies.push(Body {
            id,
            sprite,
            picture,
            x,
            y,
            v,
            is_held,
            over,
            is_thrown_down,
            walks_left,
        });
    }

    pub fn body(&mut self, id: u32) -> Option<&mut Body> {
        self.bodies.iter_mut().find(|body| body.id == id)
    }

    pub fn grab(&mut self, id: u32) {
        if let Some(body) = self.body(id) {
            (body.is_held, body.over, body.v) = (true, None, Velocity::default());
        }
    }

    pub fn drag(&mut self, id: u32, x: f64, y: f64) {
        let (x, y) = bounds(&self.monitors).nearest(x, y, RADIUS);
        let place = monitor_at(&self.monitors, x, y).nearest(x, y, 0.0);
        if let Some(body) = self.body(id) {
            (body.x, body.y) = place;
        }
    }

    pub fn release(&mut self, id: u32, velocity: Velocity) {
        if let Some(body) = self.body(id) {
            body.is_held = false;
            body.v = limited(velocity, SPEED_MAX);
            body.is_thrown_down = body.v.y >= THROW_SPEED;
        }
    }

    /// Advances by [`STEP_S`]; returns the sprites that have left over an edge.
    pub fn step(&mut self) -> Vec<Crossing> {
        let mut gone = Vec::new();
        let Physics { bodies, monitors, floors, open, .. } = self;
        let bounds = bounds(monitors);
        bodies.retain_mut(|body| match body.step(monitors, &bounds, floors, open) {
            Some(crossing) => {
                gone.push(crossing);
                false
            }
            None => true,
        });
        gone
    }
}

impl Body {
    fn step(
        &mut self,
        monitors: &[Place],
        bounds: &Place,
        floors: &[Floor],
        open: &[Edge],
    ) -> Option<Crossing> {
        if self.is_held {
            return None;
        }
        let feet = self.y + RADIUS;
        if self.over.is_none() {
            self.v.y = (self.v.y + GRAVITY * STEP_S).min(SPEED_MAX);
        }
        self.x += self.v.x * STEP_S;
        self.y += self.v.y * STEP_S;
        if let Some((edge, is_inward, monitor)) = self.over {
            return self.cross(edge, is_inward, &monitor, bounds);
        }
        let monitor = monitor_at(monitors, self.x, self.y);
        for edge in Edge::ALL {
            let speed = self.towards(edge);
            if self.room(edge, &monitor) > 0.0
                || speed <= 0.0
                || self.can_pass(edge, speed, &monitor, monitors)
            {
                continue;
            }
            let may_leave = speed >= THROW_SPEED && (edge != Edge::Down || self.is_thrown_down);
            if may_leave && open.contains(&edge) {
                self.over = Some((edge, false, monitor));
                return None;
            }
            // Only this edge stops its rim, so that it can walk on over the others.
            let (x, y) = monitor.nearest(self.x, self.y, RADIUS);
            (self.x, self.y) = monitor.nearest(self.x, self.y, 0.0);
            match edge.is_side() {
                true => self.x = x,
                false => self.y = y,
            }
            if edge.is_side() {
                self.v.x *= -BOUNCE;
                self.walks_left = edge == Edge::Right;
            } else if edge == Edge::Up {
                self.v.y *= -BOUNCE;
            } else {
                self.land();
            }
        }
        // A sprite that is thrown down passes floors, so that it can reach the lower edge.
        let reached = floors.iter().find(|floor| {
            (floor.left..=floor.right).contains(&self.x)
                && feet <= floor.y + 1.0
                && self.y + RADIUS >= floor.y
        });
        if let Some(floor) = reached.filter(|_| self.v.y >= 0.0 && !self.is_thrown_down) {
            self.y = floor.y - RADIUS;
            self.land();
        }
        None
    }

    /// Continues over an edge. Returns how it left, when it is beyond.
    fn cross(
        &mut self,
        edge: Edge,
        is_inward: bool,
        monitor: &Place,
        bounds: &Place,
    ) -> Option<Crossing> {
        let room = self.room(edge, monitor);
        if is_inward && room >= 0.0 {
            self.over = None;
        }
        if is_inward || room > -2.0 * RADIUS {
            return None;
        }
        let at = match edge.is_side() {
            true => (self.y - bounds.top) / (bounds.bottom - bounds.top),
            false => (self.x - bounds.left) / (bounds.right - bounds.left),
        };
        let (sprite, picture) = (self.sprite.clone(), self.picture.clone());
        Some(Crossing { sprite, edge, at: between(at, 0.0, 1.0), velocity: self.v, picture })
    }

    /// Bounces, or walks.
    fn land(&mut self) {
        self.is_thrown_down = false;
        if self.v.y > LAND_SPEED {
            self.v.y *= -BOUNCE / 2.0;
            self.v.x *= BOUNCE;
            return;
        }
        self.v.y = 0.0;
        let walk = if self.walks_left { -WALK_SPEED } else { WALK_SPEED };
        self.v.x += (walk - self.v.x) * between(4.0 * STEP_S, 0.0, 1.0);
    }

    /// Whether there is another monitor beyond an edge of one. Across a gap, a sprite has to be thrown.
    fn can_pass(&self, edge: Edge, speed: f64, of: &Place, monitors: &[Place]) -> bool {
        monitors.iter().any(|to| {
            // In the direction of the edge: the end of the one, and the ends of the other.
            let (end, near, far) = match edge {
                Edge::Left => (-of.left, -to.right, -to.left),
                Edge::Right => (of.right, to.left, to.right),
                Edge::Up => (-of.top, -to.bottom, -to.top),
                Edge::Down => (of.bottom, to.top, to.bottom),
            };
            let is_beside = match edge.is_side() {
                true => (to.top..to.bottom).contains(&self.y),
                false => (to.left..to.right).contains(&self.x),
            };
            is_beside && far > end && (near <= end || speed >= THROW_SPEED)
        })
    }

    /// Pixels between a sprite's rim and an edge; negative when it is partly beyond.
    fn room(&self, edge: Edge, monitor: &Place) -> f64 {
        match edge {
            Edge::Left => self.x - RADIUS - monitor.left,
            Edge::Right => monitor.right - RADIUS - self.x,
            Edge::Up => self.y - RADIUS - monitor.top,
            Edge::Down => monitor.bottom - RADIUS - self.y,
        }
    }

    fn towards(&self, edge: Edge) -> f64 {
        match edge {
            Edge::Left => -self.v.x,
            Edge::Right => self.v.x,
            Edge::Up => -self.v.y,
            Edge::Down => self.v.y,
        }
    }
}

/// The monitor at a position, or the nearest one.
fn monitor_at(monitors: &[Place], x: f64, y: f64) -> Place {
    let distance = |monitor: &Place| {
        let nearest = monitor.nearest(x, y, 0.0);
        (nearest.0 - x).hypot(nearest.1 - y)
    };
    let nearest = monitors.iter().min_by(|a, b| distance(a).total_cmp(&distance(b)));
    *nearest.expect("a desktop has a monitor")
}

/// The outermost edges of all monitors.
pub fn bounds(monitors: &[Place]) -> Place {
    let both = |a: Place, b: &Place| Place {
        left: a.left.min(b.left),
        right: a.right.max(b.right),
        top: a.top.min(b.top),
        bottom: a.bottom.max(b.bottom),
    };
    monitors[1..].iter().fold(monitors[0], both)
}

fn limited(Velocity { x, y }: Velocity, max: f64) -> Velocity {
    let speed = x.hypot(y);
    let scale = if speed > max { max / speed } else { 1.0 };
    Velocity { x: x * scale, y: y * scale }
}

/// Limits a value, with `low` taking precedence when the range is empty.
fn between(n: f64, low: f64, high: f64) -> f64 {
    n.min(high).max(low)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn desktop() -> Physics {
        let monitor = Place { left: 0.0, right: 800.0, top: 0.0, bottom: 600.0 };
        Physics { open: Edge::ALL.to_vec(), ..Physics::new(vec![monitor]) }
    }

    fn run(physics: &mut Physics, seconds: f64) -> Vec<Crossing> {
        (0..(seconds / STEP_S) as usize).flat_map(|_| physics.step()).collect()
    }

    fn thrown(physics: &mut Physics, x: f64, y: f64) -> Vec<Crossing> {
        physics.put("cat", None, 400.0, 300.0);
        physics.grab(1);
        physics.release(1, Velocity { x, y });
        run(physics, 3.0)
    }

    #[test]
    fn a_sprite_falls_to_the_bottom_and_walks_there() {
        let mut physics = desktop();
        physics.put("cat", None, 400.0, 100.0);
        assert_eq!(run(&mut physics, 4.0), []);
        let (x, body) = (physics.bodies[0].x, &physics.bodies[0]);
        assert!((body.y - (600.0 - RADIUS)).abs() < 1.0, "{body:?}");
        run(&mut physics, 1.0);
        assert!((physics.bodies[0].x - x - WALK_SPEED).abs() < 5.0, "{:?}", physics.bodies[0]);
    }

    #[test]
    fn a_sprite_sits_on_a_window_and_falls_when_the_window_goes() {
        let mut physics = desktop();
        physics.floors = vec![Floor { left: 0.0, right: 800.0, y: 300.0 }];
        physics.put("cat", None, 400.0, 100.0);
        run(&mut physics, 4.0);
        assert!((physics.bodies[0].y - (300.0 - RADIUS)).abs() < 1.0, "{:?}", physics.bodies[0]);
        physics.floors.clear();
        run(&mut physics, 4.0);
        assert!((physics.bodies[0].y - (600.0 - RADIUS)).abs() < 1.0, "{:?}", physics.bodies[0]);
    }

    #[test]
    fn a_throw_leaves_over_each_edge() {
        for (edge, x, y) in [
            (Edge::Left, -2_000.0, -100.0),
            (Edge::Right, 2_000.0, -100.0),
            (Edge::Up, 0.0, -2_000.0),
            (Edge::Down, 0.0, 2_000.0),
        ] {
            let gone = thrown(&mut desktop(), x, y);
            assert_eq!(gone.iter().map(|crossing| crossing.edge).collect::<Vec<_>>(), [edge]);
        }
    }

    #[test]
    fn a_throw_bounces_at_an_edge_without_a_neighbour() {
        let mut physics = desktop();
        physics.open.clear();
        assert_eq!(thrown(&mut physics, 2_000.0, -100.0), []);
        assert_eq!(physics.bodies.len(), 1);
    }

    /// A smaller monitor beside a gap.
    fn two_monitors() -> Physics {
        let right = Place { left: 500.0, right: 800.0, top: 100.0, bottom: 500.0 };
        let left = Place { left: 0.0, right: 400.0, top: 0.0, bottom: 600.0 };
        Physics { monitors: vec![left, right], ..desktop() }
    }

    #[test]
    fn sprites_come_to_stand_on_the_edges_of_monitors_and_stay_there() {
        for y in [30.0, 300.0, 590.0] {
            let mut physics = two_monitors();
            (0..=80).for_each(|n| physics.put("cat", None, f64::from(n) * 10.0, y));
            assert_eq!(run(&mut physics, 3.0), []);
            for _ in 0..500 {
                physics.step();
                for body in &physics.bodies {
                    let floor = if body.x < 450.0 { 600.0 } else { 500.0 };
                    let is_seen = (0.0..=400.0).contains(&body.x) || body.x >= 500.0;
                    assert!((body.y + RADIUS - floor).abs() < 1.0 && is_seen, "{body:?}");
                }
            }
        }
    }

    #[test]
    fn a_sprite_walks_from_a_monitor_to_one_that_it_touches() {
        let mut physics = two_monitors();
        physics.monitors[1].left = 400.0;
        physics.put("cat", None, 450.0, 300.0);
        physics.put("cat", None, 450.0, 300.0);
        assert_eq!(run(&mut physics, 4.0), []);
        let floors: Vec<f64> = physics.bodies.iter().map(|body| body.y + RADIUS).collect();
        assert_eq!(floors, [500.0, 600.0], "the first walks to the right");
    }

    #[test]
    fn a_throw_over_an_inner_edge_stays_and_one_over_an_outer_edge_leaves() {
        let throw = |from: (f64, f64), (x, y)| {
            let mut physics = two_monitors();
            physics.put("cat", None, from.0, from.1);
            physics.release(1, Velocity { x, y });
            let gone: Vec<Edge> = run(&mut physics, 5.0).iter().map(|one| one.edge).collect();
            (gone, physics.bodies.first().map(|body| body.x > 500.0))
        };
        assert_eq!(throw((200.0, 300.0), (420.0, -300.0)), (vec![], Some(true)));
        assert_eq!(throw((650.0, 300.0), (-420.0, -300.0)), (vec![], Some(false)));
        assert_eq!(throw((650.0, 300.0), (2_000.0, -100.0)), (vec![Edge::Right], None));
        assert_eq!(throw((200.0, 560.0), (2_000.0, 0.0)), (vec![Edge::Right], None));
        assert_eq!(throw((650.0, 300.0), (0.0, 2_000.0)), (vec![Edge::Down], None));
    }

    #[test]
    fn an_arrival_enters_at_its_edge_and_stays() {
        let mut physics = desktop();
        let (sprite, velocity) = ("cat".to_owned(), Velocity { x: 4_000.0, y: 0.0 });
        let arrival = Crossing { sprite, edge: Edge::Left, at: 0.5, velocity, picture: None };
        physics.enter(arrival.clone());
        assert!(physics.bodies[0].x < 0.0);
        run(&mut physics, 0.2);
        assert!(physics.bodies[0].x > RADIUS && physics.bodies[0].x < 400.0);
        let mut two = two_monitors();
        two.enter(Crossing { edge: Edge::Right, at: 0.99, ..arrival });
        assert_eq!((two.bodies[0].x, two.bodies[0].y), (800.0 + RADIUS, 500.0 - RADIUS));
    }
}
