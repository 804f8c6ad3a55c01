//! The first screen: trouble, limits, and charts of the last minutes.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::widgets::{Sparkline, Widget as _};
use watchfire_operator::answers::{LimitUse, State};

use super::Theme;
use super::rows::{put, put_right};
use crate::operator::amount;
use crate::top::charts::{CHARTS, ON_HOME};
use crate::top::session::Session;
use crate::top::text::{figure, span_between};

/// Charts beside each other.
const CHART_COLUMNS: u16 = 2;
const CHART_ROWS: u16 = (ON_HOME as u16).div_ceil(CHART_COLUMNS);
/// Columns of the title and the value of a chart that has one row.
const CHART_TEXT: u16 = 22;
const STEPS: f64 = 1_000.0;
/// The used share of a limit from which it is shown as bad.
const NEARLY_REACHED: f64 = 0.9;
/// Columns of the name of a limit, and of its numbers.
const LIMIT_NAME: u16 = 24;
const LIMIT_NUMBERS: u16 = 24;

pub fn draw(buffer: &mut Buffer, area: Rect, session: &Session, theme: &Theme) {
    let Some(state) = &session.state else {
        return put(buffer, area, 1, 0, "Waiting for the server…", theme.plain);
    };
    let limit_rows = state.limits.len() as u16;
    let trouble_room = area.height.saturating_sub(CHART_ROWS + limit_rows.min(4)).max(2);
    let trouble_rows = draw_troubles(buffer, Rect { height: trouble_room, ..area }, state, theme);
    let rest = below(area, trouble_rows);
    let limit_rows = limit_rows.min(rest.height.saturating_sub(CHART_ROWS));
    for (row, limit) in state.limits.iter().take(limit_rows.into()).enumerate() {
        draw_limit(buffer, Rect { y: rest.y + row as u16, height: 1, ..rest }, limit, theme);
    }
    draw_charts(buffer, below(rest, limit_rows), session, theme);
}

/// The part of an area below some of its rows.
fn below(area: Rect, rows: u16) -> Rect {
    let rows = rows.min(area.height);
    Rect { y: area.y + rows, height: area.height - rows, ..area }
}

/// Draws the troubles for which there is room. Returns the number of rows.
fn draw_troubles(buffer: &mut Buffer, area: Rect, state: &State, theme: &Theme) -> u16 {
    if state.troubles.is_empty() {
        put(buffer, area, 0, 0, "No trouble.", theme.strong);
        return 1;
    }
    let all = state.troubles.len();
    let fits = |count: usize| count * 2 + usize::from(count < all) <= area.height.into();
    let shown = (1..=all).rev().find(|count| fits(*count)).unwrap_or(1);
    let mut row = 0;
    for trouble in &state.troubles[..shown] {
        let since = span_between(trouble.since_ms, state.now_ms);
        put(buffer, area, row, 0, &format!("! {}, for {since}", trouble.summary), theme.bad);
        put(buffer, area, row + 1, 2, &trouble.fix, theme.plain);
        row += 2;
    }
    if shown < all && row < area.height {
        put(buffer, area, row, 0, &format!("! and {} more", all - shown), theme.bad);
        row += 1;
    }
    row.min(area.height)
}

fn draw_limit(buffer: &mut Buffer, area: Rect, limit: &LimitUse, theme: &Theme) {
    let used = amount(limit, limit.used);
    let numbers = match limit.unit.as_str() {
        "share" => used,
        _ => format!("{used} of {}", amount(limit, limit.max)),
    };
    let is_bad = limit.share() >= NEARLY_REACHED;
    let style = if is_bad { theme.bad } else { theme.plain };
    let mark = if is_bad { "! " } else { "" };
    let name = Rect { width: LIMIT_NAME - 1, ..area };
    put(buffer, name, 0, 0, &format!("{mark}{}", limit.name), style);
    let bar_columns = area.width.saturating_sub(LIMIT_NAME + LIMIT_NUMBERS + 6);
    let full = (limit.share() * f64::from(bar_columns)).round() as u16;
    let bar = "━".repeat(full.into()) + &"─".repeat((bar_columns - full).into());
    put(buffer, area, 0, LIMIT_NAME, &bar, style);
    let after = area.width - LIMIT_NUMBERS - 5;
    let right = Rect { x: area.x + after, width: LIMIT_NUMBERS + 5, ..area };
    put(buffer, right, 0, 0, &format!("{:>3.0}%", limit.share() * 100.0), style);
    put_right(buffer, right, 0, &numbers, style);
}

fn draw_charts(buffer: &mut Buffer, area: Rect, session: &Session, theme: &Theme) {
    // A chart of two rows has a title row and no empty row below.
    let height = (area.height / CHART_ROWS).min(8);
    let width = area.width / CHART_COLUMNS;
    if height == 0 {
        return;
    }
    for (index, chart) in CHARTS.iter().take(ON_HOME).enumerate() {
        let (row, column) = (index as u16 / CHART_COLUMNS, index as u16 % CHART_COLUMNS);
        let cell = Rect {
            x: area.x + column * width,
            y: area.y + row * height,
            width: width - 2,
            height: if height > 3 { height - 1 } else { height },
        };
        put(buffer, cell, 0, 0, chart.title, theme.strong);
        let value = figure(session.charts.latest(index), chart.unit);
        let plot = match height {
            1 => {
                let text = Rect { width: CHART_TEXT.min(cell.width), ..cell };
                put_right(buffer, text, 0, &value, theme.plain);
                let columns = (CHART_TEXT + 1).min(cell.width);
                Rect { x: cell.x + columns, width: cell.width - columns, ..cell }
            }
            _ => {
                put_right(buffer, cell, 0, &value, theme.plain);
                below(cell, 1)
            }
        };
        let points = session.charts.points(index, plot.width.into());
        let max = points.iter().copied().flatten().reduce(f64::max);
        let top = max.unwrap_or_default().max(chart.top_min);
        let heights = points.iter().map(|point| {
            point.map(|value| if top > 0.0 { (value / top * STEPS).max(0.0) as u64 } else { 0 })
        });
        let heights: Vec<Option<u64>> = heights.collect();
        if height > 1 && max.is_some() {
            // The largest value, when there is room in the title row.
            let text = format!("max {}", figure(max, chart.unit));
            let column = chart.title.len() as u16 + 2;
            if column + text.chars().count() as u16 + value.chars().count() as u16 + 2 <= cell.width
            {
                put(buffer, cell, 0, column, &text, theme.plain);
            }
        }
        Sparkline::default()
            .data(heights)
            .max(STEPS as u64)
            .absent_value_symbol(" ")
            .style(theme.plain)
            .render(plot, buffer);
    }
}
