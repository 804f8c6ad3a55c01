//! Lines on a terminal that are drawn again in place.

use std::io::{self, Write};

/// Columns of a terminal whose width is unknown.
const COLUMNS: usize = 80;
/// Rows of a terminal whose height is unknown.
const ROWS: usize = 24;

/// Lines at the bottom of a terminal.
#[derive(Debug, Default)]
pub struct LiveLines {
    drawn: usize,
}

impl LiveLines {
    /// Draws the lines over those that were drawn before. Lines that do not fit are cut, and lines
    /// below the last row are left out.
    pub fn draw(&mut self, lines: &[String], out: &mut impl Write) -> io::Result<()> {
        let (columns, rows) = size_of_terminal();
        self.draw_in(lines, columns, rows, out)
    }

    fn draw_in(
        &mut self,
        lines: &[String],
        columns: usize,
        rows: usize,
        out: &mut impl Write,
    ) -> io::Result<()> {
        self.move_up(out)?;
        // The cursor is below the last line.
        let shown = lines.len().min(rows.saturating_sub(1));
        for line in &lines[..shown] {
            let cut: String = line.chars().take(columns.saturating_sub(1)).collect();
            writeln!(out, "\x1b[2K{cut}")?;
        }
        self.drawn = shown;
        write!(out, "\x1b[J")?;
        out.flush()
    }

    /// Removes the lines, so that something else can be printed.
    pub fn clear(&mut self, out: &mut impl Write) -> io::Result<()> {
        self.move_up(out)?;
        self.drawn = 0;
        write!(out, "\x1b[J")?;
        out.flush()
    }

    fn move_up(&self, out: &mut impl Write) -> io::Result<()> {
        match self.drawn {
            0 => write!(out, "\r"),
            drawn => write!(out, "\r\x1b[{drawn}A"),
        }
    }
}

/// Rows of the terminal.
#[cfg(feature = "lab")]
pub fn rows_of_terminal() -> usize {
    size_of_terminal().1
}

fn size_of_terminal() -> (usize, usize) {
    let of_output = rustix::termios::tcgetwinsize(io::stdout());
    // The output may be a file while the lines are on the terminal of the errors.
    match of_output.or_else(|_| rustix::termios::tcgetwinsize(io::stderr())) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col.into(), size.ws_row.into()),
        _ => (COLUMNS, ROWS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_drawn_over_those_before() {
        let mut live = LiveLines::default();
        let mut draw = |lines: &[&str]| {
            let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
            let mut out = Vec::new();
            live.draw_in(&lines, 6, 3, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(draw(&["a", "━━━━━━━━"]), "\r\x1b[2Ka\n\x1b[2K━━━━━\n\x1b[J");
        assert_eq!(draw(&["1", "2", "3"]), "\r\x1b[2A\x1b[2K1\n\x1b[2K2\n\x1b[J");
        assert_eq!(draw(&[]), "\r\x1b[2A\x1b[J");
    }
}
