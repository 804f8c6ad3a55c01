use serde::{Deserialize, Serialize};

use watchfire_settings::section;

section! {
    "sites";
    /// The hosts of sites: folders of web pages, each on an origin of its own.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct SitesSettings {
        /// A page that is a folder with an index.html is shown as a site, on an origin of its own.
        /// Where the app is opened on localhost, that is `<cid>.localhost`. For other visitors, set
        /// a domain whose subdomains all lead to this server, with a certificate for them, such as
        /// `"pages.example.org"`; preferably of another registrable domain than the app's. Empty:
        /// they see single files of it, in a sandboxed frame.
        domain: String = String::new();
        /// The app's origin, such as `"https://watchfire.example.org"`: only it may show the sites.
        /// Required with a domain.
        app: String = String::new();
    }
}
