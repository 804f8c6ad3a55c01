//! An axum application whose channels are below `/realtime`.
//!
//! `cargo run -p nested -- 4001`, then point a Phoenix client at
//! `ws://127.0.0.1:4001/realtime/socket`. `POST /notes/42` sends its body as a note to the topic `notes:42`.

use std::net::{Ipv4Addr, SocketAddr};

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use serde_json::json;
use watchfire::{
    Channel, Endpoint, HandleIn, Joined, Outcome, Payload, Refusal, Reply, Server, Settings,
    Socket, stop_signal,
};

struct Notes;

impl Channel for Notes {
    type State = ();

    fn join(&self, _: &mut Socket<'_>, _: Payload<'_>) -> Result<Joined<()>, Refusal> {
        Ok(Joined::with(()))
    }

    fn handle_in(
        &self,
        (): &mut (),
        socket: &mut Socket<'_>,
        event: &str,
        payload: Payload<'_>,
    ) -> HandleIn {
        socket.broadcast_from(event, payload)?;
        Ok(Outcome::Reply(Reply::ok(payload)))
    }
}

async fn note(
    State(endpoint): State<Endpoint>,
    Path(id): Path<u64>,
    text: String,
) -> Result<StatusCode, (StatusCode, String)> {
    // The only error is a payload that is not an object. What a full queue drops is counted, and is none.
    match endpoint.broadcast(&format!("notes:{id}"), "note", json!({ "text": text })) {
        Ok(()) => Ok(StatusCode::NO_CONTENT),
        Err(error) => Err((StatusCode::BAD_REQUEST, error.to_string())),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let port = std::env::args().nth(1).unwrap_or_else(|| "4001".into()).parse()?;
    let channels = Server::new(Settings::default()).channel("notes:*", Notes).embed()?;
    let app = Router::new()
        .route("/", get(async || "an axum application"))
        .route("/notes/{id}", post(note).with_state(channels.endpoint().clone()))
        .nest("/realtime", channels.router());
    let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
    println!("ws://{}/realtime/socket", listener.local_addr()?);
    // With the address of each client.
    let app = app.into_make_service_with_connect_info::<SocketAddr>();
    tokio::select! {
        served = axum::serve(listener, app) => served?,
        stopped = stop_signal() => stopped?,
    }
    channels.drain().await;
    Ok(())
}
