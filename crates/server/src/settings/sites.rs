use serde::{Deserialize, Serialize};

/// The hosts of sites: folders of web pages, each on an origin of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SitesSettings {
    /// A domain whose subdomains all lead to this server, such as `pages.example.org`. Empty: sites
    /// are shown only where the app is opened on `localhost`.
    pub domain: String,
    /// The app's origin, such as `https://watchfire.example.org`: only it may show the sites of
    /// `domain`.
    pub app: String,
}
