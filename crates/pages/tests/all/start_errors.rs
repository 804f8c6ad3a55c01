//! The errors with which a server does not start.

use std::error::Error;

use watchfire::{ChannelRule, JoinRule, Server, Settings};
use watchfire_operator::{AdminSettings, Operator};
use watchfire_pages::{
    NeighbourSettings, P2pSettings, PageSettings, Pages, SitesSettings, StunSettings,
};

use crate::support::settings;

/// The error and all its sources.
fn chain(error: &dyn Error) -> Vec<String> {
    let mut next = Some(error);
    std::iter::from_fn(|| {
        let error = next?;
        next = error.source();
        Some(error.to_string())
    })
    .collect()
}

/// A program prints an error with its sources: each text stands there once.
#[test]
fn an_error_prints_its_cause_or_returns_it_and_never_both() {
    type Change = fn(&mut Settings);
    let changes: [Change; 21] = [
        |settings| settings.socket.check_origin = vec!["https://".into()],
        |settings| settings.server.trusted_proxies = vec!["everyone".into()],
        |settings| settings.server.public_url = "example.org".into(),
        |settings| {
            settings.channels.rules =
                vec![ChannelRule { join: JoinRule::Anyone, ..ChannelRule::of("a:*:b") }];
        },
        |settings| settings.auth.hs256_secret = "short".into(),
        |settings| settings.auth.public_key_files = vec!["/nowhere/key.pem".into()],
        |settings| settings.hooks.url = "http://localhost:99999/".into(),
        |settings| settings.cluster.nats = vec!["nats://127.0.0.1:x".into()],
        |settings| settings.section_mut::<AdminSettings>().token = "short".into(),
        |settings| settings.section_mut::<PageSettings>().deny_file = "/nowhere/denied.txt".into(),
        |settings| settings.section_mut::<PageSettings>().report = "javascript:alert(1)".into(),
        |settings| settings.section_mut::<P2pSettings>().announce = vec!["/ip4/1.2.3/tcp/1".into()],
        |settings| {
            settings.section_mut::<NeighbourSettings>().servers = vec!["https://a.example/p".into()]
        },
        |settings| settings.section_mut::<SitesSettings>().domain = "pages.example.org".into(),
        |settings| settings.section_mut::<StunSettings>().announce = "somewhere".into(),
        |settings| {
            settings.cluster.nats = vec!["nats://127.0.0.1".into()];
            settings.cluster.root_certificates = "/nowhere/roots.pem".into();
        },
        |settings| {
            settings.cluster.nats = vec!["nats://127.0.0.1".into()];
            settings.cluster.credentials_file = "/nowhere/nats.creds".into();
        },
        |settings| {
            settings.tls.cert = "/nowhere/cert.pem".into();
            settings.tls.key = "/nowhere/key.pem".into();
        },
        |settings| {
            // The certificate is no certificate.
            settings.tls.cert = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml").into();
            settings.tls.key = "/nowhere/key.pem".into();
        },
        |settings| {
            let p2p = settings.section_mut::<P2pSettings>();
            p2p.listen = vec!["/ip4/127.0.0.1/tcp/0".into()];
            p2p.swarm_key = "/nowhere/swarm.key".into();
        },
        |settings| settings.auth.hs256_secret_file = "/nowhere/secret".into(),
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let mut settings = settings();
        change(&mut settings);
        let server = Server::new(settings).with(Pages::new()).with(Operator::new());
        let error = server.check().expect_err(&format!("the settings {number} are wrong"));
        let texts = chain(&error);
        for (at, text) in texts.iter().enumerate() {
            let repeats = texts[..at].iter().any(|earlier| earlier.contains(text));
            assert!(!repeats, "settings {number}: {texts:#?}");
        }
    }
}
