//! Questions whether peers have a block now.

use super::{Node, wait_until, within};

#[tokio::test]
async fn a_host_learns_which_peer_has_a_block_without_receiving_it() {
    let (asker, holder, other) = (Node::start().await, Node::start().await, Node::start().await);
    let (long, short) = (holder.add(100_000, 1), holder.add(100, 2));
    asker.connect(&holder).await;
    asker.connect(&other).await;
    wait_until(async || asker.stats().await.peers == 2).await;
    for cid in [long.clone(), short] {
        let ask = |peers| within(asker.host.ask(peers, cid.clone()));
        let (has, lacks) = (holder.host.peer_id(), other.host.peer_id());
        assert_eq!(ask(None).await.unwrap(), Some(has));
        assert_eq!(ask(Some(vec![lacks])).await.unwrap(), None);
        assert_eq!(ask(Some(vec![has, lacks])).await.unwrap(), Some(has));
        assert_eq!(ask(Some(Vec::new())).await.unwrap(), None);
        assert!(!asker.has(&cid));
    }
    within(asker.host.disconnect(holder.host.peer_id())).await.unwrap();
    assert_eq!(within(asker.host.ask(None, long)).await.unwrap(), None);
}
