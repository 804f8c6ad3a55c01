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

#[derive(Clone, Debug)]
pub struct Body {
    pub id: u32,
    pub sprite: String,
    pub picture: Option<String>,
    pub x: f64,
    pub y: f64,
    pub v: Velocity,
    pub is_held: bool,
    /// The edge that it is crossing, and whether inwards.
    over: Option<(Edge, bool)>,
    /// Whether it was thrown downwards: one that only falls does not leave over the lower edge.
    is_thrown_down: bool,
    walks_left: bool,
}

/// The sprites of one desktop.
#[derive(Default)]
pub struct Physics {
    pub bodies: Vec<Body>,
    pub width: f64,
    pub height: f64,
    pub floors: Vec<Floor>,
    /// The edges with a neighbour. A sprite bounces at the others.
    pub open: Vec<Edge>,
    next_id: u32,
}

impl Physics {
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
        let inside = |at: f64, span: f64| between(at * span, RADIUS, span - RADIUS);
        let (x, y) = match edge {
            Edge::Left => (-RADIUS, inside(arrival.at, self.height)),
            Edge::Right => (self.width + RADIUS, inside(arrival.at, self.height)),
            Edge::Up => (inside(arrival.at, self.width), -RADIUS),
            Edge::Down => (inside(arrival.at, self.width), self.height + RADIUS),
        };
        let span = if edge.is_side() { self.width } else { self.height };
        let most = between(ENTER_SPEED_PER_PIXEL * span, ENTER_SPEED, ENTER_SPEED_MAX);
        let v = &mut arrival.velocity;
        *v = limited(*v, most);
        match edge {
            Edge::Left => v.x = v.x.max(ENTER_SPEED),
            Edge::Right => v.x = v.x.min(-ENTER_SPEED),
            Edge::Up => v.y = v.y.max(ENTER_SPEED),
            Edge::Down => v.y = v.y.min(-ENTER_SPEED),
        }
        self.add(arrival, x, y, Some((edge, true)));
    }

    fn add(
        &mut self,
        Crossing { sprite, picture, velocity: v, .. }: Crossing,
        x: f64,
        y: f64,
        over: Option<(Edge, bool)>,
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
        let (width, height) = (self.width, self.height);
        if let Some(body) = self.body(id) {
            body.x = between(x, RADIUS, width - RADIUS);
            body.y = between(y, RADIUS, height - RADIUS);
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
        let Physics { bodies, width, height, floors, open, .. } = self;
        bodies.retain_mut(|body| match body.step(*width, *height, floors, open) {
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
        width: f64,
        height: f64,
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
        if let Some((edge, is_inward)) = self.over {
            let room = self.room(edge, width, height);
            if is_inward && room >= 0.0 {
                self.over = None;
            }
            if is_inward || room > -2.0 * RADIUS {
                return None;
            }
            let at = if edge.is_side() { self.y / height } else { self.x / width };
            let (sprite, picture) = (self.sprite.clone(), self.picture.clone());
            return Some(Crossing {
                sprite,
                edge,
                at: between(at, 0.0, 1.0),
                velocity: self.v,
                picture,
            });
        }
        for edge in Edge::ALL {
            let speed = self.towards(edge);
            if self.room(edge, width, height) > 0.0 || speed <= 0.0 {
                continue;
            }
            let may_leave = speed >= THROW_SPEED && (edge != Edge::Down || self.is_thrown_down);
            if may_leave && open.contains(&edge) {
                self.over = Some((edge, false));
                return None;
            }
            self.x = between(self.x, RADIUS, width - RADIUS);
            self.y = between(self.y, RADIUS, height - RADIUS);
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

    /// Pixels between a sprite's rim and an edge; negative when it is partly beyond.
    fn room(&self, edge: Edge, width: f64, height: f64) -> f64 {
        match edge {
            Edge::Left => self.x - RADIUS,
            Edge::Right => width - RADIUS - self.x,
            Edge::Up => self.y - RADIUS,
            Edge::Down => height - RADIUS - self.y,
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
        Physics { width: 800.0, height: 600.0, open: Edge::ALL.to_vec(), ..Physics::default() }
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

    #[test]
    fn an_arrival_enters_at_its_edge_and_stays() {
        let mut physics = desktop();
        let (sprite, velocity) = ("cat".to_owned(), Velocity { x: 4_000.0, y: 0.0 });
        physics.enter(Crossing { sprite, edge: Edge::Left, at: 0.5, velocity, picture: None });
        assert!(physics.bodies[0].x < 0.0);
        run(&mut physics, 0.2);
        assert!(physics.bodies[0].x > RADIUS && physics.bodies[0].x < 400.0);
    }
}
