//! A listener and a client of the same library, on loopback.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use wtransport::tls::{Sha256Digest, Sha256DigestFmt};
use wtransport::{ClientConfig, Connection, Endpoint};

use super::{Offer, Secret, StreamEvent, StreamLinks, WebTransportListener};

const WAIT: Duration = Duration::from_secs(20);

async fn dial(offer: &Offer, path: &str) -> Result<Connection, String> {
    let hash = Sha256Digest::from_str_fmt(
        offer
            .certificate
            .as_bytes()
            .chunks(2)
            .map(|digits| std::str::from_utf8(digits).unwrap())
            .collect::<Vec<_>>()
            .join(":"),
        Sha256DigestFmt::DottedHex,
    );
    let config = ClientConfig::builder()
        .with_bind_default()
        .with_server_certificate_hashes([hash.map_err(|error| format!("{error:?}"))?])
        .build();
    let endpoint = Endpoint::client(config).map_err(|error| error.to_string())?;
    let (_, port) = offer.addresses[0].rsplit_once(':').ok_or("no port")?;
    let connected = endpoint.connect(format!("https://127.0.0.1:{port}/{path}"));
    timeout(WAIT, connected).await.map_err(|_| "timeout")?.map_err(|error| error.to_string())
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
    let listener = Arc::new(WebTransportListener::new(Some(("example.org".to_owned(), 0))));
    let mut links = StreamLinks::new(Some(listener));
    let mut offers = links.offers();
    let offer = |offer: Option<Offer>| {
        let mut offer = offer.expect("an offer");
        assert_eq!(offer.addresses.remove(0), "example.org:0");
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
