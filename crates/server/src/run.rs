//! Runs a server until it is stopped or replaced, in one process or in several.

use std::future::Future;
use std::io;
use std::sync::Arc;

use tokio::sync::mpsc;
use watchfire_cluster::bus::{BusLimits, LocalBus};
use watchfire_cluster::workers::join_supervisor;
use watchfire_types::NodeId;

use crate::cluster::{Cluster, ProcessStarts, Receiver};
use crate::machines;
use crate::multi_process::{
    RunError, Started, is_stop_during_start, process_count, serve_as_worker, supervise_all,
};
use crate::process::outlived_signals;
use crate::restart::{Inherited, Opened, report_ready};
use crate::server::{ProcessRole, RunningServer, Server, StartError, shards};
use crate::settings::Settings;
use crate::tls;

impl Server {
    /// Runs until `stop` is ready, then drains; in as many processes as `server.processes` says.
    ///
    /// `started` is called once, when the server accepts connections. With several processes, the
    /// program is started again for each, with the same arguments. In those processes this call
    /// serves clients; it does not call `started`, and does not wait for `stop`.
    ///
    /// On SIGUSR2 the program on disk is started with the same arguments. It takes over the
    /// listeners, and this server drains once the new one serves. If the new one does not start,
    /// this server continues. Under systemd, the server reports its state, and listens on the
    /// sockets of a socket unit instead of `server.listen`.
    ///
    /// ```no_run
    /// use watchfire::{RunError, Server, Settings, stop_signal};
    ///
    /// #[tokio::main]
    /// async fn main() -> Result<(), RunError> {
    ///     let stop = stop_signal();
    ///     let stop = async { stop.await.expect("signals can be received") };
    ///     Server::new(Settings::default()).run(stop, |started| println!("{}", started.address)).await
    /// }
    /// ```
    pub async fn run(
        self,
        stop: impl Future<Output = ()>,
        started: impl FnOnce(&Started),
    ) -> Result<(), RunError> {
        match join_supervisor() {
            Ok(None) => {}
            Ok(Some(setup)) => return serve_as_worker(self, setup).await,
            Err(error) if is_stop_during_start(&error) => return Ok(()),
            Err(error) => return Err(RunError::JoinSupervisor(error)),
        }
        self.check_listen()?;
        let inherited = Inherited::receive().map_err(RunError::Inherit)?;
        match process_count(self.settings()) {
            1 => self.run_alone(inherited, stop, started).await,
            processes => supervise_all(&self, processes, inherited, stop, started).await,
        }
    }

    /// Starts the server as one machine of several, and returns the bus that links it. For tests with
    /// machines that differ.
    #[doc(hidden)]
    pub fn start_on_bus(
        self,
        me: NodeId,
        secret: [u8; 32],
    ) -> Result<(RunningServer, Arc<LocalBus>), StartError> {
        let role = role_in_cluster(me, secret, self.settings());
        let (role, bus) = role.map_err(StartError::Thread)?;
        Ok((self.start_as(role)?, bus))
    }

    async fn run_alone(
        mut self,
        inherited: Inherited,
        stop: impl Future<Output = ()>,
        started: impl FnOnce(&Started),
    ) -> Result<(), RunError> {
        let is_successor = inherited.is_successor();
        if !is_successor {
            tls::check_redirect_addresses(self.settings()).map_err(StartError::Tls)?;
        }
        let listen = &self.settings().server.listen;
        let Opened { listeners, listen, mut restarts, predecessor, histories } =
            inherited.open(listen, shards(self.settings()))?;
        let mut settings = self.settings().clone();
        settings.server.listen = listen;
        self.set_settings(settings);
        let mut machine = machines::join(&self.settings().cluster, 1).await?;
        let (role, bus) = match &machine {
            None => (ProcessRole::alone().map_err(io::Error::other)?, None),
            Some(machine) => {
                let (role, bus) = role_in_cluster(machine.first, machine.secret, self.settings())?;
                (role, Some(bus))
            }
        };
        let is_paused = machine.is_some();
        let taken = histories.and_then(|sockets| sockets.take(self.settings()));
        let inherited = Some(listeners);
        let role = ProcessRole { inherited, is_successor, is_paused, taken, ..role };
        let cluster_settings = self.settings().cluster.clone();
        let _outlived = outlived_signals()?;
        let server = self.start_as(role)?;
        // Ends after the drain, so that clients hear of each other until then.
        let links = match (&machine, &bus) {
            (Some(machine), Some(bus)) => {
                let me = machine.first;
                let of_machine = me.0..me.0 + 1;
                machines::link(&cluster_settings, me, of_machine, machine.cluster, bus).await?
            }
            _ => None,
        };
        server.start_histories().await?;
        restarts.histories = server.endpoint().keeper();
        machines::settle(server.cluster(), links.as_ref()).await;
        server.accept_clients();
        let addresses = server.addresses().to_vec();
        let feature_addresses = server.feature_addresses.clone();
        let address = addresses[0];
        started(&Started { address, addresses, feature_addresses, processes: 1 });
        server.prepared().await;
        report_ready(predecessor);
        let mut loops = server.loop_watch();
        let end = tokio::select! {
            () = restarts.until_end(stop, || loops.stalled().is_empty()) => Ok(()),
            panic = server.panicked() => Err(panic.into()),
            error = machines::place_lost(&mut machine) => {
                tracing::error!(%error, "this machine stops");
                Err(error.into())
            }
        };
        match end {
            Err(RunError::EventLoop(_) | RunError::Thread(_)) => server.end_after_panic().await,
            _ => server.drain().await,
        }
        if let Some(machine) = machine {
            machine.leave().await;
        }
        end
    }
}

/// The role of the only process of a machine among several.
fn role_in_cluster(
    me: NodeId,
    secret: [u8; 32],
    settings: &Settings,
) -> io::Result<(ProcessRole, Arc<LocalBus>)> {
    let bus = Arc::new(LocalBus::start(me, BusLimits::default())?);
    let receiving_bus = bus.clone();
    // Links to other machines are opened again by themselves, so nobody waits for lost ones.
    let (lost, _) = mpsc::unbounded_channel();
    let of_machine = me.0..me.0 + 1;
    let connections_max = settings.limits.sockets_max.into();
    let starts = ProcessStarts::default();
    let role = ProcessRole {
        cluster: Cluster::among(bus.clone(), of_machine, connections_max, None, starts),
        secret,
        on_parts: Box::new(move |cluster, parts| {
            let cluster = cluster.clone();
            receiving_bus.attach(Arc::new(Receiver::new(cluster, parts, lost)));
        }),
        ..ProcessRole::alone().map_err(io::Error::other)?
    };
    Ok((role, bus))
}
