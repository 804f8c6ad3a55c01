//! The objects of a scenario, and the nodes that have or fetch them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;
use toml::Spanned;
use watchfire_report::scenario::SourceText;
use watchfire_report::units::BytesText;

use super::values::{NAME_PROBLEM, is_name, unknown};
use crate::definition::image::ImageFile;
use crate::definition::{DefinitionError, Object, Query};

/// Most bytes of an object that is made here.
const RANDOM_BYTES_MAX: u64 = 1 << 40;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ObjectFile {
    random: Option<BytesText>,
    path: Option<PathBuf>,
    /// The path of a layout, or an [`ImageFile`].
    image: Option<toml::Value>,
}

pub(super) fn check_objects(
    files: BTreeMap<String, Spanned<ObjectFile>>,
    source: &SourceText<'_>,
) -> Result<BTreeMap<String, Object>, DefinitionError> {
    let (mut objects, mut based) = (BTreeMap::new(), Vec::new());
    for (name, object) in files {
        let (at, object) = (object.span().start, object.into_inner());
        if !is_name(&name) {
            let problem = format!("the name of the object {name:?} {NAME_PROBLEM}");
            return Err(source.error(at, "objects", problem));
        }
        match ImageFile::of(object.image.as_ref()) {
            Some(Err(problem)) => return Err(source.error(at, "image", problem)),
            Some(Ok(image)) if object.random.is_none() && object.path.is_none() => {
                let layers = image.layers(&name);
                let layers = layers.map_err(|problem| source.error(at, "image", problem))?;
                objects.insert(name.clone(), Object::RandomImage(layers));
                based.extend(image.has_base().then_some((at, name, image)));
            }
            _ => drop(objects.insert(name, check_object(at, object, source)?)),
        }
    }
    // No base has a base. So each base has all its layers already, and the order of the images does not matter.
    let has_base = |name: &str| based.iter().any(|(_, based, _)| based == name);
    for (at, name, image) in &based {
        let shared = image.shared(&objects, has_base);
        let shared = shared.map_err(|problem| source.error(*at, "base", problem))?.to_vec();
        if let Some(Object::RandomImage(layers)) = objects.get_mut(name) {
            layers[..shared.len()].clone_from_slice(&shared);
        }
    }
    Ok(objects)
}

fn check_object(
    at: usize,
    object: ObjectFile,
    source: &SourceText<'_>,
) -> Result<Object, DefinitionError> {
    match (object.random, object.path, object.image) {
        (Some(BytesText(bytes)), None, None) if (1..=RANDOM_BYTES_MAX).contains(&bytes) => {
            Ok(Object::Random { bytes })
        }
        (Some(_), None, None) => Err(source.error(at, "random", "must be between 1B and 1TiB")),
        (None, Some(path), None) => Ok(Object::Path(path)),
        (None, None, Some(toml::Value::String(layout))) => Ok(Object::Image(layout.into())),
        _ => Err(source.error(at, "objects", "needs one of random, path and image")),
    }
}

pub(super) fn check_rules(
    key: &str,
    rules: BTreeMap<String, Spanned<String>>,
    objects: &BTreeMap<String, Object>,
    source: &SourceText<'_>,
) -> Result<Vec<(Query, String)>, DefinitionError> {
    let mut checked = Vec::new();
    for (query, object) in rules {
        let (at, object) = (object.span().start, object.into_inner());
        let query = Query::parse(&query).map_err(|problem| source.error(at, key, problem))?;
        if !objects.contains_key(&object) {
            return Err(source.error(at, key, unknown("object", &object, objects)));
        }
        checked.push((query, object));
    }
    Ok(checked)
}
