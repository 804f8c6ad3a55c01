use super::*;

const NOW: Instant = Instant::ZERO;

fn at(millis: u64) -> Instant {
    NOW + Duration::from_millis(millis)
}

fn outputs(supervisor: &mut Supervisor) -> Vec<Output> {
    std::iter::from_fn(|| supervisor.poll_output()).collect()
}

/// Carries out all outputs immediately, like a driver with quick workers.
fn settle(supervisor: &mut Supervisor, now: Instant) -> Vec<Output> {
    let mut seen = Vec::new();
    while let Some(output) = supervisor.poll_output() {
        match output {
            Output::Start(slot) => supervisor.handle_input(now, Input::Started(slot)),
            Output::Pair { one, other, .. } => {
                supervisor.handle_input(now, Input::Sent(one));
                supervisor.handle_input(now, Input::Sent(other));
            }
            Output::Begin(slot) => supervisor.handle_input(now, Input::Ready(slot)),
            Output::Drain(_)
            | Output::Kill(_)
            | Output::AnnounceUnresponsive
            | Output::Event(_) => {}
        }
        seen.push(output);
    }
    seen
}

/// The default limits. Heartbeats are rarely checked, as in a test that sends none.
fn limits() -> SupervisorLimits {
    const LONG: Duration = Duration::from_secs(3_600);
    SupervisorLimits {
        heartbeat_period: LONG,
        unresponsive_after: 3 * LONG,
        hung_after: 4 * LONG,
        ..SupervisorLimits::default()
    }
}

fn serving(workers: u16) -> Supervisor {
    serving_within(workers, limits())
}

fn serving_within(workers: u16, limits: SupervisorLimits) -> Supervisor {
    let mut supervisor = Supervisor::new(workers, limits);
    let seen = settle(&mut supervisor, NOW);
    assert!(seen.contains(&Output::Event(Event::AllReady)));
    supervisor
}

fn pairs(seen: &[Output]) -> Vec<(u16, u16)> {
    let pair = |output: &Output| match *output {
        Output::Pair { one, other, .. } => Some(ordered(one, other)),
        _ => None,
    };
    seen.iter().filter_map(pair).collect()
}

fn restart_in(seen: &[Output]) -> Option<Duration> {
    seen.iter().find_map(|output| match *output {
        Output::Event(Event::Ended { restart_in, .. }) => restart_in,
        _ => None,
    })
}

#[test]
fn every_pair_of_workers_gets_one_link_before_they_begin() {
    let mut supervisor = Supervisor::new(5, SupervisorLimits::default());
    let seen = settle(&mut supervisor, NOW);
    let mut linked = pairs(&seen);
    linked.sort_unstable();
    let each_two: Vec<_> = (0..5).flat_map(|one| (one + 1..5).map(move |two| (one, two))).collect();
    assert_eq!(linked, each_two);
    for slot in 0..5 {
        let begin = seen.iter().position(|it| *it == Output::Begin(slot)).expect("it begins");
        let last_link = seen.iter().rposition(
            |it| matches!(it, Output::Pair { one, other, .. } if [*one, *other].contains(&slot)),
        );
        assert!(last_link < Some(begin), "worker {slot} begins before it has its links");
    }
}

#[test]
fn links_over_the_queue_limit_stay_pending_until_others_are_sent() {
    let mut supervisor = Supervisor::new(64, SupervisorLimits::default());
    let mut queued = [0u8; 64];
    let mut made = Vec::new();
    loop {
        match supervisor.poll_output() {
            Some(Output::Start(slot)) => supervisor.handle_input(NOW, Input::Started(slot)),
            Some(Output::Pair { one, other, .. }) => {
                made.push(ordered(one, other));
                for slot in [one, other] {
                    queued[usize::from(slot)] += 1;
                    assert!(queued[usize::from(slot)] <= QUEUED_LINKS_MAX);
                }
            }
            Some(_) => {}
            // A link is sent only when there are no other outputs, as with the slowest workers.
            None => {
                let Some(slot) = queued.iter().position(|&links| links > 0) else { break };
                queued[slot] -= 1;
                supervisor.handle_input(NOW, Input::Sent(slot as u16));
            }
        }
    }
    made.sort_unstable();
    made.dedup();
    assert_eq!(made.len(), 64 * 63 / 2);
}

#[test]
fn pauses_double_up_to_a_bound_and_start_over_after_a_long_run() {
    let mut supervisor = serving(2);
    let mut now = at(1_000);
    let mut pauses = Vec::new();
    for _ in 0..8 {
        supervisor.handle_input(now, Input::Ended(1));
        let pause = restart_in(&settle(&mut supervisor, now)).expect("it is restarted");
        pauses.push(pause.as_millis());
        assert_eq!(supervisor.next_wake(), Some(now + pause));
        now += pause;
        supervisor.handle_input(now, Input::Tick);
        settle(&mut supervisor, now);
        now += Duration::from_millis(1);
    }
    assert_eq!(pauses, [100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000]);
    assert_eq!(supervisor.restarts(), 8);

    now += Duration::from_secs(30);
    supervisor.handle_input(now, Input::Ended(1));
    assert_eq!(restart_in(&settle(&mut supervisor, now)), Some(Duration::from_millis(100)));
}

#[test]
fn a_restarted_worker_gets_links_to_all_running_workers() {
    let mut supervisor = serving(4);
    supervisor.handle_input(at(1), Input::Ended(2));
    supervisor.handle_input(at(1), Input::Ended(0));
    settle(&mut supervisor, at(1));
    supervisor.handle_input(at(200), Input::Tick);
    let mut linked = pairs(&settle(&mut supervisor, at(200)));
    linked.sort_unstable();
    assert_eq!(linked, [(0, 1), (0, 2), (0, 3), (1, 2), (2, 3)]);
}

#[test]
fn a_start_does_not_wait_for_the_link_to_a_worker_that_ended() {
    let mut supervisor = serving(3);
    for slot in [0, 1] {
        supervisor.handle_input(at(1), Input::Ended(slot));
    }
    supervisor.handle_input(at(101), Input::Tick);
    supervisor.handle_input(at(101), Input::Started(0));
    let begins = Output::Begin(0);
    assert!(!outputs(&mut supervisor).contains(&begins), "its link to worker 1 is missing");
    supervisor.handle_input(at(102), Input::StartFailed(1));
    assert!(outputs(&mut supervisor).contains(&begins));
}

#[test]
fn the_first_start_fails_if_a_worker_cannot_serve() {
    for (input, how) in [
        (Input::Ended(1), Failure::EndedBeforeReady),
        (Input::StartFailed(1), Failure::StartFailed),
        (Input::Tick, Failure::NotReady),
    ] {
        let mut supervisor = Supervisor::new(3, SupervisorLimits::default());
        outputs(&mut supervisor);
        supervisor.handle_input(NOW, Input::Started(0));
        if input != Input::StartFailed(1) {
            supervisor.handle_input(NOW, Input::Started(1));
            supervisor.handle_input(NOW, Input::Started(2));
            supervisor.handle_input(at(1), Input::Ready(0));
            supervisor.handle_input(at(1), Input::Ready(2));
        }
        supervisor.handle_input(at(60_000), input);
        let seen = outputs(&mut supervisor);
        assert!(
            seen.contains(&Output::Event(Event::Failed { slot: 1, how })),
            "{input:?}: {seen:?}"
        );
        assert!(seen.contains(&Output::Kill(0)));
        assert!(!supervisor.is_over());
        for slot in 0..3 {
            supervisor.handle_input(at(60_001), Input::Ended(slot));
        }
        assert!(supervisor.is_over());
    }
}

#[test]
fn a_restarted_worker_that_is_not_ready_in_time_is_killed_and_restarted_again() {
    let mut supervisor = serving(2);
    supervisor.handle_input(at(10), Input::Ended(0));
    supervisor.handle_input(at(110), Input::Tick);
    supervisor.handle_input(at(110), Input::Started(0));
    outputs(&mut supervisor);
    assert_eq!(supervisor.next_wake(), Some(at(60_110)));
    supervisor.handle_input(at(60_110), Input::Tick);
    assert_eq!(
        outputs(&mut supervisor),
        [Output::Event(Event::NotReady { slot: 0 }), Output::Kill(0)]
    );
    assert!(supervisor.next_wake() > Some(at(60_110)), "it is killed only once");
    supervisor.handle_input(at(60_111), Input::Ended(0));
    assert!(restart_in(&outputs(&mut supervisor)).is_some());
}

/// The number of the newest link between 0 and 1.
fn number(supervisor: &Supervisor) -> u64 {
    supervisor.linked[&(0, 1)].number
}

#[test]
fn a_lost_link_is_replaced_once_for_both_ends_and_not_too_often() {
    let mut supervisor = serving(2);
    let lost = number(&supervisor);
    supervisor.handle_input(at(5_000), Input::LinkLost { slot: 0, to: 1, number: lost });
    assert_eq!(pairs(&settle(&mut supervisor, at(5_000))), [(0, 1)]);
    supervisor.handle_input(at(5_001), Input::LinkLost { slot: 1, to: 0, number: lost });
    assert_eq!(settle(&mut supervisor, at(5_001)), [], "both ends report the same loss");

    let again = number(&supervisor);
    supervisor.handle_input(at(5_002), Input::LinkLost { slot: 1, to: 0, number: again });
    assert_eq!(pairs(&settle(&mut supervisor, at(5_002))), []);
    assert_eq!(supervisor.next_wake(), Some(at(6_000)));
    supervisor.handle_input(at(6_000), Input::Tick);
    assert_eq!(pairs(&settle(&mut supervisor, at(6_000))), [(0, 1)]);
}

#[test]
fn invalid_reports_of_lost_links_are_ignored() {
    let mut supervisor = serving(2);
    let number = number(&supervisor);
    for (slot, to) in [(0, 0), (0, 2), (0, u16::MAX)] {
        supervisor.handle_input(at(5_000), Input::LinkLost { slot, to, number });
    }
    assert_eq!(settle(&mut supervisor, at(5_000)), []);
}

#[test]
fn sockets_that_the_system_refuses_are_retried() {
    let mut supervisor = Supervisor::new(2, SupervisorLimits::default());
    supervisor.handle_input(NOW, Input::Started(0));
    supervisor.handle_input(NOW, Input::Started(1));
    assert_eq!(pairs(&outputs(&mut supervisor)), [(0, 1)]);
    supervisor.handle_input(NOW, Input::NotPaired { one: 0, other: 1 });
    assert_eq!(supervisor.next_wake(), Some(at(50)));
    supervisor.handle_input(at(50), Input::Tick);
    assert_eq!(pairs(&outputs(&mut supervisor)), [(0, 1)]);
}

#[test]
fn after_the_stop_no_worker_is_restarted_and_late_ones_are_killed() {
    let mut supervisor = serving(3);
    supervisor.handle_input(at(1), Input::Ended(0));
    outputs(&mut supervisor);
    supervisor.handle_input(at(2), Input::Stop);
    assert_eq!(
        outputs(&mut supervisor),
        [Output::Event(Event::Draining), Output::Drain(1), Output::Drain(2)]
    );
    supervisor.handle_input(at(3), Input::Ended(1));
    supervisor.handle_input(at(500), Input::Tick);
    let ended = Event::Ended { slot: 1, after: Duration::from_millis(3), restart_in: None };
    assert_eq!(outputs(&mut supervisor), [Output::Event(ended)]);

    assert_eq!(supervisor.next_wake(), Some(at(60_002)));
    supervisor.handle_input(at(60_002), Input::Tick);
    assert_eq!(
        outputs(&mut supervisor),
        [Output::Kill(2), Output::Event(Event::Killed { slot: 2 })]
    );
    assert!(!supervisor.is_over());
    supervisor.handle_input(at(60_003), Input::Ended(2));
    assert!(supervisor.is_over());
    assert_eq!(supervisor.killed(), 1);
}

#[test]
fn a_second_stop_kills_at_once() {
    let mut supervisor = serving(2);
    supervisor.handle_input(at(1), Input::Stop);
    outputs(&mut supervisor);
    supervisor.handle_input(at(2), Input::Kill);
    assert!(outputs(&mut supervisor).contains(&Output::Kill(1)));
}

/// Worker 0 sends a heartbeat every second, and the supervisor checks as often as it should.
fn run(supervisor: &mut Supervisor, from: u64, to: u64) -> Vec<(u64, Output)> {
    let mut seen = Vec::new();
    for now in (from..to).step_by(500) {
        if now % 1_000 == 0 {
            supervisor.handle_input(at(now), Input::Heartbeat(0));
        }
        if supervisor.next_wake().is_some_and(|wake| wake <= at(now)) {
            supervisor.handle_input(at(now), Input::Tick);
        }
        seen.extend(outputs(supervisor).into_iter().map(|output| (now, output)));
    }
    seen
}

#[test]
fn a_silent_worker_is_announced_then_killed_and_its_successor_responds() {
    let mut supervisor = serving_within(2, SupervisorLimits::default());
    assert_eq!(
        run(&mut supervisor, 0, 9_000),
        [
            (5_000, Output::Event(Event::Unresponsive { slot: 1 })),
            (5_000, Output::AnnounceUnresponsive),
            (8_000, Output::Event(Event::Hung { slot: 1 })),
            (8_000, Output::AnnounceUnresponsive),
            (8_000, Output::Kill(1)),
        ]
    );
    assert_eq!(supervisor.unresponsive().collect::<Vec<_>>(), [1]);
    supervisor.handle_input(at(9_000), Input::Ended(1));
    let seen = settle(&mut supervisor, at(9_000));
    assert!(seen.contains(&Output::AnnounceUnresponsive));
    assert!(restart_in(&seen).is_some());
    assert_eq!(supervisor.unresponsive().count(), 0);
    assert_eq!((supervisor.hangs_of(0), supervisor.hangs_of(1)), (0, 1));
}

#[test]
fn an_unresponsive_worker_that_responds_again_is_not_killed() {
    let mut supervisor = serving_within(2, SupervisorLimits::default());
    run(&mut supervisor, 0, 7_000);
    assert_eq!(supervisor.unresponsive().collect::<Vec<_>>(), [1]);
    supervisor.handle_input(at(7_000), Input::Heartbeat(1));
    assert_eq!(
        outputs(&mut supervisor),
        [Output::Event(Event::Responsive { slot: 1 }), Output::AnnounceUnresponsive]
    );
    assert_eq!(run(&mut supervisor, 7_000, 12_000), []);
}

#[test]
fn silence_does_not_count_while_the_supervisor_itself_did_not_run() {
    let mut supervisor = serving_within(3, SupervisorLimits::default());
    run(&mut supervisor, 0, 4_000);
    // The whole group was stopped for a minute. All heartbeats are as late as the supervisor.
    let seen = run(&mut supervisor, 64_000, 68_000);
    assert_eq!(seen, [], "each worker has its full time again");
    let seen = run(&mut supervisor, 68_000, 74_000);
    assert!(seen.contains(&(72_000, Output::Kill(1))), "{seen:?}");
}

#[test]
fn a_worker_that_is_not_ready_or_that_drains_needs_no_heartbeats() {
    let mut supervisor = Supervisor::new(2, SupervisorLimits::default());
    outputs(&mut supervisor);
    supervisor.handle_input(NOW, Input::Started(0));
    supervisor.handle_input(NOW, Input::Started(1));
    outputs(&mut supervisor);
    assert_eq!(run(&mut supervisor, 0, 30_000), []);
    supervisor.handle_input(at(30_000), Input::Ready(0));
    supervisor.handle_input(at(30_000), Input::Ready(1));
    supervisor.handle_input(at(30_000), Input::Stop);
    outputs(&mut supervisor);
    assert_eq!(run(&mut supervisor, 30_000, 60_000), []);
}
