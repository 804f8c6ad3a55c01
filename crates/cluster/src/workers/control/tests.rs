use std::os::fd::AsFd;
use std::time::Duration;

use super::*;

/// The supervisor's end of a connection, and a worker's end that has link 3 to node 1.
fn connection() -> (OwnedFd, Control) {
    let (ours, theirs) = packet::pair().expect("sockets");
    (ours, Control::new(theirs, BTreeMap::from([(1, 3)])))
}

fn send(ours: &OwnedFd, message: &SupervisorMessage<'_>, descriptors: &[BorrowedFd<'_>]) {
    let bytes = postcard::to_stdvec(message).expect("a message can be encoded");
    packet::send(ours, &[IoSlice::new(&bytes)], descriptors).expect("it is sent");
}

fn received(ours: &OwnedFd) -> Option<WorkerReport> {
    let mut buffer = [0; 64];
    let packet = packet::recv(ours, &mut [IoSliceMut::new(&mut buffer)], Wait::No).ok()?;
    Some(postcard::from_bytes(&buffer[..packet.len]).expect("a report"))
}

#[tokio::test]
async fn the_end_of_the_supervisor_is_a_drain_and_a_drain_is_returned_once() {
    let (ours, control) = connection();
    drop(ours);
    assert!(matches!(control.next_order().await, Order::Drain));
    let second = tokio::time::timeout(Duration::ZERO, control.next_order()).await;
    assert!(second.is_err(), "the next call must wait");
}

#[tokio::test]
async fn a_lost_link_is_reported_with_the_number_of_the_newest_link() {
    let (ours, control) = connection();
    control.link_lost(NodeId(1)).expect("it is sent");
    assert_eq!(received(&ours), Some(WorkerReport::LinkLost { to: 1, number: 3 }));
    let (bus, _bus_end) = std::os::unix::net::UnixStream::pair().expect("sockets");
    let (handoff, _end) = packet::pair().expect("sockets");
    send(&ours, &SupervisorMessage::Link { to: 1, number: 8 }, &[bus.as_fd(), handoff.as_fd()]);
    match control.next_order().await {
        Order::Link(link) => assert_eq!(link.to, NodeId(1)),
        Order::Drain | Order::Unresponsive(_) => panic!("there is another order"),
    }
    control.link_lost(NodeId(1)).expect("it is sent");
    assert_eq!(received(&ours), Some(WorkerReport::LinkLost { to: 1, number: 8 }));
}

#[tokio::test]
async fn a_lost_link_to_an_unknown_node_is_not_reported() {
    let (ours, control) = connection();
    control.link_lost(NodeId(2)).expect("nothing is sent");
    assert_eq!(received(&ours), None);
}

/// A link arrives without descriptors when the process has no free ones.
#[tokio::test]
async fn a_link_without_its_sockets_is_requested_again() {
    let (ours, control) = connection();
    send(&ours, &SupervisorMessage::Link { to: 1, number: 8 }, &[]);
    send(&ours, &SupervisorMessage::Begin, &[]);
    packet::send(&ours, &[IoSlice::new(&[255; 9])], &[]).expect("it is sent");
    send(&ours, &SupervisorMessage::Drain, &[]);
    assert!(matches!(control.next_order().await, Order::Drain));
    assert_eq!(received(&ours), Some(WorkerReport::LinkLost { to: 1, number: 8 }));
    assert_eq!(received(&ours), None);
}

#[tokio::test]
async fn all_clones_share_one_connection() {
    let (ours, control) = connection();
    control.clone().ready().expect("it is sent");
    assert_eq!(received(&ours), Some(WorkerReport::Ready));
}
