//! A section of the settings: its struct, its defaults and its rows, from one [`section!`](crate::section!).
//!
//! Each fact about a setting is written once, at its field. The doc comment is the effect: it becomes
//! the comment in `config.example.toml` and the text of `docs/reference/settings.md`. A limit has its
//! unit and the sentence that tells what happens when it is reached: `GET /limits` shows both. The
//! functions in `documents` write the two files.
//!
//! A field with `serde(skip)` is fixed: a bound for which no operator could know a better value. No file,
//! variable or flag sets it, and the documentation of the crate does not list it. It is a field because
//! the tests need small bounds.

use std::any::Any;
use std::fmt::Debug;

use serde::Serialize;
use serde::de::DeserializeOwned;
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

/// A section of the settings file. [`section!`](crate::section!) implements it.
pub trait Section:
    Any + Clone + Debug + Default + DeserializeOwned + PartialEq + Send + Serialize + Sync
{
    /// The name in brackets, such as `limits` or `tls.acme`.
    const NAME: &'static str;
    /// The crate that declares the section.
    const CRATE: &'static str;
    /// The keys whose values are not printed. `keys.key` is the key of each table in a list.
    const SECRETS: &'static [&'static str];

    /// Its rows, in the order of the file, with the values of these settings.
    fn rows(&self) -> Vec<Row>;

    /// The full name of the first setting that is zero and must not be.
    fn zero(&self) -> Option<&'static str>;
}

/// Declares a section: its name, the keys that are secrets, the keys for which zero would mean that no
/// client can be served, and its struct. A field is `name: type = default;`. The field of a limit is
/// `name: type = default, "unit", "What happens when it is reached.";`.
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use watchfire_settings::{Section, section};
///
/// section! {
///     "parcels", secrets ["key"], never_zero [parcels_max];
///     /// Parcels on their way.
///     #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
///     pub struct ParcelSettings {
///         /// The key of the sender.
///         key: String = String::new();
///         /// Parcels of one sender. Further ones are refused.
///         parcels_max: u32 = 7, "parcels", "The parcel is refused.";
///     }
/// }
///
/// let parcels = ParcelSettings { parcels_max: 0, ..ParcelSettings::default() };
/// assert_eq!(parcels.zero(), Some("parcels.parcels_max"));
/// assert_eq!(parcels.rows()[1].limit.as_ref().unwrap().unit, "parcels");
/// ```
#[macro_export]
macro_rules! section {
    (
        $name:literal
            $(, secrets [$($secret:literal),*])?
            $(, never_zero [$($never_zero:ident),*])?;
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

        #[doc(hidden)]
        impl $crate::Section for $Name {
            const NAME: &'static str = $name;
            const CRATE: &'static str = env!("CARGO_PKG_NAME");
            const SECRETS: &'static [&'static str] = &[$($($secret),*)?];

            fn rows(&self) -> Vec<$crate::Row> {
                vec![$( $crate::Row {
                    key: stringify!($field),
                    effect: &[$( $crate::__doc_line!($($attribute)*), )*],
                    is_fixed: $( $crate::__is_skip!($($attribute)*) || )* false,
                    limit: $crate::section::first::<$crate::Limit, _>([$( $crate::Limit {
                        value: self.$field.into(),
                        unit: $unit,
                        when_reached: $when_reached,
                    } )?]),
                } ),*]
            }

            fn zero(&self) -> Option<&'static str> {
                $($(
                    if $crate::Zero::is_zero(&self.$never_zero) {
                        return Some(concat!($name, ".", stringify!($never_zero)));
                    }
                )*)?
                None
            }
        }
    };
}

/// The text of an attribute that is a line of a doc comment; empty for another attribute.
#[doc(hidden)]
#[macro_export]
macro_rules! __doc_line {
    (doc = $line:literal) => {
        $line
    };
    ($($other:tt)*) => {
        ""
    };
}

/// Whether an attribute is `serde(skip)`.
#[doc(hidden)]
#[macro_export]
macro_rules! __is_skip {
    (serde(skip)) => {
        true
    };
    ($($other:tt)*) => {
        false
    };
}

#[doc(hidden)]
pub fn first<T, const N: usize>(all: [T; N]) -> Option<T> {
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
