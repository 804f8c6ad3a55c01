//! A server with a feature of its own: `cargo run -p feature`.

mod greetings;

use watchfire::{RunError, Server, Settings};
use watchfire_operator::Operator;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), RunError> {
    let server = Server::new(Settings::default()).with(greetings::Greetings).with(Operator::new());
    let stop = async {
        watchfire::stop_signal().await.ok();
    };
    server.run(stop, |started| println!("http://{}/greetings", started.address)).await
}
