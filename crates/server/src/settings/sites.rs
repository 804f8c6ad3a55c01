use serde::{Deserialize, Serialize};

/// Where folders of web pages are shown, each on an origin of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SitesSettings {
    /// A domain all of whose subdomains lead to this server, such as `pages.example.org`. Empty:
    /// sites are shown to those alone who open the app on `localhost`.
    pub domain: String,
    /// The origin at which people open the app, such as `https://watchfire.example.org`: only it
    /// may show the sites of `domain`.
    pub app: String,
}
