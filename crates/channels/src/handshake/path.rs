/// Whether a request's path is that of a socket. Empty segments do not count, as in Phoenix: a client that is
/// set to `/socket/` requests `/socket//websocket`.
pub fn is_same_path(path: &str, expected: &str) -> bool {
    path == expected || (path.len() > expected.len() && segments(path).eq(segments(expected)))
}

fn segments(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|segment| !segment.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_segments_of_a_path_do_not_count() {
        let is_same = |path| is_same_path(path, "/socket/websocket");
        for path in
            ["/socket/websocket", "/socket//websocket", "//socket/websocket", "/socket/websocket/"]
        {
            assert!(is_same(path), "{path}");
        }
        for path in
            ["", "/", "/socket", "/socketwebsocket/", "/socket/websocket/a", "/a/socket/websocket"]
        {
            assert!(!is_same(path), "{path}");
        }
    }
}
