//! Charts as SVG: lines over an axis, and bars beside each other, one panel below the other.
//!
//! `plotters` draws them with one set of colours. A style element adds the dark colours, so the SVG
//! follows the reader's light or dark setting, in an HTML page and as an image.

mod cells;

use std::fmt::Write as _;

use plotters::coord::Shift;
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::html::escape;
use crate::units;

pub use cells::{Cell, Cells};

const WIDTH: i32 = 760;
const MARGIN: i32 = 24;
const LEFT: i32 = 78;
const RIGHT: i32 = 70;
/// Space between the edge of the picture and the label of a vertical axis.
const SIDE_MARGIN: i32 = 14;
const TITLE_HEIGHT: i32 = 24;
const LEGEND_HEIGHT: i32 = 22;
const PLOT_HEIGHT: i32 = 190;
const X_LABELS_HEIGHT: i32 = 38;
const PANEL_GAP: i32 = 22;
const BAR_HEIGHT: i32 = 22;
/// Bars alone need less width than lines, and their text is legible on a phone.
const BARS_WIDTH: i32 = 460;
const NOTE_HEIGHT: i32 = 17;
/// Estimated width of a character of the legend.
const CHARACTER_WIDTH: i32 = 7;
/// Pixels of `plotters`, which draws on whole pixels, for each pixel of the picture.
const PIXELS: i32 = 4;
/// Lines are thinned to this many points; more would not be visible.
const POINTS_MAX: usize = 400;
const FONT: &str = "system-ui, sans-serif";

/// Colours by meaning: light, then dark.
const INK: [u32; 2] = [0x24292f, 0xe6e1d8];
const DIM: [u32; 2] = [0x6b7280, 0xa09a90];
const GRID: [u32; 2] = [0xe4e0d8, 0x2c2823];
const AXIS: [u32; 2] = [0x94a3b8, 0x5b6472];
const PAPER: [u32; 2] = [0xfffdf9, 0x171412];

/// A picture of one or more panels, one below the other.
#[derive(Clone, Debug, Default)]
pub struct Chart {
    /// A text description, for readers who cannot see the picture.
    pub label: String,
    /// From top to bottom.
    pub panels: Vec<Panel>,
    /// Lines of text below the panels.
    pub notes: Vec<String>,
}

#[derive(Clone, Debug)]
pub enum Panel {
    /// Lines over a common horizontal axis.
    Lines {
        title: String,
        x: Axis,
        left: Axis,
        right: Option<Axis>,
        /// The lines, drawn in this order.
        lines: Vec<Line>,
        /// Values to compare with.
        markers: Vec<Marker>,
    },
    /// Horizontal bars with a common scale that begins at 0.
    Bars {
        title: String,
        decimals: usize,
        /// From top to bottom.
        bars: Vec<Bar>,
    },
    /// A table.
    Cells { title: String, cells: Cells },
}

/// An axis of a panel; it begins at 0.
#[derive(Clone, Debug)]
pub struct Axis {
    /// The measured quantity.
    pub label: String,
    /// The end of the axis; `None` ends it above the largest value.
    pub max: Option<f64>,
    /// The distance between ticks; `None` selects a round number.
    pub step: Option<f64>,
    /// Whether each tick is ten times the one before. Values must be above 0.
    pub is_log: bool,
    pub format: TickFormat,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum TickFormat {
    /// `1,000`
    #[default]
    Number,
    /// Seconds as `1.5 ms`.
    Duration,
    /// A share from 0 to 1 as `25 %`.
    Percent,
}

#[derive(Clone, Debug)]
pub struct Line {
    /// The name in the legend; a line without a name is not in the legend.
    pub name: String,
    pub colour: Colour,
    /// The axis it is measured on.
    pub side: Side,
    /// From nearly 0, invisible, to 1.
    pub opacity: f64,
    /// A point whose second number is not finite interrupts the line.
    pub points: Vec<(f64, f64)>,
}

/// A value to compare lines with, drawn across the panel.
#[derive(Clone, Debug)]
pub struct Marker {
    pub name: String,
    pub colour: Colour,
    /// Whether `at` is on the horizontal axis; otherwise it is on the left one.
    pub is_on_x: bool,
    pub at: f64,
}

#[derive(Clone, Debug)]
pub struct Bar {
    /// The label at its left.
    pub name: String,
    pub colour: Colour,
    pub value: f64,
    /// The text after it; `None` is the value.
    pub text: Option<String>,
    /// The smallest and the largest of the values that it stands for, drawn as a thin line.
    pub range: Option<[f64; 2]>,
    /// A value it should not exceed, drawn as a line across it.
    pub limit: Option<BarLimit>,
}

impl Bar {
    /// A bar of one value, without a limit.
    pub fn new(name: impl Into<String>, colour: Colour, value: f64) -> Self {
        Bar { name: name.into(), colour, value, text: None, range: None, limit: None }
    }

    /// The largest value that is drawn.
    fn end(&self) -> f64 {
        let others =
            [self.limit.as_ref().map(|limit| limit.value), self.range.map(|range| range[1])];
        others.into_iter().flatten().fold(self.value, f64::max)
    }
}

/// A value that a bar should not exceed.
#[derive(Clone, Debug)]
pub struct BarLimit {
    /// The value, in the unit of the bar.
    pub value: f64,
    /// The label after the value of the bar.
    pub label: String,
}

/// The vertical axis that a line is measured on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Left,
    Right,
}

/// A colour that is distinct from the others in light and dark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    Orange,
    Blue,
    Green,
    Grey,
    Purple,
}

impl Colour {
    /// All colours, in the order in which lines should take them.
    pub const ALL: [Colour; 5] =
        [Colour::Orange, Colour::Blue, Colour::Green, Colour::Purple, Colour::Grey];

    const fn shades(self) -> [u32; 2] {
        match self {
            Colour::Orange => [0xd9480f, 0xff8a3d],
            Colour::Blue => [0x1971c2, 0x74c0fc],
            Colour::Green => [0x2f9e44, 0x69db7c],
            Colour::Grey => [0x7c8797, 0x7f8896],
            Colour::Purple => [0x9c36b5, 0xda77f2],
        }
    }
}

impl Panel {
    /// A panel of lines on one vertical axis.
    pub fn lines(title: impl Into<String>, x: Axis, left: Axis, lines: Vec<Line>) -> Self {
        Panel::Lines { title: title.into(), x, left, right: None, lines, markers: Vec::new() }
    }
}

impl Axis {
    /// An axis that ends above the largest value.
    pub fn new(label: impl Into<String>) -> Self {
        let (label, format) = (label.into(), TickFormat::Number);
        Axis { label, max: None, step: None, is_log: false, format }
    }

    /// An axis that ends at a value.
    pub fn up_to(label: impl Into<String>, max: f64) -> Self {
        Axis { max: Some(max), ..Axis::new(label) }
    }

    pub fn log(label: impl Into<String>) -> Self {
        Axis { is_log: true, ..Axis::new(label) }
    }

    /// The same axis with another tick format.
    #[must_use]
    pub fn with_format(self, format: TickFormat) -> Self {
        Axis { format, ..self }
    }
}

impl Line {
    /// A line measured on the left axis.
    pub fn left(name: impl Into<String>, colour: Colour, points: Vec<(f64, f64)>) -> Self {
        Line { name: name.into(), colour, side: Side::Left, opacity: 1.0, points }
    }

    /// A line measured on the right axis.
    pub fn right(name: impl Into<String>, colour: Colour, points: Vec<(f64, f64)>) -> Self {
        Line { side: Side::Right, ..Line::left(name, colour, points) }
    }
}

impl Chart {
    /// The chart as an SVG file that needs no other file.
    pub fn svg(&self) -> String {
        self.inline_svg().replacen("<svg", "<svg xmlns=\"http://www.w3.org/2000/svg\"", 1)
    }

    /// The chart in an HTML page. A narrow screen scrolls it sideways, so that its text stays readable.
    pub(crate) fn figure(&self) -> String {
        let class = if self.has_only_bars() { "scroll bars" } else { "scroll chart" };
        format!("<div class=\"{class}\">{}</div>", self.inline_svg())
    }

    /// The chart as an element of an HTML page.
    fn inline_svg(&self) -> String {
        let notes_height = self.notes.len() as i32 * NOTE_HEIGHT;
        let panels_height: i32 = self.panels.iter().map(Panel::height).sum();
        let height = MARGIN / 2 + panels_height + notes_height + MARGIN / 2;
        let width = self.width();
        let mut svg = String::new();
        {
            let size = ((width * PIXELS) as u32, (height * PIXELS) as u32);
            let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
            self.draw(&area).expect("drawing into a string succeeds");
            area.present().expect("drawing into a string succeeds");
        }
        let start = svg.find('>').map_or(0, |end| end + 1);
        format!(
            "<svg width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">\n<style>{}</style>{}",
            width * PIXELS,
            height * PIXELS,
            escape(&self.label),
            dark_style(),
            &svg[start..]
        )
    }

    fn has_only_bars(&self) -> bool {
        self.notes.is_empty() && self.panels.iter().all(|panel| matches!(panel, Panel::Bars { .. }))
    }

    fn width(&self) -> i32 {
        if self.has_only_bars() { BARS_WIDTH } else { WIDTH }
    }

    fn draw(&self, area: &Area<'_>) -> Drawn {
        area.fill(&rgb(PAPER))?;
        let mut top = MARGIN / 2;
        for panel in &self.panels {
            let height = panel.height();
            panel.draw(&part(area, 0, top, self.width(), height))?;
            top += height;
        }
        for note in &self.notes {
            area.draw_text(note, &small(DIM), at(MARGIN, top))?;
            top += NOTE_HEIGHT;
        }
        Ok(())
    }
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn<T = ()> = Result<T, Box<dyn std::error::Error>>;

impl Panel {
    fn height(&self) -> i32 {
        match self {
            Panel::Lines { lines, .. } => {
                let legend = if is_in_legend(lines) { LEGEND_HEIGHT } else { 0 };
                TITLE_HEIGHT + legend + PLOT_HEIGHT + X_LABELS_HEIGHT + PANEL_GAP
            }
            Panel::Bars { bars, .. } => TITLE_HEIGHT + bars.len() as i32 * BAR_HEIGHT + PANEL_GAP,
            Panel::Cells { cells, .. } => TITLE_HEIGHT + cells.height() + PANEL_GAP,
        }
    }

    fn draw(&self, area: &Area<'_>) -> Drawn {
        match self {
            Panel::Lines { title, x, left, right, lines, markers } => {
                area.draw_text(title, &bold(), at(MARGIN, 4))?;
                let mut top = TITLE_HEIGHT;
                if is_in_legend(lines) {
                    draw_legend(area, lines, top)?;
                    top += LEGEND_HEIGHT;
                }
                let plot = part(area, 0, top, WIDTH, PLOT_HEIGHT + X_LABELS_HEIGHT);
                draw_lines(&plot, [x, left], right.as_ref(), lines, markers)
            }
            Panel::Bars { title, decimals, bars } => {
                area.draw_text(title, &bold(), at(MARGIN, 4))?;
                draw_bars(area, *decimals, bars)
            }
            Panel::Cells { title, cells } => cells.draw(area, title),
        }
    }
}

fn is_in_legend(lines: &[Line]) -> bool {
    lines.iter().any(|line| !line.name.is_empty())
}

fn draw_legend(area: &Area<'_>, lines: &[Line], top: i32) -> Drawn {
    let mut x = MARGIN;
    for line in lines.iter().filter(|line| !line.name.is_empty()) {
        let key = [at(x, top + 4), at(x + 14, top + 8)];
        area.draw(&Rectangle::new(key, rgb(line.colour.shades()).filled()))?;
        area.draw_text(&line.name, &small(DIM), at(x + 20, top))?;
        x += 44 + CHARACTER_WIDTH * line.name.chars().count() as i32;
    }
    Ok(())
}

fn draw_lines(
    area: &Area<'_>,
    [x, left]: [&Axis; 2],
    right: Option<&Axis>,
    lines: &[Line],
    markers: &[Marker],
) -> Drawn {
    let on_side = |side| move |line: &&Line| line.side == side;
    let xs = lines.iter().flat_map(|line| line.points.iter().map(|point| point.0));
    let ys = |side| {
        let of_side = lines.iter().filter(on_side(side));
        of_side.flat_map(|line| line.points.iter().map(|point| point.1))
    };
    let (on_x, on_y): (Vec<&Marker>, _) = markers.iter().partition(|marker| marker.is_on_x);
    let x_scale = Scale::new(x, xs.chain(on_x.iter().map(|marker| marker.at)));
    let y_scale = Scale::new(left, ys(Side::Left).chain(on_y.iter().map(|marker| marker.at)));
    let right_scale =
        right.map_or_else(|| y_scale.clone(), |axis| Scale::new(axis, ys(Side::Right)));
    let mut chart = ChartBuilder::on(area)
        .x_label_area_size(X_LABELS_HEIGHT * PIXELS)
        .y_label_area_size(LEFT * PIXELS)
        .right_y_label_area_size(RIGHT * PIXELS)
        .margin_top(8 * PIXELS)
        .margin_left(SIDE_MARGIN * PIXELS)
        .margin_right(SIDE_MARGIN * PIXELS)
        .build_cartesian_2d(x_scale.clone(), y_scale.clone())?
        .set_secondary_coord(x_scale.clone(), right_scale);
    chart
        .configure_mesh()
        .disable_x_mesh()
        .bold_line_style(rgb(GRID).stroke_width(PIXELS as u32))
        .light_line_style(TRANSPARENT)
        .axis_style(rgb(AXIS).stroke_width(PIXELS as u32))
        .label_style(small(DIM))
        .axis_desc_style(small(DIM))
        .set_all_tick_mark_size(4 * PIXELS)
        .x_desc(&x.label)
        .y_desc(&left.label)
        .draw()?;
    if let Some(axis) = right {
        let mut labels = chart.configure_secondary_axes();
        labels.axis_style(rgb(AXIS).stroke_width(PIXELS as u32)).label_style(small(DIM));
        labels.set_all_tick_mark_size(4 * PIXELS);
        labels.axis_desc_style(small(DIM)).y_desc(&axis.label).draw()?;
    }
    for line in lines {
        let width = if line.opacity < 1.0 { 5 } else { 8 };
        let style = rgb(line.colour.shades()).mix(line.opacity).stroke_width(width);
        for points in line.points.split(|point| !point.1.is_finite()) {
            let series = LineSeries::new(thinned(points), style);
            match line.side {
                Side::Left => chart.draw_series(series)?,
                Side::Right => chart.draw_secondary_series(series)?,
            };
        }
    }
    let (x_end, y_end) = (x_scale.end(), y_scale.end());
    for (row, marker) in on_x.iter().filter(|marker| marker.at <= x_end).enumerate() {
        let is_late = marker.at > x_end * 0.6;
        let pos = Pos::new(if is_late { HPos::Right } else { HPos::Left }, VPos::Top);
        let line = vec![(marker.at, 0.0), (marker.at, y_end)];
        let aside = if is_late { -4 } else { 4 };
        draw_marker(&mut chart, marker, line, at(aside, row as i32 * 14), pos)?;
    }
    for marker in &on_y {
        let line = vec![(0.0, marker.at), (x_end, marker.at)];
        draw_marker(&mut chart, marker, line, at(-4, -3), Pos::new(HPos::Right, VPos::Bottom))?;
    }
    Ok(())
}

type LineChart<'a, 'b> = plotters::chart::DualCoordChartContext<'a, SVGBackend<'b>, Plane, Plane>;
type Plane = Cartesian2d<Scale, Scale>;

/// The line of a marker, and its name at the line's end.
fn draw_marker(
    chart: &mut LineChart<'_, '_>,
    marker: &Marker,
    line: Vec<(f64, f64)>,
    aside: (i32, i32),
    pos: Pos,
) -> Drawn {
    let shades = marker.colour.shades();
    let end = line[1];
    chart.draw_series(LineSeries::new(line, rgb(shades).stroke_width(6)))?;
    let name = Text::new(marker.name.clone(), aside, small(shades).pos(pos));
    chart.draw_series([EmptyElement::at(end) + name])?;
    Ok(())
}

fn draw_bars(area: &Area<'_>, decimals: usize, bars: &[Bar]) -> Drawn {
    let longest = bars.iter().map(Bar::end).filter(|value| value.is_finite());
    let longest = longest.fold(f64::MIN_POSITIVE, f64::max);
    let text = |bar: &Bar| bar.text.clone().unwrap_or_else(|| units::number(bar.value, decimals));
    let label = |bar: &Bar| bar.limit.as_ref().map_or(0, |limit| limit.label.chars().count());
    let widest = |of: &dyn Fn(&Bar) -> usize| {
        CHARACTER_WIDTH * bars.iter().map(of).max().unwrap_or(0) as i32 + 20
    };
    let left = MARGIN + widest(&|bar| bar.name.chars().count());
    let after = widest(&|bar| text(bar).chars().count() + label(bar));
    let width = area.dim_in_pixel().0 as i32 / PIXELS;
    let room = f64::from((width - left - after - MARGIN).max(BAR_HEIGHT));
    let x = |value: f64| left + (room * value.max(0.0) / longest) as i32;
    for (row, bar) in bars.iter().enumerate() {
        let top = TITLE_HEIGHT + row as i32 * BAR_HEIGHT;
        let shape = [at(left, top + 3), at(x(bar.value).max(left + 1), top + 17)];
        area.draw_text(&bar.name, &normal(), at(MARGIN, top + 4))?;
        area.draw(&Rectangle::new(shape, rgb(bar.colour.shades()).filled()))?;
        if let Some(range) = bar.range {
            let [from, to] = range.map(x);
            for (from, to, height) in [(from, to, 1), (from - 1, from + 1, 4), (to - 1, to + 1, 4)]
            {
                let shape = [at(from, top + 10 - height), at(to, top + 10 + height)];
                area.draw(&Rectangle::new(shape, rgb(INK).filled()))?;
            }
        }
        let value = text(bar);
        area.draw_text(&value, &normal(), at(x(bar.end()) + 6, top + 4))?;
        if let Some(limit) = &bar.limit {
            let (at_limit, blue) = (x(limit.value), Colour::Blue.shades());
            let shape = [at(at_limit - 1, top), at(at_limit + 1, top + 20)];
            area.draw(&Rectangle::new(shape, rgb(blue).filled()))?;
            let after = x(bar.end()) + 14 + CHARACTER_WIDTH * value.chars().count() as i32;
            area.draw_text(&limit.label, &small(blue), at(after, top + 5))?;
        }
    }
    Ok(())
}

/// Maps values to positions on an axis.
#[derive(Clone)]
struct Scale {
    min: f64,
    max: f64,
    step: f64,
    is_log: bool,
    format: TickFormat,
}

impl Scale {
    fn new(axis: &Axis, values: impl Iterator<Item = f64>) -> Self {
        let values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
        let largest = axis.max.unwrap_or_else(|| values.iter().copied().fold(0.0, f64::max));
        let (is_log, format) = (axis.is_log, axis.format);
        let largest = if largest > 0.0 { largest } else { 1.0 };
        if is_log {
            let above_0 = values.iter().copied().filter(|value| *value > 0.0);
            let (min, max) =
                (above_0.fold(largest, f64::min).log10().floor(), largest.log10().ceil());
            return Scale { min, max: max.max(min + 1.0), step: 1.0, is_log, format };
        }
        let step = axis.step.unwrap_or_else(|| step_of(largest));
        let max = axis.max.unwrap_or_else(|| (largest / step - 1e-6).ceil() * step);
        Scale { min: 0.0, max, step, is_log, format }
    }

    fn end(&self) -> f64 {
        if self.is_log { 10_f64.powf(self.max) } else { self.max }
    }
}

impl Ranged for Scale {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let value = if self.is_log { value.max(f64::MIN_POSITIVE).log10() } else { *value };
        let part = ((value - self.min) / (self.max - self.min)).clamp(0.0, 1.0);
        limit.0 + (f64::from(limit.1 - limit.0) * part).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        let tick = |index: u32| self.min + f64::from(index) * self.step;
        let ticks = (0..1000).map(tick).take_while(|tick| *tick <= self.max + self.step * 1e-6);
        ticks.map(|tick| if self.is_log { 10_f64.powf(tick) } else { tick }).collect()
    }

    fn range(&self) -> std::ops::Range<f64> {
        0.0..self.end()
    }
}

impl ValueFormatter<f64> for Scale {
    fn format_ext(&self, tick: &f64) -> String {
        let tick = *tick;
        match self.format {
            TickFormat::Percent => units::percent(tick, 0),
            TickFormat::Duration if tick == 0.0 => "0".to_owned(),
            TickFormat::Duration => {
                units::duration(std::time::Duration::try_from_secs_f64(tick).unwrap_or_default())
            }
            TickFormat::Number => {
                let size = if self.is_log { tick } else { self.step };
                let is_exact = |decimals: &i32| {
                    let shifted = size * 10_f64.powi(*decimals);
                    (shifted - shifted.round()).abs() < 1e-6
                };
                units::number(tick, (0..6).find(is_exact).unwrap_or(6) as usize)
            }
        }
    }
}

/// A round number of which about five make the largest value.
fn step_of(largest: f64) -> f64 {
    let rough = largest / 5.0;
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().find(|step| step * power >= rough * 0.9999);
    step.unwrap_or(10.0) * power
}

fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let every = points.len().div_ceil(POINTS_MAX).max(1);
    let last = points.len().saturating_sub(1);
    let kept = points.iter().enumerate().filter(|(index, _)| index % every == 0 || *index == last);
    kept.map(|(_, point)| *point).collect()
}

/// A rectangle of an area, in pixels of the picture.
fn part<'a>(area: &Area<'a>, left: i32, top: i32, width: i32, height: i32) -> Area<'a> {
    area.clone().shrink(at(left, top), at(width, height))
}

fn at(x: i32, y: i32) -> (i32, i32) {
    (x * PIXELS, y * PIXELS)
}

fn rgb([light, _]: [u32; 2]) -> RGBColor {
    let [_, red, green, blue] = light.to_be_bytes();
    RGBColor(red, green, blue)
}

/// `plotters` divides a size by 1.24 to get the size of the SVG's font.
fn text(pixels: f64, style: FontStyle, shades: [u32; 2]) -> TextStyle<'static> {
    let size = pixels * f64::from(PIXELS) * 1.24;
    (FONT, size, style).into_font().color(&rgb(shades)).pos(Pos::new(HPos::Left, VPos::Top))
}

fn small(shades: [u32; 2]) -> TextStyle<'static> {
    text(12.0, FontStyle::Normal, shades)
}

fn normal() -> TextStyle<'static> {
    text(13.0, FontStyle::Normal, INK)
}

fn bold() -> TextStyle<'static> {
    text(13.0, FontStyle::Bold, INK)
}

/// The dark shade of every colour, for readers whose setting is dark.
fn dark_style() -> String {
    let mut style = String::from("@media (prefers-color-scheme: dark) {\n");
    let meanings = [INK, DIM, GRID, AXIS, PAPER];
    for [light, dark] in meanings.into_iter().chain(Colour::ALL.map(Colour::shades)) {
        for property in ["fill", "stroke"] {
            writeln!(style, "[{property}=\"#{light:06X}\"] {{ {property}: #{dark:06x} }}")
                .expect("writing to a string cannot fail");
        }
    }
    style + "}"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_round() {
        for (largest, step) in [(1_000_000.0, 200_000.0), (24.0, 5.0), (0.9, 0.2), (5.0, 1.0)] {
            let found = step_of(largest);
            assert!((found - step).abs() < step * 1e-9, "{largest}: {found}");
        }
    }

    #[test]
    fn ticks_have_as_many_decimals_as_needed() {
        for (axis, texts) in [
            (Axis::new(""), ["0.0", "2.5", "5.0"]),
            (Axis::up_to("", 100.0), ["0", "20", "40"]),
            (Axis::up_to("", 1.0).with_format(TickFormat::Percent), ["0 %", "20 %", "40 %"]),
            (Axis::log(""), ["1", "10", "100"]),
            (Axis::new("").with_format(TickFormat::Duration), ["0", "2.50 s", "5.00 s"]),
        ] {
            let scale = Scale::new(&axis, [1.0, 12.0].into_iter());
            let ticks = scale.key_points(10_usize);
            let ticks: Vec<String> = ticks.iter().map(|tick| scale.format_ext(tick)).collect();
            assert_eq!(ticks[..3.min(ticks.len())], texts[..3.min(ticks.len())]);
        }
    }

    #[test]
    fn a_chart_without_points_is_drawn() {
        let lines = vec![Line::left("none", Colour::Orange, Vec::new())];
        let panel = Panel::lines("<&>", Axis::new("s"), Axis::new("sockets"), lines);
        let chart = Chart { label: "a\"b".into(), panels: vec![panel], notes: Vec::new() };
        let svg = chart.svg();
        assert!(svg.contains("&lt;&amp;&gt;") && svg.contains("a&quot;b"), "{svg}");
        assert!(svg.ends_with("</svg>\n") && !svg.contains("NaN"), "{svg}");
    }

    #[test]
    fn a_gap_interrupts_a_line() {
        let points = vec![(0.0, 1.0), (1.0, 2.0), (2.0, f64::NAN), (3.0, 2.0), (4.0, 3.0)];
        let lines = vec![Line::left("", Colour::Blue, points)];
        let panel = Panel::lines("t", Axis::new("s"), Axis::new("n"), lines);
        let chart = Chart { label: "t".into(), panels: vec![panel], notes: Vec::new() };
        let line = format!("stroke=\"#{:06X}\"", Colour::Blue.shades()[0]);
        assert_eq!(chart.svg().matches(&line).count(), 2 + dark_style().matches(&line).count());
    }

    #[test]
    fn a_bar_has_its_range_and_its_text() {
        let rectangles = |range| {
            let bar = Bar { range, text: Some("<2 s>".into()), ..Bar::new("b", Colour::Blue, 2.0) };
            let panel = Panel::Bars { title: "t".into(), decimals: 1, bars: vec![bar] };
            let svg = Chart { panels: vec![panel], ..Chart::default() }.svg();
            assert!(svg.contains("\n&lt;2 s&gt;\n"), "{svg}");
            assert!(svg.contains(&format!("width=\"{BARS_WIDTH}\"")), "narrow enough for a phone");
            svg.matches("<rect").count()
        };
        assert_eq!(rectangles(Some([1.0, 4.0])), rectangles(None) + 3, "a line and its two ends");
    }

    #[test]
    fn every_colour_has_a_dark_shade() {
        let bars = Colour::ALL.map(|colour| {
            let limit = Some(BarLimit { value: 3.0, label: "at most 3".into() });
            Bar { limit, range: Some([1.0, 4.0]), ..Bar::new(format!("{colour:?}"), colour, 2.0) }
        });
        let panel = Panel::Bars { title: "bars".into(), decimals: 1, bars: bars.into() };
        let chart = Chart { label: "bars".into(), panels: vec![panel], notes: vec!["n".into()] };
        let (svg, style) = (chart.svg(), dark_style());
        for part in svg.split(['"', ' ']).filter(|part| part.starts_with('#') && part.len() == 7) {
            assert!(style.contains(part), "{part} has no dark shade");
        }
    }
}
