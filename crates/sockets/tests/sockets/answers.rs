//! Requests that a handler answers in its shard.

use super::support::{Client, TestServer};

fn reverse(more: &str, body: &str) -> String {
    let len = body.len();
    format!("POST /reverse HTTP/1.1\r\nhost: test\r\n{more}content-length: {len}\r\n\r\n{body}")
}

fn answered_by_the_router(client: &mut Client) {
    assert_eq!(client.read_response(), (200, "the router".into()));
}

#[test]
fn a_handler_answers_requests_of_one_connection_in_turn_with_the_router() {
    let server = TestServer::open();
    let mut client = server.sending(reverse("", "abc"));
    assert_eq!(client.read_response(), (200, "cba".into()));
    assert_eq!(client.get("/"), (200, "hello".into()));
    let requests = [reverse("", "one"), reverse("", "router"), reverse("", ""), reverse("", "two")];
    client.send(requests.concat());
    assert_eq!(client.read_response(), (200, "eno".into()));
    answered_by_the_router(&mut client);
    assert_eq!(client.read_response(), (200, "".into()));
    assert_eq!(client.read_response(), (200, "owt".into()));
    let totals = server.totals();
    assert_eq!((totals.accepts, totals.http_requests, totals.connections_now), (1, 6, 1));
}

#[test]
fn the_router_answers_a_request_whose_body_is_not_there_with_its_head() {
    let server = TestServer::open();
    let request = reverse("", "abcdef");
    let mut client = server.connect();
    for end in [request.len() - 6, request.len() - 1] {
        client.send(&request[..end]);
        server.eventually("the router has it", |totals| totals.http_now == 1);
        client.send(&request[end..]);
        answered_by_the_router(&mut client);
        server.eventually("the router has returned the connection", |totals| totals.http_now == 0);
    }
    client.send(
        "POST /reverse HTTP/1.1\r\nhost: test\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    );
    answered_by_the_router(&mut client);
    client.send(reverse("", "abc"));
    assert_eq!(client.read_response(), (200, "cba".into()));
}

#[test]
fn a_last_request_is_answered_before_its_connection_ends() {
    let server = TestServer::open();
    let last = reverse("connection: close\r\n", "abc");
    let mut client = server.sending(&last);
    assert!(client.read_head().contains("\r\nconnection: close\r\n"));
    assert_eq!(client.read_exact(3), b"cba");
    server.eventually("its connection is closed", |totals| totals.connections_now == 0);
    client.expect_end();

    let mut client = server.sending(format!("{last}more"));
    assert_eq!(client.read_response(), (200, "cba".into()));
    client.expect_end();
    assert_eq!(server.totals().connections_now, 1, "more bytes may be on their way");
    drop(client);
    server.eventually("its connection is closed", |totals| totals.connections_now == 0);
}
