//! Memory per peer on the rings.

use watchfire_testkit::{CountingAllocator, allocated};
use watchfire_tracker::Rings;
use watchfire_types::PeerId;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator(|size| size);

#[test]
fn a_peer_among_many_takes_sixteen_bytes_per_ring() {
    const PEERS: u64 = 100_000;
    const REPLACED: u64 = PEERS / 4;
    for k in [2, 3] {
        let before = allocated();
        let mut rings = Rings::new(k, 7);
        (0..PEERS).for_each(|peer| drop(rings.join(PeerId(peer))));
        let grown = (allocated() - before) as f64 / PEERS as f64;
        for peer in 0..REPLACED {
            rings.leave(PeerId(peer));
            rings.join(PeerId(PEERS + peer));
        }
        let churned = (allocated() - before) as f64 / PEERS as f64;
        println!("{k} rings: {grown:.1} bytes a peer, {churned:.1} after churn");
        assert!(grown <= 16.0 * k as f64, "{k} rings: {grown} bytes a peer");
        assert!(churned <= 17.0 * k as f64, "{k} rings: {churned} bytes a peer after churn");

        (REPLACED..PEERS + REPLACED).for_each(|peer| drop(rings.leave(PeerId(peer))));
        assert!(rings.is_empty());
        let left = allocated() - before;
        assert!(left <= 1_024, "{left} bytes are not freed by {k} rings without peers");
    }
}
