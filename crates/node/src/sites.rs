//! Hosts of sites: below `localhost`, and below the domain of the settings, each page that is a
//! folder of web pages has an origin of its own, `<cid>.<domain>`. Nothing is served there but what
//! lets a tab show the site itself; see `http/site_shell.rs`.

use content::Cid;

use crate::settings::SitesSettings;

/// Longest label of a host name.
const LABEL_BYTES_MAX: usize = 63;
const LOCALHOST: &str = "localhost";

/// Why the settings of sites cannot be meant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SitesError {
    /// The domain is no domain.
    #[error("sites.domain must be a domain such as \"pages.example.org\", without a port: {0:?}")]
    Domain(String),
    /// The app's origin is missing, or is none.
    #[error("sites.app must be the app's origin, such as \"https://watchfire.example.org\": {0:?}")]
    App(String),
    /// The app would be a site.
    #[error("sites.app must not lie in sites.domain: a site could pass for the app")]
    Inside,
}

/// Which hosts are those of sites, and who may show them.
#[derive(Clone, Debug)]
pub(crate) struct SiteHosts {
    /// `None` where there are no pages at all.
    domains: Option<Domains>,
}

#[derive(Clone, Debug)]
struct Domains {
    own: Option<OwnDomain>,
}

/// The domain of the settings.
#[derive(Clone, Debug)]
struct OwnDomain {
    domain: String,
    app: String,
    /// The app's host, with its port when it has one.
    app_authority: String,
    /// `:` and the app's port, or nothing.
    port: String,
}

/// Whom a request is for, by the host it names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Meant {
    /// The app, and all that is not a site.
    App,
    /// The site of a page. Its policy needs to know who may show it, as a list of origins.
    Site { embedders: String },
    /// A host below a domain of sites that is none of a page.
    NoSite,
    /// More than one host, of which nobody knows which counts.
    Ambiguous,
}

impl SiteHosts {
    /// Those of a server without pages: none.
    pub fn none() -> Self {
        SiteHosts { domains: None }
    }

    pub fn new(settings: &SitesSettings) -> Result<Self, SitesError> {
        let own = match settings.domain.as_str() {
            "" => None,
            _ => Some(OwnDomain::new(settings)?),
        };
        Ok(SiteHosts { domains: Some(Domains { own }) })
    }

    /// Whom a request is for that has these `Host` headers, and this authority in its target.
    pub fn meant<'a>(
        &self,
        mut hosts: impl Iterator<Item = &'a str>,
        authority: Option<&str>,
    ) -> Meant {
        let (host, second) = (hosts.next(), hosts.next());
        if self.domains.is_none() {
            return Meant::App;
        }
        if second.is_some() {
            return Meant::Ambiguous;
        }
        let by_host = host.map_or(Meant::App, |host| self.meant_by(host));
        match authority {
            // The target counts (RFC 9112, 3.2.2); another host beside it is no honest request.
            Some(authority) => {
                let by_target = self.meant_by(authority);
                if by_target == by_host || host.is_none() { by_target } else { Meant::Ambiguous }
            }
            None => by_host,
        }
    }

    fn meant_by(&self, authority: &str) -> Meant {
        let Some(domains) = &self.domains else { return Meant::App };
        let (host, port) = split_port(authority);
        if let Some(label) = label_below(host, LOCALHOST) {
            let app = format!("{LOCALHOST}{port}");
            return site_of(label, || app);
        }
        let Some(own) = &domains.own else { return Meant::App };
        match label_below(host, &own.domain) {
            Some(label) => site_of(label, || own.app.clone()),
            // The domain itself has nothing to show, and its cookies would be its sites' too.
            None if host.eq_ignore_ascii_case(&own.domain) => Meant::NoSite,
            None => Meant::App,
        }
    }

    /// What follows `<cid>.` in the host of a site, for an app at this authority; `None` where there
    /// are no sites.
    pub fn below(&self, app_authority: &str) -> Option<String> {
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
        // What goes into a policy must not be able to end it.
        if host.is_empty() || !host.split('.').all(is_label) {
            return Err(app_error());
        }
        if host == domain || label_below(host, &domain).is_some() {
            return Err(SitesError::Inside);
        }
        let (app_authority, port) = (authority.to_owned(), port.to_owned());
        Ok(OwnDomain { domain, app, app_authority, port })
    }
}

fn site_of(label: &str, embedders: impl FnOnce() -> String) -> Meant {
    let label = label.to_ascii_lowercase();
    let is_cid = label.len() <= LABEL_BYTES_MAX
        && label.parse::<Cid>().is_ok_and(|cid| cid.to_string() == label);
    if is_cid { Meant::Site { embedders: embedders() } } else { Meant::NoSite }
}

/// What stands before `.domain`, in any case, with or without the dot of the root at the end.
fn label_below<'a>(host: &'a str, domain: &str) -> Option<&'a str> {
    let dot = host.len().checked_sub(domain.len() + 1)?;
    let (label, rest) = (host.get(..dot)?, host.get(dot..)?);
    (rest.starts_with('.') && rest[1..].eq_ignore_ascii_case(domain)).then_some(label)
}

/// A host without the dot of the root, and `:port` or nothing. A user before it counts for nothing.
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

    fn wild() -> SiteHosts {
        SiteHosts::new(&settings("pages.example.org", "https://fire.example.net")).unwrap()
    }

    fn meant(hosts: &SiteHosts, host: &str) -> Meant {
        hosts.meant([host].into_iter(), None)
    }

    fn site(embedders: &str) -> Meant {
        Meant::Site { embedders: embedders.into() }
    }

    #[test]
    fn a_cid_below_localhost_is_a_site_however_it_is_written() {
        let shouted = CID.to_uppercase();
        for (host, app) in [
            (format!("{CID}.localhost:4000"), "localhost:4000"),
            (format!("{CID}.localhost"), "localhost"),
            (format!("{CID}.localhost."), "localhost"),
            (format!("{CID}.localhost.:4000"), "localhost:4000"),
            (format!("{CID}.localhost:"), "localhost"),
            (format!("{shouted}.LocalHost:80"), "localhost:80"),
            (format!("user@{CID}.localhost"), "localhost"),
            (format!(" {CID}.localhost "), "localhost"),
        ] {
            assert_eq!(meant(&local(), &host), site(app), "{host}");
        }
    }

    #[test]
    fn what_is_below_a_domain_of_sites_is_never_the_app() {
        for label in ["www", "a.b", "", "bafy", &format!("a.{CID}"), &format!("{CID}.a"), "ü"] {
            for domain in ["localhost", "pages.example.org", "localhost.", "LOCALHOST:1"] {
                let host = format!("{label}.{domain}");
                assert_eq!(meant(&wild(), &host), Meant::NoSite, "{host}");
            }
        }
        assert_eq!(meant(&wild(), "pages.example.org"), Meant::NoSite);
        assert_eq!(meant(&wild(), "PAGES.example.org.:443"), Meant::NoSite);
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
            assert_eq!(meant(&wild(), host), Meant::App, "{host}");
        }
        assert_eq!(wild().meant([].into_iter(), None), Meant::App);
    }

    #[test]
    fn the_domain_of_the_settings_has_sites_for_its_app_alone() {
        let host = format!("{CID}.pages.example.org");
        assert_eq!(meant(&wild(), &host), site("https://fire.example.net"));
        assert_eq!(meant(&local(), &host), Meant::App);
    }

    #[test]
    fn two_hosts_are_one_too_many() {
        let local = local();
        let site_host = format!("{CID}.localhost");
        let pair = [site_host.as_str(), "localhost"];
        assert_eq!(local.meant(pair.into_iter(), None), Meant::Ambiguous);
        assert_eq!(local.meant(["localhost"; 2].into_iter(), None), Meant::Ambiguous);
        assert_eq!(local.meant(["localhost"].into_iter(), Some(&site_host)), Meant::Ambiguous);
        assert_eq!(
            local.meant([site_host.as_str()].into_iter(), Some("localhost")),
            Meant::Ambiguous
        );
        let both = local.meant([site_host.as_str()].into_iter(), Some(&site_host));
        assert_eq!(both, site("localhost"));
        assert_eq!(local.meant([].into_iter(), Some(&site_host)), site("localhost"));
    }

    #[test]
    fn an_app_is_told_where_its_sites_are() {
        assert_eq!(wild().below("localhost:4000").as_deref(), Some("localhost:4000"));
        assert_eq!(wild().below("Fire.example.net").as_deref(), Some("pages.example.org"));
        assert_eq!(wild().below("example.org"), None);
        assert_eq!(wild().below("127.0.0.1:4000"), None);
        assert_eq!(local().below("fire.example.net"), None);
        let port = settings("pages.example.org", "https://fire.example.net:8443");
        let port = SiteHosts::new(&port).unwrap();
        assert_eq!(port.below("fire.example.net:8443").as_deref(), Some("pages.example.org:8443"));
        assert_eq!(port.below("fire.example.net"), None);
    }

    #[test]
    fn settings_that_cannot_be_meant_are_named() {
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
            assert_eq!(error, SitesError::Inside);
        }
    }
}
