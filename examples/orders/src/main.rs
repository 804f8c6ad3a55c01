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
    #[test]
    fn the_tutorial_shows_this_program() {
        let tutorial = include_str!("../../../docs/tutorial/channels.md");
        let program = include_str!("main.rs");
        let (_, program) = program.split_once("\n\n").expect("a module comment comes first");
        let (program, _) = program.split_once("\n#[cfg(test)]").expect("the tests come last");
        assert!(tutorial.contains(program), "docs/tutorial/channels.md shows another program");
    }
}
