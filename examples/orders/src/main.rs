//! The channel of `docs/tutorial/channels.md`: clients of one order exchange notes.

use watchfire::{
    Channel, HandleIn, Joined, Outcome, Payload, Refusal, Reply, Server, Settings, Socket,
};

struct Orders;

impl Channel for Orders {
    /// The server stores this for each joined client: the number of the order.
    type State = u64;

    fn join(&self, socket: &mut Socket<'_>, _: Payload<'_>) -> Result<Joined<u64>, Refusal> {
        match socket.topic().strip_prefix("orders:").and_then(|id| id.parse().ok()) {
            Some(order) => Ok(Joined::with(order)),
            None => Err(Refusal::because("no such order")),
        }
    }

    fn handle_in(
        &self,
        order: &mut u64,
        socket: &mut Socket<'_>,
        event: &str,
        payload: Payload<'_>,
    ) -> HandleIn {
        socket.broadcast_from(event, payload)?;
        Ok(Outcome::Reply(Reply::ok(serde_json::json!({ "order": *order }))))
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::new(Settings::default()).channel("orders:*", Orders);
    let stop = async {
        watchfire::stop_signal().await.ok();
    };
    server.run(stop, |started| println!("ws://{}/socket", started.address)).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use watchfire::testing::Channels;

    #[test]
    fn a_note_reaches_the_other_clients_of_its_order() {
        let server = Server::new(Settings::default()).channel("orders:*", Orders);
        let channels = Channels::start(server).unwrap();
        let [mut ann, mut bob] = ["user=ann", "user=bob"].map(|it| channels.connect(it).unwrap());
        assert_eq!(ann.join("orders:x", json!({})), Reply::because("no such order"));
        assert_eq!(ann.join("orders:7", json!({})).status(), "ok");
        assert_eq!(bob.join("orders:7", json!({})).status(), "ok");

        let reply = ann.push("orders:7", "note", json!({ "text": "two eggs" }));
        assert_eq!(reply, Reply::ok(json!({ "order": 7 })));
        assert_eq!(bob.next("orders:7", "note"), json!({ "text": "two eggs" }));
        assert!(ann.received("orders:7").is_empty(), "Ann gets no copy");
    }

    #[test]
    fn the_documents_show_this_program() {
        let tutorial = include_str!("../../../docs/tutorial/channels.md");
        let program = include_str!("main.rs");
        let (_, program) = program.split_once("\n\n").expect("a module comment comes first");
        let (program, tests) = program.split_once("\n#[cfg(test)]").expect("the tests come last");
        assert!(tutorial.contains(program), "docs/tutorial/channels.md shows another program");
        let how_to = include_str!("../../../docs/how-to/use-as-a-library.md");
        let (test, _) = tests.split_once("\n\n    #[test]\n    fn the_doc").expect("two tests");
        assert!(how_to.contains(test), "docs/how-to/use-as-a-library.md shows another test");
    }
}
