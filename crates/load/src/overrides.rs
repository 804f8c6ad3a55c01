//! Values in place of those in a scenario file, so that one file describes loads of several sizes.

use anyhow::Context as _;
use toml::{Table, Value};

/// Most parts of a key. Each part is a table in the one before, and deep tables would fill the stack.
const PARTS_MAX: usize = 16;

/// The text of a scenario in TOML with other values. A key is a path with dots, such as `phases.join.rate`: in a
/// list, the entry with this `name`.
pub(crate) fn with_values(text: &str, values: &[(String, String)]) -> anyhow::Result<String> {
    let mut root: Table =
        toml::from_str(text).context("cannot set values: the scenario is not TOML")?;
    for (key, value) in values {
        let parts: Vec<&str> = key.split('.').collect();
        anyhow::ensure!(
            parts.len() <= PARTS_MAX,
            "cannot set {key:.32}…: a key has at most {PARTS_MAX} parts"
        );
        set(&mut root, &parts, value).with_context(|| format!("cannot set {key}"))?;
    }
    Ok(toml::to_string(&root)?)
}

fn set(table: &mut Table, parts: &[&str], value: &str) -> anyhow::Result<()> {
    match parts {
        [""] => anyhow::bail!("the key is empty"),
        [] => anyhow::bail!(
            "the key ends at an entry of a list; append the name of one of its values"
        ),
        [last] => {
            table.insert((*last).to_owned(), parsed(value));
            Ok(())
        }
        [first, rest @ ..] => {
            let inner = table.entry(*first).or_insert_with(|| Value::Table(Table::new()));
            match inner {
                Value::Table(inner) => set(inner, rest, value),
                Value::Array(list) => set(named(list, rest[0])?, &rest[1..], value),
                _ => anyhow::bail!("{first} is one value"),
            }
        }
    }
}

/// The entry of a list with this name.
fn named<'a>(list: &'a mut [Value], name: &str) -> anyhow::Result<&'a mut Table> {
    let mut tables = list.iter_mut().filter_map(Value::as_table_mut);
    let found = tables.find(|entry| entry.get("name").and_then(Value::as_str) == Some(name));
    found.with_context(|| format!("no entry has the name {name:?}"))
}

/// A number, a boolean, a list or a table in TOML; other text is a string.
fn parsed(value: &str) -> Value {
    let table = toml::from_str::<Table>(&format!("value = {value}")).ok();
    let alone = table.filter(|table| table.len() == 1).and_then(|mut table| table.remove("value"));
    alone.unwrap_or_else(|| Value::String(value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
        users_max = 5
        [[phases]]
        name = "join"
        duration = "1s"
        rate = 10
        [[phases]]
        name = "stay"
        duration = "2s"
        rate = 0
    "#;

    fn changed(key: &str, value: &str) -> anyhow::Result<Table> {
        let text = with_values(TEXT, &[(key.to_owned(), value.to_owned())])?;
        Ok(toml::from_str(&text)?)
    }

    #[test]
    fn a_value_of_a_named_phase_is_replaced() {
        let table = changed("phases.join.rate", "25000").unwrap();
        assert_eq!(table["phases"][0]["rate"].as_integer(), Some(25_000));
        assert_eq!(table["phases"][1]["rate"].as_integer(), Some(0));
        let table = changed("phases.stay.duration", "80s").unwrap();
        assert_eq!(table["phases"][1]["duration"].as_str(), Some("80s"));
        assert_eq!(changed("seed", "7").unwrap()["seed"].as_integer(), Some(7));
        let table = changed("thresholds.errors_max", "0").unwrap();
        assert_eq!(table["thresholds"]["errors_max"].as_integer(), Some(0));
    }

    #[test]
    fn a_key_that_leads_nowhere_is_refused() {
        for (key, problem) in [
            ("phases.jion.rate", "no entry has the name \"jion\""),
            (
                "phases.join",
                "the key ends at an entry of a list; append the name of one of its values",
            ),
            ("phases.join.", "the key is empty"),
            ("users_max.rate", "users_max is one value"),
            ("", "the key is empty"),
        ] {
            let error = format!("{:#}", changed(key, "1").unwrap_err());
            assert_eq!(error, format!("cannot set {key}: {problem}"));
        }
        assert!(with_values("<tsung>", &[]).is_err());
        let deep = format!("{:#}", changed(&"a.".repeat(50_000), "1").unwrap_err());
        assert!(deep.ends_with("a key has at most 16 parts") && deep.len() < 100, "{deep}");
    }

    #[test]
    fn a_value_cannot_bring_other_keys() {
        let table = changed("seed", "7\nusers_max = 9").unwrap();
        assert_eq!(table["users_max"].as_integer(), Some(5));
    }
}
