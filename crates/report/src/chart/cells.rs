//! A table as a panel: each cell has a colour and a few short lines of text, so that a reader sees the pattern before the figures.

use plotters::prelude::*;

use super::{
    Area, Colour, DIM, Drawn, GRID, MARGIN, TITLE_HEIGHT, WIDTH, at, bold, normal, rgb, small,
};

const NAMES_WIDTH: i32 = 130;
const HEADS_HEIGHT: i32 = 34;
const ROW_HEIGHT: i32 = 38;
const LINE_HEIGHT: i32 = 15;
/// Cells are pale, so that their text is legible in light and dark.
const OPACITY: f64 = 0.25;

/// A cell of a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cell {
    /// Lines, from top to bottom.
    pub lines: Vec<String>,
    /// The background. `None`: the colour of grid lines.
    pub colour: Option<Colour>,
}

/// A table: names of columns, and rows of cells with their names.
#[derive(Clone, Debug, Default)]
pub struct Cells {
    /// A `-` in a name is a place to break the line.
    pub columns: Vec<String>,
    pub rows: Vec<(String, Vec<Cell>)>,
}

impl Cells {
    pub(super) fn height(&self) -> i32 {
        HEADS_HEIGHT + self.rows.len() as i32 * ROW_HEIGHT
    }

    pub(super) fn draw(&self, area: &Area<'_>, title: &str) -> Drawn {
        area.draw_text(title, &bold(), at(MARGIN, 4))?;
        let left = MARGIN + NAMES_WIDTH;
        let width = (WIDTH - left - MARGIN) / (self.columns.len() as i32).max(1);
        for (column, name) in self.columns.iter().enumerate() {
            let x = left + column as i32 * width + 5;
            for (line, part) in wrapped(name).iter().enumerate() {
                area.draw_text(part, &small(DIM), at(x, TITLE_HEIGHT + line as i32 * LINE_HEIGHT))?;
            }
        }
        for (row, (name, cells)) in self.rows.iter().enumerate() {
            let top = TITLE_HEIGHT + HEADS_HEIGHT + row as i32 * ROW_HEIGHT;
            area.draw_text(name, &normal(), at(MARGIN, top + 10))?;
            for (column, cell) in cells.iter().enumerate() {
                let x = left + column as i32 * width;
                let shape = [at(x, top), at(x + width - 2, top + ROW_HEIGHT - 2)];
                let fill = match cell.colour {
                    Some(colour) => rgb(colour.shades()).mix(OPACITY),
                    None => rgb(GRID).mix(1.0),
                };
                area.draw(&Rectangle::new(shape, fill.filled()))?;
                for (line, text) in cell.lines.iter().enumerate() {
                    let place = at(x + 5, top + 4 + line as i32 * LINE_HEIGHT);
                    area.draw_text(text, &normal(), place)?;
                }
            }
        }
        Ok(())
    }
}

/// A name in one or two lines.
fn wrapped(name: &str) -> Vec<&str> {
    match name.find('-') {
        Some(at) => vec![&name[..=at], &name[at + 1..]],
        None => vec![name],
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Chart, Panel};
    use super::*;

    #[test]
    fn each_cell_is_drawn_with_its_colour_and_lines() {
        let cell = |text: &str, colour| Cell { lines: vec![text.into(), "1.4 s".into()], colour };
        let cells = Cells {
            columns: vec!["open".into(), "port-restricted".into()],
            rows: vec![(
                "symmetric".into(),
                vec![cell("direct", Some(Colour::Green)), cell("<none>", None)],
            )],
        };
        let panel = Panel::Cells { title: "paths".into(), cells };
        let svg = Chart { label: "t".into(), panels: vec![panel], notes: Vec::new() }.svg();
        for text in ["paths", "port-", "restricted", "symmetric", "direct", "1.4 s", "&lt;none&gt;"]
        {
            assert!(svg.contains(&format!("\n{text}\n")), "{text}: {svg}");
        }
        let [light, _] = Colour::Green.shades();
        assert!(svg.contains(&format!("opacity=\"{OPACITY}\" fill=\"#{light:06X}\"")), "{svg}");
    }
}
