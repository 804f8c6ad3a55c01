//! An operator's tools for pages: the deny-list, quotas, and the address for reports.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::NamedTempFile;
use watchfire::{RunningServer, Settings, StartError};
use watchfire_operator::{AdminError, AdminSettings};
use watchfire_pages::{PageSettings, PagesError};
use watchfire_testkit::{Client, Request};

use crate::support::{get, metric, settings};
use crate::{start, support, with_pages};

const CID: &str = "bafkreidogqfzz75tpkmjzjke425xqcrmpcib2p5tg44hnbirumdbpl5adu";
const PAGE: &str = "page:bafkreidogqfzz75tpkmjzjke425xqcrmpcib2p5tg44hnbirumdbpl5adu";
const OTHER: &str = "page:bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku";
const TOKEN: &str = "a token of the operator";

/// The deny-list of one test, removed when the test ends.
struct DenyList(NamedTempFile);

impl DenyList {
    fn new(text: &str) -> Self {
        let file = NamedTempFile::new().unwrap();
        fs::write(&file, text).unwrap();
        DenyList(file)
    }

    fn settings(&self) -> Settings {
        let mut settings = settings();
        settings.section_mut::<PageSettings>().deny_file = self.0.path().to_owned();
        settings.section_mut::<AdminSettings>().token = TOKEN.into();
        settings
    }
}

fn join(client: &mut Client, topic: &str, have: &str) -> Value {
    client.join(topic, json!({ "have": have }))
}

/// Makes a call of `/admin`. Returns the status and the JSON of its response.
fn admin(server: &RunningServer, method: &str, path: &str, token: &str) -> (u16, Value) {
    let request = Request::new(method, &format!("/admin/{path}"));
    let request = request.line(format!("authorization: Bearer {token}"));
    let answer = request.to(support::admin_address(server));
    (answer.status, answer.json_or_null())
}

#[test]
fn a_join_of_a_denied_page_is_refused_and_other_pages_are_not_affected() {
    let list = DenyList::new(&format!("# by court order\nhttps://example.org/p/{CID}\n"));
    let server = start(list.settings());
    let mut client = Client::connect(server.address());
    let refused = join(&mut client, PAGE, "all");
    assert_eq!(refused, json!({ "status": "error", "response": { "reason": "denied" } }));
    assert_eq!(join(&mut client, OTHER, "all")["status"], "ok");
    assert_eq!(metric(&server, "watchfire_refusals_total{reason=\"page_denied\"}"), 1);
}

#[test]
fn peers_of_a_newly_denied_page_are_notified_and_removed() {
    let list = DenyList::new("");
    let server = start(list.settings());
    let (mut holder, mut visitor) =
        (Client::connect(server.address()), Client::connect(server.address()));
    let holder_id = join(&mut holder, PAGE, "all")["response"]["peer"].clone();
    join(&mut visitor, PAGE, "none");
    join(&mut visitor, OTHER, "none");
    // As with an editor: the server notices the change.
    fs::write(list.0.path(), CID).unwrap();
    assert_eq!(holder.receive_event("denied"), json!({}));
    assert_eq!(visitor.receive_event("denied"), json!({}));

    let to = u64::from_str_radix(holder_id.as_str().unwrap(), 16).unwrap().to_be_bytes();
    let reference = visitor.send_bytes(PAGE, "relay", &[&to[..], b"a segment"].concat());
    assert_eq!(visitor.reply_to(&reference)["response"]["reason"], "peer gone");
    assert_eq!(visitor.push(PAGE, "more_peers", json!({}))["response"], json!({ "peers": [] }));
    assert_eq!(visitor.push(PAGE, "phx_leave", json!({}))["status"], "ok");
    assert_eq!(join(&mut visitor, PAGE, "none")["response"]["reason"], "denied");
    // After the removal of the entry, the page can be joined again.
    assert_eq!(admin(&server, "DELETE", &format!("denied/{CID}"), TOKEN).0, 200);
    assert_eq!(join(&mut visitor, PAGE, "none")["status"], "ok");
}

#[test]
fn a_call_denies_a_page_at_once_and_changes_the_file() {
    let list = DenyList::new("# ours\n");
    let server = start(list.settings());
    let mut holder = Client::connect(server.address());
    join(&mut holder, PAGE, "all");
    let response = admin(&server, "PUT", &format!("denied/{CID}"), TOKEN);
    assert_eq!(response, (200, json!({ "denied": true, "changed": true, "failed": 0 })));
    assert_eq!(holder.receive_event("denied"), json!({}));
    assert_eq!(fs::read_to_string(list.0.path()).unwrap(), format!("# ours\n{CID}\n"));
    let again = admin(&server, "PUT", &format!("denied/{CID}"), TOKEN);
    assert_eq!(again, (200, json!({ "denied": true, "changed": false, "failed": 0 })));
    assert_eq!(admin(&server, "GET", "denied", TOKEN), (200, json!({ "denied": 1 })));
    let one = admin(&server, "GET", &format!("denied/{CID}"), TOKEN);
    assert_eq!(one, (200, json!({ "denied": true })));
}

#[test]
fn a_call_needs_the_token_and_its_error_gives_the_reason() {
    let list = DenyList::new("");
    let server = start(list.settings());
    for wrong in ["", "a token", "a token of the operator "] {
        let (status, body) = admin(&server, "PUT", &format!("denied/{CID}"), wrong);
        // Spaces around a header's value are not part of it.
        let is_right = wrong.trim() == TOKEN;
        assert_eq!(status, if is_right { 200 } else { 401 }, "{wrong:?}: {body}");
    }
    let (status, body) = admin(&server, "PUT", "denied/nonsense", TOKEN);
    assert_eq!((status, &body["reason"]), (400, &json!("not a CID")));

    let mut without_list = settings();
    without_list.section_mut::<AdminSettings>().token = TOKEN.into();
    let (status, body) = admin(&start(without_list), "PUT", &format!("denied/{CID}"), TOKEN);
    assert_eq!((status, &body["reason"]), (409, &json!("no deny-list")));

    // Without a token the calls do not exist.
    let plain = crate::server();
    assert_eq!(admin(&plain, "PUT", &format!("denied/{CID}"), "").0, 404);
    assert_eq!(admin(&plain, "GET", "denied", "").0, 404);
}

#[test]
fn unsafe_settings_prevent_the_start() {
    let with = |change: fn(&mut Settings)| {
        let mut settings = settings();
        change(&mut settings);
        with_pages(settings).start().err()
    };
    let missing = with(|settings| {
        settings.section_mut::<PageSettings>().deny_file = "/nowhere/denied.txt".into()
    });
    let refusal = missing.as_ref().and_then(StartError::of_feature);
    assert!(matches!(refusal, Some(PagesError::DenyFile(_))), "{missing:?}");
    let short = with(|settings| settings.section_mut::<AdminSettings>().token = "guess".into());
    let refusal = short.as_ref().and_then(StartError::of_feature);
    assert!(matches!(refusal, Some(AdminError::ShortToken)), "{short:?}");
    let script = with(|settings| {
        settings.section_mut::<PageSettings>().report = "javascript:alert(1)".into()
    });
    let refusal = script.as_ref().and_then(StartError::of_feature);
    assert!(matches!(refusal, Some(PagesError::Report { .. })), "{script:?}");
}

#[test]
fn the_pages_and_relayed_bytes_of_an_address_are_limited() {
    let mut settings = settings();
    settings.limits.loopback_limited = true;
    settings.section_mut::<watchfire_pages::PageLimits>().pages_per_address_max = 2;
    settings.section_mut::<watchfire_pages::PageLimits>().relay_bytes_per_day_per_address = 1_000;
    let server = start(settings);
    let (mut one, mut other) =
        (Client::connect(server.address()), Client::connect(server.address()));
    let peer = join(&mut one, PAGE, "all")["response"]["peer"].clone();
    assert_eq!(join(&mut other, PAGE, "none")["status"], "ok");
    let third = join(&mut other, OTHER, "none");
    assert_eq!(third["response"], json!({ "reason": "too many pages of this address", "max": 2 }));

    let to = u64::from_str_radix(peer.as_str().unwrap(), 16).unwrap().to_be_bytes();
    let mut relay = |bytes: usize| {
        let mut data = to.to_vec();
        data.resize(8 + bytes, 0);
        let reference = other.send_bytes(PAGE, "relay", &data);
        other.reply_to(&reference)["response"].clone()
    };
    assert_eq!(relay(900), json!({}));
    let refused = relay(101);
    assert_eq!(refused["reason"], "relay budget");
    assert!(refused["retry_after_ms"].as_u64().unwrap() > 60_000, "{refused}");
    assert_eq!(relay(100), json!({}), "a smaller frame is still relayed");

    // A peer that leaves makes room for another page.
    drop(one);
    assert_eq!(other.receive_event("peer_left")["peer"], peer);
    assert_eq!(join(&mut other, OTHER, "none")["status"], "ok");
}

#[test]
fn the_reply_says_when_a_page_was_last_available_if_the_settings_allow_it() {
    let mut remembering = settings();
    remembering.section_mut::<PageSettings>().last_available_kept = Duration::from_secs(60);
    for (settings, is_remembered) in [(remembering, true), (settings(), false)] {
        let server = start(settings);
        let (mut visitor, mut holder) =
            (Client::connect(server.address()), Client::connect(server.address()));
        assert!(join(&mut visitor, PAGE, "none")["response"]["last_available"].is_null());
        join(&mut holder, PAGE, "all");
        drop(holder);
        visitor.receive_event("unavailable");
        drop(visitor);
        let mut late = Client::connect(server.address());
        let reply = join(&mut late, PAGE, "none");
        assert_eq!(reply["response"]["last_available"].is_u64(), is_remembered, "{reply}");
    }
}

#[test]
fn limits_have_the_address_for_reports() {
    let mut settings = settings();
    settings.section_mut::<PageSettings>().report = "mailto:abuse@example.org?subject={cid}".into();
    let limits = get(&start(settings), "/limits");
    let body: Value = serde_json::from_str(limits.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert_eq!(body["report"], "mailto:abuse@example.org?subject={cid}");
}
