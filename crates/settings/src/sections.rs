//! The sections of a program: their types, and one value of each type.

use std::any::Any;
use std::fmt::Debug;

use serde_json::{Map, Value};
#[cfg(feature = "settings-file")]
use toml::Table;

use crate::section::{Row, Section};

/// A section of any type.
trait AnySection: Any + Debug + Send + Sync {
    fn boxed(&self) -> Box<dyn AnySection>;
    fn equals(&self, other: &dyn Any) -> bool;
    fn to_json(&self) -> serde_json::Result<Value>;
    fn section_type(&self) -> SectionType;
    fn zero(&self) -> Option<&'static str>;
}

impl<S: Section> AnySection for S {
    fn boxed(&self) -> Box<dyn AnySection> {
        Box::new(self.clone())
    }

    fn equals(&self, other: &dyn Any) -> bool {
        other.downcast_ref::<S>() == Some(self)
    }

    fn to_json(&self) -> serde_json::Result<Value> {
        serde_json::to_value(self)
    }

    fn section_type(&self) -> SectionType {
        SectionType::of::<S>()
    }

    fn zero(&self) -> Option<&'static str> {
        Section::zero(self)
    }
}

/// The type of a section. Types of several crates may have one name: the section of the file has the keys
/// of all of them, and each type reads its own.
#[derive(Clone, Copy, Debug)]
pub struct SectionType {
    pub(crate) name: &'static str,
    crate_name: &'static str,
    #[cfg_attr(not(feature = "settings-file"), expect(dead_code, reason = "files are printed"))]
    pub(crate) secrets: &'static [&'static str],
    #[cfg_attr(not(feature = "settings-file"), expect(dead_code, reason = "documents have rows"))]
    pub(crate) rows: fn() -> Vec<Row>,
    from_json: fn(Value) -> serde_json::Result<Box<dyn AnySection>>,
    #[cfg(feature = "settings-file")]
    pub(crate) defaults: fn() -> Table,
    #[cfg(feature = "settings-file")]
    from_toml: fn(Table) -> Result<Box<dyn AnySection>, toml::de::Error>,
}

impl SectionType {
    /// The type of one section.
    pub fn of<S: Section>() -> Self {
        SectionType {
            name: S::NAME,
            crate_name: S::CRATE,
            secrets: S::SECRETS,
            rows: || S::default().rows(),
            from_json: |value| Ok(Box::new(serde_json::from_value::<S>(value)?)),
            #[cfg(feature = "settings-file")]
            defaults: || Table::try_from(S::default()).expect("a section has a TOML form"),
            #[cfg(feature = "settings-file")]
            from_toml: |table| Ok(Box::new(table.try_into::<S>()?)),
        }
    }

    /// Whether a key of the file, such as `limits.pages_max`, is of this type or of a section in it.
    #[cfg(feature = "settings-file")]
    pub(crate) fn owns(&self, key: &str) -> bool {
        let inner = key.strip_prefix(self.name).and_then(|rest| rest.strip_prefix('.'));
        let name = inner.map(|inner| inner.split_once('.').map_or(inner, |(name, _)| name));
        name.is_some_and(|name| (self.rows)().iter().any(|row| row.key == name))
    }

    /// The name by which processes of a server send the section to each other.
    fn id(&self) -> String {
        format!("{}/{}", self.crate_name, self.name)
    }

    /// The name in brackets.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The crate that declares the section.
    pub fn crate_name(&self) -> &'static str {
        self.crate_name
    }
}

impl PartialEq for SectionType {
    fn eq(&self, other: &Self) -> bool {
        (self.name, self.crate_name) == (other.name, other.crate_name)
    }
}

/// At most one section of each type.
#[derive(Debug, Default)]
pub struct Sections(Vec<Box<dyn AnySection>>);

impl Sections {
    /// The section of this type. `None`: it was not set.
    pub fn get<S: Section>(&self) -> Option<&S> {
        self.0.iter().find_map(|section| (&**section as &dyn Any).downcast_ref())
    }

    /// The section of this type, to change it. It is set to its default if it was not set.
    pub fn get_mut<S: Section>(&mut self) -> &mut S {
        let at = self.position::<S>().unwrap_or_else(|| {
            self.0.push(Box::new(S::default()));
            self.0.len() - 1
        });
        (&mut *self.0[at] as &mut dyn Any).downcast_mut().expect("the section has this type")
    }

    /// Takes the section of this type out. It is the default if it was not set.
    pub fn take<S: Section>(&mut self) -> S {
        let section: Option<Box<dyn Any>> = self.position::<S>().map(|at| self.0.remove(at) as _);
        section.map_or_else(S::default, |section| *section.downcast().expect("it has this type"))
    }

    fn position<S: Section>(&self) -> Option<usize> {
        self.0.iter().position(|section| (&**section as &dyn Any).is::<S>())
    }

    /// The types of the sections that were set.
    pub fn types(&self) -> impl Iterator<Item = SectionType> {
        self.0.iter().map(|section| section.section_type())
    }

    /// The full name of the first setting that is zero and must not be.
    pub fn zero(&self) -> Option<&'static str> {
        self.0.iter().find_map(|section| section.zero())
    }

    /// The sections for another process of the program.
    pub fn to_json(&self) -> serde_json::Result<Map<String, Value>> {
        let sections = self.0.iter();
        sections.map(|section| Ok((section.section_type().id(), section.to_json()?))).collect()
    }

    /// The sections that another process of the program sent. Sections without a type are left out.
    pub fn from_json(
        mut sections: Map<String, Value>,
        types: &[SectionType],
    ) -> serde_json::Result<Self> {
        let sent = types.iter().filter_map(|of| Some((of, sections.remove(&of.id())?)));
        sent.map(|(of, value)| (of.from_json)(value)).collect::<Result<_, _>>().map(Sections)
    }

    /// Adds the section of this type that a table has.
    #[cfg(feature = "settings-file")]
    pub(crate) fn read(&mut self, of: SectionType, table: Table) -> Result<(), toml::de::Error> {
        self.0.push((of.from_toml)(table)?);
        Ok(())
    }
}

impl Clone for Sections {
    fn clone(&self) -> Self {
        Sections(self.0.iter().map(|section| section.boxed()).collect())
    }
}

impl PartialEq for Sections {
    fn eq(&self, other: &Self) -> bool {
        let has = |section: &dyn AnySection| other.0.iter().any(|one| section.equals(&**one));
        self.0.len() == other.0.len() && self.0.iter().all(|section| has(&**section))
    }
}

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};

    use super::*;

    crate::section! {
        "post";
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        pub struct Post {
            /// The office.
            office: String = "here".into();
        }
    }

    crate::section! {
        "parcels";
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        pub struct Parcels {
            /// How many.
            count: u32 = 7;
        }
    }

    #[test]
    fn a_section_has_its_default_until_it_is_set() {
        let mut sections = Sections::default();
        assert_eq!(sections.get::<Post>(), None);
        sections.get_mut::<Post>().office += "after";
        assert_eq!(sections.get::<Post>().unwrap().office, "hereafter");
        assert_eq!(sections.types().map(|of| of.name()).collect::<Vec<_>>(), ["post"]);
        assert_eq!(sections.take::<Post>().office, "hereafter");
        assert_eq!(
            (sections.take::<Post>(), sections.take()),
            (Post::default(), Parcels::default())
        );
    }

    #[test]
    fn another_process_receives_the_sections_that_it_knows() {
        let mut sections = Sections::default();
        sections.get_mut::<Post>().office = "there".into();
        let known = [SectionType::of::<Parcels>(), SectionType::of::<Post>()];
        assert_eq!(Sections::from_json(sections.to_json().unwrap(), &known).unwrap(), sections);
        sections.get_mut::<Parcels>().count = 9;
        let both = sections.to_json().unwrap();
        assert_eq!(Sections::from_json(both.clone(), &known).unwrap(), sections);
        let one = Sections::from_json(both, &known[..1]).unwrap();
        assert_eq!((one.get::<Post>(), one.get()), (None, Some(&Parcels { count: 9 })));
    }
}
