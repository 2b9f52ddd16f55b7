//! GETs that find the other node busy: they ask again, with patience, and end once.

use gannet_lattice::Node;
use gannet_rdma::{Completion, Failure, Put, Reason, Replay};
use gannet_wire::rdma::{Operation, Packet};

use crate::path::Faults;
use crate::refusals::{BUFFER_AT, get, outcomes, pair, put};

#[test]
fn an_answer_to_a_copy_ends_a_get_that_is_about_to_ask_again() {
    let mut path = pair(Faults::NONE, |configuration| {
        (configuration.limits.replies, configuration.limits.transmit_queue) = (1, 1);
    });
    let [near, far] = &mut path.engines[..] else { panic!("two engines") };
    let mut packets = [[0; 4096]; 2];
    for (tag, packet) in (1..).zip(&mut packets) {
        near.post_get(0, &get(BUFFER_AT, 10, tag)).unwrap();
        let sent = near.next_packet(0, packet).unwrap();
        far.packet_in(0, &packet[..sent.length]);
    }
    let mut packet = [0; 4096];
    let refusal = far.next_packet(0, &mut packet).unwrap();
    assert_eq!(far.counters().refused, 1);
    near.packet_in(0, &packet[..refusal.length]);

    // What fills the place of the second one is lost, and the first one ends.
    near.next_packet(0, &mut packet).unwrap();
    let answer = far.next_packet(0, &mut packet).unwrap();
    near.packet_in(0, &packet[..answer.length]);
    assert!(matches!(near.poll_completion(), Some(Completion::GetDone { tag: 1, .. })));
    let told = near.next_packet(0, &mut packet).unwrap();
    far.packet_in(0, &packet[..told.length]);

    // The second one is to ask again, and waits for the link. A copy of it is late enough to be taken, and answered.
    let now = Replay::DEFAULT.timeout_ns;
    near.advance(now);
    far.packet_in(now, &packets[1][..told.length]);
    while let Some(answer) = far.next_packet(now, &mut packet) {
        near.packet_in(now, &packet[..answer.length]);
    }
    assert!(matches!(near.poll_completion(), Some(Completion::GetDone { tag: 2, .. })));

    near.post_put(now, &Put { destination: Node(2), ..put(BUFFER_AT, 4, 3) }).unwrap();
    let mut puts = Vec::new();
    while let Some(sent) = near.next_packet(now, &mut packet) {
        let view = Packet::new_checked(&packet[..sent.length]).unwrap();
        if view.header().operation() == Operation::Put {
            puts.push((sent.destination, view.header().tag()));
        }
    }
    assert_eq!(puts, [(Node(2), 3)]);
}

#[test]
fn a_busy_node_is_asked_with_patience_and_not_for_ever() {
    let mut path = pair(Faults::NONE, |configuration| configuration.limits.replies = 0);
    path.engines[0].post_get(0, &get(BUFFER_AT, 10, 1)).unwrap();
    for _ in 0..10_000 {
        path.step();
    }
    assert_eq!(outcomes(&mut path, 0), [(1, Err(Failure::Refused(Reason::Busy)))]);
    let asked = path.engines[1].counters().refused;
    // At once, after 200 us, 400 us and so on to 12.8 ms, then each 20 ms until a second is over.
    assert_eq!(asked, 1 + 7 + 48);
    assert_eq!(path.engines[0].counters().sent, asked);
    assert_eq!(path.engines[0].counters().given_up, 0);

    let now = path.now;
    path.engines[0].post_put(now, &put(BUFFER_AT, 4, 2)).unwrap();
    assert_eq!(outcomes(&mut path, 0), [(2, Ok(()))]);
}

#[test]
fn many_gets_at_once_are_all_answered_by_a_node_that_answers_one_at_a_time() {
    let mut path = pair(Faults::NONE, |configuration| configuration.limits.replies = 1);
    for tag in 0..200 {
        path.engines[0].post_get(0, &get(BUFFER_AT, 10, tag)).unwrap();
    }
    let mut told = outcomes(&mut path, 0);
    told.sort_by_key(|outcome| outcome.0);
    assert_eq!(told, (0..200).map(|tag| (tag, Ok(()))).collect::<Vec<_>>());
    assert_eq!(path.engines[0].counters().given_up, 0);
    let refused = path.engines[1].counters().refused;
    assert!(path.engines[0].counters().timeouts == 0, "each refusal is told: {refused}");
}
