//! The `WWW-Authenticate` header (RFC 9110, section 11.6.1).

/// How a registry wants a request to be authenticated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Challenge {
    /// With a token from `realm`.
    Bearer {
        /// The URL of the token server.
        realm: String,
        service: Option<String>,
        /// The rights that the token gives, with spaces between them.
        scope: Option<String>,
    },
    /// With a name and a password.
    Basic,
}

/// The longest header that is looked at.
const HEADER_BYTES_MAX: usize = 4096;

impl Challenge {
    /// Reads the challenges of a header, which may have several, and leaves out the forms that the mirror
    /// does not support.
    pub(super) fn parse_all(header: &str) -> Vec<Self> {
        if header.len() > HEADER_BYTES_MAX {
            return Vec::new();
        }
        let mut found = Vec::new();
        let mut scheme: Option<&str> = None;
        let mut parameters = Vec::new();
        for part in parts(header) {
            // `name=value` goes on with a challenge; `scheme` or `scheme name=value` begins one.
            let (word, rest) = part.split_once([' ', '\t']).unwrap_or((part, ""));
            let begins = !word.contains('=') && !rest.trim_start().starts_with('=');
            if begins {
                found.extend(scheme.and_then(|scheme| Challenge::of(scheme, &parameters)));
                scheme = Some(word);
                parameters.clear();
            }
            parameters.extend(parameter(if begins { rest } else { part }));
        }
        found.extend(scheme.and_then(|scheme| Challenge::of(scheme, &parameters)));
        found
    }

    fn of(scheme: &str, parameters: &[(String, String)]) -> Option<Self> {
        let value = |name: &str| {
            let found = parameters.iter().find(|(known, _)| known == name);
            found.map(|(_, value)| value.clone())
        };
        match scheme.to_ascii_lowercase().as_str() {
            "basic" => Some(Challenge::Basic),
            "bearer" => Some(Challenge::Bearer {
                realm: value("realm")?,
                service: value("service"),
                scope: scopes(parameters),
            }),
            _ => None,
        }
    }
}

/// Some registries name each scope in a parameter of its own.
fn scopes(parameters: &[(String, String)]) -> Option<String> {
    let scopes = parameters.iter().filter(|(name, _)| name == "scope");
    let scopes: Vec<&str> = scopes.map(|(_, value)| value.as_str()).collect();
    (!scopes.is_empty()).then(|| scopes.join(" "))
}

/// The parts of a list between its commas, except those between quotes.
fn parts(header: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut start, mut is_quoted, mut is_escaped) = (0, false, false);
    for (at, byte) in header.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_quoted => is_escaped = true,
            b'"' => is_quoted = !is_quoted,
            b',' if !is_quoted => {
                parts.push(&header[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&header[start..]);
    parts.into_iter().map(str::trim).filter(|part| !part.is_empty()).collect()
}

/// The name, in lower case, and the value of `name=value` or `name="value"`.
fn parameter(text: &str) -> Option<(String, String)> {
    let (name, value) = text.split_once('=')?;
    let (name, value) = (name.trim().to_ascii_lowercase(), value.trim());
    let Some(quoted) = value.strip_prefix('"') else {
        return Some((name, value.to_owned()));
    };
    let mut text = String::new();
    let mut characters = quoted.chars();
    while let Some(character) = characters.next() {
        match character {
            '"' => return Some((name, text)),
            '\\' => text.extend(characters.next()),
            character => text.push(character),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_of_real_registries_are_read() {
        let header = r#"Bearer realm="https://auth.example/token",service="registry.example",scope="repository:a/b:pull,push""#;
        let expected = Challenge::Bearer {
            realm: "https://auth.example/token".into(),
            service: Some("registry.example".into()),
            scope: Some("repository:a/b:pull,push".into()),
        };
        assert_eq!(Challenge::parse_all(header), [expected]);
        assert_eq!(Challenge::parse_all("Basic realm=\"x\""), [Challenge::Basic]);
        let bare = Challenge::Bearer {
            realm: "http://a".into(),
            service: Some("a\"b".into()),
            scope: None,
        };
        assert_eq!(Challenge::parse_all(r#"bearer realm=http://a , service="a\"b""#), [bare]);
    }

    #[test]
    fn one_header_may_have_several_challenges() {
        let bearer = |realm: &str, service: Option<&str>| {
            let (realm, service) = (realm.to_owned(), service.map(str::to_owned));
            Challenge::Bearer { realm, service, scope: None }
        };
        let header = r#"Negotiate, Basic realm="a, Bearer b", charset="UTF-8", Bearer realm="http://t",service="s", Digest x=y"#;
        assert_eq!(Challenge::parse_all(header), [Challenge::Basic, bearer("http://t", Some("s"))]);
        let header = r#", ,Bearer realm = "http://t" , Negotiate dG9rZW4=, Basic"#;
        assert_eq!(Challenge::parse_all(header), [bearer("http://t", None), Challenge::Basic]);
    }

    #[test]
    fn other_headers_are_refused() {
        let long = format!("Bearer realm=\"{}\"", "a".repeat(HEADER_BYTES_MAX));
        for header in ["", "Bearer", "Bearer realm", "Bearer realm=\"x", "Digest a=b", &long] {
            assert_eq!(Challenge::parse_all(header), [], "{header:?}");
        }
    }
}
