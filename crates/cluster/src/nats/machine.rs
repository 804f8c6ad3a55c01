//! This machine among the others: its numbers and the secret of the cluster.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use tokio::time::{Instant as Clock, MissedTickBehavior, interval};
use watchfire_types::{Instant, NodeId};

use crate::nats::claim::{Action, Claim, ClaimError, MachineMessage, Welcome, announced_format};
use crate::nats::refusals::Refusals;
use crate::nats::settings::{NatsError, NatsSettings};

/// How often a claim does what is due.
const TICK: Duration = Duration::from_millis(50);
/// How often the same warning is logged.
const WARN_INTERVAL: Duration = Duration::from_secs(60);

/// Why this machine is not part of the cluster.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    #[error(transparent)]
    Nats(#[from] NatsError),
    #[error(transparent)]
    Claim(#[from] ClaimError),
}

/// A machine that is part of the cluster.
pub struct Machine {
    client: async_nats::Client,
    prefix: String,
    announcements: async_nats::Subscriber,
    claim: Claim,
    incarnation: u64,
    started: Clock,
    warned_at: Option<Clock>,
    first: NodeId,
    secret: [u8; 32],
    cluster: u64,
}

impl Machine {
    /// Connects to NATS and gets numbers for this machine's processes. Takes two seconds.
    pub async fn join(
        settings: &NatsSettings,
        processes: u16,
        format: u64,
    ) -> Result<Machine, JoinError> {
        let refusals = Arc::<Refusals>::default();
        let client = settings.connect("watchfire machine", &refusals).await?;
        let mut random = [0; 32];
        getrandom::fill(&mut random).map_err(NatsError::from)?;
        let incarnation = crate::nats::new_incarnation().map_err(NatsError::from)?;
        let prefix = &settings.prefix;
        let subscribe = async |subject: String| client.subscribe(subject).await;
        let announcements =
            subscribe(format!("{prefix}.machines")).await.map_err(NatsError::from)?;
        let mut welcomes =
            subscribe(format!("{prefix}.machine.{incarnation}")).await.map_err(NatsError::from)?;
        let started = Clock::now();
        let claim = Claim::new(
            Instant::ZERO,
            incarnation,
            (processes, announced_format(format)),
            settings.key.as_deref(),
            random,
        );
        let mut machine = Machine {
            client,
            prefix: prefix.clone(),
            announcements,
            claim,
            incarnation,
            started,
            warned_at: None,
            first: NodeId(0),
            secret: random,
            cluster: 0,
        };
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let is_settled = tokio::select! {
                _ = ticks.tick() => machine.tick().await?,
                Some(message) = machine.announcements.next() => machine.receive(&message.payload).await?,
                Some(message) = welcomes.next() => {
                    if let Ok(welcome) = postcard::from_bytes::<Welcome>(&message.payload) {
                        machine.claim.welcomed(&welcome)?;
                    }
                    false
                }
            };
            // Without permissions it would hear of no other machine, and be a cluster of its own.
            if let Some(answer) = refusals.reason() {
                return Err(NatsError::Refused { answer, prefix: prefix.clone() }.into());
            }
            if is_settled {
                break;
            }
        }
        machine.first = machine.claim.first().expect("it is settled");
        machine.secret = *machine.claim.secret().expect("it is settled");
        machine.cluster = machine.claim.cluster().expect("it is settled");
        Ok(machine)
    }

    /// The number of this machine's first process. The others follow it.
    pub fn first(&self) -> NodeId {
        self.first
    }

    pub fn secret(&self) -> [u8; 32] {
        self.secret
    }

    pub fn cluster(&self) -> u64 {
        self.cluster
    }

    /// Announces this machine and answers those that start, until it may not continue.
    pub async fn serve(&mut self) -> ClaimError {
        let mut ticks = interval(TICK * 4);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let served = tokio::select! {
                _ = ticks.tick() => self.tick().await,
                Some(message) = self.announcements.next() => self.receive(&message.payload).await,
            };
            if let Err(error) = served {
                return error;
            }
        }
    }

    /// Tells the other machines that this one stops.
    pub async fn leave(self) {
        self.send(&MachineMessage::Gone { incarnation: self.incarnation }).await;
        let _ = tokio::time::timeout(Duration::from_secs(1), self.client.flush()).await;
    }

    fn now(&self) -> Instant {
        Instant::ZERO + self.started.elapsed()
    }

    async fn tick(&mut self) -> Result<bool, ClaimError> {
        let actions = self.claim.tick(self.now())?;
        Ok(self.act(actions).await)
    }

    async fn receive(&mut self, payload: &[u8]) -> Result<bool, ClaimError> {
        // Other programs may use the subject, too.
        let Ok(message) = postcard::from_bytes(payload) else { return Ok(false) };
        let actions = self.claim.receive(self.now(), message)?;
        Ok(self.act(actions).await)
    }

    /// Returns whether the machine is settled now.
    async fn act(&mut self, actions: Vec<Action>) -> bool {
        let mut is_settled = false;
        for action in actions {
            match action {
                Action::Send(message) => self.send(&message).await,
                Action::Welcome(to, welcome) => {
                    let subject = format!("{}.machine.{to}", self.prefix);
                    self.publish(subject, &welcome).await;
                }
                Action::Settled => is_settled = true,
                Action::OtherCluster => self.warn(),
            }
        }
        is_settled
    }

    fn warn(&mut self) {
        if self.warned_at.is_none_or(|at| at.elapsed() >= WARN_INTERVAL) {
            self.warned_at = Some(Clock::now());
            tracing::error!(
                prefix = self.prefix,
                "another cluster uses the same NATS prefix; its machines are ignored"
            );
        }
    }

    async fn send(&self, message: &MachineMessage) {
        self.publish(format!("{}.machines", self.prefix), message).await;
    }

    async fn publish(&self, subject: String, message: &impl serde::Serialize) {
        let bytes = postcard::to_stdvec(message).expect("messages are plain data");
        // Every message is sent again, or asked for again. So none has to wait for a connection.
        if self.client.connection_state() == async_nats::connection::State::Connected {
            let _ = self.client.publish(subject, bytes.into()).await;
        }
    }
}
