//! Links to content: a CID, or a URL that contains one.

use std::net::{Ipv4Addr, Ipv6Addr};

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};
use watchfire_content::Cid;
use watchfire_content::encryption::{Key, KeyError};
use watchfire_p2p::{AddressPart, Multiaddr};
use watchfire_page_client::ServerUrl;
use watchfire_store::names;

/// Longest link, in bytes.
const LINK_BYTES_MAX: usize = 16 * 1024;
/// Most peers of a link.
const LINK_PEERS_MAX: usize = 32;
/// Further servers that a link may name. The rest is ignored.
const FURTHER_SERVERS_MAX: usize = 3;

/// Characters that are escaped in the query of a link.
const ESCAPED: &AsciiSet =
    &CONTROLS.add(b' ').add(b'"').add(b'#').add(b'%').add(b'&').add(b'+').add(b'<').add(b'>');

/// A link: the content, a path in it, its name, and its providers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    pub cid: Cid,
    /// A path in the content, with slashes; empty for all of it.
    pub path: String,
    /// The name that the link gives the content.
    pub name: Option<String>,
    pub peers: Vec<Multiaddr>,
    /// The server of its page, if the link names one.
    pub server: Option<ServerUrl>,
    /// Further servers at which the page can be found.
    pub at: Vec<ServerUrl>,
    /// The key that decrypts it, if it is a private page.
    pub key: Option<Key>,
}

impl Link {
    /// Its page, if the link names a server.
    pub fn place(&self) -> Option<PagePlace<'_>> {
        let Link { server, at, cid: root, .. } = self;
        server.as_ref().map(|site| PagePlace { site, at, root })
    }
}

/// A page on a server.
#[derive(Clone, Copy)]
pub struct PagePlace<'a> {
    pub site: &'a ServerUrl,
    /// Other servers at which it may be.
    pub at: &'a [ServerUrl],
    pub root: &'a Cid,
}

/// Why a text is not a valid link.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    #[error("invalid link: it has {len} bytes, and at most {max} are allowed")]
    TooLong { len: usize, max: usize },
    #[error("invalid CID {text:?}: {error}")]
    Cid { text: String, error: watchfire_content::CidError },
    #[error("cannot open {text}: it is a name of IPNS; use the CID to which it leads now")]
    Ipns { text: String },
    /// A URL without a CID in its path.
    #[error("invalid link {text}: its path must be /p/<CID> or /ipfs/<CID>")]
    NoContent { text: String },
    /// An address of a peer that is invalid or has no peer ID.
    #[error("invalid peer address {text:?}; use one such as /ip4/192.0.2.1/tcp/4001/p2p/12D3…")]
    Peer { text: String },
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error("invalid link: it has more than {max} peers")]
    TooManyPeers { max: usize },
}

impl std::str::FromStr for Link {
    type Err = LinkError;

    /// Parses `CID`, `CID/path`, `/ipfs/CID/path`, `ipfs://CID/path`, `watchfire:CID/path?peer=…`,
    /// and URLs: `http://host/p/CID` of a page, `https://host/ipfs/CID/path` and
    /// `https://CID.ipfs.host/path` of an IPFS gateway. The marks around a link in a sentence are not
    /// part of it.
    fn from_str(text: &str) -> Result<Self, LinkError> {
        let (len, max) = (text.trim().len(), LINK_BYTES_MAX);
        if len > max {
            return Err(LinkError::TooLong { len, max });
        }
        let text = without_marks(text);
        let (rest, fragment) = text.split_once('#').unwrap_or((text, ""));
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        if is_ipns(rest) {
            return Err(LinkError::Ipns { text: text.to_owned() });
        }
        let Place { server, cid, path } =
            Place::find(rest).ok_or_else(|| LinkError::NoContent { text: text.to_owned() })?;
        let cid = decoded(cid);
        // A CID has only letters and digits.
        let bare = cid.trim_end_matches(|c: char| path.is_empty() && !c.is_ascii_alphanumeric());
        let cid = bare.parse().map_err(|error| LinkError::Cid { text: cid, error })?;
        let mut link = Link {
            cid,
            path: decoded(path.trim_matches('/')),
            name: None,
            peers: Vec::new(),
            at: further_servers(fragment, server.as_ref()),
            server,
            key: None,
        };
        // Read the key only from the fragment, because the rest of a URL is sent to servers.
        if let Some((_, key)) = pairs(fragment).find(|(key, _)| *key == "key") {
            let is_of_key = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
            link.key = Some(key.trim_end_matches(|c: char| !is_of_key(c)).parse()?);
        }
        for (key, value) in [query, fragment].into_iter().flat_map(pairs) {
            match key {
                "peer" => link.add_peer(&value)?,
                "filename" | "name" => link.name = Some(value),
                "file" => link.path = value.trim_matches('/').to_owned(),
                // Ignore unknown parameters.
                _ => {}
            }
        }
        Ok(link)
    }
}

/// Whether a link names content through IPNS: `/ipns/NAME`, `ipns://NAME`, or a URL of a gateway.
fn is_ipns(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    let (scheme, rest) = text.split_once(':').unwrap_or(("", &text));
    let place = rest.trim_start_matches('/');
    match scheme {
        "ipns" => true,
        "" | "dweb" => place.starts_with("ipns/"),
        "http" | "https" => {
            let (host, path) = place.split_once('/').unwrap_or((place, ""));
            let gateway = host.split_once('.').map_or("", |(_, gateway)| gateway);
            let names_content = path.starts_with("p/") || path.starts_with("ipfs/");
            path.starts_with("ipns/") || (gateway.starts_with("ipns.") && !names_content)
        }
        _ => false,
    }
}

/// The parts of a link before its query and its fragment.
struct Place<'a> {
    server: Option<ServerUrl>,
    cid: &'a str,
    path: &'a str,
}

impl<'a> Place<'a> {
    /// `None` for a URL that leads to no content.
    fn find(text: &'a str) -> Option<Place<'a>> {
        let of_ipfs = |place: &'a str| {
            let place = place.strip_prefix("ipfs/").unwrap_or(place);
            let (cid, path) = place.split_once('/').unwrap_or((place, ""));
            Some(Place { server: None, cid, path })
        };
        let (scheme, rest) = text.split_once(':').unwrap_or(("", text));
        match &*scheme.to_ascii_lowercase() {
            "watchfire" | "ipfs" | "dweb" => of_ipfs(rest.trim_start_matches('/')),
            scheme @ ("http" | "https") => {
                let rest = rest.strip_prefix("//")?;
                let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
                if let Some(place) = path.strip_prefix("p/") {
                    let server = format!("{scheme}://{host}").parse().ok()?;
                    return of_ipfs(place).map(|place| Place { server: Some(server), ..place });
                }
                match host.split_once('.') {
                    Some((cid, gateway)) if gateway.starts_with("ipfs.") => {
                        Some(Place { server: None, cid, path })
                    }
                    _ => of_ipfs(path.strip_prefix("ipfs/")?),
                }
            }
            _ => of_ipfs(text.strip_prefix("/ipfs/").unwrap_or(text)),
        }
    }
}

/// A link without the white space, quotes, brackets and commas around it in a sentence or a message.
///
/// Links of Watchfire escape all of these, except for round brackets in names. So one that closes and was
/// not opened belongs to the sentence. A dot or an exclamation mark can end a name, and stays.
fn without_marks(text: &str) -> &str {
    const UNSEEN: &str = "\u{200b}\u{200e}\u{200f}\u{2060}\u{2066}\u{2067}\u{2068}\u{2069}\u{feff}";
    let is_space = |c: char| c.is_whitespace() || UNSEEN.contains(c);
    let opens = |c: char| is_space(c) || "<([{\"'“‘„«`「『【《（".contains(c);
    let mut text = text.trim_start_matches(opens);
    loop {
        let Some(last) = text.chars().next_back() else { return text };
        let count = |bracket| text.matches(bracket).count();
        let ends = match last {
            ')' => count(')') > count('('),
            ']' => count(']') > count('['),
            '}' => count('}') > count('{'),
            last => is_space(last) || "<>,;:\"“”’»`…」』】》）。、，".contains(last),
        };
        if !ends {
            return text;
        }
        text = &text[..text.len() - last.len_utf8()];
    }
}

/// The further servers in the fragment of a link, which browsers send to no server.
///
/// Texts that are no origins are ignored. So are hosts of a local network, unless the page itself is on
/// one: otherwise a link could make programs connect to machines that its sender cannot reach.
fn further_servers(fragment: &str, own: Option<&ServerUrl>) -> Vec<ServerUrl> {
    let takes_near = own.is_some_and(|own| !own.is_public());
    let mut servers: Vec<ServerUrl> = Vec::new();
    for (_, text) in pairs(fragment).filter(|(key, _)| *key == "at") {
        let Some(server) = parse_origin(&text) else { continue };
        let is_new = own != Some(&server) && !servers.contains(&server);
        if is_new && (takes_near || server.is_public()) {
            servers.push(server);
        }
    }
    servers.truncate(FURTHER_SERVERS_MAX);
    servers
}

/// Parses an origin, without the marks after it in a sentence.
fn parse_origin(text: &str) -> Option<ServerUrl> {
    let text = text.to_ascii_lowercase();
    let is_mark = |c: char| !c.is_ascii_alphanumeric() && c != '_' && c != ']';
    let (scheme, authority) = text.trim_end_matches(is_mark).split_once("://")?;
    let default_port = match scheme {
        "http" => ":80",
        "https" => ":443",
        _ => return None,
    };
    let authority = authority.strip_suffix(default_port).unwrap_or(authority);
    let host = host_of(authority);
    let port = &authority[host.len()..];
    let is_port = port.strip_prefix(':').is_none_or(|port| {
        !port.starts_with('0') && !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit())
    });
    let is_valid = is_port && is_host(host);
    is_valid.then(|| format!("{scheme}://{authority}").parse().ok())?
}

/// The host of an authority. An IPv6 address is in brackets.
fn host_of(authority: &str) -> &str {
    let end = authority.rfind(']').map_or(0, |end| end + 1);
    let port = authority[end..].find(':').map_or(authority.len(), |colon| end + colon);
    &authority[..port]
}

/// Whether a text is a name, or an address in the one form that browsers and programs read alike.
fn is_host(host: &str) -> bool {
    if let Some(address) = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        let is_same = |parsed: Ipv6Addr| parsed.to_string() == address;
        return !address.contains('.') && address.parse().is_ok_and(is_same);
    }
    let is_part = |part: &str| {
        let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        !part.is_empty() && part.bytes().all(is_of_name)
    };
    let last = host.rsplit('.').next().unwrap_or_default();
    let is_name = !last.starts_with(|c: char| c.is_ascii_digit());
    host.split('.').all(is_part) && (is_name || host.parse::<Ipv4Addr>().is_ok())
}

impl Link {
    fn add_peer(&mut self, text: &str) -> Result<(), LinkError> {
        if self.peers.len() == LINK_PEERS_MAX {
            return Err(LinkError::TooManyPeers { max: LINK_PEERS_MAX });
        }
        self.peers.push(parse_peer(text)?);
        Ok(())
    }

    /// The name of the file on disk: the last name of the path or the link, or the CID.
    ///
    /// The name comes from another person, so it is safe ([`names::saved`]). It begins with no dot, so that
    /// the file is seen, and with no dash, so that it is no option of a command.
    pub fn file_name(&self) -> String {
        let name = if self.path.is_empty() { self.name.as_deref() } else { Some(&*self.path) };
        let last = name.and_then(|name| name.rsplit(['/', '\\']).next()).unwrap_or_default();
        let last = last.trim().trim_start_matches(['.', '-']);
        if last.is_empty() { self.cid.to_string() } else { names::saved(last) }
    }
}

impl std::fmt::Display for Link {
    /// Formats the link in the `watchfire:` form.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "watchfire:{}", self.cid)?;
        if !self.path.is_empty() {
            write!(f, "/{}", escaped(&self.path).replace('?', "%3F"))?;
        }
        let peers = self.peers.iter().map(|peer| ("peer", peer.to_string()));
        let name = self.name.iter().filter(|_| self.key.is_none());
        let name = name.map(|name| ("filename", name.clone()));
        for (number, (key, value)) in name.chain(peers).enumerate() {
            let mark = if number == 0 { '?' } else { '&' };
            write!(f, "{mark}{key}={}", escaped(&value))?;
        }
        let private = self.key.as_ref().map(|key| private_fragment(key, self.name.as_deref()));
        f.write_str(private.as_deref().unwrap_or_default())?;
        for (number, server) in self.at.iter().enumerate() {
            let mark = if number == 0 && private.is_none() { '#' } else { '&' };
            write!(f, "{mark}at={server}")?;
        }
        Ok(())
    }
}

/// The fragment of a link to a private page. It has the name too, which is as private as the key.
pub fn private_fragment(key: &Key, name: Option<&str>) -> String {
    let name = name.map(|name| format!("&filename={}", escaped(name)));
    format!("#key={}{}", key.to_link(), name.unwrap_or_default())
}

/// Parses an address that ends with a peer ID, which authenticates the peer.
pub fn parse_peer(text: &str) -> Result<Multiaddr, LinkError> {
    let invalid = || LinkError::Peer { text: text.to_owned() };
    let address: Multiaddr = text.parse().map_err(|_| invalid())?;
    let is_complete = matches!(address.iter().last(), Some(AddressPart::P2p(_)));
    if is_complete && address.iter().count() > 1 { Ok(address) } else { Err(invalid()) }
}

fn pairs(text: &str) -> impl Iterator<Item = (&str, String)> {
    let parts = text.split('&').filter(|part| !part.is_empty());
    parts.map(|part| {
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        // HTML forms and the web client write a space as `+`.
        (key, decoded(&value.replace('+', " ")))
    })
}

fn escaped(text: &str) -> String {
    utf8_percent_encode(text, ESCAPED).to_string()
}

fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CID: &str = "bafkreigzafgemjeejks3vqyuo46ww2e22rt7utq5djikdofjtvnjl5zp6u";
    const PEER: &str =
        "/ip4/127.0.0.1/tcp/4001/p2p/12D3KooWD3eckifWpRn9wQpMG9R9hX3sD158z7EqHWmweQAJU5SA";

    fn parse(text: &str) -> Link {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn a_cid_is_found_in_every_form_of_a_link() {
        for text in [
            CID.to_owned(),
            format!(" {CID}\n"),
            format!("/ipfs/{CID}"),
            format!("ipfs://{CID}"),
            format!("watchfire:{CID}"),
            format!("watchfire://{CID}/"),
            format!("http://localhost:4000/p/{CID}"),
            format!("https://example.org/p/{CID}/#filename=x"),
            format!("https://gateway.example/ipfs/{CID}?download=true"),
        ] {
            assert_eq!(parse(&text).cid.to_string(), CID, "{text}");
            assert_eq!(parse(&text).path, "", "{text}");
        }
        assert_eq!(parse("QmeeLUVdiSTTKQqhWqsffYDtNvvvcTfJdotkNyi1KDEJtQ").peers, []);
    }

    /// `tests/vectors/links.json`, which the tests of the web client read too.
    #[derive(serde::Deserialize)]
    struct Vectors {
        accepted: Vec<Accepted>,
        refused: Vec<Refused>,
    }

    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Accepted {
        about: String,
        text: String,
        cid: String,
        server: Option<String>,
        path: Option<String>,
        filename: Option<String>,
        key: Option<String>,
        #[serde(default)]
        at: Vec<String>,
    }

    #[derive(serde::Deserialize)]
    struct Refused {
        about: String,
        text: String,
    }

    fn vectors() -> Vectors {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/vectors/links.json");
        serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap()
    }

    #[test]
    fn links_are_read_as_people_have_them() {
        for Accepted { about, text, cid, server, path, filename, key, at } in vectors().accepted {
            let link: Link = text.parse().unwrap_or_else(|error| panic!("{about}: {error}"));
            assert_eq!(link.cid, cid.parse().unwrap(), "{about}");
            let named: Vec<String> = link.at.iter().map(ServerUrl::to_string).collect();
            assert_eq!(named, at, "{about}");
            assert_eq!(link.server.map(|server| server.to_string()), server, "{about}");
            assert_eq!(link.path, path.unwrap_or_default(), "{about}");
            assert_eq!(link.name, filename, "{about}");
            assert_eq!(link.key.map(|key| key.to_link()), key, "{about}");
        }
    }

    #[test]
    fn a_text_that_names_no_content_is_refused() {
        for Refused { about, text } in vectors().refused {
            assert!(text.parse::<Link>().is_err(), "{about}");
        }
    }

    #[test]
    fn links_of_the_browser_have_a_name_or_a_path() {
        let link = parse(&format!("http://localhost:4000/p/{CID}#filename=my%20notes.md"));
        assert_eq!(link.name.as_deref(), Some("my notes.md"));
        let server = link.server.as_ref().map(ServerUrl::to_string);
        assert_eq!(server.as_deref(), Some("http://localhost:4000"));
        assert_eq!(link.file_name(), "my notes.md");
        let link = parse(&format!("http://localhost:4000/p/{CID}#file=trip%2Fday%201.md"));
        assert_eq!((&*link.path, &*link.file_name()), ("trip/day 1.md", "day 1.md"));
    }

    #[test]
    fn a_path_leads_into_a_directory() {
        let link = parse(&format!("/ipfs/{CID}/a/b%3F.txt"));
        assert_eq!((&*link.path, &*link.file_name()), ("a/b?.txt", "b?.txt"));
    }

    #[test]
    fn a_formatted_link_parses_to_the_same_link() {
        let link = Link {
            cid: CID.parse().unwrap(),
            path: "a b/c#d?e%f".into(),
            name: Some("50% & more + 日記?.txt".into()),
            peers: vec![PEER.parse().unwrap()],
            server: None,
            at: vec![
                "https://b.example".parse().unwrap(),
                "http://[2001:db8::1]:4000".parse().unwrap(),
            ],
            key: None,
        };
        assert_eq!(parse(&link.to_string()), link);
        let private = Link { key: Some(Key::from_bytes([5; 32])), ..link.clone() };
        assert_eq!(parse(&private.to_string()), private);
        let (sent, fragment) =
            private.to_string().split_once('#').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
        assert!(!sent.contains("more") && fragment.starts_with("key="), "{private}");
        assert!(!sent.contains("b.example"), "{private}");
        let plain = Link { path: String::new(), name: None, at: Vec::new(), ..link };
        assert_eq!(plain.to_string(), format!("watchfire:{CID}?peer={PEER}"));
    }

    #[test]
    fn a_key_is_read_only_from_the_fragment_and_never_shown() {
        let text = Key::from_bytes([5; 32]).to_link();
        let link =
            parse(&format!("http://localhost:4000/p/{CID}#key={text}&filename=a&file=b%2Fc"));
        assert_eq!(link.key, Some(Key::from_bytes([5; 32])));
        assert_eq!((&*link.path, link.name.as_deref()), ("b/c", Some("a")));
        assert!(!format!("{link:?}").contains(&text));
        assert_eq!(parse(&format!("http://localhost/p/{CID}?key={text}")).key, None);
        let error = format!("{CID}#key={}", &text[1..]).parse::<Link>().unwrap_err();
        assert_eq!(error, LinkError::Key(KeyError));
        assert!(!error.to_string().contains(&text[1..]));
    }

    #[test]
    fn an_invalid_link_is_an_error_with_its_cause() {
        let error_of = |text: &str| text.parse::<Link>().unwrap_err();
        assert!(matches!(error_of("hello"), LinkError::Cid { .. }));
        assert!(matches!(error_of("http://localhost/chat"), LinkError::NoContent { .. }));
        assert!(matches!(error_of("https://localhost"), LinkError::NoContent { .. }));
        let with_user = format!("http://me@/p/{CID}");
        assert!(matches!(error_of(&with_user), LinkError::NoContent { .. }));
        assert!(matches!(error_of("ftp://localhost/p/x"), LinkError::Cid { .. }));
        let with_port = format!("http://localhost:99999/p/{CID}");
        assert!(matches!(error_of(&with_port), LinkError::NoContent { .. }));
        for name in [
            "/ipns/example.org",
            "ipns://example.org/a",
            "dweb:/ipns/example.org",
            "https://gateway.example/ipns/example.org",
            "https://example-org.ipns.dweb.link/",
        ] {
            assert!(matches!(error_of(name), LinkError::Ipns { .. }), "{name}");
        }
        assert_eq!(parse(&format!("http://a.ipns.example/p/{CID}")).cid.to_string(), CID);
        let peer = |peer: &str| error_of(&format!("watchfire:{CID}?peer={peer}"));
        assert!(matches!(peer("localhost"), LinkError::Peer { .. }));
        assert!(matches!(peer("/ip4/127.0.0.1/tcp/1"), LinkError::Peer { .. }));
        let many = format!("peer={PEER}&").repeat(33);
        let error = error_of(&format!("watchfire:{CID}?{many}"));
        assert_eq!(error, LinkError::TooManyPeers { max: 32 });
        let error = error_of(&"x".repeat(20_000));
        assert_eq!(error, LinkError::TooLong { len: 20_000, max: 16 * 1024 });
    }

    #[test]
    fn a_name_from_a_link_stays_in_the_folder() {
        let named = |name: &str| {
            let mut link = parse(CID);
            link.name = Some(name.to_owned());
            link.file_name()
        };
        assert_eq!(named("../../etc/passwd"), "passwd");
        assert_eq!(named("C:\\boot.ini"), "boot.ini");
        assert_eq!(named("..."), CID);
        assert_eq!(named("/"), CID);
        assert_eq!(named(".bashrc"), "bashrc");
        assert_eq!(named("-rf"), "rf");
        assert_eq!(named("exe.\u{202e}txt\n"), "exe.txt");
        assert_eq!(named(&"é".repeat(300)).len(), 254);
        let long = "b".repeat(209) + ".pdf";
        assert_eq!(named(&long), long);
        assert_eq!(named(&("b".repeat(300) + ".pdf")), "b".repeat(251) + ".pdf");
    }
}
