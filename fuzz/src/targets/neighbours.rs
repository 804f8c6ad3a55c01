use watchfire_pages::Filter;

/// A filter is refused, or answers about every page.
pub fn neighbour_filter(bytes: &[u8]) {
    let Ok(filter) = Filter::decode(bytes) else { return };
    for page in ["", "bafkreidogqfzz75tpkmjzjke425xqcrmpcib2p5tg44hnbirumdbpl5adu"] {
        let _has_page = filter.contains(page);
    }
}
