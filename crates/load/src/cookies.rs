//! The cookies of one user (RFC 6265), of all servers that its session names.
//!
//! `Secure` is not looked at: a load is sent to the server behind a TLS proxy, where a login sets
//! such cookies too.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The most cookies of one user. When the limit is reached, the oldest one is dropped.
const COOKIES_MAX: usize = 50;
/// A longer cookie is ignored.
const COOKIE_BYTES_MAX: usize = 4096;

/// The cookies of one user, the oldest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct CookieJar(Vec<Cookie>);

#[derive(Clone, Debug, PartialEq)]
struct Cookie {
    name: String,
    value: String,
    path: String,
    /// The host that it is sent to, and whether also to the hosts below it.
    domain: String,
    is_for_subdomains: bool,
    /// Since 1970; `None` until the session ends.
    expires_at: Option<Duration>,
}

impl CookieJar {
    /// Stores the cookie of a `Set-Cookie` header. `host` and `path` belong to the request. A
    /// cookie that is invalid or for another host is ignored; one that has expired is removed.
    pub(crate) fn set(&mut self, header: &[u8], host: &str, path: &str, now: Duration) {
        let Some(cookie) = parse(header, host, path, now) else { return };
        let is_other = |known: &Cookie| {
            (&known.name, &known.path, &known.domain)
                != (&cookie.name, &cookie.path, &cookie.domain)
        };
        self.0.retain(is_other);
        if cookie.expires_at.is_some_and(|at| at <= now) {
            return;
        }
        if self.0.len() == COOKIES_MAX {
            self.0.remove(0);
        }
        self.0.push(cookie);
    }

    /// Appends the `Cookie` line of a request, if there are cookies for it. `own` has further ones,
    /// such as `a=1; b=2`.
    pub(crate) fn write(
        &self,
        host: &str,
        path: &str,
        now: Duration,
        own: &str,
        out: &mut Vec<u8>,
    ) {
        let is_sent = |cookie: &&Cookie| {
            let is_host = match cookie.is_for_subdomains {
                true => matches_domain(host, &cookie.domain),
                false => host.eq_ignore_ascii_case(&cookie.domain),
            };
            let is_current = cookie.expires_at.is_none_or(|at| at > now);
            is_host && is_current && matches_path(path, &cookie.path)
        };
        let mut sent: Vec<&Cookie> = self.0.iter().filter(is_sent).collect();
        // Section 5.4: longer paths first. The sort is stable, so older cookies come first.
        sent.sort_by_key(|cookie| std::cmp::Reverse(cookie.path.len()));
        let pairs = sent.iter().map(|cookie| format!("{}={}", cookie.name, cookie.value));
        let own = (!own.is_empty()).then(|| own.to_owned());
        let pairs: Vec<String> = pairs.chain(own).collect();
        if pairs.is_empty() {
            return;
        }
        out.extend_from_slice(b"Cookie: ");
        out.extend_from_slice(pairs.join("; ").as_bytes());
        out.extend_from_slice(b"\r\n");
    }
}

/// Seconds since 1970.
pub(crate) fn wall_clock() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Parses a `Set-Cookie` header (section 5.2).
fn parse(header: &[u8], host: &str, path: &str, now: Duration) -> Option<Cookie> {
    let text = str::from_utf8(header).ok().filter(|text| text.len() <= COOKIE_BYTES_MAX)?;
    if text.bytes().any(|byte| byte.is_ascii_control() && byte != b'\t') {
        return None;
    }
    let mut parts = text.split(';');
    let (name, value) = parts.next()?.split_once('=')?;
    let (name, value) = (name.trim(), value.trim());
    if name.is_empty() {
        return None;
    }
    let mut cookie = Cookie {
        name: name.to_owned(),
        value: value.to_owned(),
        path: default_path(path).to_owned(),
        domain: host.to_owned(),
        is_for_subdomains: false,
        expires_at: None,
    };
    let mut max_age = None;
    for part in parts {
        let (attribute, value) = part.split_once('=').unwrap_or((part, ""));
        let value = value.trim();
        match attribute.trim().to_ascii_lowercase().as_str() {
            "path" if value.starts_with('/') => cookie.path = value.to_owned(),
            "path" => cookie.path = default_path(path).to_owned(),
            "domain" if !value.is_empty() && !matches_domain(host, value) => return None,
            "domain" if !value.is_empty() => {
                cookie.domain = value.trim_start_matches('.').to_owned();
                cookie.is_for_subdomains = true;
            }
            // Section 5.3: Max-Age wins over Expires.
            "max-age" => max_age = expiry(value, now).or(max_age),
            "expires" => cookie.expires_at = date(value).or(cookie.expires_at),
            _ => {}
        }
    }
    cookie.expires_at = max_age.or(cookie.expires_at);
    Some(cookie)
}

/// When a `Max-Age` ends; `None` if it is not a number.
fn expiry(seconds: &str, now: Duration) -> Option<Duration> {
    let digits = seconds.strip_prefix('-').unwrap_or(seconds);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    if seconds.starts_with('-') {
        return Some(Duration::ZERO);
    }
    // More digits than fit are a late time too, and the bound keeps the sum from overflowing.
    let seconds = digits.parse().unwrap_or(u64::from(u32::MAX)).min(u64::from(u32::MAX));
    Some(now + Duration::from_secs(seconds))
}

/// The folder of a request's path (section 5.1.4).
fn default_path(path: &str) -> &str {
    let path = path.split(['?', '#']).next().unwrap_or_default();
    match path.rfind('/') {
        Some(0) | None => "/",
        Some(end) => &path[..end],
    }
}

fn matches_path(path: &str, of_cookie: &str) -> bool {
    let path = path.split(['?', '#']).next().unwrap_or_default();
    path.strip_prefix(of_cookie)
        .is_some_and(|rest| rest.is_empty() || of_cookie.ends_with('/') || rest.starts_with('/'))
}

fn matches_domain(host: &str, domain: &str) -> bool {
    let host = host.to_ascii_lowercase();
    let domain = domain.trim_start_matches('.').to_ascii_lowercase();
    // Section 5.1.3: an address has no subdomains, so `0.0.1` does not match 127.0.0.1.
    let is_address = host.parse::<std::net::IpAddr>().is_ok();
    host == domain
        || (!is_address && host.strip_suffix(&domain).is_some_and(|rest| rest.ends_with('.')))
}

/// Parses a date in any of the forms that servers send (section 5.1.1).
fn date(text: &str) -> Option<Duration> {
    const MONTHS: [&str; 12] =
        ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
    let (mut time, mut day, mut month, mut year) = (None, None, None, None);
    let is_delimiter = |one: char| !one.is_ascii_alphanumeric() && one != ':';
    for token in text.split(is_delimiter).filter(|token| !token.is_empty()) {
        let lower = token.to_ascii_lowercase();
        let number = token.parse::<u64>().ok();
        if token.contains(':') {
            let mut parts = token.split(':').map(|part| part.parse::<u64>().ok());
            if let (Some(Some(hour)), Some(Some(minute)), Some(Some(second))) =
                (parts.next(), parts.next(), parts.next())
            {
                time = time.or(Some((hour, minute, second)));
            }
        } else if let (None, Some(number @ 1..=31)) = (day, number.filter(|_| token.len() <= 2)) {
            day = Some(number);
        } else if let (None, Some(at)) =
            (month, MONTHS.iter().position(|month| lower.starts_with(month)))
        {
            month = Some(at as u64 + 1);
        } else if let (None, Some(number)) = (year, number) {
            year = Some(match number {
                70..=99 => number + 1900,
                0..=69 => number + 2000,
                number => number,
            });
        }
    }
    let ((hour, minute, second), day, month, year) = (time?, day?, month?, year?);
    if !(1601..=9999).contains(&year) || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    if year < 1970 {
        return Some(Duration::ZERO);
    }
    let days = days_since_1970(year, month, day);
    Some(Duration::from_secs(((days * 24 + hour) * 60 + minute) * 60 + second))
}

/// Days from 1970-01-01 to a date of the Gregorian calendar. Years are counted from March here, so
/// that the leap day is the last one.
fn days_since_1970(year: u64, month: u64, day: u64) -> u64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days_to_year = year * 365 + year / 4 - year / 100 + year / 400;
    // The months from March on have 31, 30, 31, 30, 31 days, and again.
    days_to_year + (month * 153 + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(1_700_000_000);

    fn sent(jar: &CookieJar, path: &str, now: Duration) -> String {
        let mut out = Vec::new();
        jar.write("shop.example", path, now, "", &mut out);
        String::from_utf8(out).unwrap()
    }

    fn jar(headers: &[&str]) -> CookieJar {
        let mut jar = CookieJar::default();
        for header in headers {
            jar.set(header.as_bytes(), "shop.example", "/account/login?next=/", NOW);
        }
        jar
    }

    #[test]
    fn cookies_are_sent_to_the_paths_that_they_are_for() {
        let jar = jar(&[
            "sid=a=b; Path=/; HttpOnly",
            "deep=1; path=/a/b",
            "own=2",
            "x=3; Secure; Path=/",
        ]);
        assert_eq!(sent(&jar, "/", NOW), "Cookie: sid=a=b; x=3\r\n");
        assert_eq!(sent(&jar, "/a/b?c", NOW), "Cookie: deep=1; sid=a=b; x=3\r\n");
        assert_eq!(sent(&jar, "/a/bc", NOW), "Cookie: sid=a=b; x=3\r\n");
        assert_eq!(sent(&jar, "/account/x", NOW), "Cookie: own=2; sid=a=b; x=3\r\n");
        assert_eq!(sent(&CookieJar::default(), "/", NOW), "");
    }

    #[test]
    fn a_cookie_is_replaced_expires_and_is_removed() {
        let mut jar = jar(&["a=1; Path=/; Max-Age=60", "b=1; Path=/", "a=2; Path=/; Max-Age=60"]);
        assert_eq!(sent(&jar, "/", NOW), "Cookie: b=1; a=2\r\n");
        assert_eq!(sent(&jar, "/", NOW + Duration::from_secs(60)), "Cookie: b=1\r\n");
        let past = "b=; Path=/; Expires=Thu, 01 Jan 1970 00:00:00 GMT";
        jar.set(past.as_bytes(), "shop.example", "/", NOW);
        assert_eq!(sent(&jar, "/", NOW), "Cookie: a=2\r\n");
        let gone = b"a=; Path=/; Max-Age=0; Expires=Thu, 01 Jan 2099 00:00:00 GMT";
        jar.set(gone, "shop.example", "/", NOW);
        assert_eq!(jar, CookieJar::default());
    }

    #[test]
    fn a_cookie_of_another_host_or_without_a_name_is_ignored() {
        let refused =
            ["a=1; Domain=other.example", "a=1; Domain=op.example", "=1", "a", "", "a=\x01"];
        assert_eq!(jar(&refused), CookieJar::default());
        let taken = jar(&["a=1; Domain=.Shop.example", "b=1; Domain=example"]);
        assert_eq!(taken.0.len(), 2);
        let sent_to = |host| {
            let mut out = Vec::new();
            jar(&["a=1; Domain=.Shop.example; Path=/", "b=1; Path=/"])
                .write(host, "/", NOW, "c=3", &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(sent_to("SHOP.example"), "Cookie: a=1; b=1; c=3\r\n");
        assert_eq!(sent_to("www.shop.example"), "Cookie: a=1; c=3\r\n");
        assert_eq!(sent_to("workshop.example"), "Cookie: c=3\r\n");
        assert!(!matches_domain("127.0.0.1", "0.1"));
    }

    #[test]
    fn the_number_and_the_size_of_cookies_are_bounded() {
        let mut jar = CookieJar::default();
        for number in 0..COOKIES_MAX + 5 {
            jar.set(format!("c{number}=1").as_bytes(), "h", "/", NOW);
        }
        jar.set(format!("long={}", "x".repeat(COOKIE_BYTES_MAX)).as_bytes(), "h", "/", NOW);
        let names: Vec<&str> = jar.0.iter().map(|cookie| cookie.name.as_str()).collect();
        assert_eq!((names.len(), names[0]), (COOKIES_MAX, "c5"));
    }

    #[test]
    fn dates_are_read_in_the_forms_of_rfc_6265() {
        for text in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
        ] {
            assert_eq!(date(text), Some(Duration::from_secs(784_111_777)), "{text}");
        }
        assert_eq!(date("Thu, 01 Jan 1970 00:00:00 GMT"), Some(Duration::ZERO));
        assert_eq!(date("Thu, 29 Feb 2024 00:00:00 GMT"), Some(Duration::from_secs(1_709_164_800)));
        for text in ["", "soon", "06 Nov 1994", "06 Nov 1994 25:00:00"] {
            assert_eq!(date(text), None, "{text}");
        }
    }
}
