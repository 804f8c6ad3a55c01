//! The description in `openapi.json`: its examples work, and the answers have the forms that it says.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use watchfire::RunningServer;
use watchfire_testkit::Request;

use crate::{KEY, call, client, ok, post, start};

fn description(server: &RunningServer) -> Value {
    Request::get("/api/openapi.json").to(server.address()).json()
}

/// Whether a value has the form of a schema. Every keyword must be known here.
fn check(document: &Value, schema: &Value, value: &Value, at: &str) -> Result<(), String> {
    let fail = |what: &str| Err(format!("{at}: {what}: {value}"));
    let len = value.as_str().map(str::len).or_else(|| value.as_array().map(Vec::len));
    for (keyword, rule) in schema.as_object().ok_or("a schema is an object")? {
        match keyword.as_str() {
            "description" | "default" | "format" | "properties" => {}
            "$ref" => {
                let pointer = rule.as_str().unwrap().trim_start_matches('#');
                let target = document.pointer(pointer).ok_or(format!("no schema {pointer}"))?;
                check(document, target, value, at)?;
            }
            "type" => {
                let is_of = |name: &Value| match name.as_str() {
                    Some("object") => value.is_object(),
                    Some("array") => value.is_array(),
                    Some("string") => value.is_string(),
                    Some("integer") => value.is_i64() || value.is_u64(),
                    Some("boolean") => value.is_boolean(),
                    Some("null") => value.is_null(),
                    _ => panic!("unknown type {name}"),
                };
                let is_one =
                    rule.as_array().map_or_else(|| is_of(rule), |all| all.iter().any(is_of));
                if !is_one {
                    return fail(&format!("is not of type {rule}"));
                }
            }
            "required" => {
                for name in rule.as_array().unwrap() {
                    if value.get(name.as_str().unwrap()).is_none() {
                        return fail(&format!("lacks {name}"));
                    }
                }
            }
            "additionalProperties" => {
                for (name, member) in value.as_object().into_iter().flatten() {
                    if schema["properties"].get(name).is_some() {
                        continue;
                    }
                    match rule {
                        Value::Bool(true) => {}
                        Value::Bool(false) => return fail(&format!("has {name}")),
                        rule => check(document, rule, member, &format!("{at}/{name}"))?,
                    }
                }
            }
            "items" => {
                for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                    check(document, rule, item, &format!("{at}/{index}"))?;
                }
            }
            "enum" if !rule.as_array().unwrap().contains(value) => return fail("is not listed"),
            "enum" => {}
            "oneOf" => {
                let all = rule.as_array().unwrap().iter();
                if all.filter(|rule| check(document, rule, value, at).is_ok()).count() != 1 {
                    return fail("is not exactly one of the forms");
                }
            }
            "allOf" => {
                for rule in rule.as_array().unwrap() {
                    check(document, rule, value, at)?;
                }
            }
            "not" if check(document, rule, value, at).is_ok() => return fail("has this form"),
            "not" => {}
            "minLength" | "minItems" if len < rule.as_u64().map(|n| n as usize) => {
                return fail("is too short");
            }
            "maxLength" | "maxItems" if len > rule.as_u64().map(|n| n as usize) => {
                return fail("is too long");
            }
            "minimum" if value.as_i64() < rule.as_i64() => return fail("is too small"),
            "maximum" if value.as_i64() > rule.as_i64() => return fail("is too large"),
            "minLength" | "minItems" | "maxLength" | "maxItems" | "minimum" | "maximum" => {}
            // The suite of `tests/outside/openapi` sends texts of each pattern.
            "pattern" => {}
            other => panic!("unknown keyword {other}"),
        }
    }
    for (name, rule) in schema["properties"].as_object().into_iter().flatten() {
        if let Some(member) = value.get(name) {
            check(document, rule, member, &format!("{at}/{name}"))?;
        }
    }
    Ok(())
}

#[test]
fn a_value_of_another_form_is_found() {
    let document = json!({ "name": { "type": "string", "minLength": 1 } });
    let schema = json!({
        "type": "object", "required": ["a"], "additionalProperties": false,
        "properties": { "a": { "type": "array", "items": { "$ref": "#/name" } } },
    });
    let is_of = |value: Value| check(&document, &schema, &value, "").is_ok();
    assert!(is_of(json!({ "a": ["x"] })) && is_of(json!({ "a": [] })));
    for other in [json!({}), json!([]), json!({ "a": [1] }), json!({ "a": [""] })] {
        assert!(!is_of(other.clone()), "{other}");
    }
    assert!(!is_of(json!({ "a": [], "b": 1 })));
}

/// Sends every example of `openapi.json`, and compares the answers with their schemas and examples.
#[test]
fn the_examples_of_the_description_work() {
    let server = start();
    let document = description(&server);
    let (mut ada, mut ben) = (client(&server, "ada"), client(&server, "ben"));
    ada.join("rooms:lobby", json!({}));
    ben.join("rooms:lobby", json!({}));
    ada.join("presence:lobby", json!({}));
    let headline =
        json!({ "topic": "news:today", "event": "headline", "payload": { "text": "hello" } });
    ok(&server, "publish", &headline);

    // The last calls end what the others ask about.
    let order = [
        "publish",
        "broadcast",
        "batch",
        "presence",
        "presence_stats",
        "history",
        "topics",
        "info",
        "unsubscribe",
        "disconnect",
    ];
    let paths = document["paths"].as_object().expect("paths");
    let named: BTreeSet<&str> = paths.keys().map(|path| path.trim_start_matches("/api/")).collect();
    assert_eq!(named, BTreeSet::from(order));
    let sent = "/requestBody/content/application~1json";
    let received = "/responses/200/content/application~1json";
    let mut examples = 0;
    for method in order {
        let call_of = &paths[&format!("/api/{method}")]["post"];
        let part = |of: &str| call_of.pointer(of).unwrap_or_else(|| panic!("{method} has no {of}"));
        for (name, example) in part(sent)["examples"].as_object().expect("examples") {
            let body = &example["value"];
            check(&document, &part(sent)["schema"], body, "the call").expect(method);
            let answer = ok(&server, method, body);
            let expected = &part(received)["examples"][name]["value"];
            for value in [&answer, expected] {
                check(&document, &part(received)["schema"], value, "the answer").expect(method);
            }
            if !["presence", "history", "info"].contains(&method) {
                assert_eq!(&answer, expected, "{method}: {name}");
            }
            examples += 1;
        }
    }
    assert!(examples >= order.len());

    let error = &document["components"]["schemas"]["Error"];
    for refused in [call(&server, "nothing", &json!({})), call(&server, "publish", &json!({}))] {
        check(&document, error, &refused.json, "the error").expect("an error of the description");
    }
}

#[test]
fn the_bytes_of_the_description_are_published() {
    let server = start();
    let document = description(&server);
    let mut ada = client(&server, "ada");
    ada.join("rooms:lobby", json!({}));
    let parameters = document["paths"]["/api/publish"]["post"]["parameters"].as_array().unwrap();
    let query = parameters.iter().filter(|parameter| parameter["in"] == "query");
    let query = query.map(|one| {
        format!("{}={}", one["name"].as_str().unwrap(), one["example"].as_str().unwrap())
    });
    let path = format!("/api/publish?{}", query.collect::<Vec<_>>().join("&"));
    let key = format!("authorization: Bearer {KEY}");
    let lines = [&*key, "content-type: application/octet-stream"];
    assert_eq!(post(&server, &path, &lines, "bytes").json, json!({}));
    assert!(ada.receive_frame().ends_with(b"picturebytes"));
}
