// Reads `http_answers.json` for the tests of every HTTP client, which `include!` this file.

/// An answer of a server, and what a client must make of it. `README.md` explains each key.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "each client looks at a part of the keys")]
struct Vector {
    name: String,
    #[serde(default = "get_method")]
    method: String,
    answer: String,
    #[serde(default)]
    repeat: std::collections::BTreeMap<String, usize>,
    #[serde(default)]
    closes: bool,
    #[serde(default)]
    status: u16,
    #[serde(default)]
    body: String,
    #[serde(default)]
    fails: bool,
    #[serde(default)]
    may_fail: bool,
    #[serde(default)]
    reused: bool,
    #[serde(default)]
    may_close: bool,
}

fn get_method() -> String {
    "GET".to_owned()
}

fn vectors() -> Vec<Vector> {
    #[derive(serde::Deserialize)]
    struct Vectors {
        answers: Vec<Vector>,
    }
    let text = include_str!("http_answers.json");
    serde_json::from_str::<Vectors>(text).expect("the vectors are valid").answers
}

impl Vector {
    /// The bytes that the server sends.
    fn bytes(&self) -> Vec<u8> {
        let lines = self.repeat.iter().map(|(line, count)| format!("{line}\r\n").repeat(*count));
        self.answer.replace("{repeat}", &lines.collect::<String>()).into_bytes()
    }

    /// Compares what a client found: `None` if it failed.
    #[allow(dead_code, reason = "the load generator compares its own results")]
    fn check(&self, client: &str, found: Option<(u16, &str)>) {
        match found {
            None => assert!(self.fails || self.may_fail, "{client}: {} failed", self.name),
            Some(found) => {
                assert!(!self.fails, "{client}: {} was taken: {found:?}", self.name);
                assert_eq!(found, (self.status, self.body.as_str()), "{client}: {}", self.name);
            }
        }
    }
}
