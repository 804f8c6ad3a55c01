//! Text from clients, on a terminal: it cannot move the cursor, change colours or hide itself.

/// Characters that have no shape of their own, or change the shape of others: joiners, variation selectors,
/// marks of direction, separators of lines. These are Unicode's default-ignorable characters, the
/// separators U+2028 and U+2029, and the annotations.
const INVISIBLE: &[(char, char)] = &[
    ('\u{ad}', '\u{ad}'),
    ('\u{34f}', '\u{34f}'),
    ('\u{61c}', '\u{61c}'),
    ('\u{115f}', '\u{1160}'),
    ('\u{17b4}', '\u{17b5}'),
    ('\u{180b}', '\u{180f}'),
    ('\u{200b}', '\u{200f}'),
    ('\u{2028}', '\u{202e}'),
    ('\u{2060}', '\u{206f}'),
    ('\u{3164}', '\u{3164}'),
    ('\u{fe00}', '\u{fe0f}'),
    ('\u{feff}', '\u{feff}'),
    ('\u{ffa0}', '\u{ffa0}'),
    ('\u{fff0}', '\u{fffb}'),
    ('\u{1bca0}', '\u{1bca3}'),
    ('\u{1d173}', '\u{1d17a}'),
    ('\u{e0000}', '\u{e0fff}'),
];

/// The character as it can be shown: a control character as its picture, an invisible one as U+FFFD.
pub fn visible_char(char: char) -> char {
    match char {
        '\0'..='\x1f' => char::from_u32(0x2400 + u32::from(char)).unwrap_or('\u{fffd}'),
        '\x7f' => '\u{2421}',
        '\u{80}'..='\u{9f}' => '\u{fffd}',
        _ if INVISIBLE.iter().any(|(from, to)| (*from..=*to).contains(&char)) => '\u{fffd}',
        _ => char,
    }
}

/// The text with only visible characters.
pub fn visible(text: &str) -> String {
    text.chars().map(visible_char).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controls_become_pictures_and_invisible_characters_are_replaced() {
        assert_eq!(visible("a\x1b[2J\r\n\0\x7f"), "a␛[2J␍␊␀␡");
        assert_eq!(visible("\u{9b}31m\u{85}"), "\u{fffd}31m\u{fffd}");
        assert_eq!(
            visible("a\u{202e}b\u{2066}c\u{200b}d\u{feff}"),
            "a\u{fffd}b\u{fffd}c\u{fffd}d\u{fffd}"
        );
        assert_eq!(visible("👩\u{200d}👩\u{fe0f}\u{e0041}"), "👩\u{fffd}👩\u{fffd}\u{fffd}");
        assert_eq!(visible("Zoë 日本 שלום <b>"), "Zoë 日本 שלום <b>");
    }
}
