//! Signatures and attestations, as cosign stores them, pass through a mirror and a fleet unchanged.

use std::collections::HashMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use watchfire_mirror::oci::Digest;
use watchfire_testkit::{HttpServer, response};

use crate::fleet::start_fleet;
use crate::support::{head_only, mirror};

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
const EMPTY: &str = "application/vnd.oci.empty.v1+json";
const SIMPLE_SIGNING: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
const ENVELOPE: &str = "application/vnd.dsse.envelope.v1+json";
const IN_TOTO: &str = "application/vnd.in-toto+json";
const BUNDLE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";

/// The content of a registry: the path of each answer, its media type, and its bytes.
#[derive(Default)]
struct Content(HashMap<String, (&'static str, Vec<u8>)>);

impl Content {
    fn add(&mut self, name: &str, media_type: &'static str, bytes: &[u8]) {
        self.0.insert(format!("/v2/team/app/{name}"), (media_type, bytes.to_vec()));
    }

    fn blob(&mut self, media_type: &str, bytes: &[u8]) -> Value {
        let digest = Digest::sha256(bytes);
        self.add(&format!("blobs/{digest}"), "application/octet-stream", bytes);
        json!({"mediaType": media_type, "digest": digest.to_string(), "size": bytes.len()})
    }

    /// Adds a manifest under its digest and these tags. Returns its descriptor.
    fn manifest(&mut self, media_type: &'static str, manifest: &Value, tags: &[&str]) -> Value {
        let bytes = serde_json::to_vec_pretty(manifest).unwrap();
        let digest = Digest::sha256(&bytes).to_string();
        for name in tags.iter().chain([&digest.as_str()]) {
            self.add(&format!("manifests/{name}"), media_type, &bytes);
        }
        json!({"mediaType": media_type, "digest": digest, "size": bytes.len()})
    }
}

/// An image with a signature and an attestation under tags, as cosign 2 stores them, and with an attestation and a
/// bundle that refer to it, as OCI 1.1 describes it.
fn content(has_api: bool) -> Content {
    let mut all = Content::default();
    let config = all.blob(CONFIG, br#"{"architecture":"amd64","os":"linux"}"#);
    let layer = all.blob(LAYER, &vec![7; 1_500_000]);
    let image =
        json!({"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer]});
    let image = all.manifest(MANIFEST, &image, &["v1"]);
    let digest = image["digest"].as_str().unwrap().to_owned();
    let payload = json!({
        "critical": {
            "identity": {"docker-reference": "registry.example/team/app"},
            "image": {"docker-manifest-digest": digest},
            "type": "cosign container image signature",
        },
        "optional": null,
    });
    let statement = json!({
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": "registry.example/team/app", "digest": {"sha256": digest[7..]}}],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {},
    });
    let encoded = STANDARD.encode(statement.to_string());
    let envelope = json!({
        "payloadType": "application/vnd.in-toto+json",
        "payload": encoded,
        "signatures": [{"keyid": "", "sig": "MEUCIQ=="}],
    });
    for (ending, media_type, content, annotations) in [
        (
            "sig",
            SIMPLE_SIGNING,
            &payload,
            json!({"dev.cosignproject.cosign/signature": "MEUCIQDx+/=", "dev.sigstore.cosign/bundle": "{}"}),
        ),
        ("att", ENVELOPE, &envelope, json!({"predicateType": "https://slsa.dev/provenance/v1"})),
    ] {
        let config = all.blob(CONFIG, format!(r#"{{"of":"{ending}"}}"#).as_bytes());
        let mut layer = all.blob(media_type, content.to_string().as_bytes());
        layer["annotations"] = annotations;
        let signature =
            json!({"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer]});
        let tag = format!("sha256-{}.{ending}", &digest[7..]);
        all.manifest(MANIFEST, &signature, &[&tag]);
    }
    let empty = all.blob(EMPTY, b"{}");
    let mut referrers = Vec::new();
    for (artifact_type, content) in [(IN_TOTO, &statement), (BUNDLE, &envelope)] {
        let layer = all.blob(artifact_type, content.to_string().as_bytes());
        let referrer = json!({
            "schemaVersion": 2, "mediaType": MANIFEST, "artifactType": artifact_type,
            "config": empty, "layers": [layer], "subject": image,
            "annotations": {"in-toto.io/predicate-type": "https://slsa.dev/provenance/v1"},
        });
        let mut referrer = all.manifest(MANIFEST, &referrer, &[]);
        referrer["artifactType"] = artifact_type.into();
        referrers.push(referrer);
    }
    let index = |manifests: &[Value]| json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests});
    match has_api {
        true => {
            let list = |filter: &str| format!("referrers/{digest}{filter}");
            all.add(&list(""), INDEX, index(&referrers).to_string().as_bytes());
            let filter =
                format!("?artifactType={}", BUNDLE.replace('/', "%2F").replace('+', "%2B"));
            all.add(&list(&filter), INDEX, index(&referrers[1..]).to_string().as_bytes());
        }
        false => {
            let tag = digest.replace(':', "-");
            all.manifest(INDEX, &index(&referrers), &[&tag]);
        }
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn signatures_and_attestations_pass_through_unchanged() {
    for has_api in [true, false] {
        let content = Arc::new(content(has_api));
        let served = content.clone();
        let server = HttpServer::start(move |seen| {
            let answer = match served.0.get(&seen.path) {
                None => {
                    response("404 Not Found", &["Content-Type: text/plain"], b"404 page not found")
                }
                Some((media_type, bytes)) => {
                    let content_type = format!("Content-Type: {media_type}");
                    let digest = format!("Docker-Content-Digest: {}", Digest::sha256(bytes));
                    let filtered = "OCI-Filters-Applied: artifactType";
                    match seen.path.contains('?') {
                        true => response("200 OK", &[&content_type, filtered], bytes),
                        false => response("200 OK", &[&content_type, &digest], bytes),
                    }
                }
            };
            Some(if seen.method == "HEAD" { head_only(answer) } else { answer })
        });
        let alone = mirror(&[format!("http://{}", server.address)], |_| {}).await;
        let fleet = start_fleet(&server, 2).await;
        for (kind, hosts) in [("alone", vec![alone]), ("a fleet", fleet)] {
            let before = server.received().len();
            for (path, (media_type, bytes)) in &content.0 {
                for (number, host) in hosts.iter().enumerate() {
                    for method in ["HEAD", "GET", "GET"] {
                        let answer = host.request(method, path, &["Accept: */*"]).await;
                        let what = format!("{kind}, host {number}: {method} {path}");
                        assert_eq!(
                            (answer.status, answer.header("content-type")),
                            (200, *media_type),
                            "{what}"
                        );
                        assert!(method == "HEAD" || answer.body == *bytes, "{what}: other bytes");
                        let applied = if path.contains('?') { "artifactType" } else { "" };
                        assert_eq!(answer.header("oci-filters-applied"), applied, "{what}");
                        if !path.contains("/referrers/") {
                            let digest = Digest::sha256(bytes).to_string();
                            assert_eq!(answer.header("docker-content-digest"), digest, "{what}");
                        }
                    }
                }
            }
            let asked = &server.received()[before..];
            for (path, _) in content.0.iter().filter(|(path, _)| path.contains("/blobs/")) {
                let count =
                    asked.iter().filter(|one| one.method == "GET" && one.path == *path).count();
                assert_eq!(count, 1, "{kind}: {path} is fetched once");
            }
            if !has_api {
                let path = format!("/v2/team/app/referrers/{}", Digest::sha256(b"x"));
                assert_eq!(hosts[0].get(&path).await.status, 404, "the client looks for the tag");
            }
        }
    }
}
