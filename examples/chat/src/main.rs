//! A chat on Watchfire's channel server: rooms, presence, and a rule for accepting sockets.
//!
//! `cargo run -p chat -- 4001`, then point any Phoenix client at `ws://127.0.0.1:4001/socket`.
//! `cargo run -p chat -- 4001 3` serves with three processes. With the variable `CHAT_API_KEY`, it has the
//! HTTP API with this key.

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::{Context as _, bail};
use serde_json::json;
use watchfire::{
    Channel, ChannelRule, Connected, Crash, HandleIn, HistoryRule, JoinRule, Joined, Members,
    Outcome, Payload, Refusal, Refused, Reply, Server, Settings, Socket, Started,
};
use watchfire_api::{Api, ApiSettings};
use watchfire_operator::{AdminSettings, Operator};

/// `rooms:*`: anyone may join. All see how many have joined with a name, and the names of some.
struct Rooms(Members);

impl Channel for Rooms {
    type State = ();

    fn join(&self, socket: &mut Socket<'_>, payload: Payload<'_>) -> Result<Joined<()>, Refusal> {
        let params: serde_json::Value = payload.json().unwrap_or_default();
        Ok(match params["user"].as_str() {
            Some(user) => Joined::with(()).response(self.0.enter(socket, user)),
            None => Joined::with(()),
        })
    }

    fn handle_in(
        &self,
        (): &mut (),
        socket: &mut Socket<'_>,
        event: &str,
        payload: Payload<'_>,
    ) -> HandleIn {
        match (event, payload) {
            ("new_msg", payload) => socket.broadcast("new_msg", payload)?,
            ("ping", payload) => return Ok(Outcome::Reply(Reply::ok(payload))),
            ("bin", payload @ Payload::Binary(_)) => {
                socket.broadcast("bin", payload)?;
                return Ok(Outcome::Reply(Reply::ok(payload)));
            }
            ("crash", _) => return Err(Crash::because("the client sent `crash`")),
            ("stop", _) => return Ok(Outcome::Stop),
            (event, _) => return Err(Crash::because(format!("unknown event: {event}"))),
        }
        Ok(Outcome::NoReply)
    }

    fn leave(&self, (): (), socket: &mut Socket<'_>) {
        self.0.leave(socket);
    }
}

/// `presence:*`: every user sees the presence of all users.
struct Lobby;

impl Channel for Lobby {
    /// The user's name.
    type State = String;

    fn join(&self, _: &mut Socket<'_>, payload: Payload<'_>) -> Result<Joined<String>, Refusal> {
        let params: serde_json::Value = payload.json().unwrap_or_default();
        let Some(user) = params["user"].as_str() else {
            return Err(Refusal::because("no user"));
        };
        Ok(Joined::with(user.to_owned()))
    }

    fn joined(&self, user: &mut String, socket: &mut Socket<'_>) {
        if socket.track(user, json!({ "status": "online" })).is_ok() {
            socket.push_presence_state();
        }
    }

    fn handle_in(
        &self,
        user: &mut String,
        socket: &mut Socket<'_>,
        event: &str,
        _: Payload<'_>,
    ) -> HandleIn {
        match event {
            "away" => socket.update_presence(user, json!({ "status": "away" }))?,
            event => return Err(Crash::because(format!("unknown event: {event}"))),
        }
        Ok(Outcome::NoReply)
    }
}

/// Adds the channels of the chat, and its rule for sockets.
fn with_channels(server: Server) -> Server {
    let members = Members::new("rooms");
    let server = server.with(members.clone()).channel("rooms:*", Rooms(members));
    server.channel("presence:*", Lobby).on_connect(|connect| {
        if connect.params.map().contains_key("deny") {
            return Err(Refused::because("denied"));
        }
        let connected = Connected::default();
        Ok(match connect.params.text("user") {
            // The API ends the sockets and channels of an id.
            Some(user) => connected.with_id(format!("users:{user}")),
            None => connected,
        })
    })
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let Some(listen) = arguments.next() else { bail!("usage: chat [ADDRESS:]PORT [PROCESSES]") };
    let listen: SocketAddr = match listen.parse() {
        Ok(port) => (Ipv4Addr::LOCALHOST, port).into(),
        Err(_) => listen.parse().with_context(|| format!("invalid address {listen:?}"))?,
    };

    let mut settings = Settings::default();
    settings.server.listen = vec![listen];
    // A free port: several of these servers may run at the same time.
    settings.section_mut::<AdminSettings>().listen =
        vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 0))];
    if let Some(processes) = arguments.next() {
        let number = processes.parse();
        settings.server.processes =
            number.with_context(|| format!("invalid number of processes {processes:?}"))?;
    }
    // `news:*` is a channel without code: only the server publishes, and late clients get what they missed.
    settings.channels.rules = vec![ChannelRule {
        join: JoinRule::Anyone,
        history: Some(HistoryRule::default()),
        ..ChannelRule::of("news:*")
    }];
    settings.section_mut::<ApiSettings>().key = std::env::var("CHAT_API_KEY").unwrap_or_default();
    let server = with_channels(Server::new(settings).with(Operator::new()).with(Api::new()));
    let stop = async {
        // If signals cannot be received, it runs until it is killed.
        if watchfire::stop_signal().await.is_err() {
            std::future::pending().await
        }
    };
    let started = |started: &Started| {
        println!("chat listens on ws://{}/socket", started.address);
        for address in started.addresses_of("operator") {
            println!("its metrics are at http://{address}/metrics");
        }
    };
    server.run(stop, started).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use watchfire::testing::{Channels, NotConnected};

    #[test]
    fn users_see_each_other_until_they_go() {
        let channels = Channels::start(with_channels(Server::new(Settings::default()))).unwrap();
        let [mut ann, mut bob] = ["user=ann", "user=bob"].map(|it| channels.connect(it).unwrap());
        assert_eq!(ann.join("presence:1", json!({})), Reply::because("no user"));
        ann.join("presence:1", json!({ "user": "ann" }));
        assert_eq!(
            ann.next("presence:1", "presence_diff")["joins"]["ann"]["metas"][0]["status"],
            "online"
        );
        bob.join("presence:1", json!({ "user": "bob" }));
        assert!(bob.next("presence:1", "presence_state")["ann"].is_object());
        assert!(ann.next("presence:1", "presence_diff")["joins"]["bob"].is_object());
        drop(bob);
        assert!(ann.next("presence:1", "presence_diff")["leaves"]["bob"].is_object());
    }

    #[test]
    fn a_room_shows_who_enters_and_how_many_are_there() {
        let channels = Channels::start(with_channels(Server::new(Settings::default()))).unwrap();
        let [mut ann, mut bob] = ["", ""].map(|params| channels.connect(params).unwrap());
        let joined = ann.join("rooms:1", json!({ "user": "ann" }));
        assert_eq!(joined, Reply::ok(json!({ "count": 1, "users": ["ann"] })));
        assert_eq!(ann.next("rooms:1", "user_entered"), json!({ "user": "ann" }));
        bob.join("rooms:1", json!({ "user": "bob" }));
        assert_eq!(ann.next("rooms:1", "user_entered"), json!({ "user": "bob" }));
        while ann.next("rooms:1", "members") != json!({ "count": 2, "users": ["ann", "bob"] }) {}
        drop(bob);
        assert_eq!(ann.next("rooms:1", "members"), json!({ "count": 1, "users": ["ann"] }));
    }

    #[test]
    fn a_message_reaches_all_and_a_crash_ends_one_channel() {
        let channels = Channels::start(with_channels(Server::new(Settings::default()))).unwrap();
        assert_eq!(channels.connect("deny=1").unwrap_err(), NotConnected { status: 403 });
        let [mut ann, mut bob] = ["", ""].map(|params| channels.connect(params).unwrap());
        ann.join("rooms:1", json!({}));
        bob.join("rooms:1", json!({}));
        ann.send("rooms:1", "new_msg", json!({ "text": "hello" }));
        for client in [&mut ann, &mut bob] {
            assert_eq!(client.next("rooms:1", "new_msg"), json!({ "text": "hello" }));
        }
        ann.send("rooms:1", "crash", json!({}));
        ann.next("rooms:1", "phx_error");
        assert_eq!(bob.push("rooms:1", "ping", json!({})), Reply::ok(json!({})));
    }
}
