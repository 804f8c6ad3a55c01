//! Lines over time as SVG, drawn here so that a report needs nothing to be looked at.

use std::fmt::Write as _;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 220.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 28.0;
/// More points than pixels show nothing more.
pub(super) const POINTS_MAX: usize = 360;

/// One chart: lines that share both axes.
pub(super) struct Chart<'a> {
    pub(super) title: &'a str,
    pub(super) lines: Vec<Line>,
    pub(super) seconds_a_point: usize,
    /// How a value is written.
    pub(super) write: fn(f64) -> String,
}

/// One line, with a point for each stretch of time; `None` where nothing was measured.
pub(super) struct Line {
    pub(super) name: String,
    pub(super) points: Vec<Option<f64>>,
}

impl Chart<'_> {
    pub(super) fn svg(&self) -> String {
        let points = self.lines.iter().map(|line| line.points.len()).max().unwrap_or(0).max(1);
        let values = self.lines.iter().flat_map(|line| line.points.iter().flatten());
        let step = nice_step(values.copied().fold(0.0, f64::max));
        let top = values_top(self.lines.iter().flat_map(|line| line.points.iter().flatten()), step);
        let x = |point: f64| LEFT + point / points as f64 * (WIDTH - LEFT - RIGHT);
        let y = |value: f64| HEIGHT - BOTTOM - value / top * (HEIGHT - TOP - BOTTOM);

        let mut svg = format!(
            "<figure><figcaption>{}{}</figcaption><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
             aria-label=\"{}\">",
            escape(self.title),
            self.legend(),
            escape(self.title),
        );
        let mut draw = |text: String| svg.push_str(&text);
        let mut value = 0.0;
        while value <= top * 1.0001 {
            let (at, label) = (y(value), (self.write)(value));
            draw(format!(
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
                WIDTH - RIGHT,
                LEFT - 8.0,
                at + 4.0
            ));
            value += step;
        }
        let seconds = points * self.seconds_a_point;
        let time_step = nice_step(seconds as f64).max(1.0);
        let mut second = 0.0;
        while second <= seconds as f64 {
            let at = x(second / self.seconds_a_point as f64);
            let label = format!("{second} s");
            draw(format!(
                "<text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{label}</text>",
                HEIGHT - 8.0
            ));
            second += time_step;
        }
        for (index, line) in self.lines.iter().enumerate() {
            draw(format!("<path class=\"line c{index}\" d=\"{}\"/>", path(line, x, y)));
        }
        svg.push_str("</svg></figure>");
        svg
    }

    fn legend(&self) -> String {
        let mut legend = String::new();
        for (index, line) in self.lines.iter().enumerate() {
            let name = escape(&line.name);
            write!(legend, "<span><i class=\"c{index}\"></i>{name}</span>").expect("it is a text");
        }
        legend
    }
}

/// A line through the middles of the stretches, broken where nothing was measured.
fn path(line: &Line, x: impl Fn(f64) -> f64, y: impl Fn(f64) -> f64) -> String {
    let mut path = String::new();
    let mut is_drawing = false;
    for (point, value) in line.points.iter().enumerate() {
        let Some(value) = value else {
            is_drawing = false;
            continue;
        };
        let command = if is_drawing { 'L' } else { 'M' };
        let (x, y) = (x(point as f64 + 0.5), y(*value));
        write!(path, "{command}{x:.1} {y:.1}").expect("it is a text");
        // A single point between gaps is still to be seen.
        if !is_drawing {
            write!(path, "h.1").expect("it is a text");
        }
        is_drawing = true;
    }
    path
}

/// 1, 2 or 5 times a power of ten, so that about five of them reach the top.
fn nice_step(top: f64) -> f64 {
    if top <= 0.0 {
        return 1.0;
    }
    let rough = top / 5.0;
    let power = 10_f64.powf(rough.log10().floor());
    let factor = [1.0, 2.0, 5.0, 10.0].into_iter().find(|factor| rough <= factor * power * 1.0001);
    factor.unwrap_or(10.0) * power
}

fn values_top<'a>(values: impl Iterator<Item = &'a f64>, step: f64) -> f64 {
    let top = values.copied().fold(0.0, f64::max);
    ((top / step).ceil() * step).max(step)
}

/// As it can stand in HTML.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_round_numbers() {
        let steps = [0.0, 0.7, 5.0, 19_936.0, 3.0].map(nice_step);
        assert_eq!(
            steps.map(|step| format!("{step:.3}")),
            ["1.000", "0.200", "1.000", "5000.000", "1.000"]
        );
    }

    #[test]
    fn gaps_break_a_line_and_nothing_draws_nothing() {
        let line = |points: &[Option<f64>]| Line { name: "a<b".into(), points: points.into() };
        let chart = Chart {
            title: "t",
            lines: vec![line(&[Some(1.0), None, Some(2.0), Some(3.0)]), line(&[])],
            seconds_a_point: 1,
            write: |value| value.to_string(),
        };
        let svg = chart.svg();
        assert_eq!(svg.matches('M').count(), 2, "{svg}");
        assert!(svg.contains("a&lt;b") && !svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }
}
