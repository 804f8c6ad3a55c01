//! The `Authorization` header of a request: Basic (RFC 7617) and Digest (RFC 7616 with MD5).

use base64::Engine as _;
use md5::{Digest as _, Md5};

use super::text::{Text, TextContext};

/// The name and the password that a request sends.
#[derive(Clone, Debug)]
pub(crate) struct Login {
    pub(crate) user: Text,
    pub(crate) password: Text,
    /// `None` is Basic.
    pub(crate) digest: Option<DigestLogin>,
}

/// The parameters of Digest, which a session usually saves from an earlier answer.
#[derive(Clone, Debug)]
pub(crate) struct DigestLogin {
    pub(crate) realm: Text,
    pub(crate) nonce: Text,
    pub(crate) opaque: Option<Text>,
    pub(crate) protection: Option<Protection>,
}

#[derive(Clone, Debug)]
pub(crate) struct Protection {
    pub(crate) qop: Text,
    pub(crate) nonce_count: Text,
    pub(crate) client_nonce: Text,
}

impl Login {
    /// Appends the whole header line of a request.
    pub(crate) fn write(
        &self,
        method: &str,
        target: &str,
        context: &TextContext<'_>,
        out: &mut Vec<u8>,
    ) {
        let text = |text: &Text| text.to_string(context).replace(['\r', '\n'], " ");
        let (user, password) = (text(&self.user), text(&self.password));
        let value = match &self.digest {
            None => {
                let plain = format!("{user}:{password}");
                format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(plain))
            }
            Some(digest) => {
                let (realm, nonce) = (text(&digest.realm), text(&digest.nonce));
                let secret = md5_hex(format!("{user}:{realm}:{password}").as_bytes());
                let request = md5_hex(format!("{method}:{target}").as_bytes());
                let mut parts = String::new();
                if let Some(opaque) = &digest.opaque {
                    parts += &format!(", opaque=\"{}\"", text(opaque));
                }
                let middle = match &digest.protection {
                    None => nonce.clone(),
                    Some(Protection { qop, nonce_count, client_nonce }) => {
                        let (qop, count) = (text(qop), text(nonce_count));
                        let client_nonce = text(client_nonce);
                        parts += &format!(", qop=\"{qop}\", nc={count}, cnonce=\"{client_nonce}\"");
                        format!("{nonce}:{count}:{client_nonce}:{qop}")
                    }
                };
                let response = md5_hex(format!("{secret}:{middle}:{request}").as_bytes());
                format!(
                    "Digest username=\"{user}\", realm=\"{realm}\", nonce=\"{nonce}\", \
                     uri=\"{target}\", response=\"{response}\"{parts}"
                )
            }
        };
        out.extend_from_slice(format!("Authorization: {value}\r\n").as_bytes());
    }
}

pub(super) fn md5_hex(bytes: &[u8]) -> String {
    Md5::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::scenario::text::{Mark, Variables};

    fn line(login: &Login, method: &str, target: &str) -> String {
        let variables = Variables::default();
        let context = TextContext {
            variables: &variables,
            seed: 0,
            user: 0,
            slots: &[],
            undefined: "",
            now: Duration::ZERO,
            mark: Mark::Nothing,
        };
        let mut out = Vec::new();
        login.write(method, target, &context, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_examples_of_the_rfcs_hold() {
        let text = Text::literal;
        let basic = Login { user: text("Aladdin"), password: text("open sesame"), digest: None };
        let expected = "Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==\r\n";
        assert_eq!(line(&basic, "GET", "/"), expected);

        // RFC 2617, section 3.5.
        let digest = DigestLogin {
            realm: text("testrealm@host.com"),
            nonce: text("dcd98b7102dd2f0e8b11d0f600bfb0c093"),
            opaque: Some(text("5ccc069c403ebaf9f0171e9517f40e41")),
            protection: Some(Protection {
                qop: text("auth"),
                nonce_count: text("00000001"),
                client_nonce: text("0a4f113b"),
            }),
        };
        let login =
            Login { user: text("Mufasa"), password: text("Circle Of Life"), digest: Some(digest) };
        let line = line(&login, "GET", "/dir/index.html");
        assert!(line.contains("response=\"6629fae49393a05397450978507c4ef1\", opaque"), "{line}");
        assert!(line.contains("uri=\"/dir/index.html\""), "{line}");
    }
}
