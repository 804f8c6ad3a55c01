//! Registries that answer as RFC 9110 lets them, and not as most do.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::join_all;
use watchfire_mirror::oci::Digest;
use watchfire_testkit::{HttpServer, Received, eventually_async, response};

use crate::fleet::start_fleet;
use crate::support::{
    DOCKER, DOCKER_LIST, TestMirror, chunked, head_only, manifest_of, manifest_response, mirror,
    raw_response,
};

fn not_found() -> Vec<u8> {
    response("404 Not Found", &[], b"{}")
}

/// The answer to a request, without its body for `HEAD`.
fn for_method(seen: &Received, answer: Vec<u8>) -> Vec<u8> {
    if seen.method == "HEAD" { head_only(answer) } else { answer }
}

fn url(server: &HttpServer) -> String {
    format!("http://{}", server.address)
}

/// A registry with an image for two platforms: without lists a client gets the manifest of one.
fn two_platforms(is_down: Arc<AtomicBool>) -> HttpServer {
    let amd64 = manifest_of(&[b"amd64"]);
    let list = br#"{"schemaVersion":2,"manifests":[]}"#;
    HttpServer::start(move |seen| {
        if is_down.load(Ordering::Relaxed) {
            return Some(response("503 Down", &[], b""));
        }
        // A digest decides, and for a tag what is accepted.
        let is_list = match seen.path.contains("sha256:") {
            true => seen.path.contains(&Digest::sha256(list).to_string()),
            false => seen.header("accept").contains(DOCKER_LIST),
        };
        let answer = match is_list {
            true => manifest_response(DOCKER_LIST, list),
            false => manifest_response(DOCKER, &amd64),
        };
        Some(for_method(seen, answer))
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_accept_named_serves_only_an_equal_accept() {
    let server = two_platforms(Arc::default());
    let mirror =
        mirror(&[url(&server)], |settings| settings.tag_ttl = Duration::from_secs(600)).await;
    let only = format!("Accept: {DOCKER}");
    let both = format!("Accept: {DOCKER}, {DOCKER_LIST}");
    let reordered = [format!("Accept: {DOCKER_LIST}"), format!("ACCEPT:{DOCKER}")];
    let reordered: Vec<&str> = reordered.iter().map(String::as_str).collect();
    for (lines, media_type, source) in [
        (&[only.as_str()][..], DOCKER, "registry"),
        (&[both.as_str()], DOCKER_LIST, "registry"),
        (&[only.as_str()], DOCKER, "store"),
        (&reordered, DOCKER_LIST, "store"),
        (&[], DOCKER_LIST, "registry"),
    ] {
        for method in ["GET", "HEAD"] {
            let answer = mirror.request(method, "/v2/a/manifests/v1", lines).await;
            assert_eq!(
                (answer.status, answer.header("content-type")),
                (200, media_type),
                "{lines:?}"
            );
            if method == "GET" {
                assert_eq!(answer.header("watchfire-source"), source, "{lines:?}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_registry_is_down_a_client_gets_no_platform_that_was_chosen_for_another() {
    let is_down = Arc::new(AtomicBool::new(false));
    let server = two_platforms(is_down.clone());
    let upstreams = [url(&server)];
    let mirror = mirror(&upstreams, |settings| {
        settings.tag_ttl = Duration::ZERO;
        settings.offline_ok = true;
    });
    let mirror = mirror.await;
    let only = format!("Accept: {DOCKER}");
    let both = format!("Accept: {DOCKER_LIST}, {DOCKER}");
    assert_eq!(mirror.request("GET", "/v2/a/manifests/v1", &[&only]).await.status, 200);
    is_down.store(true, Ordering::Relaxed);
    assert_eq!(mirror.request("GET", "/v2/a/manifests/v1", &[&only]).await.status, 200);
    assert_eq!(mirror.request("GET", "/v2/a/manifests/v1", &[&both]).await.status, 502);
    is_down.store(false, Ordering::Relaxed);
    assert_eq!(mirror.request("GET", "/v2/a/manifests/v1", &[&both]).await.status, 200);
    is_down.store(true, Ordering::Relaxed);
    // A list is for every client that reads it.
    let lists = format!("Accept: {DOCKER_LIST}, application/vnd.oci.image.index.v1+json");
    let answer = mirror.request("GET", "/v2/a/manifests/v1", &[&lists]).await;
    assert_eq!((answer.status, answer.header("content-type")), (200, DOCKER_LIST));
}

fn with_layer(
    layer: Arc<Vec<u8>>,
    blob: impl Fn(&Received, &[u8]) -> Vec<u8> + Clone + Send + 'static,
) -> HttpServer {
    let manifest = manifest_of(&[&layer]);
    HttpServer::start(move |seen| {
        let answer = match seen.path.contains("/manifests/") {
            true => manifest_response(DOCKER, &manifest),
            false => blob(seen, &layer),
        };
        Some(for_method(seen, answer))
    })
}

/// Bytes that differ from block to block.
fn content(bytes: usize) -> Arc<Vec<u8>> {
    Arc::new((0..bytes).map(|at| (at / 251 + at % 251) as u8).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_blob_without_a_length_is_served() {
    let layer = content(3_000_000);
    let server = with_layer(layer.clone(), |_, layer| chunked("200 OK", &[], layer));
    for knows_manifest in [true, false] {
        let mirror = mirror(&[url(&server)], |_| {}).await;
        if knows_manifest {
            assert_eq!(mirror.get("/v2/a/manifests/v1").await.status, 200);
        }
        let path = format!("/v2/a/blobs/{}", Digest::sha256(&layer));
        let head = mirror.request("HEAD", &path, &[]).await;
        let length = if knows_manifest { "3000000" } else { "" };
        assert_eq!((head.status, head.header("content-length")), (200, length));
        for source in ["registry", "store"] {
            let answer = mirror.get(&path).await;
            assert_eq!((answer.status, answer.header("watchfire-source")), (200, source));
            assert!(answer.is_complete && answer.body == *layer);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ranges_that_are_announced_and_not_sent_do_not_matter() {
    // Two segments, so several connections ask for ranges.
    let layer = content(18 << 20);
    let accepts = "Accept-Ranges: bytes";
    type Blob = fn(&Received, &[u8]) -> Vec<u8>;
    let range = |seen: &Received| -> Option<(usize, usize)> {
        let (start, end) = seen.header("range").strip_prefix("bytes=")?.split_once('-')?;
        Some((start.parse().ok()?, end.parse().ok()?))
    };
    let ignored: Blob = |_, layer| response("200 OK", &["Accept-Ranges: bytes"], layer);
    let refused: Blob = |seen, layer| match seen.header("range") {
        "" => response("200 OK", &["Accept-Ranges: bytes"], layer),
        _ => response("416 Range Not Satisfiable", &[], b""),
    };
    let short = move |seen: &Received, layer: &[u8]| match range(seen) {
        None => response("200 OK", &[accepts], layer),
        Some((start, end)) => {
            let end = end.min(start + 99_999);
            let line = format!("Content-Range: bytes {start}-{end}/{}", layer.len());
            response("206 Partial Content", &[accepts, &line], &layer[start..=end])
        }
    };
    let servers = [
        with_layer(layer.clone(), ignored),
        with_layer(layer.clone(), refused),
        with_layer(layer.clone(), short),
    ];
    for (number, server) in servers.iter().enumerate() {
        let mirror = mirror(&[url(server)], |_| {}).await;
        assert_eq!(mirror.get("/v2/a/manifests/v1").await.status, 200);
        let answer = mirror.get(&format!("/v2/a/blobs/{}", Digest::sha256(&layer))).await;
        assert_eq!(answer.status, 200, "server {number}");
        assert!(answer.is_complete && answer.body == *layer, "server {number}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registry_that_refuses_head_is_asked_with_get() {
    let layer = content(100);
    for refusal in
        ["405 Method Not Allowed", "403 Forbidden", "404 Not Found", "501 Not Implemented"]
    {
        let (layer, manifest) = (layer.clone(), manifest_of(&[&layer]));
        let path = format!("/v2/a/blobs/{}", Digest::sha256(&layer));
        let by_digest = format!("/v2/a/manifests/{}", Digest::sha256(&manifest));
        let server = HttpServer::start(move |seen| {
            Some(match seen.path.as_str() {
                _ if seen.method == "HEAD" => head_only(response(refusal, &[], b"")),
                path if path.contains("/manifests/") => manifest_response(DOCKER, &manifest),
                _ => response("200 OK", &[], layer.as_slice()),
            })
        });
        let mirror = mirror(&[url(&server)], |settings| settings.access_ttl = Duration::ZERO).await;
        for path in ["/v2/a/manifests/v1", &by_digest, &by_digest, &path] {
            for method in ["GET", "HEAD"] {
                let answer = mirror.request(method, path, &[]).await;
                assert_eq!(answer.status, 200, "{refusal}: {method} {path}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_registry_lacks_is_not_found() {
    let server = HttpServer::start(|seen| Some(for_method(seen, not_found())));
    let mirror = mirror(&[url(&server)], |_| {}).await;
    let digest = Digest::sha256(b"x");
    for path in
        ["manifests/v1".to_owned(), format!("manifests/{digest}"), format!("blobs/{digest}")]
    {
        assert_eq!(mirror.get(&format!("/v2/a/{path}")).await.status, 404, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_page_of_a_list_is_at_the_same_registry() {
    let first = HttpServer::start(|_| Some(not_found()));
    let second = HttpServer::start(|seen| {
        let lines = [
            "Link: </v2/x/tags/list?n=3>; rel=\"first\"",
            "Link: </v2/x/tags/list?n=3&last=c>; rel=\"next\"",
        ];
        let lines = if seen.path.contains("last=c") { &[][..] } else { &lines };
        Some(response("200 OK", lines, br#"{"name":"x","tags":[]}"#))
    });
    let upstreams = [url(&first), format!("second.example={}", url(&second))];
    let mirror = mirror(&upstreams, |_| {}).await;
    for path in ["/v2/second.example/x/tags/list?n=3", "/v2/x/tags/list?n=3&ns=second.example"] {
        let answer = mirror.get(path).await;
        let link = answer.header("link");
        let next = link.strip_prefix('<').and_then(|link| link.strip_suffix(">; rel=\"next\""));
        let next = mirror.get(next.unwrap_or_else(|| panic!("{link}"))).await;
        assert_eq!((next.status, next.header("link")), (200, ""), "{path}");
    }
    assert_eq!((first.received().len(), second.received().len()), (0, 4));
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_pulls_of_a_cold_tag_ask_the_registry_once() {
    let manifest = manifest_of(&[b"x"]);
    // The registry answers when all clients wait, so no client is served from the store.
    let (gate, opened) = std::sync::mpsc::channel::<()>();
    let opened = Arc::new(std::sync::Mutex::new(opened));
    let server = HttpServer::start(move |seen| {
        if seen.method == "HEAD" {
            // It fails when the gate is open for all.
            let _ = opened.lock().unwrap().recv();
        }
        Some(for_method(seen, manifest_response(DOCKER, &manifest)))
    });
    let mirror = Arc::new(mirror(&[url(&server)], |_| {}).await);
    let pulls: Vec<_> = (0..50)
        .map(|_| {
            let mirror = mirror.clone();
            tokio::spawn(async move { mirror.get("/v2/a/manifests/v1").await })
        })
        .collect();
    eventually_async("a client asks", async || server.count("HEAD", "/manifests/v1") > 0).await;
    drop(gate);
    for pull in pulls {
        let answer = pull.await.unwrap();
        assert_eq!(answer.status, 200);
    }
    assert_eq!((server.count("HEAD", "/manifests/"), server.count("GET", "/manifests/")), (1, 1));
}

/// A registry that wants a token, and counts the tokens that it gave. `refused` are given and not taken.
fn with_tokens(
    challenge: fn(&str) -> Vec<String>,
    refused: fn(usize) -> bool,
) -> (HttpServer, Arc<AtomicUsize>) {
    let given = Arc::new(AtomicUsize::new(0));
    let count = given.clone();
    let manifest = manifest_of(&[b"x"]);
    let server = HttpServer::start(move |seen| {
        if seen.path.starts_with("/token") {
            let number = count.fetch_add(1, Ordering::Relaxed);
            let body = format!(r#"{{"token":"t{number}","expires_in":3600}}"#);
            return Some(response("200 OK", &[], body.as_bytes()));
        }
        let last = count.load(Ordering::Relaxed).checked_sub(1);
        let is_taken = last.is_some_and(|last| {
            !refused(last) && seen.header("authorization") == format!("Bearer t{last}")
        });
        if is_taken {
            return Some(for_method(seen, manifest_response(DOCKER, &manifest)));
        }
        let lines = challenge(&format!("http://{}/token", seen.header("host")));
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        Some(for_method(seen, response("401 Unauthorized", &lines, b"")))
    });
    (server, given)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_challenge_for_a_token_is_found_among_others() {
    let forms: [fn(&str) -> Vec<String>; 6] = [
        |_| vec!["WWW-Authenticate: Bearer realm=\"/token\",service=\"\",scope=\"\"".into()],
        |realm| vec![format!("WWW-Authenticate: Basic realm=\"\u{e4}\", Bearer realm=\"{realm}\"")],
        |realm| vec![format!("WWW-Authenticate: Bearer realm=\"{realm}\",service=\"s\"")],
        |realm| vec![format!("WWW-Authenticate: Basic realm=\"a, b\", Bearer realm=\"{realm}\"")],
        |realm| {
            vec![
                "WWW-Authenticate: Basic realm=\"x\"".into(),
                format!("www-authenticate: bearer REALM={realm}"),
            ]
        },
        |realm| vec![format!("WWW-Authenticate: Negotiate, Bearer realm = \"{realm}\" , x=y")],
    ];
    for (number, form) in forms.into_iter().enumerate() {
        let (server, given) = with_tokens(form, |_| false);
        let mirror = mirror(&[url(&server)], |_| {}).await;
        assert_eq!(mirror.get("/v2/a/manifests/v1").await.status, 200, "form {number}");
        assert_eq!(given.load(Ordering::Relaxed), 1, "form {number}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_the_registry_takes_no_more_is_replaced() {
    let bearer = |realm: &str| vec![format!("WWW-Authenticate: Bearer realm=\"{realm}\"")];
    let (server, given) = with_tokens(bearer, |_| false);
    let mirror = mirror(&[url(&server)], |settings| settings.tag_ttl = Duration::ZERO).await;
    assert_eq!(mirror.get("/v2/a/manifests/v1").await.status, 200);
    // The registry forgets the first token.
    given.fetch_add(1, Ordering::Relaxed);
    assert_eq!(mirror.get("/v2/a/manifests/v1").await.status, 200);
    assert_eq!(given.load(Ordering::Relaxed), 3, "one more token");

    let (server, given) = with_tokens(bearer, |_| true);
    let mirror = crate::support::mirror(&[url(&server)], |_| {}).await;
    assert_eq!(mirror.get("/v2/a/manifests/v1").await.status, 401);
    assert_eq!(
        given.load(Ordering::Relaxed),
        1,
        "a refused token is not asked for again and again"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_get_of_this_blob_has_a_range() {
    let layer = content(100);
    let server = with_layer(layer.clone(), |_, layer| response("200 OK", &[], layer));
    let mirror = mirror(&[url(&server)], |_| {}).await;
    let digest = Digest::sha256(&layer);
    let path = format!("/v2/a/blobs/{digest}");
    assert_eq!(mirror.get(&path).await.status, 200);
    let own = format!("If-Range: \"{digest}\"");
    for (method, lines, status, length) in [
        ("GET", &["range: Bytes=1-2"][..], 206, "2"),
        ("HEAD", &["Range: bytes=1-2"], 200, "100"),
        ("HEAD", &["Range: bytes=200-"], 200, "100"),
        ("GET", &["Range: bytes=1-2", &own], 206, "2"),
        ("GET", &["Range: bytes=1-2", "If-Range: \"other\""], 200, "100"),
    ] {
        let answer = mirror.request(method, &path, lines).await;
        let found = (answer.status, answer.header("content-length"));
        assert_eq!(found, (status, length), "{method} {lines:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_manifest_may_say_that_it_has_no_encoding() {
    let manifest = manifest_of(&[b"x"]);
    let server = HttpServer::start(move |seen| {
        let content_type = format!("Content-Type: {DOCKER}; charset=utf-8");
        let lines = [content_type.as_str(), "Content-Encoding: Identity"];
        Some(for_method(seen, response("200 OK", &lines, &manifest)))
    });
    let mirror = mirror(&[url(&server)], |_| {}).await;
    let answer = mirror.get("/v2/a/manifests/v1").await;
    assert_eq!((answer.status, answer.header("content-type")), (200, DOCKER));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redirect_may_be_relative() {
    let layer = content(100);
    let blob = |seen: &Received, layer: &[u8]| match seen.path.as_str() {
        "/v2/a/store/%C3%A4?x=y" => response("200 OK", &[], layer),
        path if path.starts_with("/v2/a/blobs/") => raw_response(
            "307 Temporary Redirect",
            &["Location: ../store/\u{e4}?x=y", "Content-Length: 0"],
            b"",
        ),
        _ => not_found(),
    };
    let server = with_layer(layer.clone(), blob);
    let mirror = mirror(&[url(&server)], |_| {}).await;
    assert_eq!(mirror.get("/v2/a/manifests/v1").await.status, 200);
    let answer = mirror.get(&format!("/v2/a/blobs/{}", Digest::sha256(&layer))).await;
    assert_eq!((answer.status, answer.body), (200, layer.to_vec()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_manifest_without_a_content_type_names_its_own() {
    for (manifest, status, media_type) in [
        (format!(r#"{{"schemaVersion":2,"mediaType":"{DOCKER}"}}"#), 200, DOCKER),
        (r#"{"schemaVersion":2}"#.to_owned(), 502, "application/json"),
    ] {
        let server = HttpServer::start(move |seen| {
            Some(for_method(seen, response("200 OK", &[], manifest.as_bytes())))
        });
        let mirror = mirror(&[url(&server)], |_| {}).await;
        let answer = mirror.get("/v2/a/manifests/v1").await;
        assert_eq!((answer.status, answer.header("content-type")), (status, media_type));
    }
}

/// Docker's `config.json` with a name and a password for a registry.
fn credentials_for(server: &HttpServer, folder: &std::path::Path) -> std::path::PathBuf {
    let path = folder.join("config.json");
    let auth = r#"{"username":"me","password":"secret"}"#;
    std::fs::write(&path, format!(r#"{{"auths":{{"{}":{auth}}}}}"#, server.address)).unwrap();
    path
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_registry_itself_names_who_gets_its_password() {
    let layer = content(100);
    // Answers each request with 401 and its own realm, and would take what it is sent.
    let thief = HttpServer::start(|seen| {
        let realm = format!("http://{}/token", seen.header("host"));
        let challenges = [
            format!("WWW-Authenticate: Bearer realm=\"{realm}\""),
            "WWW-Authenticate: Basic realm=\"x\"".to_owned(),
            "Set-Cookie: a=b".to_owned(),
        ];
        let challenges: Vec<&str> = challenges.iter().map(String::as_str).collect();
        Some(for_method(seen, response("401 Unauthorized", &challenges, b"")))
    });
    let location = format!("Location: {}/blob", url(&thief));
    let blob = {
        let location = location.clone();
        move |_: &Received, _: &[u8]| response("307 Temporary Redirect", &[&location], b"")
    };
    let server = with_layer(layer.clone(), blob);
    let files = HttpServer::start(move |_| Some(response("302 Found", &[&location], b"")));
    let folder = tempfile::tempdir().unwrap();
    let upstreams = [url(&server)];
    let mirror = mirror(&upstreams, |settings| {
        settings.credentials = vec![credentials_for(&server, folder.path())];
        settings.redirect_networks = vec!["127.0.0.0/8".parse().unwrap()];
        settings.proxy_hosts = vec![url(&files).parse().unwrap()];
    });
    let mirror = mirror.await;
    assert_eq!(mirror.get("/v2/a/manifests/v1").await.status, 200);
    // The second one is in no manifest, so the registry is asked for its size.
    for (method, digest) in [("GET", Digest::sha256(&layer)), ("HEAD", Digest::sha256(b"other"))] {
        let answer = mirror.request(method, &format!("/v2/a/blobs/{digest}"), &[]).await;
        assert_eq!(answer.status, 502, "{method}");
    }
    // The client of a file would send its password to the mirror, or to the realm.
    let answer = mirror.get(&format!("/proxy/{}/file", files.address)).await;
    let told = [answer.header("www-authenticate"), answer.header("set-cookie")];
    assert_eq!((answer.status, told), (401, ["", ""]));
    assert!(thief.count("GET", "/blob") > 0 && thief.count("HEAD", "/blob") > 0);
    for seen in thief.received() {
        assert_eq!((seen.path.as_str(), seen.header("authorization")), ("/blob", ""));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_token_server_of_a_busy_registry_is_waited_for_as_the_registry_is() {
    let is_busy = Arc::new(AtomicBool::new(false));
    let busy = is_busy.clone();
    let manifest = manifest_of(&[b"x"]);
    let server = HttpServer::start(move |seen| {
        let challenge =
            format!("WWW-Authenticate: Bearer realm=\"http://{}/token\"", seen.header("host"));
        let answer = match seen.path.as_str() {
            "/token?scope=repository%3Aa%3Apull" if busy.load(Ordering::Relaxed) => {
                response("429 Too Many Requests", &["Retry-After: 41"], b"")
            }
            // It expires at once.
            "/token?scope=repository%3Aa%3Apull" => {
                response("200 OK", &[], br#"{"token":"t","expires_in":0}"#)
            }
            _ if seen.header("authorization").is_empty() => {
                response("401 Unauthorized", &[&challenge], b"")
            }
            _ => manifest_response(DOCKER, &manifest),
        };
        Some(for_method(seen, answer))
    });
    for (offline_ok, status, retry_after) in [(false, 429, "41"), (true, 200, "")] {
        is_busy.store(false, Ordering::Relaxed);
        let upstreams = [url(&server)];
        let mirror = mirror(&upstreams, |settings| {
            (settings.tag_ttl, settings.offline_ok) = (Duration::ZERO, offline_ok);
        });
        let mirror = mirror.await;
        assert_eq!(mirror.get("/v2/a/manifests/v1").await.status, 200);
        is_busy.store(true, Ordering::Relaxed);
        let answer = mirror.get("/v2/a/manifests/v1").await;
        assert_eq!((answer.status, answer.header("retry-after")), (status, retry_after));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_server_may_redirect_and_its_password_stays_there() {
    let tokens = HttpServer::start(|_| Some(response("200 OK", &[], br#"{"token":"t"}"#)));
    let location = format!("Location: {}/token", url(&tokens));
    let manifest = manifest_of(&[b"x"]);
    let server = HttpServer::start(move |seen| {
        let answer = match (seen.path.as_str(), seen.header("authorization")) {
            (path, _) if path.starts_with("/moved") => {
                response("307 Temporary Redirect", &[&location], b"")
            }
            (_, "Bearer t") => manifest_response(DOCKER, &manifest),
            _ => {
                let challenge = "WWW-Authenticate: Bearer realm=\"/moved\"";
                response("401 Unauthorized", &[challenge], b"")
            }
        };
        Some(for_method(seen, answer))
    });
    let folder = tempfile::tempdir().unwrap();
    let upstreams = [url(&server)];
    let mirror = mirror(&upstreams, |settings| {
        settings.credentials = vec![credentials_for(&server, folder.path())];
        settings.redirect_networks = vec!["127.0.0.0/8".parse().unwrap()];
    });
    assert_eq!(mirror.await.get("/v2/a/manifests/v1").await.status, 200);
    let of_realm =
        server.received().into_iter().find(|seen| seen.path.starts_with("/moved")).unwrap();
    assert!(of_realm.header("authorization").starts_with("Basic "));
    assert_eq!(tokens.received()[0].header("authorization"), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_challenge_may_have_several_scopes() {
    let forms: [fn(&str) -> Vec<String>; 2] = [
        |realm| {
            vec![format!("WWW-Authenticate: Bearer realm=\"{realm}\",scope=\"a:b:pull c:d:pull\"")]
        },
        |realm| {
            vec![format!(
                "WWW-Authenticate: Bearer realm=\"{realm}\",scope=\"a:b:pull\",scope=\"c:d:pull\""
            )]
        },
    ];
    for form in forms {
        let (server, _) = with_tokens(form, |_| false);
        let mirror = mirror(&[url(&server)], |_| {}).await;
        assert_eq!(mirror.get("/v2/a/manifests/v1").await.status, 200);
        assert_eq!(server.count("GET", "/token?scope=a%3Ab%3Apull&scope=c%3Ad%3Apull"), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_name_of_a_registry_is_no_part_of_the_name_of_a_repository() {
    let manifest = manifest_of(&[b"x"]);
    let server =
        HttpServer::start(move |seen| Some(for_method(seen, manifest_response(DOCKER, &manifest))));
    let upstreams = [format!("registry.example:5000={}", url(&server))];
    let mirror = mirror(&upstreams, |_| {}).await;
    let longest = "a".repeat(255);
    for (name, status) in [
        (format!("registry.example:5000/{longest}"), 200),
        (longest.clone(), 200),
        (format!("registry.example:5000/{longest}a"), 400),
        (format!("other.example/{longest}"), 400),
    ] {
        let path = format!("/v2/{name}/manifests/v1");
        assert_eq!(mirror.get(&path).await.status, status, "{name}");
    }
    assert_eq!(server.received()[0].path, format!("/v2/{longest}/manifests/v1"));
    let escaped = Digest::sha256(&manifest_of(&[b"x"])).to_string().replace(':', "%3A");
    assert_eq!(
        mirror.get(&format!("/v2/Registry.example:5000/a/manifests/{escaped}")).await.status,
        200
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_etag_that_looks_like_a_digest_and_is_none_is_remembered_for_its_host() {
    let file = content(3 << 20);
    let etag = format!("ETag: \"{}\"", "0".repeat(64));
    let body = file.clone();
    let server = HttpServer::start(move |seen| {
        let size = if seen.path == "/small" { 100 } else { body.len() };
        Some(for_method(seen, response("200 OK", &[&etag], &body[..size])))
    });
    let mirror = mirror(&[], |settings| {
        settings.proxy_hosts = vec![url(&server).parse().unwrap()];
        settings.tag_ttl = Duration::from_secs(600);
    });
    let mirror = mirror.await;
    let get = async |path: &str| mirror.get(&format!("/proxy/{}{path}", server.address)).await;
    // Its digest is known before its only block is sent.
    let first = get("/small").await;
    assert_eq!((first.status, first.body.as_slice()), (200, &file[..100]));
    for source in ["origin", "store"] {
        let answer = get("/large").await;
        assert_eq!((answer.status, answer.header("watchfire-source")), (200, source));
        assert!(answer.is_complete && answer.body == *file);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_web_page_of_another_site_gets_no_image() {
    let layer = content(100);
    let server = with_layer(layer.clone(), |_, layer| response("200 OK", &[], layer));
    let upstreams = [url(&server)];
    let mirror = mirror(&upstreams, |settings| settings.names = vec!["mirror.example".into()]);
    let mirror = mirror.await;
    for path in ["/v2/a/manifests/v1".to_owned(), format!("/v2/a/blobs/{}", Digest::sha256(&layer))]
    {
        for lines in [
            &["Host: attacker.example:5503"][..],
            &["Origin: http://attacker.example"],
            &["Sec-Fetch-Site: cross-site"],
        ] {
            let answer = mirror.request("GET", &path, lines).await;
            assert_eq!((answer.status, server.received().len()), (403, 0), "{path} {lines:?}");
        }
    }
    for lines in [
        &["Host: mirror.example:5000"][..],
        &["Origin: http://localhost"],
        &["User-Agent: containerd/2.4.2"],
    ] {
        let answer = mirror.request("GET", "/v2/a/manifests/v1", lines).await;
        assert_eq!(answer.status, 200, "{lines:?}");
        assert_eq!(answer.header("content-security-policy"), "sandbox", "it may be HTML");
    }
}

/// A mirror alone, and a fleet of two.
async fn alone_and_in_a_fleet(server: &HttpServer) -> [Vec<TestMirror>; 2] {
    let alone = mirror(&[url(server)], |_| {}).await;
    [vec![alone], start_fleet(server, 2).await]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registry_that_lies_about_sizes_gives_no_wrong_bytes() {
    type Lie = Box<dyn Fn(&Received, &[u8]) -> Option<Vec<u8>> + Send + Sync>;
    const SIZE: usize = 2_500_000;
    let length = |bytes: usize| format!("Content-Length: {bytes}");
    let of_head = |bytes: usize| -> Lie {
        Box::new(move |seen, _| {
            (seen.method == "HEAD").then(|| raw_response("200 OK", &[&length(bytes)], b""))
        })
    };
    let of_get = |bytes: usize| -> Lie {
        Box::new(move |seen, layer| {
            let is_get = seen.method == "GET";
            is_get.then(|| raw_response("200 OK", &[&length(bytes)], &layer[..bytes]))
        })
    };
    let of_range: Lie = Box::new(|seen, layer| {
        let line = format!("Content-Range: bytes 0-9/{}", layer.len() - 1);
        let lines = ["Accept-Ranges: bytes", &line];
        (!seen.header("range").is_empty())
            .then(|| response("206 Partial Content", &lines, &layer[..10]))
    });
    let none = || -> Lie { Box::new(|_, _| None) };
    // The size in the manifest, and the lie about the blob.
    let size = SIZE as u64;
    let lies: [(u64, Lie); 12] = [
        (size, of_head(0)),
        (size, of_head(10)),
        (size, of_head(SIZE + 1)),
        (size, of_head(1 << 62)),
        (size, of_get(0)),
        (size, of_get(10)),
        (size, of_get(SIZE - 1)),
        (size, of_range),
        (0, none()),
        (10, none()),
        (size + 1, none()),
        (u64::MAX, none()),
    ];
    // Each lie is about a layer of its own.
    let layers: Arc<Vec<Vec<u8>>> = Arc::new(
        (0..lies.len())
            .map(|lie| content(SIZE).iter().map(|byte| byte ^ lie as u8).collect())
            .collect(),
    );
    let is_lying = Arc::new(AtomicBool::new(true));
    let (served, lying, lies) = (layers.clone(), is_lying.clone(), Arc::new(lies));
    let server = HttpServer::start(move |seen| {
        let lie: usize = seen.path.split('/').nth(2).unwrap().parse().unwrap();
        let (size, told) = &lies[lie];
        let digest = Digest::sha256(&served[lie]);
        let layer = format!(r#"{{"digest":"{digest}","size":{size}}}"#);
        let manifest = format!(r#"{{"schemaVersion":2,"layers":[{layer}]}}"#);
        let told = told(seen, &served[lie]).filter(|_| lying.load(Ordering::Relaxed));
        let answer = match seen.path.contains("/manifests/") {
            true => manifest_response(DOCKER, manifest.as_bytes()),
            false => told.unwrap_or_else(|| response("200 OK", &[], &served[lie])),
        };
        Some(for_method(seen, answer))
    });
    let is_served = async |host: &TestMirror, lie: usize| {
        let layer = &layers[lie];
        let answer = host.get(&format!("/v2/{lie}/blobs/{}", Digest::sha256(layer))).await;
        let is_whole = answer.status == 200 && answer.is_complete;
        assert!(!is_whole || answer.body == *layer, "lie {lie}: wrong bytes");
        assert!(answer.status == 200 || answer.text().contains("\"errors\""), "lie {lie}");
        is_whole
    };
    for hosts in alone_and_in_a_fleet(&server).await {
        is_lying.store(true, Ordering::Relaxed);
        join_all((0..layers.len()).map(async |lie| {
            for host in &hosts {
                assert_eq!(host.get(&format!("/v2/{lie}/manifests/v1")).await.status, 200);
                is_served(host, lie).await;
            }
        }))
        .await;
        is_lying.store(false, Ordering::Relaxed);
        join_all((0..layers.len()).map(async |lie| {
            let what = format!("the registry tells the truth after lie {lie}");
            for host in &hosts {
                eventually_async(&what, async || is_served(host, lie).await).await;
            }
        }))
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redirect_in_a_circle_ends() {
    let server = HttpServer::start(|seen| {
        let location = format!("Location: {}", seen.path);
        Some(response("307 Temporary Redirect", &[&location], b""))
    });
    for hosts in alone_and_in_a_fleet(&server).await {
        let digest = Digest::sha256(b"x");
        for path in [
            "manifests/v1",
            &format!("manifests/{digest}"),
            &format!("blobs/{digest}"),
            "tags/list",
        ] {
            let before = server.received().len();
            let answer = hosts[0].get(&format!("/v2/a/{path}")).await;
            assert_eq!(answer.status, 502, "{path}");
            assert!(answer.text().contains("more than 5 redirects"), "{path}: {}", answer.text());
            let asked = server.received().len() - before;
            assert!(asked <= 24, "{path}: {asked} requests");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_layer_of_no_bytes_and_a_list_of_ten_thousand_manifests_are_served() {
    let entry = |number: u32| {
        let digest = Digest::sha256(&number.to_be_bytes());
        format!(
            r#"{{"mediaType":"{DOCKER}","digest":"{digest}","size":2,"platform":{{"os":"linux","architecture":"a{number}"}}}}"#
        )
    };
    let list = |count: u32| {
        let entries: Vec<String> = (0..count).map(entry).collect();
        format!(r#"{{"schemaVersion":2,"manifests":[{}]}}"#, entries.join(",")).into_bytes()
    };
    let (long, too_long) = (list(10_000), list(25_000));
    let with_empty = manifest_of(&[b"", b"x"]);
    let served = (long.clone(), with_empty.clone());
    let server = HttpServer::start(move |seen| {
        let is_of = |name: &str, manifest: &[u8]| {
            seen.path.ends_with(name) || seen.path.ends_with(&Digest::sha256(manifest).hex())
        };
        let answer = match seen.path.as_str() {
            path if path.contains("/blobs/") => response("200 OK", &[], b""),
            _ if is_of("/long", &served.0) => manifest_response(DOCKER_LIST, &served.0),
            _ if is_of("/too-long", &too_long) => manifest_response(DOCKER_LIST, &too_long),
            _ => manifest_response(DOCKER, &served.1),
        };
        Some(for_method(seen, answer))
    });
    for hosts in alone_and_in_a_fleet(&server).await {
        for host in &hosts {
            let answer = host.get("/v2/a/manifests/long").await;
            assert!(answer.status == 200 && answer.body == long);
            let answer = host.get("/v2/a/manifests/too-long").await;
            assert!(answer.status == 502 && answer.text().contains("more than 4194304 bytes"));
            assert_eq!(host.get("/v2/a/manifests/v1").await.body, with_empty);
            let path = format!("/v2/a/blobs/{}", Digest::sha256(b""));
            for (method, lines, status) in [
                ("HEAD", &[][..], 200),
                ("GET", &[], 200),
                ("GET", &["Range: bytes=0-"], 416),
                ("GET", &[], 200),
            ] {
                let answer = host.request(method, &path, lines).await;
                assert_eq!(
                    (answer.status, answer.is_complete),
                    (status, true),
                    "{method} {lines:?}"
                );
                assert!(status != 200 || answer.header("content-length") == "0");
            }
        }
    }
}
