//! Figures of nodes that consist of several programs, such as a container engine and a mirror.

use std::collections::{BTreeMap, BTreeSet};

use crate::drivers::processes::program::UsageByKind;
use crate::results::NodeResult;

/// The figures of a run; none if no node consists of several programs. Their names contain a colon. `from_hosts` is the content that nodes
/// received from each other.
pub fn measures(
    nodes: &[NodeResult],
    by_kind: &[UsageByKind],
    from_hosts: &[Option<u64>],
    object_bytes: u64,
) -> BTreeMap<String, f64> {
    let mut measures = BTreeMap::new();
    let kinds: BTreeSet<&str> = by_kind.iter().flatten().map(|(kind, _)| *kind).collect();
    let awaited = nodes.iter().filter(|node| node.is_awaited).count();
    if kinds.is_empty() || awaited == 0 {
        return measures;
    }
    for kind in kinds {
        let of_kind = || {
            let own = by_kind.iter().flatten().filter(|(own, _)| *own == kind);
            own.map(|(_, usage)| *usage)
        };
        let cpu: f64 = of_kind().map(|usage| usage.cpu.as_secs_f64()).sum();
        let peak = of_kind().map(|usage| usage.peak_memory).max().unwrap_or(0);
        measures.insert(format!("{kind}: CPU-seconds per leecher"), cpu / awaited as f64);
        measures.insert(format!("{kind}: peak memory, bytes"), peak as f64);
    }
    let times = |of: fn(&NodeResult) -> Option<f64>| -> Option<Vec<f64>> {
        let of_node = |node: &NodeResult| Some(of(node)? - node.arrived_at);
        let mut times = nodes
            .iter()
            .filter(|node| node.is_awaited)
            .map(of_node)
            .collect::<Option<Vec<f64>>>()?;
        times.sort_by(f64::total_cmp);
        Some(times)
    };
    if let Some(times) = times(|node| node.finished_at) {
        measures.insert("completion: first, s".to_owned(), times[0]);
    }
    if let Some(times) = times(|node| node.unpacked_at) {
        measures.insert("unpacked: median, s".to_owned(), times[(times.len() - 1) / 2]);
        measures.insert("unpacked: last, s".to_owned(), times[times.len() - 1]);
    }
    let with_kinds = by_kind.iter().zip(from_hosts).filter(|(kinds, _)| !kinds.is_empty());
    let received = with_kinds.map(|(_, bytes)| *bytes).sum::<Option<u64>>();
    if let Some(received) = received.filter(|_| object_bytes > 0) {
        let copies = received as f64 / object_bytes as f64;
        measures.insert("hosts: copies from each other".to_owned(), copies);
    }
    measures
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::drivers::processes::host::Usage;

    fn usage(seconds: u64, peak_memory: u64) -> Usage {
        Usage { cpu: Duration::from_secs(seconds), peak_memory }
    }

    fn host(finished_at: f64) -> NodeResult {
        NodeResult {
            is_awaited: true,
            arrived_at: 1.0,
            finished_at: Some(finished_at),
            unpacked_at: Some(finished_at + 2.0),
            ..NodeResult::default()
        }
    }

    #[test]
    fn the_programs_of_hosts_are_measured_apart() {
        let registry =
            NodeResult { is_seeder: true, content_sent_bytes: Some(900), ..NodeResult::default() };
        let nodes = [registry, host(5.0), host(3.0)];
        let one = vec![("client", usage(4, 10)), ("mirror", usage(2, 30))];
        let by_kind = [Vec::new(), one, vec![("client", usage(8, 20))]];
        let measures = measures(&nodes, &by_kind, &[None, Some(20), Some(80)], 100);
        for (name, expected) in [
            ("client: CPU-seconds per leecher", 6.0),
            ("client: peak memory, bytes", 20.0),
            ("mirror: CPU-seconds per leecher", 1.0),
            ("completion: first, s", 2.0),
            ("unpacked: median, s", 4.0),
            ("unpacked: last, s", 6.0),
            ("hosts: copies from each other", 1.0),
        ] {
            assert_eq!(measures.get(name), Some(&expected), "{name}");
        }
        assert_eq!(measures.len(), 8);
    }

    #[test]
    fn nodes_of_one_program_have_no_figures_here() {
        assert!(measures(&[host(5.0)], &[Vec::new()], &[Some(1)], 100).is_empty());
    }
}
