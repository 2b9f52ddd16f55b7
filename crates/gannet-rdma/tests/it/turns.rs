//! Who waits comes in turn.

use gannet_lattice::Node;
use gannet_rdma::{Completion, Put};
use gannet_wire::rdma::Packet;

use crate::path::Faults;
use crate::refusals::{BUFFER_AT, engines, pair, put};

#[test]
fn a_packet_no_longer_wanted_does_not_hide_the_one_behind_it() {
    let mut path = pair(Faults::NONE, |configuration| configuration.limits.transmit_queue = 1);
    let [near, far] = &mut path.engines[..] else { panic!("two engines") };
    let mut packet = [0; 4096];
    near.post_put(0, &put(BUFFER_AT, 4, 1)).unwrap();
    let sent = near.next_packet(0, &mut packet).unwrap();
    far.packet_in(0, &packet[..sent.length]);
    let acknowledgement = far.next_packet(0, &mut packet).unwrap();
    // It comes when the packet has just been read again.
    let now = near.next_deadline().unwrap();
    near.advance(now);
    near.packet_in(now, &packet[..acknowledgement.length]);
    near.post_put(now, &put(BUFFER_AT, 4, 2)).unwrap();
    let sent = near.next_packet(now, &mut packet).expect("no word will come that asks again");
    assert_eq!(Packet::new_checked(&packet[..sent.length]).unwrap().header().tag(), 2);
}

#[test]
fn an_answer_carries_the_acknowledgement() {
    let mut path = pair(Faults::NONE, |_| ());
    let [near, far] = &mut path.engines[..] else { panic!("two engines") };
    let mut packet = [0; 4096];
    near.post_put(0, &put(BUFFER_AT, 4, 1)).unwrap();
    let sent = near.next_packet(0, &mut packet).unwrap();
    far.packet_in(0, &packet[..sent.length]);
    far.post_put(0, &Put { destination: Node(0), ..put(BUFFER_AT, 4, 2) }).unwrap();
    let answer = far.next_packet(0, &mut packet).unwrap();
    let view = Packet::new_checked(&packet[..answer.length]).unwrap();
    assert_eq!((view.header().tag(), view.header().acknowledged()), (2, 1));
    assert!(!far.has_packet());
}

#[test]
fn a_slow_host_hears_all_its_senders() {
    let mut path = engines(3, Faults::NONE, |configuration| {
        (configuration.limits.posts, configuration.limits.completions) = (200, 201);
        if configuration.node == Node(2) {
            (configuration.limits.posts, configuration.limits.completions) = (1, 2);
        }
    });
    for node in 0..2 {
        for tag in 0..200 {
            let put = Put { destination: Node(2), ..put(BUFFER_AT, 4, tag) };
            path.engines[node].post_put(0, &put).unwrap();
        }
    }
    let mut heard = [0, 0];
    for poll in 1..200 {
        // The windows are full again before each look.
        while path.now < 100_000 * poll && path.step() {}
        if let Some(Completion::RxDone { source, tag, .. }) = path.engines[2].poll_completion() {
            assert_eq!(tag, heard[source.index()]);
            heard[source.index()] += 1;
        }
    }
    assert!(heard[0].abs_diff(heard[1]) <= 3 && heard[0] + heard[1] > 190, "{heard:?}");
}
