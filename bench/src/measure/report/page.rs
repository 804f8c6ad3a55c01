use watchfire_report::Table;
use watchfire_report::units::count;

use super::{COLUMNS, Report};

/// `targets.md`: the run as a page in Markdown.
pub fn page(report: &Report) -> String {
    let plan = &report.plan;
    let mut targets = Table::new(["target", "server", "measured", "at most", ""]);
    for target in &report.targets {
        targets.push([
            target.what.to_owned(),
            target.server.to_string(),
            format!("{} {}", target.number(target.value), target.unit),
            format!("{} {}", target.number(target.at_most), target.unit),
            target.verdict(),
        ]);
    }
    let heads = COLUMNS.iter().map(|column| column.head);
    let mut figures = Table::new(std::iter::once("server").chain(heads));
    for (server, measured) in &report.medians {
        let cells = COLUMNS.iter().map(|column| column.cell(measured));
        figures.push(std::iter::once(server.to_string()).chain(cells));
    }
    let mut text = format!(
        "# The cost of a socket\n\n\
         Written by `make bench` at commit {}. `bench/README.md` describes how it measures.\n\n\
         ![Bars of the figures below](targets.svg)\n\n\
         Machine: {}. {} sockets in one server process, all joined to one room, on loopback; {}.\n\n\
         {}\n## All figures\n\n{}\n",
        report.commit,
        report.machine.sentence(),
        count(plan.sockets as u64),
        report.rounds_sentence(),
        targets.markdown(),
        figures.markdown()
    );
    text += &format!(
        "- B is resident memory of the server process above its idle value, divided by the \
         sockets.\n\
         - us is CPU time of all threads of the server. It contains the work of the kernel for the \
         receiver, because both ends are on loopback.\n\
         - A delivery is one of {} broadcasts of {} bytes to one socket.\n\
         - A rare delivery comes after a second of silence. Linux then acknowledges at once, and on \
         loopback the sender pays for the acknowledgement.\n\
         - After reconnects: all sockets left and returned {} times.\n\
         - A poll is a long-poll session with a waiting GET. A cycle answers the GET and waits again; \
         there were {} cycles.\n\
         - Three topics and presence: each socket is also in a topic of its own and in one of many \
         rooms of a hundred sockets. In the room it is tracked by presence and receives the presence \
         diffs. The server is `examples/chat`, which uses the same library with default settings.\n\
         - The setup of Socket.IO has one round trip more than that of the others. Its server sends \
         pings, where the others answer heartbeats.\n\
         - Load before is the load average of the machine before the server was measured.\n",
        plan.broadcasts,
        crate::message::BROADCAST_BYTES,
        plan.reconnects,
        plan.poll_cycles
    );
    for failure in &report.failures {
        text += &format!("\nDid not run: {}\n", failure.lines().next().unwrap_or_default());
    }
    text
}
