//! An element of the document, and errors about it.

use std::fmt;
use std::time::Duration;

use roxmltree::Node;

use super::Result;
use super::included::Lines;
use crate::scenario::ScenarioError;

/// An element with its file, for errors.
pub(super) struct Element<'a, 'd> {
    pub(super) node: Node<'a, 'd>,
    pub(super) file: &'a Lines,
}

impl<'a, 'd> Element<'a, 'd> {
    pub(super) fn name(&self) -> &'a str {
        self.node.tag_name().name()
    }

    pub(super) fn error(&self, problem: impl fmt::Display) -> ScenarioError {
        self.error_at(&format!("<{}>", self.name()), problem)
    }

    pub(super) fn attribute_error(
        &self,
        attribute: &str,
        problem: impl fmt::Display,
    ) -> ScenarioError {
        self.error_at(&format!("<{} {attribute}>", self.name()), problem)
    }

    pub(super) fn error_at(&self, key: &str, problem: impl fmt::Display) -> ScenarioError {
        let position = self.node.document().text_pos_at(self.node.range().start);
        let (file, line) = self.file.find(position.row as usize);
        ScenarioError::new(file, line, key, problem)
    }

    /// Fails if there is another attribute.
    pub(super) fn attributes(&self, known: &[&str]) -> Result<()> {
        match self.node.attributes().find(|attribute| !known.contains(&attribute.name())) {
            Some(attribute) => {
                Err(self.attribute_error(attribute.name(), "this attribute is not supported"))
            }
            None => Ok(()),
        }
    }

    pub(super) fn children(&self, known: &[&str]) -> Result<()> {
        match self.elements().find(|child| !known.contains(&child.name())) {
            Some(child) => Err(child.error("this element is not supported here")),
            None => Ok(()),
        }
    }

    pub(super) fn elements(&self) -> impl Iterator<Item = Element<'a, 'd>> + use<'a, 'd> {
        let file = self.file;
        let elements = self.node.children().filter(Node::is_element);
        elements.map(move |node| Element { node, file })
    }

    pub(super) fn child(&self, name: &str) -> Result<Option<Element<'a, 'd>>> {
        let mut found = self.elements().filter(|child| child.name() == name);
        let first = found.next();
        match found.next() {
            Some(second) => Err(second.error("only one is allowed")),
            None => Ok(first),
        }
    }

    pub(super) fn needed_child(&self, name: &str) -> Result<Element<'a, 'd>> {
        self.child(name)?.ok_or_else(|| self.error(format!("needs a <{name}>")))
    }

    pub(super) fn attribute(&self, name: &str) -> Option<&'a str> {
        self.node.attribute(name)
    }

    pub(super) fn needed(&self, name: &str) -> Result<&'a str> {
        self.attribute(name).ok_or_else(|| self.attribute_error(name, "is needed"))
    }

    /// One of several values; the first if the attribute is absent.
    pub(super) fn one_of(&self, name: &str, known: &[&'static str]) -> Result<&'static str> {
        let Some(value) = self.attribute(name) else { return Ok(known[0]) };
        let found = known.iter().find(|known| **known == value).copied();
        found.ok_or_else(|| {
            self.attribute_error(name, format!("{value:?} is not one of {}", known.join(", ")))
        })
    }

    pub(super) fn number(&self, name: &str) -> Result<Option<f64>> {
        let Some(value) = self.attribute(name) else { return Ok(None) };
        match value.parse::<f64>() {
            Ok(number) if (0.0..=1e15).contains(&number) => Ok(Some(number)),
            _ => Err(self
                .attribute_error(name, format!("invalid number {value:?}; it must be at least 0"))),
        }
    }

    pub(super) fn whole(&self, name: &str) -> Result<Option<u64>> {
        let Some(value) = self.attribute(name) else { return Ok(None) };
        let number = value.parse();
        number.map(Some).map_err(|_| {
            self.attribute_error(
                name,
                format!("invalid whole number {value:?}; it must be at least 0"),
            )
        })
    }

    pub(super) fn seconds(&self, name: &str, unit: f64) -> Result<Option<Duration>> {
        let Some(number) = self.number(name)? else { return Ok(None) };
        let time = Duration::try_from_secs_f64(number * unit);
        match time {
            Ok(time) if time <= Duration::from_secs(366 * 24 * 3600) => Ok(Some(time)),
            _ => Err(self.attribute_error(name, "must be at most a year")),
        }
    }

    /// The duration of `unit="…"` in seconds.
    pub(super) fn unit(&self) -> Result<f64> {
        Ok(match self.one_of("unit", &["second", "minute", "hour", "day", "millisecond"])? {
            "minute" => 60.0,
            "hour" => 3600.0,
            "day" => 86_400.0,
            "millisecond" => 0.001,
            _ => 1.0,
        })
    }
}
