//! Without the feature `pages`, every request is for the application.

pub(crate) struct SiteHosts;

#[derive(PartialEq)]
pub(crate) enum RequestTarget {
    App,
}

impl SiteHosts {
    pub fn none() -> Self {
        SiteHosts
    }

    pub fn target_of<'a>(
        &self,
        _: impl IntoIterator<Item = &'a str>,
        _: Option<&str>,
    ) -> RequestTarget {
        RequestTarget::App
    }

    pub fn site_authority(&self, _: &str) -> Option<String> {
        None
    }
}
