//! The metrics of messages between processes.

use watchfire_cluster::bus::NodeQueue;
use watchfire_metrics::Queue;

use super::processes::Cluster;
use crate::metrics::{MetricSource, MetricWriter};

/// The memory of a topic of this process in the bus, and of one of others, as `cluster::bus` measured it.
const TOPIC_BYTES: usize = 105;
const FAR_TOPIC_BYTES: usize = 36;

#[doc(hidden)]
impl MetricSource for Cluster {
    fn write_metrics(&self, writer: &mut MetricWriter) {
        writer.gauge("processes", "Processes that answered", 1);
        for (name, help, value) in [
            ("process_restarts", "Restarts of processes that ended", self.starts().restarts),
            ("process_hangs", "Processes killed because they did not respond", self.starts().hangs),
        ] {
            writer.counter(name, help, value);
        }
        if let Some(totals) = self.link_totals() {
            for (name, help, value) in [
                (
                    "nats_connected",
                    "Processes with a connection to NATS",
                    totals.is_connected.into(),
                ),
                ("cluster_links", "Links to processes of other machines", totals.links),
            ] {
                writer.gauge(name, help, value);
            }
            for (name, help, value) in [
                (
                    "cluster_links_ended",
                    "Links to processes of other machines that ended",
                    totals.ended,
                ),
                (
                    "nats_refusals",
                    "Messages and subscriptions that NATS did not accept",
                    totals.refused,
                ),
                ("cluster_packets", "Messages with data that were sent over NATS", totals.sent),
                ("cluster_bytes_sent", "Bytes of data that were sent over NATS", totals.bytes_out),
                (
                    "cluster_bytes_received",
                    "Bytes of data that were received over NATS",
                    totals.bytes_in,
                ),
                (
                    "cluster_packets_again",
                    "Messages that were sent again after a loss",
                    totals.sent_again,
                ),
            ] {
                writer.counter(name, help, value);
            }
        }
        let Some(bus) = self.bus() else { return };
        let queue = |NodeQueue { node, messages, oldest, drops }: NodeQueue| Queue {
            name: format!("link to process {}", node.0),
            messages: messages as u64,
            oldest,
            drops,
        };
        writer.queues(&bus.queues().into_iter().map(queue).collect::<Vec<_>>());
        let totals = bus.totals();
        writer.memory("queues", totals.queued_bytes);
        let topics = TOPIC_BYTES * totals.topics_local + FAR_TOPIC_BYTES * totals.topics_remote;
        writer.memory("topics", topics);
        writer.gauge(
            "bus_queued_bytes",
            "Bytes queued for other processes",
            totals.queued_bytes as u64,
        );
        writer.gauge(
            "bus_topics",
            "Topics that a process subscribes to",
            totals.topics_local as u64,
        );
        for (name, help, value) in [
            ("bus_messages", "Messages to other processes", totals.messages_out),
            ("bus_bytes", "Bytes written to other processes", totals.bytes_out),
            ("bus_drops", "Messages that a full queue dropped", totals.dropped),
            ("bus_cuts", "Links between processes that were cut", totals.cuts),
            ("bus_late", "Joins that went on without another process's answer", totals.late),
        ] {
            writer.counter(name, help, value);
        }
    }
}
