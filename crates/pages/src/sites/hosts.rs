//! The hosts of sites. Below `localhost`, and below the domain of the settings, each page that is a
//! folder of web pages has an origin of its own, `<cid>.<domain>`.

use crate::settings::SitesSettings;
use watchfire_content::Cid;

/// The longest label of a host name, in bytes.
const LABEL_BYTES_MAX: usize = 63;
const LOCALHOST: &str = "localhost";

/// Why the settings of sites are invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SitesError {
    #[error(
        "cannot use sites.domain {0:?}: it must be a domain without a port, such as \"pages.example.org\""
    )]
    Domain(String),
    #[error(
        "cannot use sites.app {0:?}: it must be the app's origin, such as \"https://watchfire.example.org\""
    )]
    App(String),
    #[error(
        "cannot use sites.app: it lies in sites.domain, where a site could pass for the app; use another domain"
    )]
    AppInsideDomain,
}

/// Decides which hosts belong to sites, and which origin may show them.
#[derive(Clone, Debug)]
pub(crate) struct SiteHosts {
    /// `None` on a server without pages.
    domains: Option<Domains>,
}

#[derive(Clone, Debug)]
struct Domains {
    own: Option<OwnDomain>,
}

#[derive(Clone, Debug)]
struct OwnDomain {
    domain: String,
    app: String,
    /// The app's host, with its port when it has one.
    app_authority: String,
    /// `:` and the app's port, or nothing.
    port: String,
}

/// The target of a request, from the host it names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RequestTarget {
    /// The app, and everything else that is not a site.
    App,
    /// The site of a page. `embedders` are the origins that may show it, for its content security
    /// policy.
    Site { embedders: String },
    /// A host below a domain of sites that does not name a page.
    NoSite,
    /// More than one host, so the target is unclear.
    Ambiguous,
}

impl SiteHosts {
    pub fn new(settings: &SitesSettings) -> Result<Self, SitesError> {
        let own = match settings.domain.as_str() {
            "" => None,
            _ => Some(OwnDomain::new(settings)?),
        };
        Ok(SiteHosts { domains: Some(Domains { own }) })
    }

    /// The target of a request, from its `Host` headers and the authority in its request line.
    pub fn target_of<'a>(
        &self,
        mut hosts: impl Iterator<Item = &'a str>,
        authority: Option<&str>,
    ) -> RequestTarget {
        let (host, second) = (hosts.next(), hosts.next());
        if self.domains.is_none() {
            return RequestTarget::App;
        }
        if second.is_some() {
            return RequestTarget::Ambiguous;
        }
        let by_host = host.map_or(RequestTarget::App, |host| self.target_of_host(host));
        match authority {
            // The request line takes precedence (RFC 9112, 3.2.2). A different `Host` is an attack.
            Some(authority) => {
                let by_target = self.target_of_host(authority);
                if by_target == by_host || host.is_none() {
                    by_target
                } else {
                    RequestTarget::Ambiguous
                }
            }
            None => by_host,
        }
    }

    fn target_of_host(&self, authority: &str) -> RequestTarget {
        let Some(domains) = &self.domains else { return RequestTarget::App };
        let (host, port) = split_port(authority);
        if let Some(label) = label_below(host, LOCALHOST) {
            let app = format!("{LOCALHOST}{port}");
            return site_of(label, || app);
        }
        let Some(own) = &domains.own else { return RequestTarget::App };
        match label_below(host, &own.domain) {
            Some(label) => site_of(label, || own.app.clone()),
            // The domain itself shows nothing: its cookies would be valid on its sites too.
            None if host.eq_ignore_ascii_case(&own.domain) => RequestTarget::NoSite,
            None => RequestTarget::App,
        }
    }

    /// The part after `<cid>.` in the host of a site, for an app at this authority. `None` when
    /// that app has no sites.
    pub fn site_authority(&self, app_authority: &str) -> Option<String> {
        let domains = self.domains.as_ref()?;
        let (host, port) = split_port(app_authority);
        if host.eq_ignore_ascii_case(LOCALHOST) {
            return Some(format!("{LOCALHOST}{port}"));
        }
        let own = domains.own.as_ref()?;
        let is_app = app_authority.eq_ignore_ascii_case(&own.app_authority);
        is_app.then(|| format!("{}{}", own.domain, own.port))
    }
}

impl OwnDomain {
    fn new(settings: &SitesSettings) -> Result<Self, SitesError> {
        let domain = settings.domain.to_ascii_lowercase();
        let is_label = |label: &str| {
            (1..=LABEL_BYTES_MAX).contains(&label.len())
                && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        };
        if !domain.contains('.') || !domain.split('.').all(is_label) {
            return Err(SitesError::Domain(settings.domain.clone()));
        }
        let app = settings.app.to_ascii_lowercase();
        let app_error = || SitesError::App(settings.app.clone());
        let authority = app.strip_prefix("https://").or_else(|| app.strip_prefix("http://"));
        let authority = authority.ok_or_else(app_error)?;
        let (host, port) = split_port(authority);
        // The origin goes into a content security policy and must not be able to end a directive.
        if host.is_empty() || !host.split('.').all(is_label) {
            return Err(app_error());
        }
        if host == domain || label_below(host, &domain).is_some() {
            return Err(SitesError::AppInsideDomain);
        }
        let (app_authority, port) = (authority.to_owned(), port.to_owned());
        Ok(OwnDomain { domain, app, app_authority, port })
    }
}

fn site_of(label: &str, embedders: impl FnOnce() -> String) -> RequestTarget {
    let label = label.to_ascii_lowercase();
    let is_cid = label.len() <= LABEL_BYTES_MAX
        && label.parse::<Cid>().is_ok_and(|cid| cid.to_string() == label);
    if is_cid { RequestTarget::Site { embedders: embedders() } } else { RequestTarget::NoSite }
}

/// The part of a host before `.domain`, in upper or lower case, with or without a final dot.
fn label_below<'a>(host: &'a str, domain: &str) -> Option<&'a str> {
    let dot = host.len().checked_sub(domain.len() + 1)?;
    let (label, rest) = (host.get(..dot)?, host.get(dot..)?);
    (rest.starts_with('.') && rest[1..].eq_ignore_ascii_case(domain)).then_some(label)
}

/// A host without its final dot, and `:port` or nothing. A user name before the host is ignored.
fn split_port(authority: &str) -> (&str, &str) {
    let authority = authority.trim_ascii();
    let authority = authority.rsplit_once('@').map_or(authority, |(_, after)| after);
    let (host, port) = match authority.rfind(':') {
        Some(at) if authority[at + 1..].bytes().all(|byte| byte.is_ascii_digit()) => {
            authority.split_at(at)
        }
        _ => (authority, ""),
    };
    (host.strip_suffix('.').unwrap_or(host), if port == ":" { "" } else { port })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CID: &str = "bafybeicl2vqmrnvrbfywpem5bcbbv2vx4fwsg5ooa6yvmczz3dvh5f7pzm";

    fn settings(domain: &str, app: &str) -> SitesSettings {
        SitesSettings { domain: domain.into(), app: app.into() }
    }

    fn local() -> SiteHosts {
        SiteHosts::new(&SitesSettings::default()).unwrap()
    }

    fn with_domain() -> SiteHosts {
        SiteHosts::new(&settings("pages.example.org", "https://fire.example.net")).unwrap()
    }

    fn target(hosts: &SiteHosts, host: &str) -> RequestTarget {
        hosts.target_of([host].into_iter(), None)
    }

    fn site(embedders: &str) -> RequestTarget {
        RequestTarget::Site { embedders: embedders.into() }
    }

    #[test]
    fn a_cid_below_localhost_is_a_site_in_any_spelling() {
        let upper_case = CID.to_uppercase();
        for (host, app) in [
            (format!("{CID}.localhost:4000"), "localhost:4000"),
            (format!("{CID}.localhost"), "localhost"),
            (format!("{CID}.localhost."), "localhost"),
            (format!("{CID}.localhost.:4000"), "localhost:4000"),
            (format!("{CID}.localhost:"), "localhost"),
            (format!("{upper_case}.LocalHost:80"), "localhost:80"),
            (format!("user@{CID}.localhost"), "localhost"),
            (format!(" {CID}.localhost "), "localhost"),
        ] {
            assert_eq!(target(&local(), &host), site(app), "{host}");
        }
    }

    #[test]
    fn a_host_below_a_domain_of_sites_is_never_the_app() {
        for label in ["www", "a.b", "", "bafy", &format!("a.{CID}"), &format!("{CID}.a"), "ü"] {
            for domain in ["localhost", "pages.example.org", "localhost.", "LOCALHOST:1"] {
                let host = format!("{label}.{domain}");
                assert_eq!(target(&with_domain(), &host), RequestTarget::NoSite, "{host}");
            }
        }
        assert_eq!(target(&with_domain(), "pages.example.org"), RequestTarget::NoSite);
        assert_eq!(target(&with_domain(), "PAGES.example.org.:443"), RequestTarget::NoSite);
    }

    #[test]
    fn other_hosts_are_the_app() {
        for host in [
            "localhost",
            "localhost:4000",
            "localhost.",
            "127.0.0.1:4000",
            "[::1]:4000",
            "",
            "fire.example.net",
            "example.org",
            "xpages.example.org",
            "notlocalhost",
            &format!("{CID}.localhost.example.net"),
            CID,
        ] {
            assert_eq!(target(&with_domain(), host), RequestTarget::App, "{host}");
        }
        assert_eq!(with_domain().target_of([].into_iter(), None), RequestTarget::App);
    }

    #[test]
    fn the_configured_domain_has_sites_for_its_own_app_only() {
        let host = format!("{CID}.pages.example.org");
        assert_eq!(target(&with_domain(), &host), site("https://fire.example.net"));
        assert_eq!(target(&local(), &host), RequestTarget::App);
    }

    #[test]
    fn a_request_with_two_hosts_is_ambiguous() {
        let local = local();
        let site_host = format!("{CID}.localhost");
        let pair = [site_host.as_str(), "localhost"];
        assert_eq!(local.target_of(pair.into_iter(), None), RequestTarget::Ambiguous);
        assert_eq!(local.target_of(["localhost"; 2].into_iter(), None), RequestTarget::Ambiguous);
        assert_eq!(
            local.target_of(["localhost"].into_iter(), Some(&site_host)),
            RequestTarget::Ambiguous
        );
        assert_eq!(
            local.target_of([site_host.as_str()].into_iter(), Some("localhost")),
            RequestTarget::Ambiguous
        );
        let both = local.target_of([site_host.as_str()].into_iter(), Some(&site_host));
        assert_eq!(both, site("localhost"));
        assert_eq!(local.target_of([].into_iter(), Some(&site_host)), site("localhost"));
    }

    #[test]
    fn each_app_has_its_own_site_authority() {
        assert_eq!(
            with_domain().site_authority("localhost:4000").as_deref(),
            Some("localhost:4000")
        );
        assert_eq!(
            with_domain().site_authority("Fire.example.net").as_deref(),
            Some("pages.example.org")
        );
        assert_eq!(with_domain().site_authority("example.org"), None);
        assert_eq!(with_domain().site_authority("127.0.0.1:4000"), None);
        assert_eq!(local().site_authority("fire.example.net"), None);
        let port = settings("pages.example.org", "https://fire.example.net:8443");
        let port = SiteHosts::new(&port).unwrap();
        assert_eq!(
            port.site_authority("fire.example.net:8443").as_deref(),
            Some("pages.example.org:8443")
        );
        assert_eq!(port.site_authority("fire.example.net"), None);
    }

    #[test]
    fn invalid_settings_are_rejected_with_their_value() {
        for domain in ["localhost", "*.example.org", "pages.example.org:443", "a..b", "http://a.b"]
        {
            let error = SiteHosts::new(&settings(domain, "https://a.example")).unwrap_err();
            assert_eq!(error, SitesError::Domain(domain.into()));
        }
        for app in ["", "example.net", "https://", "https://a.b/c", "https://a.b; x", "ftp://a.b"] {
            let error = SiteHosts::new(&settings("pages.example.org", app)).unwrap_err();
            assert_eq!(error, SitesError::App(app.into()));
        }
        for app in ["https://pages.example.org", "https://app.pages.example.org"] {
            let error = SiteHosts::new(&settings("pages.example.org", app)).unwrap_err();
            assert_eq!(error, SitesError::AppInsideDomain);
        }
    }
}
