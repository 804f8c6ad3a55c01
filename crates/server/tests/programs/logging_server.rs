//! A server that writes its log as JSON, with settings as TOML in its argument. Its channel `crash` panics
//! at each message. The tests start it.

use watchfire_server::{
    Channel, HandleIn, Joined, Layers, LogFormat, Payload, Refusal, Server, Socket, start_logging,
    stop_signal,
};

struct Crash;

impl Channel for Crash {
    type State = ();

    fn join(&self, _: &mut Socket<'_>, _: Payload<'_>) -> Result<Joined<()>, Refusal> {
        Ok(Joined::with(()))
    }

    fn handle_in(&self, _: &mut (), _: &mut Socket<'_>, _: &str, _: Payload<'_>) -> HandleIn {
        panic!("the message of a panic");
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut layers = Layers::new();
    layers.text("arguments", &std::env::args().nth(1).unwrap_or_default())?;
    let mut settings = layers.settings()?;
    settings.log.format = LogFormat::Json;
    settings.server.listen = vec![([127, 0, 0, 1], 0).into()];
    settings.server.drain_period = std::time::Duration::ZERO;
    settings.admin.listen = vec![([127, 0, 0, 1], 0).into()];
    start_logging(&settings.log)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let signal = stop_signal();
        let stop = async { signal.await.expect("signals can be handled") };
        let started = |started: &watchfire_server::Started| {
            println!("{}\n{}", started.address, started.admin_addresses[0]);
        };
        Server::new(settings).channel("crash", Crash).run(stop, started).await
    })?;
    Ok(())
}
