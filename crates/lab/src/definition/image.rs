//! Images that are made for an experiment: `image = { layers = 6, size = "300MiB" }`, and how a short check makes objects
//! smaller.

use std::collections::BTreeMap;

use serde::Deserialize;
use watchfire_report::units::BytesText;

use super::experiment::{Experiment, Object, RandomLayer};

/// Most layers. Linux mounts at most about 500 folders on top of each other.
const LAYERS_MAX: u32 = 500;
/// Least bytes of a layer on average, and least bytes of one in a short check.
const LAYER_BYTES_MIN: u64 = 4 << 10;
const IMAGE_BYTES_MAX: u64 = 64 << 30;
/// The first layer is larger than the last one by this factor.
const LARGEST: u64 = 4;

/// The definition of a random image.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImageFile {
    layers: u32,
    size: BytesText,
    base: Option<String>,
    shared_layers: Option<u32>,
}

impl ImageFile {
    /// Reads a value that is not the path of a layout.
    pub fn of(value: Option<&toml::Value>) -> Option<Result<ImageFile, String>> {
        match value? {
            toml::Value::String(_) => None,
            other => Some(other.clone().try_into().map_err(|error: toml::de::Error| {
                format!("needs the path of a layout, or layers and size: {}", error.message())
            })),
        }
    }

    pub fn has_base(&self) -> bool {
        self.base.is_some()
    }

    /// Its layers, without those of its base. The first one is the largest.
    pub fn layers(&self, name: &str) -> Result<Vec<RandomLayer>, String> {
        let (count, BytesText(size)) = (self.layers, self.size);
        if !(1..=LAYERS_MAX).contains(&count) {
            return Err(format!("layers must be between 1 and {LAYERS_MAX}"));
        }
        let least = LAYER_BYTES_MIN * u64::from(count);
        if !(least..=IMAGE_BYTES_MAX).contains(&size) {
            let problem = "size must be at least 4KiB for each layer, and at most 64GiB";
            return Err(problem.to_owned());
        }
        match (&self.base, self.shared_layers) {
            (None, None) => {}
            (Some(_), Some(shared)) if (1..=count).contains(&shared) => {}
            (Some(_), Some(_)) => return Err("shared_layers must be 1 to layers".to_owned()),
            _ => return Err("base and shared_layers need each other".to_owned()),
        }
        let last = u64::from(count - 1);
        // In steps of equal size from the first layer to the last one.
        let weight = |index: u64| (LARGEST * last - (LARGEST - 1) * index).max(1);
        let sum: u64 = (0..=last).map(weight).sum();
        let layer = |index: u32| RandomLayer {
            image: name.to_owned(),
            index,
            bytes: (u128::from(size) * u128::from(weight(index.into())) / u128::from(sum)) as u64,
        };
        Ok((0..count).map(layer).collect())
    }

    /// The layers of its base that it has too.
    pub fn shared<'a>(
        &self,
        objects: &'a BTreeMap<String, Object>,
        has_base: impl Fn(&str) -> bool,
    ) -> Result<&'a [RandomLayer], String> {
        let base = self.base.as_deref().unwrap_or_default();
        if has_base(base) {
            return Err(format!("{base:?} has a base itself; choose an image without one"));
        }
        let Some(Object::RandomImage(layers)) = objects.get(base) else {
            return Err(format!("no random image has the name {base:?}"));
        };
        let shared = self.shared_layers.unwrap_or_default() as usize;
        layers.get(..shared).ok_or_else(|| format!("{base:?} has fewer than {shared} layers"))
    }
}

impl Experiment {
    /// Makes a short check of an experiment: one run of each trial, without a warm-up, with random objects of at
    /// most this size, with the `quick` values of loads, and without filling the memory.
    pub fn shorten(&mut self, object_bytes_max: u64) {
        (self.repeat, self.warm_up, self.fill_memory) = (1, 0, false);
        for load in self.scenarios.values_mut().filter_map(|scenario| scenario.load.as_mut()) {
            load.set.append(&mut load.quick);
        }
        for scenario in self.scenarios.values_mut() {
            shorten(&mut scenario.objects, object_bytes_max);
            for object in scenario.objects.values_mut() {
                if let Object::Random { bytes } = object {
                    *bytes = object_bytes_max.min(*bytes);
                }
            }
        }
    }
}

/// Makes random images smaller, all by the same factor: so layers that two of them share stay the same.
fn shorten(objects: &mut BTreeMap<String, Object>, bytes_max: u64) {
    let layers = |object: &Object| match object {
        Object::RandomImage(layers) => layers.iter().map(|layer| layer.bytes).sum(),
        _ => 0_u64,
    };
    let largest = objects.values().map(layers).max().unwrap_or(0);
    if largest <= bytes_max {
        return;
    }
    for object in objects.values_mut() {
        let Object::RandomImage(layers) = object else { continue };
        for layer in layers {
            let bytes = u128::from(layer.bytes) * u128::from(bytes_max) / u128::from(largest);
            layer.bytes = (bytes as u64).max(LAYER_BYTES_MIN);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(images: &str) -> Result<BTreeMap<String, Object>, String> {
        let text = format!(
            "[clusters.c]\ngroups = [{{ name = 'a' }}, {{ name = 'b' }}]\n[scenarios.s]\nseed = {{ a = 'one' }}\nfetch \
             = {{ b = 'one' }}\n[scenarios.s.objects]\n{images}"
        );
        let experiment = Experiment::parse("one.toml", &text).map_err(|error| error.to_string())?;
        Ok(experiment.scenarios["s"].objects.clone())
    }

    fn layers<'a>(objects: &'a BTreeMap<String, Object>, name: &str) -> &'a [RandomLayer] {
        match &objects[name] {
            Object::RandomImage(layers) => layers,
            other => panic!("{other:?} is no random image"),
        }
    }

    #[test]
    fn the_first_layer_is_the_largest_and_all_add_up() {
        let objects = parse("one = { image = { layers = 6, size = '300MiB' } }").unwrap();
        let mib: Vec<u64> = layers(&objects, "one").iter().map(|layer| layer.bytes >> 20).collect();
        assert_eq!(mib, [80, 68, 56, 44, 32, 20]);
        let objects = parse("one = { image = { layers = 1, size = '1MiB' } }").unwrap();
        assert_eq!(layers(&objects, "one")[0].bytes, 1 << 20);
    }

    #[test]
    fn an_image_can_share_layers_with_another_one() {
        let mut objects = parse(
            "one = { image = { layers = 6, size = '300MiB' } }\nnext = { image = { layers = 7, size = '10MiB', base = \
             'one', shared_layers = 5 } }",
        )
        .unwrap();
        let check = |objects: &BTreeMap<String, Object>| {
            let (one, next) = (layers(objects, "one"), layers(objects, "next"));
            assert_eq!(next.len(), 7);
            assert_eq!(next[..5], one[..5]);
            assert_eq!((next[5].image.as_str(), next[5].index), ("next", 5));
        };
        check(&objects);
        shorten(&mut objects, 4 << 20);
        check(&objects);
        let bytes: u64 = layers(&objects, "one").iter().map(|layer| layer.bytes).sum();
        assert!((4_190_000..=4 << 20).contains(&bytes), "{bytes}");
    }

    #[test]
    fn an_image_that_cannot_be_made_is_refused() {
        for (image, problem) in [
            ("{ layers = 0, size = '1MiB' }", "between 1 and 500"),
            ("{ layers = 501, size = '1GiB' }", "between 1 and 500"),
            ("{ layers = 6, size = '20KiB' }", "at least 4KiB for each layer"),
            ("{ layers = 6, size = '65GiB' }", "at most 64GiB"),
            ("{ layers = 6 }", "missing field `size`"),
            ("{ layers = 6, sice = '1MiB' }", "unknown field `sice`"),
            ("3", "needs the path of a layout"),
            ("{ layers = 6, size = '1MiB', base = 'one' }", "need each other"),
            (
                "{ layers = 6, size = '1MiB', base = 'no', shared_layers = 1 }",
                "has the name \"no\"",
            ),
            ("{ layers = 6, size = '1MiB', base = 'one', shared_layers = 7 }", "1 to layers"),
            ("{ layers = 6, size = '1MiB', base = 'one', shared_layers = 3 }", "fewer than 3"),
            ("{ layers = 6, size = '1MiB', base = 'two', shared_layers = 1 }", "has a base itself"),
        ] {
            let base = "one = { image = { layers = 2, size = '1MiB' } }";
            let error = parse(&format!("{base}\ntwo = {{ image = {image} }}")).expect_err(image);
            assert!(error.starts_with("one.toml:8: "), "{error}");
            assert!(error.contains(problem), "{image}: {error}");
        }
    }
}
