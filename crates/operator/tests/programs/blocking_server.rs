//! A server with a channel that blocks its event loop for ever, and a parameter of a client,
//! `panics`, whose end is a panic of the event loop: `blocking-server 2` has two processes. The tests
//! start it.

use std::sync::Arc;

use watchfire::{
    Channel, Connect, Connected, HandleIn, Joined, Outcome, Payload, Refusal, Refused, Server,
    Settings, Socket, stop_signal,
};
use watchfire_operator::AdminSettings;

struct Blocking;

impl Channel for Blocking {
    type State = ();

    fn join(&self, _: &mut Socket<'_>, _: Payload<'_>) -> Result<Joined<()>, Refusal> {
        Ok(Joined::with(()))
    }

    fn handle_in(&self, _: &mut (), _: &mut Socket<'_>, event: &str, _: Payload<'_>) -> HandleIn {
        if event == "block" {
            loop {
                std::thread::park();
            }
        }
        Ok(Outcome::NoReply)
    }
}

/// Data of a client whose end panics, outside of any callback that catches it.
struct PanicsAtTheEnd;

impl Drop for PanicsAtTheEnd {
    fn drop(&mut self) {
        panic!("a requested panic");
    }
}

fn connect(connect: &Connect<'_>) -> Result<Connected, Refused> {
    let assigns = connect.params.text("panics").map(|_| Arc::new(PanicsAtTheEnd) as _);
    Ok(Connected { assigns, ..Connected::default() })
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut settings = Settings::default();
    settings.server.listen = vec![([127, 0, 0, 1], 0).into()];
    settings.section_mut::<AdminSettings>().listen = vec![([127, 0, 0, 1], 0).into()];
    settings.server.processes = std::env::args().nth(1).unwrap_or_default().parse()?;
    // The other event loop of the process continues, so the process does not look dead.
    settings.server.shards = 2;
    settings.server.drain_period = std::time::Duration::ZERO;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let signal = stop_signal();
        let stop = async { signal.await.expect("signals can be handled") };
        let server = Server::new(settings)
            .with(watchfire_operator::Operator::new())
            .channel("block", Blocking)
            .on_connect(connect);
        let started = |started: &watchfire::Started| {
            println!("{}\n{}", started.address, started.addresses_of("operator")[0]);
        };
        server.run(stop, started).await
    })?;
    Ok(())
}
