use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::{Run, Story, rest, seconds_since};
use crate::progress::Progress;
use crate::scale::clock::{nanos, now_ns};
use crate::scale::kernel;
use crate::scale::orders::Order;
use crate::scale::report::{
    Account, Axis, Chart, Line, Mark, Panel, Tint, bytes, duration, number,
};

pub const ROOMS: f64 = 10_000.0;
pub const MEMBERS: f64 = 50.0;
/// Each room has a message this often; 333 a second in all, 16,667 deliveries.
const EVERY: Duration = Duration::from_secs(30);
const LASTS: Duration = Duration::from_secs(60);
const P99_MILLIS_MAX: f64 = 100.0;
const DRAIN: Duration = Duration::from_secs(30);

pub fn tell(run: &Run<'_>) -> Result<Account> {
    let (rooms, members) = (run.scaled(ROOMS), MEMBERS as u64);
    let sockets = rooms * members;
    let mut say = Progress::new(4);
    let server = run.server(Story::Rooms, sockets, &say)?;
    let processes = run.processes_for(sockets);
    let server_before = kernel::pss(&server.ids())?;
    say.step(&format!("{processes} server processes are up"));
    let mut opened = run.open(&server, sockets, rooms, true, &say)?;
    say.step(&format!("{sockets} joined in {:.1} s", opened.took.as_secs_f64()));
    rest(Duration::from_secs(2), "the machine settles", &say);
    let server_idle = kernel::pss(&opened.server_ids)?;

    let crowd = &mut opened.crowd;
    let before = run.cpu(&opened.server_ids, &opened.client_ids)?;
    let from_ns = now_ns() + 500_000_000;
    let (every_ns, until_ns) = (nanos(EVERY), from_ns + nanos(LASTS));
    let started_at = Instant::now();
    crowd.tell_all(&Order::Chatter { every_ns, from_ns, until_ns })?;
    let mut points: Vec<(f64, f64)> = Vec::new();
    let (mut last_at, mut last_heard) = (0.0, 0);
    crowd.wait(
        LASTS + DRAIN,
        |status| {
            let now = seconds_since(from_ns);
            if now - last_at >= 1.0 {
                points.push((now, (status.heard - last_heard) as f64 / (now - last_at)));
                (last_at, last_heard) = (now, status.heard);
            }
            say.show(&format!("{} messages said, {} heard", status.said, status.heard));
        },
        |status| {
            let all_said = seconds_since(from_ns) > LASTS.as_secs_f64() + 1.0;
            let waited = seconds_since(from_ns) > (LASTS + DRAIN / 2).as_secs_f64();
            all_said && (status.heard == status.said * members || waited)
        },
    )?;
    let lasted = started_at.elapsed().as_secs_f64();
    let cpu = run.cpu(&opened.server_ids, &opened.client_ids)?.since(before);
    let (mut durations, status) = crowd.report()?;
    let delivery = durations.remove("delivery").context("nobody heard anything")?;
    say.step(&format!("{} deliveries", status.heard));
    // Servers that know nothing of one another split a room between them: no message is for all.
    let expected = status.said * members;
    let teardown = run.take_down(opened.crowd, server, &say)?;
    say.step("all have left");
    say.finish();

    let mut account = run.account(Story::Rooms, "Ten thousand rooms of fifty");
    let millis = |part: f64| delivery.quantile(part) as f64 / 1e6;
    let lost = expected.abs_diff(status.heard) + status.doubled;
    account.marks = vec![
        Mark::at_least("sockets joined", status.present as f64, sockets as f64, "", 0),
        Mark::at_most("messages lost or heard twice", lost as f64, 0.0, "", 0),
        Mark::at_most("a message is heard, p99", millis(0.99), P99_MILLIS_MAX, "ms", 1),
    ];
    account.figure("rooms, sockets in each", format!("{}, {members}", number(rooms as f64, 0)));
    account.figure("messages said, heard", {
        format!("{}, {}", number(status.said as f64, 0), number(status.heard as f64, 0))
    });
    account.figure("deliveries a second", number(status.heard as f64 / LASTS.as_secs_f64(), 0));
    account.figure("from when a message was due until it is heard: p50, p99, max", {
        let [p50, p99] = [0.5, 0.99].map(|part| duration(delivery.quantile(part)));
        format!("{p50}, {p99}, {}", duration(delivery.max()))
    });
    account.figure("all joined within", format!("{:.1} s", opened.took.as_secs_f64()));
    account.figure("cores in use: server, clients, ksoftirqd", {
        let cores = |part: Duration| part.as_secs_f64() / lasted;
        let (server, clients) = (cores(cpu.server), cores(cpu.clients));
        format!("{server:.2}, {clients:.2}, {:.2}", cores(cpu.ksoftirqd))
    });
    account.figure("memory of the server, all of it (PSS); a socket", {
        let socket = server_idle.saturating_sub(server_before) as f64 / sockets as f64;
        format!("{}; {}", bytes(server_idle as f64), bytes(socket))
    });
    account.figure("until all sockets had gone", format!("{:.1} s", teardown.as_secs_f64()));
    account.method = vec![
        run.server_sentence(processes),
        format!(
            "Members of a room are spread over all client processes, and by the kernel over all \
             server processes. Each room has a message of 100 bytes every {} s for {} s, rooms \
             evenly one after another; each socket sends a heartbeat every 30 s beside that.",
            EVERY.as_secs(),
            LASTS.as_secs()
        ),
        "A message is lost when one of the room's sockets has not heard it in the end; times count \
         from when it was due, so a generator that is late does not look fast."
            .into(),
    ];
    account.chart = chart(&points, &delivery.steps());
    account.chart.notes = vec![account.machine.clone()];
    Ok(account)
}

fn chart(rate: &[(f64, f64)], steps: &[(u64, f64)]) -> Chart {
    let parts = steps.iter().map(|(ns, part)| (*ns as f64 / 1e6, part * 100.0));
    Chart {
        label: "Deliveries a second over time, and how long a message takes".into(),
        panels: vec![
            Panel::Lines {
                title: "Deliveries".into(),
                x: Axis::new("seconds"),
                left: Axis::new("deliveries a second"),
                right: None,
                lines: vec![Line::left("heard", Tint::Fire, rate.to_vec())],
            },
            Panel::Lines {
                title: "How long a message takes".into(),
                x: Axis::log("milliseconds since it was due"),
                left: Axis::up_to("% of deliveries", 100.0),
                right: None,
                lines: vec![Line::left("heard within", Tint::Water, parts.collect())],
            },
        ],
        notes: Vec::new(),
    }
}
