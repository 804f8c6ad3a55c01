//! One seeder, many leechers.

use bitswap::{Behaviour, Protocol};

use crate::net::{Links, MIB, Net, Toy, toys};

/// A seeder with everything, and leechers that want it, all connected to one another.
fn mesh(behaviour: Behaviour, leechers: usize, links: Links, blocks: &[Toy]) -> Net {
    let mut net = Net::new();
    for _ in 0..=leechers {
        net.add(behaviour, links);
    }
    net.mesh(Protocol::V1_2);
    net.store(0, blocks);
    for leecher in 1..=leechers {
        net.want_all(leecher, blocks);
    }
    net
}

struct Outcome {
    copies: f64,
    duplicates: f64,
    slowdown: f64,
    overhead: f64,
}

fn outcome(net: &Net, blocks: &[Toy]) -> Outcome {
    let file: u64 = blocks.iter().map(|block| block.len as u64).sum();
    let leechers = net.nodes.len() - 1;
    let all = (file * leechers as u64) as f64;
    let totals = |node: &crate::net::Node| node.exchange.totals();
    let duplicates: u64 = net
        .nodes
        .iter()
        .map(|node| totals(node).duplicate_bytes + totals(node).unasked_bytes)
        .sum();
    let sent: u64 = net.nodes.iter().map(|node| node.sent_bytes).sum();
    let took = net.nodes.iter().filter_map(|node| node.done_at).max().expect("somebody is done");
    let up: u64 = net.nodes.iter().map(|node| node.links.up).sum();
    let slowest = net.nodes[1..].iter().map(|node| node.links.down).min().unwrap();
    let bound = (file as f64 / net.nodes[0].links.up as f64)
        .max(file as f64 / slowest as f64)
        .max(all / up as f64);
    Outcome {
        copies: totals(&net.nodes[0]).bytes_out as f64 / file as f64,
        duplicates: duplicates as f64 / all,
        slowdown: took.as_nanos() as f64 / 1e9 / bound,
        overhead: (sent as f64 - all) / all,
    }
}

fn check(behaviour: Behaviour, leechers: usize, links: Links, count: u64, len: usize) -> Outcome {
    let blocks = toys(count, len);
    let mut net = mesh(behaviour, leechers, links, &blocks);
    let is_done = net.run(600, Net::all_done);
    assert!(is_done, "{:?}", net.nodes.iter().map(|node| node.got).collect::<Vec<_>>());
    let found = outcome(&net, &blocks);
    let messages: u64 = net.nodes.iter().map(|node| node.exchange.totals().messages_in).sum();
    println!(
        "{behaviour:?} {leechers} x {count} x {len}: copies {:.2}, duplicates {:.4}, slowdown {:.2}, overhead {:.4}, messages {}, hedges {}, silences {}",
        found.copies,
        found.duplicates,
        found.slowdown,
        found.overhead,
        messages / net.nodes.len() as u64,
        net.nodes.iter().map(|node| node.exchange.totals().hedges).sum::<u64>(),
        net.nodes.iter().map(|node| node.exchange.totals().silences).sum::<u64>(),
    );
    found
}

#[test]
fn leechers_serve_one_another_so_that_the_seeder_need_not() {
    for (count, len) in [(100, MIB as usize)] {
        let found = check(Behaviour::Ours, 32, Links::mib_a_second(100, 100), count, len);
        assert!(found.copies <= 2.0, "the seeder sent {:.2} copies", found.copies);
        assert!(found.duplicates <= 0.03, "{:.4} of all bytes came twice", found.duplicates);
        assert!(found.slowdown <= 2.0, "{:.2} times the bound", found.slowdown);
    }
}
