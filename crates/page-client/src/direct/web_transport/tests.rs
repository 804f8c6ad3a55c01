//! A listener and a client of the same library, on loopback.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use futures::FutureExt as _;
use tokio::net::UdpSocket;
use tokio::time::timeout;
use wtransport::Connection;

use super::listener::HANDSHAKES_MAX;
use super::test_client::{self, WAIT};
use super::{FRAMES_MAX, Offer, Secret, StreamEvent, StreamLinks, WebTransportListener};

async fn dial(offer: &Offer, path: &str) -> Result<Connection, String> {
    test_client::dial(&offer.addresses, &offer.certificate, path).await
}

async fn next(links: &mut StreamLinks, secret: Secret) -> StreamEvent {
    let (from, event) = timeout(WAIT, links.receive()).await.expect("an event");
    assert_eq!(from, secret);
    event
}

#[tokio::test]
async fn a_client_with_the_secret_exchanges_frames_and_no_other_connects() {
    let listener = Arc::new(WebTransportListener::new(None));
    let mut links = StreamLinks::new(Some(listener));
    let offer = links.offers()().expect("an offer");
    let secret = offer.secret;
    assert!(dial(&offer, &Secret([0; 16]).to_string()).await.is_err(), "an unknown secret");
    assert!(dial(&offer, "").await.is_err(), "no secret");

    let connection = dial(&offer, &secret.to_string()).await.expect("a session");
    let second = secret.to_string();
    let second = timeout(Duration::from_millis(300), dial(&offer, &second)).await;
    assert!(!matches!(second, Ok(Ok(_))), "a secret is good for one session");
    assert_eq!(next(&mut links, secret).await, StreamEvent::Opened);
    let (mut sending, mut receiving) = connection.accept_bi().await.expect("a stream");
    links.write(secret, b"hello".to_vec());
    let mut read = [0; 7];
    receiving.read_exact(&mut read).await.expect("a frame");
    assert_eq!(&read, b"\0\x05hello");
    assert_eq!(next(&mut links, secret).await, StreamEvent::Written(1));

    sending.write_all(b"\0\x02hi\xff\xff").await.expect("a frame that arrives");
    assert_eq!(next(&mut links, secret).await, StreamEvent::Frame("hi".into()));
    assert_eq!(next(&mut links, secret).await, StreamEvent::Malformed);
    assert_eq!(next(&mut links, secret).await, StreamEvent::Closed);
    timeout(WAIT, connection.closed()).await.expect("the connection is closed");
}

#[tokio::test]
async fn a_withdrawn_offer_is_not_accepted_and_a_closed_page_closes_its_streams() {
    let listener = Arc::new(WebTransportListener::new(Some(("192.0.2.1".to_owned(), 0))));
    let mut links = StreamLinks::new(Some(listener));
    let mut offers = links.offers();
    let offer = |offer: Option<Offer>| {
        let mut offer = offer.expect("an offer");
        assert_eq!(offer.addresses.remove(0), "192.0.2.1:0");
        offer
    };
    let (first, second) = (offer(offers()), offer(offers()));
    assert_ne!(first.secret, second.secret);
    links.close(first.secret);
    assert!(dial(&first, &first.secret.to_string()).await.is_err());
    let connection = dial(&second, &second.secret.to_string()).await.expect("a session");
    assert_eq!(next(&mut links, second.secret).await, StreamEvent::Opened);
    drop((links, offers));
    timeout(WAIT, connection.closed()).await.expect("the connection is closed");
}

#[tokio::test]
async fn a_page_that_loses_its_server_withdraws_its_own_offers() {
    let listener = Arc::new(WebTransportListener::new(None));
    let mut links = StreamLinks::new(Some(Arc::clone(&listener)));
    let other_page = StreamLinks::new(Some(listener));
    let offer = links.offers()().expect("an offer");
    let other = other_page.offers()().expect("an offer");
    links.close_all();
    assert!(dial(&offer, &offer.secret.to_string()).await.is_err());
    dial(&other, &other.secret.to_string()).await.expect("a session of the other page");
}

#[tokio::test]
async fn a_page_closes_a_stream_whose_client_reads_nothing() {
    let listener = Arc::new(WebTransportListener::new(None));
    let mut links = StreamLinks::new(Some(listener));
    let offer = links.offers()().expect("an offer");
    let secret = offer.secret;
    let connection = dial(&offer, &secret.to_string()).await.expect("a session");
    assert_eq!(next(&mut links, secret).await, StreamEvent::Opened);
    let _stream = connection.accept_bi().await.expect("a stream");
    let mut written = 0;
    for _ in 0..FRAMES_MAX {
        links.write(secret, vec![7; 16 << 10]);
    }
    while written < FRAMES_MAX {
        let StreamEvent::Written(frames) = next(&mut links, secret).await else {
            panic!("another event")
        };
        written += frames;
    }
    // They do not fit into the window of the client.
    for _ in 0..FRAMES_MAX {
        links.write(secret, vec![7; 16 << 10]);
    }
    links.close(secret);
    timeout(WAIT, connection.closed()).await.expect("the connection is closed");
}

#[tokio::test]
async fn clients_that_ask_for_no_session_are_closed_and_few_of_them_are_accepted_at_a_time() {
    let listener = Arc::new(WebTransportListener::new(None));
    let links = StreamLinks::new(Some(listener));
    let offer = links.offers()().expect("an offer");
    let connect = || test_client::connect(&offer.addresses, &offer.certificate);
    let mut silent = Vec::new();
    for _ in 0..HANDSHAKES_MAX {
        silent.push(connect().await.expect("a connection"));
    }
    let further = connect().await;
    // On a very slow machine, the first one was closed meanwhile.
    assert!(further.is_err() || silent[0].close_reason().is_some());
    let streams: Vec<_> = (0..9).map(|_| silent[31].open_uni().now_or_never()).collect();
    assert!(streams[..8].iter().all(|opened| matches!(opened, Some(Ok(_)))));
    assert!(streams[8].is_none(), "a ninth stream has to wait");
    for connection in silent {
        timeout(WAIT, connection.closed()).await.expect("the connection is closed");
    }
    dial(&offer, &offer.secret.to_string()).await.expect("a session");
}

#[tokio::test]
async fn senders_that_never_answer_leave_room_for_a_browser() {
    let links = StreamLinks::new(Some(Arc::new(WebTransportListener::new(None))));
    let offer = links.offers()().expect("an offer");
    let mut senders = Vec::new();
    for _ in 0..2 * HANDSHAKES_MAX {
        let datagram = test_client::first_datagram(&offer.certificate).await;
        let sender = UdpSocket::bind("127.0.0.1:0").await.expect("a free port");
        let to = test_client::loopback(&offer.addresses);
        sender.send_to(&datagram, to).await.expect("a datagram");
        senders.push(sender);
    }
    dial(&offer, &offer.secret.to_string()).await.expect("a session");
}

#[tokio::test]
async fn a_machine_that_slept_for_two_weeks_offers_a_valid_certificate() {
    let hours_ago = Arc::new(AtomicU64::new(14 * 24));
    let clock_hours_ago = Arc::clone(&hours_ago);
    let clock = move || {
        let hours = clock_hours_ago.load(Ordering::Relaxed);
        SystemTime::now() - Duration::from_secs(hours * 3600)
    };
    let links = StreamLinks::new(Some(Arc::new(WebTransportListener::with_clock(clock))));
    let mut offers = links.offers();
    let before = offers().expect("an offer");
    assert!(
        dial(&before, &before.secret.to_string()).await.is_err(),
        "the certificate has expired"
    );
    hours_ago.store(0, Ordering::Relaxed);
    let after = offers().expect("an offer");
    assert_ne!(before.certificate, after.certificate);
    dial(&after, &after.secret.to_string()).await.expect("a session");
    assert_eq!(offers().expect("an offer").certificate, after.certificate);
}

#[tokio::test]
async fn at_most_nine_addresses_are_offered() {
    let outside = Some(("localhost".to_owned(), 0));
    let mut links = StreamLinks::new(Some(Arc::new(WebTransportListener::new(outside))));
    let mut offers = links.offers();
    let is_told = |offer: &Offer| offer.addresses.iter().skip(1).any(|one| one.ends_with(":0"));
    let told = async {
        loop {
            let offer = offers().expect("an offer");
            if is_told(&offer) {
                return offer;
            }
            links.close(offer.secret);
            tokio::task::yield_now().await;
        }
    };
    let offer = timeout(WAIT, told).await.expect("an offer with the addresses of the name");
    assert_eq!(offer.addresses[0], "localhost:0");
    assert!(offer.addresses.len() <= 9, "{:?}", offer.addresses);
}
