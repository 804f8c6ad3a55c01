//! One seeder, many leechers. `crates/sim/tests/all/links.rs` bounds the copies and the time of such swarms.

use watchfire_bitswap::Protocol;
use watchfire_content::Cid;

use super::net::{Links, MIB, Net, fake_blocks};

/// A seeder, which is node 0, and leechers that are connected to it alone.
fn star(seeder: Links, leechers: usize, leecher: Links) -> Net {
    let mut net = Net::new();
    net.add(seeder);
    for id in 1..=leechers {
        net.add(leecher);
        net.connect(0, id, Protocol::V1_2);
    }
    net
}

fn progress(net: &Net) -> Vec<usize> {
    net.nodes.iter().map(|node| node.received).collect()
}

#[test]
fn leechers_that_know_only_the_seeder_get_everything_from_it() {
    let (blocks, links) = (fake_blocks(50, MIB as usize), Links::mib_per_second(100, 100));
    let mut net = star(links, 8, links);
    net.store(0, &blocks);
    for leecher in 1..=8 {
        net.want_all(leecher, &blocks);
    }
    assert!(net.run(600, Net::all_done), "{:?}", progress(&net));
    for node in &net.nodes {
        let totals = node.exchange.totals();
        assert_eq!(totals.duplicate_bytes + totals.unsolicited_bytes, 0);
    }
    let took = net.now.as_nanos() as f64 / 1e9;
    assert!(took <= 4.0 * 1.05, "{took:.2} seconds, the bound is 4");
}

#[test]
fn leechers_do_not_drop_a_very_slow_seeder() {
    let blocks = fake_blocks(24, MIB as usize);
    let links = Links::mib_per_second(1, 1);
    let mut net = star(Links { up: 16_000, ..links }, 12, links);
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
fn leechers_finish_without_the_seeder_once_it_has_sent_one_copy() {
    let (blocks, fast) = (fake_blocks(50, MIB as usize), Links::mib_per_second(100, 100));
    let mut net = Net::new();
    net.add(Links::mib_per_second(10, 10));
    for _ in 0..8 {
        net.add(fast);
    }
    net.mesh(Protocol::V1_2);
    net.store(0, &blocks);
    for leecher in 1..=8 {
        net.want_all(leecher, &blocks);
    }
    let is_out = |net: &Net| {
        let has = |block: &Cid| net.nodes[1..].iter().any(|node| node.store.contains_key(block));
        blocks.iter().all(|block| has(&block.cid))
    };
    assert!(net.run(60, is_out));
    for leecher in 1..=8 {
        net.disconnect(0, leecher);
    }
    assert!(net.run(60, Net::all_done), "{:?}", progress(&net));
}
