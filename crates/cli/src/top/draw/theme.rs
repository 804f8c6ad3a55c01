//! The few styles. They use the terminal's own colours, so they suit light and dark ones.

use ratatui::style::{Color, Modifier, Style};

#[derive(Clone, Copy, Debug)]
pub struct Theme {
    pub plain: Style,
    /// Headings, and values that matter.
    pub strong: Style,
    /// The selected row, and the last line when it waits for the user.
    pub selected: Style,
    /// Trouble, and limits that are nearly reached.
    pub bad: Style,
}

impl Theme {
    /// With `NO_COLOR` (<https://no-color.org>), nothing depends on colours.
    pub fn from_environment() -> Self {
        Theme::new(std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()))
    }

    pub fn new(is_coloured: bool) -> Self {
        let strong = Style::new().add_modifier(Modifier::BOLD);
        Theme {
            plain: Style::new(),
            strong,
            selected: Style::new().add_modifier(Modifier::REVERSED),
            bad: if is_coloured { strong.fg(Color::Red) } else { strong },
        }
    }
}
