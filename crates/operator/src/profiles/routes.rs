//! The operator's calls for profiles: `/debug/pprof/profile`, `/debug/flamegraph`, and `/admin/profile` for kept ones.
//!
//! Several processes share the operator's listener, and any of them may answer. With `process=`, the answering
//! process has that one take the profile: it sends [`Call::Start`], and asks for the result with [`Call::Take`].

use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::{StatusCode, header};
use parking_lot::Mutex;
use serde::Deserialize;
use tokio::sync::oneshot::error::TryRecvError;
use tokio::time::{Instant, sleep};
use watchfire::feature::{ClusterPart, PartLink, PendingResponse};
use watchfire_types::NodeId;

use super::cpu_profile::ProfileError;
use super::job::Job;
use super::kept;
use super::messages::{Call, Format, Started, Taken};
use crate::refusal::{Params, Refusal};

/// The longest profile. A connection to the operator's listener may last twice as long.
const SECONDS_MAX: u64 = 60;
/// The profile of a request that does not say how long.
const SECONDS: u64 = 10;
/// Pause between two questions whether another process has finished.
const TAKE_PAUSE: Duration = Duration::from_millis(200);
/// How long another process may write its profile.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) struct ProfileCalls {
    link: PartLink,
    /// The file of kept profiles; empty for none.
    file: PathBuf,
    /// The profile that another process has asked for last.
    asked: Mutex<Option<(u64, Job)>>,
}

impl From<ProfileError> for Refusal {
    fn from(error: ProfileError) -> Self {
        no_profile(error.to_string())
    }
}

/// `message` may be that of another process.
fn no_profile(message: String) -> Refusal {
    let (status, reason) = match message == ProfileError::AlreadyRunning.to_string() {
        true => (StatusCode::CONFLICT, "already running"),
        false => (StatusCode::INTERNAL_SERVER_ERROR, "no profile"),
    };
    Refusal { status, reason, message: message.into() }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProfileParams {
    seconds: Option<u64>,
    process: Option<u16>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KeptParams {
    at: u64,
    #[serde(default)]
    functions: bool,
}

impl ProfileCalls {
    pub fn new(link: PartLink, file: PathBuf) -> Self {
        ProfileCalls { link, file, asked: Mutex::default() }
    }

    /// Keeps a profile of each minute, if there is a file for it, until the sender is dropped.
    pub fn keep(&self) -> Option<mpsc::Sender<()>> {
        (!self.file.as_os_str().is_empty()).then(|| kept::start(self.file.clone())).flatten()
    }

    /// The routes, without the check of the token.
    pub fn routes(self: Arc<Self>) -> Router {
        Router::new()
            .route("/debug/pprof/profile", get(pprof))
            .route("/debug/flamegraph", get(flame_graph))
            .route("/admin/profile", get(kept_profile))
            .with_state(self)
    }

    async fn answer(
        &self,
        ProfileParams { seconds, process }: ProfileParams,
        format: Format,
    ) -> Result<Response, Refusal> {
        let seconds = seconds.unwrap_or(SECONDS);
        if !(1..=SECONDS_MAX).contains(&seconds) {
            let message = format!("seconds must be from 1 to {SECONDS_MAX}, not {seconds}");
            return Err(Refusal::bad_request(message));
        }
        let cluster = self.link.cluster();
        let (me, processes) = (cluster.me(), cluster.of_machine());
        // The operator's page numbers the processes of each machine from 0.
        let process = process.unwrap_or(me.0 - processes.start);
        if usize::from(process) >= processes.len() {
            let last = processes.len() - 1;
            let message =
                format!("process must be one of this machine, from 0 to {last}, not {process}");
            return Err(Refusal::bad_request(message));
        }
        let node = NodeId(processes.start + process);
        tracing::info!(process, seconds, "the operator takes a CPU profile");
        let profile = match node == me {
            true => take(start(seconds, format, me)?).await?,
            false => self.take_elsewhere(node, seconds, format).await?,
        };
        let (kind, name) = match format {
            Format::Pprof => ("application/octet-stream", "attachment; filename=\"watchfire.pb\""),
            Format::FlameGraph => ("image/svg+xml", "inline; filename=\"watchfire.svg\""),
        };
        let headers = [
            (header::CONTENT_TYPE, kind),
            (header::CONTENT_DISPOSITION, name),
            (header::CACHE_CONTROL, "no-store"),
        ];
        Ok((headers, [("x-watchfire-process", process.to_string())], profile).into_response())
    }

    /// Has another process take a profile.
    async fn take_elsewhere(
        &self,
        node: NodeId,
        seconds: u64,
        format: Format,
    ) -> Result<Vec<u8>, Refusal> {
        let id = getrandom::u64().map_err(|error| no_profile(error.to_string()))?;
        let no_answer = || Refusal {
            status: StatusCode::SERVICE_UNAVAILABLE,
            reason: "no answer",
            message: format!("Process {} did not answer in time. Try again.", node.0).into(),
        };
        // Also when this future is dropped, because the client has left.
        let _cancel = CancelWhenDropped { link: &self.link, node, id };
        let started: Option<Started> =
            self.link.request(node, &Call::Start { id, seconds, format }).await;
        started.ok_or_else(no_answer)?.map_err(no_profile)?;
        let deadline = Instant::now() + Duration::from_secs(seconds) + WRITE_TIMEOUT;
        while Instant::now() < deadline {
            sleep(TAKE_PAUSE).await;
            let taken: Option<Taken> = self.link.request(node, &Call::Take { id }).await;
            if let Some(profile) = taken.ok_or_else(no_answer)?.map_err(no_profile)? {
                return Ok(profile);
            }
        }
        Err(no_answer())
    }

    fn start_asked(&self, id: u64, seconds: u64, format: Format) -> Started {
        let job = start(seconds, format, self.link.cluster().me());
        *self.asked.lock() = Some((id, job.map_err(|error| error.to_string())?));
        Ok(())
    }

    fn take_asked(&self, id: u64) -> Taken {
        let mut asked = self.asked.lock();
        let Some((_, job)) = asked.as_mut().filter(|(asked, _)| *asked == id) else {
            return Err("the profile was cancelled".to_owned());
        };
        let taken = match job.result.try_recv() {
            Err(TryRecvError::Empty) => return Ok(None),
            Err(TryRecvError::Closed) => Err("the thread of the profile ended".to_owned()),
            Ok(Err(error)) => Err(error.to_string()),
            Ok(Ok(profile)) => Ok(Some(profile)),
        };
        *asked = None;
        taken
    }
}

impl ClusterPart for ProfileCalls {
    fn link(&self) -> &PartLink {
        &self.link
    }

    fn receive(&self, _: NodeId, message: &[u8]) -> Result<(), postcard::Error> {
        if let Call::Cancel { id } = postcard::from_bytes(message)? {
            self.asked.lock().take_if(|(asked, _)| *asked == id);
        }
        Ok(())
    }

    fn take_request(&self, request: &[u8], response: PendingResponse) {
        match postcard::from_bytes(request) {
            Ok(Call::Start { id, seconds, format }) => {
                response.send(&self.start_asked(id, seconds.clamp(1, SECONDS_MAX), format));
            }
            Ok(Call::Take { id }) => response.send(&self.take_asked(id)),
            Ok(Call::Cancel { .. }) => {}
            Err(error) => tracing::error!(%error, "cannot decode a call for a profile"),
        }
    }

    fn node_down(&self, _: NodeId) {
        // It may be the process that asked, and nobody else would end the profile.
        *self.asked.lock() = None;
    }
}

/// Has another process end a profile when this process does not wait for it any more.
struct CancelWhenDropped<'a> {
    link: &'a PartLink,
    node: NodeId,
    id: u64,
}

impl Drop for CancelWhenDropped<'_> {
    fn drop(&mut self) {
        self.link.send(self.node, &Call::Cancel { id: self.id }).ok();
    }
}

fn start(seconds: u64, format: Format, process: NodeId) -> Result<Job, ProfileError> {
    Job::start(Duration::from_secs(seconds), move |profile| match format {
        Format::Pprof => profile.to_pprof(),
        Format::FlameGraph => {
            profile.flame_graph(&format!("Watchfire, process {}", process.0)).into_bytes()
        }
    })
}

/// Waits for a profile of this process. When the wait is dropped, the profile ends.
async fn take(mut job: Job) -> Result<Vec<u8>, Refusal> {
    let ended = || no_profile("the thread of the profile ended".to_owned());
    Ok((&mut job.result).await.map_err(|_| ended())??)
}

/// Any process of the machine reads the file.
async fn kept_profile(
    State(calls): State<Arc<ProfileCalls>>,
    Params(KeptParams { at, functions }): Params<KeptParams>,
) -> Result<Response, Refusal> {
    let read = move || kept::answer(&calls.file, at, functions);
    let answer = tokio::task::spawn_blocking(read).await.ok().flatten();
    let message =
        "No profile of this time is kept. Set admin.profile_file to keep one of each minute.";
    let (status, message) = (StatusCode::NOT_FOUND, message.into());
    let answer = answer.ok_or(Refusal { status, reason: "not found", message })?;
    let kind = if functions { "application/json" } else { "image/svg+xml" };
    let headers = [(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, "no-store")];
    Ok((headers, answer).into_response())
}

async fn pprof(
    State(calls): State<Arc<ProfileCalls>>,
    Params(params): Params<ProfileParams>,
) -> Result<Response, Refusal> {
    calls.answer(params, Format::Pprof).await
}

async fn flame_graph(
    State(calls): State<Arc<ProfileCalls>>,
    Params(params): Params<ProfileParams>,
) -> Result<Response, Refusal> {
    calls.answer(params, Format::FlameGraph).await
}
