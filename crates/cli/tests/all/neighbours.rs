//! Pages of one server that a terminal opens through the link of another.

use std::fs;

use crate::support::{Listening, Scratch, Serving};

/// A server with these neighbours.
fn serve(neighbours: &str) -> Listening {
    let neighbours = format!("neighbours.servers={neighbours}");
    let settings =
        ["server.drain_period=0s", "stun.enabled=false", "admin.listen=127.0.0.1:0", &neighbours];
    let settings = settings.into_iter().flat_map(|setting| ["--set", setting]);
    Listening::start(&["serve"].into_iter().chain(settings).collect::<Vec<_>>())
}

#[test]
fn a_page_that_is_shared_on_one_server_is_got_through_the_link_of_its_neighbour() {
    // Nothing listens there. A server without neighbours would not tell its pages.
    let down = "http://127.0.0.1:1";
    let there = serve(down);
    let site = format!("http://{}", there.address());
    let here = serve(&format!("{down},{site}"));
    let scratch = Scratch::new();
    let bytes: Vec<u8> = (0..300_000_u32).flat_map(u32::to_le_bytes).collect();
    scratch.file("file", &bytes);
    let mut share = Serving::start(&scratch, "share", &["file", "--to", &site]);
    let event = share.event("shared");
    let page = event["page"].as_str().expect("a link").to_owned();
    let link = page.replace(&there.address(), &here.address());
    assert_ne!(link, page);
    scratch.prints(&["get", &link, "--output", "copy"]);
    assert!(fs::read(scratch.join("copy")).expect("it is there") == bytes);

    // A holder at the own server makes the neighbour unnecessary.
    let mut hold = Serving::start(&scratch, "hold", &[&link, "--store", "store"]);
    hold.event("held");
    assert_eq!(share.interrupt(), Some(0));
    scratch.prints(&["get", &link, "--output", "again"]);
    assert!(fs::read(scratch.join("again")).expect("it is there") == bytes);
}

#[test]
fn a_link_of_a_server_that_is_gone_opens_at_another_one_that_it_names() {
    let down = "http://127.0.0.1:1";
    let there = serve(down);
    let site = format!("http://{}", there.address());
    let scratch = Scratch::new();
    scratch.file("file", b"still here");
    let mut share = Serving::start(&scratch, "share", &["file", "--to", &site]);
    let event = share.event("shared");
    let page = event["page"].as_str().expect("a link");
    let (link, _) = page.split_once('#').unwrap_or((page, ""));
    let link = format!("{}#at={site}", link.replace(&site, down));
    scratch.prints(&["get", &link, "--output", "copy"]);
    assert_eq!(fs::read(scratch.join("copy")).expect("it is there"), b"still here");
    assert_eq!(share.interrupt(), Some(0));
}
