use std::fmt::Write;

use serde::{Deserialize, Serialize};

use super::number;

const WIDTH: f64 = 760.0;
const LEFT: f64 = 84.0;
const RIGHT: f64 = 72.0;
const PLOT_HEIGHT: f64 = 190.0;
const ROW_HEIGHT: f64 = 22.0;
const NAMES_WIDTH: f64 = 230.0;
const NOTE_HEIGHT: f64 = 17.0;
/// Lines are thinned to this many points; more would not be seen.
const POINTS_MAX: usize = 400;

/// Colours for paper and for night; the viewer's setting decides.
const STYLE: &str = "
  svg { font: 13px system-ui, sans-serif; fill: #24292f }
  .title { font-weight: 600 } .note, .tick { fill: #6b7280; font-size: 12px }
  .back { fill: #fffdf9 } .grid { stroke: #e4e0d8 } .axis { stroke: #94a3b8 }
  .line { fill: none; stroke-width: 2; stroke-linejoin: round }
  .line.a { stroke: #d9480f } .line.b { stroke: #1971c2 } .line.c { stroke: #2f9e44 } .line.d { stroke: #7c8797 } .line.e { stroke: #9c36b5 }
  .area.a { fill: #d9480f } .area.b { fill: #1971c2 } .area.c { fill: #2f9e44 } .area.d { fill: #7c8797 } .area.e { fill: #9c36b5 }
  @media (prefers-color-scheme: dark) {
    svg { fill: #e6e1d8 } .back { fill: #171412 } .note, .tick { fill: #a09a90 }
    .grid { stroke: #2c2823 } .axis { stroke: #5b6472 }
    .line.a { stroke: #ff8a3d } .line.b { stroke: #74c0fc } .line.c { stroke: #69db7c } .line.d { stroke: #7f8896 } .line.e { stroke: #da77f2 }
    .area.a { fill: #ff8a3d } .area.b { fill: #74c0fc } .area.c { fill: #69db7c } .area.d { fill: #7f8896 } .area.e { fill: #da77f2 }
  }
";

/// A picture of one or more panels, one below the other.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Chart {
    /// What is to be seen, for those who cannot.
    pub label: String,
    pub panels: Vec<Panel>,
    pub notes: Vec<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Panel {
    Lines { title: String, x: Axis, left: Axis, right: Option<Axis>, lines: Vec<Line> },
    Bars { title: String, decimals: usize, bars: Vec<Bar> },
}

/// What runs along a side of the plot.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Axis {
    pub label: String,
    /// The end of it; what the lines need when there is none.
    pub max: Option<f64>,
    /// Between two ticks; a round number when there is none.
    pub step: Option<f64>,
    /// Whether each tick is ten times the last.
    pub is_log: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Line {
    pub name: String,
    pub tint: Tint,
    pub side: Side,
    pub points: Vec<(f64, f64)>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Bar {
    pub name: String,
    pub tint: Tint,
    pub value: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Side {
    Left,
    Right,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum Tint {
    Fire,
    Water,
    Grass,
    Stone,
    Plum,
}

impl Tint {
    fn class(self) -> &'static str {
        match self {
            Tint::Fire => "a",
            Tint::Water => "b",
            Tint::Grass => "c",
            Tint::Stone => "d",
            Tint::Plum => "e",
        }
    }
}

impl Axis {
    pub fn new(label: &str) -> Self {
        Axis { label: label.to_owned(), max: None, step: None, is_log: false }
    }

    pub fn up_to(label: &str, max: f64) -> Self {
        Axis { max: Some(max), ..Axis::new(label) }
    }

    /// For what spans many sizes; nothing on it may be 0.
    pub fn log(label: &str) -> Self {
        Axis { is_log: true, ..Axis::new(label) }
    }
}

impl Line {
    pub fn left(name: &str, tint: Tint, points: Vec<(f64, f64)>) -> Self {
        Line { name: name.to_owned(), tint, side: Side::Left, points }
    }

    pub fn right(name: &str, tint: Tint, points: Vec<(f64, f64)>) -> Self {
        Line { side: Side::Right, ..Line::left(name, tint, points) }
    }
}

impl Chart {
    pub fn svg(&self) -> String {
        let mut body = String::new();
        let height = self.put(&mut body).expect("a string takes all");
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height:.0}\" \
             width=\"{WIDTH}\" height=\"{height:.0}\" role=\"img\" aria-label=\"{}\">\n\
             <style>{STYLE}</style>\n\
             <rect class=\"back\" width=\"{WIDTH}\" height=\"{height:.0}\" rx=\"10\"/>\n{body}</svg>\n",
            escaped(&self.label)
        )
    }

    fn put(&self, body: &mut String) -> Result<f64, std::fmt::Error> {
        let mut y = 32.0;
        for panel in &self.panels {
            y = match panel {
                Panel::Lines { title, x, left, right, lines } => {
                    put_lines(body, y, title, x, left, right.as_ref(), lines)?
                }
                Panel::Bars { title, decimals, bars } => put_bars(body, y, title, *decimals, bars)?,
            };
        }
        for note in &self.notes {
            writeln!(body, "<text class=\"note\" x=\"24\" y=\"{y:.0}\">{}</text>", escaped(note))?;
            y += NOTE_HEIGHT;
        }
        Ok(y + 6.0)
    }
}

/// Returns where the next panel begins.
fn put_lines(
    body: &mut String,
    top: f64,
    title: &str,
    x_axis: &Axis,
    left: &Axis,
    right: Option<&Axis>,
    lines: &[Line],
) -> Result<f64, std::fmt::Error> {
    writeln!(body, "<text class=\"title\" x=\"24\" y=\"{top:.0}\">{}</text>", escaped(title))?;
    put_keys(body, top + 20.0, lines)?;
    let (plot_top, bottom) = (top + 36.0, top + 36.0 + PLOT_HEIGHT);
    let end = WIDTH - RIGHT;
    let x_scale = Scale::new(x_axis, lines.iter(), |point| point.0, LEFT, end);
    let of_side = |side| lines.iter().filter(move |line| line.side == side);
    let scale_of =
        |axis: &Axis, side| Scale::new(axis, of_side(side), |point| point.1, bottom, plot_top);
    let left_scale = scale_of(left, Side::Left);
    for tick in left_scale.ticks() {
        let y = left_scale.place(tick);
        writeln!(
            body,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{end}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
             <text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 6.0,
            y + 4.0,
            left_scale.text(tick)
        )?;
    }
    put_side_label(body, 18.0, f64::midpoint(plot_top, bottom), &left.label)?;
    let right_scale = right.map(|axis| scale_of(axis, Side::Right));
    if let (Some(scale), Some(axis)) = (&right_scale, right) {
        for tick in scale.ticks() {
            writeln!(
                body,
                "<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                end + 6.0,
                scale.place(tick) + 4.0,
                scale.text(tick)
            )?;
        }
        put_side_label(body, WIDTH - 12.0, f64::midpoint(plot_top, bottom), &axis.label)?;
    }
    writeln!(
        body,
        "<line class=\"axis\" x1=\"{LEFT}\" x2=\"{end}\" y1=\"{bottom:.1}\" y2=\"{bottom:.1}\"/>"
    )?;
    for tick in x_scale.ticks() {
        writeln!(
            body,
            "<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            x_scale.place(tick),
            bottom + 16.0,
            x_scale.text(tick)
        )?;
    }
    writeln!(
        body,
        "<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
        f64::midpoint(LEFT, end),
        bottom + 33.0,
        escaped(&x_axis.label)
    )?;
    for line in lines {
        let scale = match (line.side, &right_scale) {
            (Side::Right, Some(scale)) => scale,
            _ => &left_scale,
        };
        let mut points = String::new();
        for (x, y) in thinned(&line.points) {
            write!(points, "{:.1},{:.1} ", x_scale.place(x), scale.place(y))?;
        }
        let (class, points) = (line.tint.class(), points.trim_end());
        writeln!(body, "<polyline class=\"line {class}\" points=\"{points}\"/>")?;
    }
    Ok(bottom + 66.0)
}

fn put_keys(body: &mut String, y: f64, lines: &[Line]) -> std::fmt::Result {
    let mut x = 24.0;
    for line in lines {
        writeln!(
            body,
            "<rect class=\"area {}\" x=\"{x:.0}\" y=\"{:.0}\" width=\"14\" height=\"4\"/>\
             <text class=\"note\" x=\"{:.0}\" y=\"{y:.0}\">{}</text>",
            line.tint.class(),
            y - 6.0,
            x + 20.0,
            escaped(&line.name)
        )?;
        x += 44.0 + 6.4 * line.name.chars().count() as f64;
    }
    Ok(())
}

fn put_side_label(body: &mut String, x: f64, y: f64, label: &str) -> std::fmt::Result {
    writeln!(
        body,
        "<text class=\"tick\" transform=\"translate({x:.0} {y:.0}) rotate(-90)\" \
         text-anchor=\"middle\">{}</text>",
        escaped(label)
    )
}

fn put_bars(
    body: &mut String,
    top: f64,
    title: &str,
    decimals: usize,
    bars: &[Bar],
) -> Result<f64, std::fmt::Error> {
    writeln!(body, "<text class=\"title\" x=\"24\" y=\"{top:.0}\">{}</text>", escaped(title))?;
    let longest = bars.iter().map(|bar| bar.value).fold(f64::MIN_POSITIVE, f64::max);
    let scale = (WIDTH - 24.0 - NAMES_WIDTH - 24.0 - 76.0) / longest;
    let (left, mut y) = (24.0 + NAMES_WIDTH, top + 10.0);
    for bar in bars {
        let width = (bar.value * scale).max(1.0);
        writeln!(
            body,
            "<text x=\"24\" y=\"{:.0}\">{}</text><rect class=\"area {}\" x=\"{left}\" y=\"{:.0}\" \
             width=\"{width:.1}\" height=\"14\" rx=\"2\"/><text x=\"{:.1}\" y=\"{:.0}\">{}</text>",
            y + 15.0,
            escaped(&bar.name),
            bar.tint.class(),
            y + 4.0,
            left + width + 6.0,
            y + 15.0,
            number(bar.value, decimals)
        )?;
        y += ROW_HEIGHT;
    }
    Ok(y + 30.0)
}

/// From what is measured to where it is drawn.
struct Scale {
    min: f64,
    max: f64,
    step: f64,
    is_log: bool,
    from: f64,
    to: f64,
}

impl Scale {
    fn new<'a>(
        axis: &Axis,
        lines: impl Iterator<Item = &'a Line>,
        value: impl Fn(&(f64, f64)) -> f64,
        from: f64,
        to: f64,
    ) -> Self {
        let values = lines.flat_map(|line| line.points.iter().map(&value));
        let values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
        let largest = axis.max.unwrap_or_else(|| values.iter().copied().fold(0.0, f64::max));
        let largest = largest.max(1e-9);
        let is_log = axis.is_log;
        if is_log {
            let smallest =
                values.iter().copied().filter(|value| *value > 0.0).fold(largest, f64::min);
            let (min, max) = (smallest.log10().floor(), largest.log10().ceil());
            return Scale { min, max: max.max(min + 1.0), step: 1.0, is_log, from, to };
        }
        let step = axis.step.unwrap_or_else(|| step_of(largest));
        let max = axis.max.unwrap_or_else(|| (largest / step).ceil() * step);
        Scale { min: 0.0, max, step, is_log, from, to }
    }

    fn place(&self, value: f64) -> f64 {
        let value = if self.is_log { value.max(f64::MIN_POSITIVE).log10() } else { value };
        let part = (value - self.min) / (self.max - self.min);
        self.from + (self.to - self.from) * part.clamp(0.0, 1.0)
    }

    fn ticks(&self) -> impl Iterator<Item = f64> {
        let Scale { min, max, step, is_log, .. } = *self;
        let tick = move |index: u32| min + f64::from(index) * step;
        let within = move |tick: &f64| *tick <= max + step * 1e-6;
        (0..).map(tick).take_while(within).map(
            move |tick| {
                if is_log { 10_f64.powf(tick) } else { tick }
            },
        )
    }

    fn text(&self, tick: f64) -> String {
        let size = if self.is_log { tick } else { self.step };
        let is_told = |decimals: &i32| {
            let shifted = size * 10_f64.powi(*decimals);
            (shifted - shifted.round()).abs() < 1e-6
        };
        number(tick, (0..6).find(is_told).unwrap_or(6) as usize)
    }
}

/// A round step that makes about five of it.
fn step_of(largest: f64) -> f64 {
    let rough = largest / 5.0;
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().find(|step| step * power >= rough);
    step.unwrap_or(10.0) * power
}

fn thinned(points: &[(f64, f64)]) -> impl Iterator<Item = (f64, f64)> {
    let every = points.len().div_ceil(POINTS_MAX).max(1);
    let last = points.len().saturating_sub(1);
    let kept = points.iter().enumerate().filter(move |(i, _)| i % every == 0 || *i == last);
    kept.map(|(_, point)| *point)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_round() {
        for (largest, step) in [(1_000_000.0, 200_000.0), (24.0, 5.0), (0.9, 0.2)] {
            assert!(
                (step_of(largest) - step).abs() < step * 1e-9,
                "{largest}: {}",
                step_of(largest)
            );
        }
    }

    #[test]
    fn ticks_are_told_with_the_decimals_they_need() {
        let line = Line::left("", Tint::Fire, vec![(0.0, 12.0)]);
        for (axis, texts) in [
            (Axis::new(""), ["0.0", "2.5", "5.0"]),
            (Axis::up_to("", 100.0), ["0", "20", "40"]),
            (Axis::up_to("", 0.9), ["0.0", "0.2", "0.4"]),
        ] {
            let scale = Scale::new(&axis, [&line].into_iter(), |point| point.1, 0.0, 1.0);
            let told: Vec<String> = scale.ticks().take(3).map(|tick| scale.text(tick)).collect();
            assert_eq!(told, texts);
        }
    }

    #[test]
    fn a_chart_without_a_point_is_still_a_picture() {
        let lines = vec![Line::left("none", Tint::Fire, Vec::new())];
        let (x, left) = (Axis::new("s"), Axis::new("sockets"));
        let panel = Panel::Lines { title: "<&>".into(), x, left, right: None, lines };
        let chart = Chart { label: "a".into(), panels: vec![panel], notes: Vec::new() };
        let svg = chart.svg();
        assert!(svg.contains("&lt;&amp;>") && svg.ends_with("</svg>\n"), "{svg}");
    }
}
