//! One seeder, many leechers.

use watchfire_bitswap::Protocol;

use super::net::{FakeBlock, Links, MIB, Net, Node, fake_blocks};

/// A seeder, and leechers that want all its blocks, all connected to each other.
fn mesh(seeder: Links, leechers: &[Links], blocks: &[FakeBlock]) -> Net {
    let mut net = Net::new();
    net.add(seeder);
    for links in leechers {
        net.add(*links);
    }
    net.mesh(Protocol::V1_2);
    net.store(0, blocks);
    for leecher in 1..=leechers.len() {
        net.want_all(leecher, blocks);
    }
    net
}

fn bytes(blocks: &[FakeBlock]) -> u64 {
    blocks.iter().map(|block| block.len as u64).sum()
}

/// Copies of the file that the seeder sent.
fn copies(net: &Net, blocks: &[FakeBlock]) -> f64 {
    net.nodes[0].exchange.totals().bytes_out as f64 / bytes(blocks) as f64
}

/// The part of all bytes that was not needed.
fn duplicates(net: &Net, blocks: &[FakeBlock]) -> f64 {
    let of = |node: &Node| {
        let totals = node.exchange.totals();
        totals.duplicate_bytes + totals.unsolicited_bytes
    };
    let all = bytes(blocks) * (net.nodes.len() as u64 - 1);
    net.nodes.iter().map(of).sum::<u64>() as f64 / all as f64
}

/// The time divided by the bound: the seeder sends everything once, each leecher receives
/// everything, and all together send as many copies as there are leechers.
fn slowdown(net: &Net, blocks: &[FakeBlock]) -> f64 {
    let file = bytes(blocks) as f64;
    let leechers = &net.nodes[1..];
    let up: u64 = net.nodes.iter().map(|node| node.links.up).sum();
    let slowest = leechers.iter().map(|node| node.links.down).min().expect("there are leechers");
    let bound = (file / net.nodes[0].links.up as f64)
        .max(file / slowest as f64)
        .max(file * leechers.len() as f64 / up as f64);
    let took = leechers.iter().map(|node| node.done_at.expect("it is done")).max();
    took.expect("there are leechers").as_nanos() as f64 / 1e9 / bound
}

fn progress(net: &Net) -> Vec<usize> {
    net.nodes.iter().map(|node| node.received).collect()
}

#[test]
fn leechers_serve_each_other_so_that_the_seeder_sends_few_copies() {
    let (blocks, links) = (fake_blocks(300, MIB as usize), Links::mib_per_second(100, 100));
    let mut net = mesh(links, &[links; 32], &blocks);
    assert!(net.run(600, Net::all_done), "{:?}", progress(&net));
    let copies = copies(&net, &blocks);
    // The goal is 1.2 for both: the seeder's link is as fast as the others, so it sends to the end.
    assert!(copies <= 1.5, "the seeder sent {copies:.2} copies");
    let duplicates = duplicates(&net, &blocks);
    assert!(duplicates <= 0.01, "{duplicates:.4} of all bytes arrived twice");
    let slowdown = slowdown(&net, &blocks);
    assert!(slowdown <= 1.5, "{slowdown:.2} times the bound");
}

#[test]
fn leechers_that_know_only_the_seeder_get_everything_from_it() {
    let (blocks, links) = (fake_blocks(50, MIB as usize), Links::mib_per_second(100, 100));
    let mut net = Net::new();
    net.add(links);
    for leecher in 1..=8 {
        net.add(links);
        net.connect(0, leecher, Protocol::V1_2);
    }
    net.store(0, &blocks);
    for leecher in 1..=8 {
        net.want_all(leecher, &blocks);
    }
    assert!(net.run(600, Net::all_done), "{:?}", progress(&net));
    assert_eq!(duplicates(&net, &blocks), 0.0);
    let took = net.now.as_nanos() as f64 / 1e9;
    assert!(took <= 4.0 * 1.05, "{took:.2} seconds, the bound is 4");
}

#[test]
fn leechers_do_not_drop_a_very_slow_seeder() {
    let blocks = fake_blocks(24, MIB as usize);
    let mut net = Net::new();
    let slow = Links { up: 16_000, ..Links::mib_per_second(1, 1) };
    net.add(slow);
    for leecher in 1..=12 {
        net.add(Links::mib_per_second(1, 1));
        net.connect(0, leecher, Protocol::V1_2);
    }
    net.store(0, &blocks);
    for leecher in 1..=12 {
        let own = [leecher - 1, leecher + 11].map(|block| blocks[block].clone());
        net.want_all(leecher, &own);
    }
    // 24 MiB take 26 minutes.
    let is_done = net.run(1800, Net::all_done);
    let dropped: Vec<_> = net.nodes.iter().flat_map(|node| &node.dropped).collect();
    assert!(dropped.is_empty(), "dropped: {dropped:?}");
    assert!(is_done, "{:?}", progress(&net));
}

#[test]
fn a_slow_seeder_sends_little_more_than_one_copy() {
    let (blocks, fast) = (fake_blocks(100, MIB as usize), Links::mib_per_second(100, 100));
    let mut net = mesh(Links::mib_per_second(10, 10), &[fast; 16], &blocks);
    assert!(net.run(600, Net::all_done), "{:?}", progress(&net));
    let copies = copies(&net, &blocks);
    assert!(copies <= 1.2, "the seeder sent {copies:.2} copies");
    let slowdown = slowdown(&net, &blocks);
    assert!(slowdown <= 1.2, "{slowdown:.2} times the bound");
}

#[test]
fn a_slow_leecher_is_not_dropped_and_does_not_delay_the_others() {
    let (blocks, fast) = (fake_blocks(60, MIB as usize / 4), Links::mib_per_second(50, 50));
    let slow = Links { up: 20_000, down: 100_000, ..fast };
    let mut net = mesh(fast, &[fast, fast, slow, fast], &blocks);
    assert!(net.run(600, Net::all_done), "{:?}", progress(&net));
    assert!(net.nodes.iter().all(|node| node.dropped.is_empty()));
    let done = |node: usize| net.nodes[node].done_at.expect("it is done").as_secs();
    assert!(done(1).max(done(2)).max(done(4)) < 10, "delayed by the slow leecher");
    assert!(done(3) < 300, "{} seconds, the bound is 157", done(3));
}

#[test]
fn leechers_finish_without_the_seeder_once_it_has_sent_one_copy() {
    let (blocks, fast) = (fake_blocks(50, MIB as usize), Links::mib_per_second(100, 100));
    let mut net = mesh(Links::mib_per_second(10, 10), &[fast; 8], &blocks);
    let is_out = |net: &Net| {
        blocks
            .iter()
            .all(|block| net.nodes[1..].iter().any(|node| node.store.contains_key(&block.cid)))
    };
    assert!(net.run(60, is_out));
    for leecher in 1..=8 {
        net.disconnect(0, leecher);
    }
    assert!(net.run(60, Net::all_done), "{:?}", progress(&net));
}

#[test]
fn the_same_seeds_give_the_same_trace() {
    let trace = || {
        let (blocks, links) = (fake_blocks(40, 100_000), Links::mib_per_second(10, 20));
        let mut net = mesh(links, &[links; 6], &blocks);
        assert!(net.run(600, Net::all_done));
        (net.trace, net.now)
    };
    assert_eq!(trace(), trace());
}
