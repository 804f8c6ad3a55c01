//! A server with a feature of its own: `cargo run -p feature`.

mod greetings;

use watchfire::{Operator, RunError, Server, Settings};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), RunError> {
    let server = Server::new(Settings::default()).with(greetings::Greetings).with(Operator::new());
    let stop = async {
        watchfire::stop_signal().await.ok();
    };
    server.run(stop, |started| println!("http://{}/greetings", started.address)).await
}
