//! The processors of a node: whole ones by the affinity of its processes, and shares by a quota of a control group.
//!
//! **Whole numbers.** A node gets that many of the processors that this process may use, beginning after those of the
//! node before it. A program inherits the affinity of the thread that starts it, so a thread is made for each start. The
//! program then sees the number of its processors, and starts as many threads as it would on such a machine.
//!
//! **Shares.** The kernel stops the processes of a control group for the rest of each 100 ms in which they have used their
//! quota. The node's processes begin in the group: a shell enters it, and becomes the program. Both versions of control
//! groups have quotas, with other files. The group is inside of that of the lab, or beside it where the second version
//! demands it: there, a group with processes has no groups with quotas below it.
//!
//! The groups of a run are in a list in its folder, so that the next lab command removes those of a lab that was killed.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::definition::{NodePlan, TrialPlan};
use crate::drivers::driver::{DriverError, PROCESSES, unsupported};

/// The time in which a quota counts.
const PERIOD: Duration = Duration::from_millis(100);
/// The file with the groups of a run, in its folder.
const LIST: &str = "groups";
/// How long the killed processes of a group may take to end.
const END_TIMEOUT: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(5);
/// Enters the group whose file is the first argument, and becomes the rest.
const ENTER: &str = r#"echo $$ > "$0" && exec "$@""#;

/// The limit of the processes of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Limit {
    /// They run on these processors.
    Affinity(Vec<usize>),
    /// They are in this control group.
    Group(PathBuf),
}

impl Limit {
    /// The command that runs a command under this limit.
    pub fn command(&self, command: Command) -> Command {
        let Limit::Group(group) = self else { return command };
        let mut limited = Command::new("sh");
        limited.args(["-c", ENTER]).arg(group.join("cgroup.procs"));
        limited.arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => limited.env(name, value),
                None => limited.env_remove(name),
            };
        }
        if let Some(folder) = command.get_current_dir() {
            limited.current_dir(folder);
        }
        limited
    }

    /// Starts a command of [`Limit::command`].
    pub fn spawn<T: Send>(&self, spawn: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        let Limit::Affinity(processors) = self else { return spawn() };
        let mut set = CpuSet::new();
        processors.iter().for_each(|processor| set.set(*processor));
        // A process inherits the processors of the thread that starts it. A thread of its own sets
        // them, so that the threads of the lab keep all processors.
        let started = thread::scope(|scope| {
            let start = || {
                sched_setaffinity(None, &set)?;
                spawn()
            };
            scope.spawn(start).join()
        });
        started.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// Checks that this machine can limit the processors of each node.
pub fn check(plan: &TrialPlan) -> Result<(), DriverError> {
    let own = own_processors().len();
    for (node, processors) in limited(plan) {
        if processors > own as f64 {
            let problem =
                format!("{} has {processors} processors, and this machine has {own}", node.name);
            return Err(unsupported(PROCESSES, plan, problem));
        }
    }
    let Some((node, processors)) = limited(plan).find(|(_, processors)| processors.fract() > 0.0)
    else {
        return Ok(());
    };
    let probe = format!("watchfire-lab-probe-{}", std::process::id());
    let made = Parent::find().and_then(|parent| fs::remove_dir(parent.group(&probe, processors)?));
    made.map_err(|error| cannot_limit(plan, node, processors, &error))
}

/// The limits of the nodes of a plan, in their order. Control groups are made for this run, and are in a list in its
/// folder.
pub fn limits(
    plan: &TrialPlan,
    run: &str,
    folder: &Path,
) -> Result<Vec<Option<Limit>>, DriverError> {
    let own = own_processors();
    let mut taken = 0;
    let limit = |(index, node): (usize, &NodePlan)| {
        let Some(processors) = node.processors else { return Ok(None) };
        if processors.fract() == 0.0 {
            let count = processors as usize;
            // With more limited nodes than processors, nodes share processors in turn.
            let chosen = (taken..taken + count).map(|at| own[at % own.len()]).collect();
            taken += count;
            return Ok(Some(Limit::Affinity(chosen)));
        }
        let group = group(run, folder, index, processors);
        let group = group.map_err(|error| cannot_limit(plan, node, processors, &error))?;
        Ok(Some(Limit::Group(group)))
    };
    plan.nodes.iter().enumerate().map(limit).collect()
}

/// Makes the control group of a node, which is in the list before it exists.
fn group(run: &str, folder: &Path, node: usize, processors: f64) -> io::Result<PathBuf> {
    let parent = Parent::find()?;
    let name = format!("watchfire-lab-{run}-{node}");
    // If this process is killed in between, the next removal finds no group, which is no error.
    let list = folder.join(LIST);
    let mut list = OpenOptions::new().append(true).create(true).open(list)?;
    writeln!(list, "{}", parent.folder.join(&name).display())?;
    parent.group(&name, processors)
}

/// Removes the groups of a run whose processes were killed.
pub fn remove_groups(run: &Path) -> io::Result<()> {
    let text = match fs::read_to_string(run.join(LIST)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        text => text?,
    };
    let started_at = Instant::now();
    for group in text.lines() {
        // A process that was killed is in its group until it has ended.
        while let Err(error) = fs::remove_dir(group) {
            if error.kind() == io::ErrorKind::NotFound {
                break;
            }
            if started_at.elapsed() > END_TIMEOUT {
                return Err(error);
            }
            thread::sleep(PAUSE);
        }
    }
    Ok(())
}

fn limited(plan: &TrialPlan) -> impl Iterator<Item = (&NodePlan, f64)> {
    plan.nodes.iter().filter_map(|node| Some((node, node.processors?)))
}

fn cannot_limit(
    plan: &TrialPlan,
    node: &NodePlan,
    processors: f64,
    error: &io::Error,
) -> DriverError {
    let problem = format!(
        "cannot limit {} to {processors} processors: {error}; a share of a processor needs a control group with a \
         quota: run as root, or use a whole number",
        node.name
    );
    unsupported(PROCESSES, plan, problem)
}

/// The processors that this process may use.
fn own_processors() -> Vec<usize> {
    let set = sched_getaffinity(None).unwrap_or_default();
    (0..CpuSet::MAX_CPU).filter(|processor| set.is_set(*processor)).collect()
}

/// The control group in which those of nodes are made.
#[derive(Debug, PartialEq, Eq)]
struct Parent {
    folder: PathBuf,
    /// Whether it is of the second version, where one file has the quota and its period.
    is_unified: bool,
}

impl Parent {
    fn find() -> io::Result<Parent> {
        let mounts = fs::read_to_string("/proc/self/mountinfo")?;
        let own = fs::read_to_string("/proc/self/cgroup")?;
        if let Some(folder) = first_version(&mounts, &own) {
            return Ok(Parent { folder, is_unified: false });
        }
        let missing = || io::Error::other("the kernel has no control groups with quotas");
        let own = second_version(&mounts, &own).ok_or_else(missing)?;
        let beside = own.parent().filter(|parent| parent.join("cgroup.procs").exists());
        let mut refused = None;
        for folder in [Some(own.as_path()), beside].into_iter().flatten() {
            match enable_quotas(folder) {
                Ok(()) => return Ok(Parent { folder: folder.to_owned(), is_unified: true }),
                Err(error) => refused = Some(error),
            }
        }
        Err(refused.unwrap_or_else(missing))
    }

    /// Makes a group whose processes have this share of the processors together.
    fn group(&self, name: &str, processors: f64) -> io::Result<PathBuf> {
        let group = self.folder.join(name);
        fs::create_dir(&group)?;
        let period = PERIOD.as_micros();
        let quota = (period as f64 * processors).round();
        let set = if self.is_unified {
            fs::write(group.join("cpu.max"), format!("{quota} {period}"))
        } else {
            fs::write(group.join("cpu.cfs_period_us"), period.to_string())
                .and_then(|()| fs::write(group.join("cpu.cfs_quota_us"), quota.to_string()))
        };
        set.inspect_err(|_| drop(fs::remove_dir(&group)))?;
        Ok(group)
    }
}

/// Lets the groups in a group of the second version have quotas.
fn enable_quotas(folder: &Path) -> io::Result<()> {
    let file = folder.join("cgroup.subtree_control");
    let enabled = fs::read_to_string(&file)?;
    if enabled.split_whitespace().any(|one| one == "cpu") {
        return Ok(());
    }
    fs::write(file, "+cpu")
}

/// The own group of the first version, where the controller `cpu` has one.
fn first_version(mounts: &str, own: &str) -> Option<PathBuf> {
    let has_cpu = |list: &str| list.split(',').any(|one| one == "cpu");
    let (root, mounted) = mount(mounts, "cgroup", has_cpu)?;
    let path = own.lines().find_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        has_cpu(controllers).then_some(path)
    })?;
    Some(inside(&mounted, &root, path))
}

/// The own group of the second version.
fn second_version(mounts: &str, own: &str) -> Option<PathBuf> {
    let (root, mounted) = mount(mounts, "cgroup2", |_| true)?;
    let path = own.lines().find_map(|line| line.strip_prefix("0::"))?;
    Some(inside(&mounted, &root, path))
}

/// The root and the folder of a mounted file system.
fn mount(
    mounts: &str,
    kind: &str,
    has_options: impl Fn(&str) -> bool,
) -> Option<(String, PathBuf)> {
    mounts.lines().find_map(|line| {
        // 31 23 0:28 ROOT FOLDER OPTIONS [MORE] - KIND DEVICE OPTIONS
        let (before, after) = line.split_once(" - ")?;
        let mut after = after.split(' ');
        let is_kind = after.next() == Some(kind) && has_options(after.nth(1)?);
        let mut before = before.split(' ').skip(3);
        let (root, folder) = (before.next()?.to_owned(), PathBuf::from(before.next()?));
        is_kind.then_some((root, folder))
    })
}

/// The folder of a group. Inside of a container, the path of a group can be outside of what is mounted.
fn inside(mounted: &Path, root: &str, path: &str) -> PathBuf {
    let path = path.strip_prefix(root.trim_end_matches('/')).unwrap_or_default();
    let folder = mounted.join(path.trim_start_matches('/'));
    if folder.exists() { folder } else { mounted.to_owned() }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::drivers::processes::host::{Process, Site, Workspace};

    fn plan(groups: &str) -> TrialPlan {
        let text = format!(
            "[clusters.c]\ngroups = [{groups}]\n[scenarios.s]\nobjects.file = {{ random = '1MiB' }}\n\
             seed = {{ source = 'file' }}\nfetch = {{ peers = 'file' }}\n"
        );
        TrialPlan::first_of(&text)
    }

    fn run() -> (tempfile::TempDir, Workspace) {
        let runs = tempfile::tempdir().unwrap();
        let run = Workspace::create(runs.path()).unwrap();
        (runs, run)
    }

    /// The CPU time of a program with four busy loops for some time, and that time.
    fn busy(limit: &Limit) -> (Duration, Duration) {
        let (mut site, _folder) = Site::for_test();
        site.limit = Some(limit.clone());
        let mut command = Command::new("bash");
        command
            .args(["-c", "for i in 1 2 3; do (while :; do :; done) & done; while :; do :; done"]);
        command.args(["busy", "two words"]);
        let started_at = Instant::now();
        let mut process = Process::start(&site, command, "busy").unwrap();
        let mut last = Duration::ZERO;
        process
            .wait_until(Duration::from_secs(60), |process| {
                last = process.usage().cpu;
                // A machine that is busy with other programs may let this one wait for more than a second.
                let is_over = started_at.elapsed() > Duration::from_secs(1) && !last.is_zero();
                Ok(is_over.then_some(()))
            })
            .unwrap();
        let took = started_at.elapsed();
        process.kill();
        (last, took)
    }

    #[test]
    fn whole_processors_go_round_and_bound_a_busy_program() {
        let plan = plan(
            "{ name = 'source', processors = 1 }, { name = 'peers', count = 2, processors = 1 }",
        );
        check(&plan).unwrap();
        let (_runs, run) = run();
        let limits = limits(&plan, &run.id, &run.folder).unwrap();
        let own = own_processors();
        assert_eq!(limits[1], Some(Limit::Affinity(vec![own[1 % own.len()]])));
        let (used, took) = busy(limits[0].as_ref().unwrap());
        assert!(
            used > Duration::ZERO && used <= took + Duration::from_millis(100),
            "{used:?} in {took:?}"
        );
    }

    #[test]
    #[ignore = "needs control groups that it may change: `make rust-test` runs it where they are"]
    fn a_share_of_a_processor_bounds_a_busy_program() {
        let plan = plan("{ name = 'source' }, { name = 'peers', processors = 0.25 }");
        check(&plan).unwrap();
        let (_runs, run) = run();
        let limits = limits(&plan, &run.id, &run.folder).unwrap();
        assert_eq!(limits[0], None);
        let Some(Limit::Group(group)) = &limits[1] else { panic!("{limits:?}") };
        let group = group.clone();
        let (used, took) = busy(limits[1].as_ref().unwrap());
        // Each processor of the machine may have a slice of the quota beyond it.
        let most = took.mul_f64(0.25) + PERIOD.mul_f64(0.25) + Duration::from_millis(60);
        assert!(used > Duration::ZERO && used <= most, "{used:?} in {took:?}");
        assert!(group.exists());
        drop(run);
        assert!(!group.exists(), "the group goes with its run");
    }

    #[test]
    fn more_processors_than_the_machine_has_are_refused() {
        let error =
            check(&plan("{ name = 'source' }, { name = 'peers', processors = 1000 }")).unwrap_err();
        assert!(
            error.to_string().contains("peers has 1000 processors, and this machine has"),
            "{error}"
        );
    }

    #[test]
    fn the_own_group_is_found() {
        let first = "31 23 0:28 / / rw - tmpfs tmpfs rw\n33 31 0:30 / / rw - cgroup cgroup rw,cpuacct\n\
                     32 31 0:29 /docker / rw,relatime shared:9 - cgroup cgroup rw,cpu\n";
        assert_eq!(first_version(first, "1:cpu:/docker/tmp\n"), Some("/tmp".into()));
        assert_eq!(first_version(first, "1:cpuacct:/\n"), None);
        let second = "30 23 0:26 / / rw - cgroup2 cgroup2 rw,nsdelegate\n";
        assert_eq!(second_version(second, "0::/tmp\n"), Some("/tmp".into()));
        assert_eq!(second_version(second, "0::/../elsewhere-of-a-container\n"), Some("/".into()));
        assert_eq!(first_version(second, "0::/tmp\n"), None);
    }
}
