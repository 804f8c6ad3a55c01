//! Layers with the sections of the server.

use std::time::Duration;

use super::{Layers, Settings};

#[test]
fn later_layers_override_earlier_ones() {
    let mut layers = Layers::new();
    layers.text("file", "[socket]\nidle_timeout = \"5s\"").unwrap();
    layers.environment([("WATCHFIRE_SOCKET_IDLE_TIMEOUT".to_owned(), "6s".to_owned())]).unwrap();
    assert_eq!(layers.settings().unwrap().socket.idle_timeout, Duration::from_secs(6));
    layers.assign("--set", "socket.idle_timeout=7s").unwrap();
    assert_eq!(layers.settings().unwrap().socket.idle_timeout, Duration::from_secs(7));
}

#[test]
fn printed_settings_name_their_source_and_hide_secrets() {
    let mut layers = Layers::new();
    layers.text("my.toml", "[socket]\nidle_timeout = \"5s\"").unwrap();
    layers.environment([("WATCHFIRE_LOG_LEVEL".to_owned(), "debug".to_owned())]).unwrap();
    layers.assign("--set", "cluster.key=0123456789abcdef").unwrap();
    layers.assign("--set", "auth.hs256_secret=0123456789abcdef").unwrap();
    let text = layers.print();
    for line in [
        "[limits]",
        "idle_timeout = \"5s\"  # my.toml",
        "level = \"debug\"  # WATCHFIRE_LOG_LEVEL",
        "key = \"(hidden)\"  # --set",
        "hs256_secret = \"(hidden)\"  # --set",
        "listen = [\"127.0.0.1:4000\"]  # default",
    ] {
        assert!(text.lines().any(|printed| printed == line), "{line} in {text}");
    }
    let again: Settings = toml::from_str(&text).expect("the output is a settings file");
    assert_eq!(again.socket, layers.settings().unwrap().socket);
}

#[test]
fn the_error_for_an_unknown_key_names_the_nearest_known_key() {
    let mut layers = Layers::new();
    let error = layers.text("my.toml", "[limits]\nframe_byte_max = 1").unwrap_err();
    assert_eq!(
        error.to_string(),
        "my.toml: there is no setting `limits.frame_byte_max`; did you mean `limits.frame_bytes_max`?"
    );
    let error =
        layers.text("my.toml", "[limits]\nlongpoll_frames_max = 1").unwrap_err().to_string();
    let fixed = "my.toml: cannot set `limits.longpoll_frames_max`: its value is fixed; remove it";
    assert_eq!(error, fixed);
    let error = layers.text("my.toml", "[limit]\nframe_bytes_max = 1").unwrap_err();
    assert!(error.to_string().ends_with("did you mean `[limits]`?"), "{error}");
    let variable = ("WATCHFIRE_SERVER_LISTN".to_owned(), "x".to_owned());
    let error = layers.environment([variable]).unwrap_err();
    assert!(error.to_string().ends_with("did you mean `WATCHFIRE_SERVER_LISTEN`?"), "{error}");
    let variable = ("WATCHFIRE_LIMTS_SOCKETS_PER_ADDRESS_MAX".to_owned(), "9".to_owned());
    let error = layers.environment([variable]).unwrap_err().to_string();
    let nearest = "did you mean `WATCHFIRE_LIMITS_SOCKETS_PER_ADDRESS_MAX`?";
    assert!(error.ends_with(nearest), "{error}");
}

#[test]
fn the_error_for_a_bad_value_names_its_key_and_its_source() {
    let mut layers = Layers::new();
    let error = layers.assign("--set", "socket.idle_timeout=soon").unwrap_err().to_string();
    assert!(error.starts_with("--set: `socket.idle_timeout`:"), "{error}");
    let error = layers.assign("--set", "server.shards=1\nprocesses=7").unwrap_err().to_string();
    assert_eq!(error, "--set: `1\nprocesses=7` is not a valid value for `server.shards`");
    let error = layers.text("my.toml", "[limits]\nframe_bytes_max = -1").unwrap_err();
    assert!(error.to_string().starts_with("my.toml: `limits.frame_bytes_max`:"), "{error}");
}

#[test]
fn a_section_in_a_section_has_the_same_forms() {
    let mut layers = Layers::new();
    layers.text("my.toml", "[tls.acme]\ndomains = [\"a.example\"]").unwrap();
    let variable = ("WATCHFIRE_TLS_ACME_STATE_DIR".to_owned(), "/state".to_owned());
    layers.environment([variable]).unwrap();
    layers.assign("--set", "tls.acme.challenge=http-01").unwrap();
    let acme = layers.settings().unwrap().tls.acme;
    assert_eq!(acme.domains, ["a.example"]);
    assert_eq!(acme.state_dir, std::path::Path::new("/state"));
    assert_eq!(acme.challenge, super::AcmeChallenge::Http01);
    assert!(layers.print().contains("\n[tls.acme]\n"), "{}", layers.print());

    let error = layers.text("my.toml", "[tls.acme]\ndomain = []").unwrap_err();
    assert!(error.to_string().ends_with("did you mean `tls.acme.domains`?"), "{error}");
    let error = layers.text("my.toml", "[tls.acne]\ndomains = []").unwrap_err();
    assert!(error.to_string().contains("no setting `tls.acne`"), "{error}");
}

#[test]
fn channel_rules_are_written_as_tables_or_in_one_line() {
    let mut layers = Layers::new();
    let text =
        "[[channels.rules]]\npattern = \"a\"\n[[channels.rules]]\npattern = \"b\"\npresence = true";
    layers.text("my.toml", text).unwrap();
    assert_eq!(layers.settings().unwrap().channels.rules.len(), 2);
    let again: Settings = toml::from_str(&layers.print()).expect("the output is a settings file");
    assert_eq!(again.channels, layers.settings().unwrap().channels);

    layers.assign("--set", "channels.rules=[{ pattern = \"c\", join = \"anyone\" }]").unwrap();
    assert_eq!(layers.settings().unwrap().channels.rules[0].pattern, "c");
    let error = layers.text("my.toml", "[[channels.rules]]\njoin = \"token\"").unwrap_err();
    assert!(error.to_string().starts_with("my.toml: `channels.rules`:"), "{error}");
}

#[test]
fn a_list_may_be_written_with_commas() {
    let mut layers = Layers::new();
    layers.assign("--listen", "server.listen=127.0.0.1:1, [::1]:1").unwrap();
    assert_eq!(layers.settings().unwrap().server.listen.len(), 2);
    layers.environment([("WATCHFIRE_SERVER_TRUSTED_PROXIES".to_owned(), String::new())]).unwrap();
    assert!(layers.settings().unwrap().server.trusted_proxies.is_empty());
}

#[test]
fn a_setting_that_serves_no_client_at_zero_is_named() {
    assert_eq!(Settings::default().zero(), None);
    for name in ["socket.longpoll_window", "auth.jwks_refresh", "limits.channels_per_socket_max"] {
        let (section, key) = name.split_once('.').unwrap();
        let is_duration = ["socket", "auth"].contains(&section);
        let zero = if is_duration { "\"0s\"" } else { "0" };
        let settings: Settings = toml::from_str(&format!("[{section}]\n{key} = {zero}")).unwrap();
        assert_eq!(settings.zero(), Some(name));
        let error = crate::Server::new(settings).check().unwrap_err().to_string();
        assert!(error.starts_with(&format!("cannot use {name} = 0: ")), "{error}");
    }
    for text in
        ["[server]\ndrain_period = \"0s\"", "[limits]\nsockets_max = 0", "[auth]\nleeway = \"0s\""]
    {
        assert_eq!(toml::from_str::<Settings>(text).unwrap().zero(), None, "{text}");
    }
}
