//! The `WWW-Authenticate` header.

/// How a registry wants a request to be authenticated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Challenge {
    /// With a token from `realm`.
    Bearer {
        /// The URL of the token server.
        realm: String,
        /// The service that the token is for.
        service: Option<String>,
        /// The rights that the token gives.
        scope: Option<String>,
    },
    /// With a name and a password.
    Basic,
}

/// The longest header that is looked at.
const HEADER_BYTES_MAX: usize = 4096;

impl Challenge {
    /// Reads the challenge of a header. `None`: it has no form that the mirror supports.
    pub(super) fn parse(header: &str) -> Option<Self> {
        if header.len() > HEADER_BYTES_MAX {
            return None;
        }
        let (scheme, parameters) = header.trim().split_once(' ').unwrap_or((header.trim(), ""));
        if scheme.eq_ignore_ascii_case("basic") {
            return Some(Challenge::Basic);
        }
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let (mut realm, mut service, mut scope) = (None, None, None);
        let mut rest = parameters;
        while let Some((name, value, after)) = next_parameter(rest) {
            match name.to_ascii_lowercase().as_str() {
                "realm" => realm = Some(value),
                "service" => service = Some(value),
                "scope" => scope = Some(value),
                _ => {}
            }
            rest = after;
        }
        Some(Challenge::Bearer { realm: realm?, service, scope })
    }
}

/// Splits `name="value", …` or `name=value, …` after its first parameter.
fn next_parameter(text: &str) -> Option<(&str, String, &str)> {
    let text = text.trim_start_matches([' ', ',', '\t']);
    let (name, rest) = text.split_once('=')?;
    let Some(quoted) = rest.strip_prefix('"') else {
        let end = rest.find(',').unwrap_or(rest.len());
        return Some((name.trim(), rest[..end].trim().to_owned(), &rest[end..]));
    };
    let mut value = String::new();
    let mut characters = quoted.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((name.trim(), value, &quoted[at + 1..])),
            '\\' => value.extend(characters.next().map(|(_, escaped)| escaped)),
            character => value.push(character),
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
        assert_eq!(Challenge::parse(header), Some(expected));
        assert_eq!(Challenge::parse("Basic realm=\"x\""), Some(Challenge::Basic));
        let bare = Challenge::Bearer {
            realm: "http://a".into(),
            service: Some("a\"b".into()),
            scope: None,
        };
        assert_eq!(Challenge::parse(r#"bearer realm=http://a , service="a\"b""#), Some(bare));
    }

    #[test]
    fn other_headers_are_refused() {
        let long = format!("Bearer realm=\"{}\"", "a".repeat(HEADER_BYTES_MAX));
        for header in ["", "Bearer", "Bearer realm", "Bearer realm=\"x", "Digest a=b", &long] {
            assert_eq!(Challenge::parse(header), None, "{header:?}");
        }
    }
}
