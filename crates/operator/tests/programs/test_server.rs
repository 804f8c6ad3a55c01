//! A server that writes its log as JSON, with settings as TOML in its argument. The channel `crash` panics
//! at each message, and `block` blocks its event loop for ever. The end of a client with the parameter
//! `panics` ends its event loop, and a client with `thread` a thread beside them. The tests start the program.

use watchfire::feature::Feature as _;
use watchfire::{
    Channel, Connect, Connected, HandleIn, Joined, Layers, LogFormat, Payload, Refusal, Refused,
    Server, Socket, start_logging, stop_signal,
};
use watchfire_operator::AdminSettings;

enum Broken {
    Crash,
    Block,
}

impl Channel for Broken {
    type State = ();

    fn join(&self, _: &mut Socket<'_>, _: Payload<'_>) -> Result<Joined<()>, Refusal> {
        Ok(Joined::with(()))
    }

    fn handle_in(&self, _: &mut (), _: &mut Socket<'_>, _: &str, _: Payload<'_>) -> HandleIn {
        match self {
            Broken::Crash => panic!("the message of a panic"),
            Broken::Block => loop {
                std::thread::park();
            },
        }
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
    if let Some(name) = connect.params.text("thread") {
        let name: &'static str = name.to_owned().leak();
        std::thread::spawn(move || {
            let _vital = watchfire_types::VitalThread::enter(name);
            panic!("a requested panic");
        });
    }
    Ok(match connect.params.text("panics") {
        Some(_) => Connected::default().with_assigns(PanicsAtTheEnd),
        None => Connected::default(),
    })
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut layers = Layers::new().with(watchfire_operator::Operator::new().sections());
    layers.text("arguments", &std::env::args().nth(1).unwrap_or_default())?;
    let mut settings = layers.settings()?;
    settings.log.format = LogFormat::Json;
    settings.server.listen = vec![([127, 0, 0, 1], 0).into()];
    settings.server.drain_period = std::time::Duration::ZERO;
    settings.section_mut::<AdminSettings>().listen = vec![([127, 0, 0, 1], 0).into()];
    start_logging(&settings.log)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let signal = stop_signal();
        let stop = async { signal.await.expect("signals can be handled") };
        let started = |started: &watchfire::Started| {
            println!("{}\n{}", started.address, started.addresses_of("operator")[0]);
        };
        let server = Server::new(settings)
            .with(watchfire_operator::Operator::new())
            .channel("crash", Broken::Crash)
            .channel("block", Broken::Block)
            .on_connect(connect);
        server.run(stop, started).await
    })?;
    Ok(())
}
