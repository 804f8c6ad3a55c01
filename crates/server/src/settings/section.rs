//! The table of settings: each section is one [`section!`], which is its struct, its defaults and its
//! rows.
//!
//! Each fact about a setting is written once, at its field. The doc comment is the effect: it becomes
//! the comment in `config.example.toml` and the text of `docs/reference/settings.md`. A limit has its
//! unit and the sentence that tells what happens when it is reached: `GET /limits` shows both. The
//! tests in `generated` write the two files.
//!
//! A field with `serde(skip)` is fixed: a bound for which no operator could know a better value. No file,
//! variable or flag sets it, and the documentation of the crate does not list it. It is a field because
//! the tests need small bounds.

use serde_json::{Value, json};

/// A setting or a fixed bound.
pub struct Row {
    pub key: &'static str,
    /// The lines of the doc comment.
    pub effect: &'static [&'static str],
    pub is_fixed: bool,
    /// `None`: `GET /limits` does not show it.
    pub limit: Option<Limit>,
}

/// A limit as `GET /limits` shows it.
pub struct Limit {
    pub value: u64,
    pub unit: &'static str,
    pub when_reached: &'static str,
}

/// A section of the settings file.
pub trait Section {
    /// Its rows, in the order of the file, with the values of these settings.
    fn rows(&self) -> Vec<Row>;
}

/// Declares a section. A field is `name: type = default;`. The field of a
/// limit is `name: type = default, "unit", "What happens when it is reached.";`.
macro_rules! section {
    (
        $(#[$($about:tt)*])*
        pub struct $Name:ident {
            $( $(#[$($attribute:tt)*])* $field:ident: $type:ty = $default:expr
                $(, $unit:literal, $when_reached:literal)?; )*
        }
    ) => {
        $(#[$($about)*])*
        #[serde(default, deny_unknown_fields)]
        pub struct $Name {
            $( $(#[$($attribute)*])* pub $field: $type, )*
        }

        impl Default for $Name {
            fn default() -> Self {
                $Name { $( $field: $default, )* }
            }
        }

        impl crate::settings::section::Section for $Name {
            fn rows(&self) -> Vec<crate::settings::section::Row> {
                use crate::settings::section::{Limit, Row, doc_line, first, is_skip};

                vec![$( Row {
                    key: stringify!($field),
                    effect: &[$( doc_line!($($attribute)*), )*],
                    is_fixed: $( is_skip!($($attribute)*) || )* false,
                    limit: first::<Limit, _>([$( Limit {
                        value: self.$field.into(),
                        unit: $unit,
                        when_reached: $when_reached,
                    } )?]),
                } ),*]
            }
        }
    };
}

/// The text of an attribute that is a line of a doc comment; empty for another attribute.
macro_rules! doc_line {
    (doc = $line:literal) => {
        $line
    };
    ($($other:tt)*) => {
        ""
    };
}

/// Whether an attribute is `serde(skip)`.
macro_rules! is_skip {
    (serde(skip)) => {
        true
    };
    ($($other:tt)*) => {
        false
    };
}

pub(crate) use {doc_line, is_skip, section};

pub(crate) fn first<T, const N: usize>(all: [T; N]) -> Option<T> {
    all.into_iter().next()
}

/// The limits of a section, each with its value, its unit and what happens when it is reached.
pub fn section_limits(section: &impl Section) -> Value {
    let limits = section.rows().into_iter().filter_map(|row| {
        let Limit { value, unit, when_reached } = row.limit?;
        let limit = json!({ "value": value, "unit": unit, "when_reached": when_reached });
        Some((row.key.to_owned(), limit))
    });
    Value::Object(limits.collect())
}
