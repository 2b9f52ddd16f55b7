//! What cannot be done is told, and does not hinder what can.

use gannet_lattice::Node;
use gannet_memory::{Refusal, Registration};
use gannet_rdma::{
    Completion, Configuration, Engine, Failure, Get, Overflow, PostError, Put, Reason,
    RegistrationError,
};
use gannet_wire::rdma::Packet;

use crate::path::{Faults, Memory, Path};

pub const BUFFER_AT: u64 = 0x40000;

/// Two engines, each with a buffer of two pages that may be written and one that may not.
pub fn pair(faults: Faults, configure: impl Fn(&mut Configuration)) -> Path {
    engines(2, faults, configure)
}

/// So many engines of this kind.
pub fn engines(nodes: u32, faults: Faults, configure: impl Fn(&mut Configuration)) -> Path {
    let engines = (0..nodes).map(|node| {
        let mut configuration = Configuration::new(Node(node));
        configure(&mut configuration);
        let mut engine = Engine::new(configuration, vec![(node as u8).wrapping_add(1); 16384]);
        let buffer = Registration {
            process: 0,
            start: BUFFER_AT,
            length: 8192,
            writable: true,
            pages: &[4096, 0],
        };
        engine.register(&buffer).unwrap();
        let start = BUFFER_AT + 8192;
        let read_only =
            Registration { start, length: 100, writable: false, pages: &[8192], ..buffer };
        engine.register(&read_only).unwrap();
        engine
    });
    Path::new(engines.collect(), faults, 3)
}

pub fn put(address: u64, length: u32, tag: u32) -> Put {
    Put { source: 0, destination: Node(1), process: 0, address, length, tag }
}

pub fn get(address: u64, length: u32, tag: u32) -> Get {
    Get {
        source: Node(1),
        process: 0,
        address,
        local_process: 0,
        local_address: BUFFER_AT,
        length,
        tag,
    }
}

/// All completions of a node, as tag and outcome; those of arrived data as success.
pub fn outcomes(path: &mut Path, node: usize) -> Vec<(u32, Result<(), Failure>)> {
    while path.step() {}
    let completions = path.engines[node].completions();
    let outcome = |completion| match completion {
        Completion::TxDone { tag, outcome, .. } | Completion::GetDone { tag, outcome, .. } => {
            (tag, outcome)
        }
        Completion::RxDone { tag, .. } => (tag, Ok(())),
    };
    completions.map(outcome).collect()
}

fn refused(refusal: Refusal) -> Result<(), Failure> {
    Err(Failure::Refused(Reason::Access(refusal)))
}

#[test]
fn a_wrong_address_is_refused_and_what_follows_arrives() {
    for loss in [0.0, 0.3] {
        let mut path = pair(Faults { loss, jitter_ns: 9000, ..Faults::NONE }, |_| ());
        let sender = &mut path.engines[0];
        sender.post_put(0, &put(BUFFER_AT, 4, 1)).unwrap();
        sender.post_put(0, &put(BUFFER_AT + 0x9_0000, 9000, 2)).unwrap();
        sender.post_put(0, &put(BUFFER_AT - 10, 20, 3)).unwrap();
        sender.post_put(0, &put(BUFFER_AT + 8192 + 50, 51, 4)).unwrap();
        sender.post_put(0, &put(BUFFER_AT + 8192, 100, 5)).unwrap();
        sender.post_get(0, &get(BUFFER_AT + 8192, 101, 6)).unwrap();
        sender.post_put(0, &Put { process: 9, ..put(BUFFER_AT, 1, 7) }).unwrap();
        sender.post_put(0, &put(BUFFER_AT + 100, 4, 8)).unwrap();
        let mut told = outcomes(&mut path, 0);
        told.sort_by_key(|outcome| outcome.0);
        let expected = [
            (1, Ok(())),
            (2, refused(Refusal::Unknown)),
            (3, refused(Refusal::Unknown)),
            (4, refused(Refusal::OutOfRange)),
            (5, refused(Refusal::ReadOnly)),
            (6, refused(Refusal::OutOfRange)),
            (7, refused(Refusal::Unknown)),
            (8, Ok(())),
        ];
        assert_eq!(told, expected, "loss {loss}");
        assert_eq!(outcomes(&mut path, 1), [(1, Ok(())), (8, Ok(()))]);
        let memory: &Memory = path.engines[1].memory();
        assert_eq!(memory.iter().filter(|&&byte| byte == 1).count(), 8);
    }
}

#[test]
fn an_address_at_the_end_of_all_addresses_is_refused() {
    let mut path = pair(Faults::NONE, |_| ());
    path.engines[0].post_put(0, &put((1 << 48) - 4, 4, 1)).unwrap();
    let error = path.engines[0].post_put(0, &put((1 << 48) - 4, 5, 2)).unwrap_err();
    assert_eq!(error, PostError::Address((1 << 48) - 4));
    assert_eq!(outcomes(&mut path, 0), [(1, refused(Refusal::Unknown))]);
}

#[test]
fn a_silent_node_is_given_up_and_taken_back_when_it_speaks() {
    let mut path = pair(Faults::NONE, |configuration| configuration.replay.attempts = 4);
    path.silent.push(1);
    let sender = &mut path.engines[0];
    sender.post_put(0, &put(BUFFER_AT, 8192, 1)).unwrap();
    sender.post_get(0, &get(BUFFER_AT, 10, 2)).unwrap();
    let given_up = outcomes(&mut path, 0);
    let mut tags: Vec<u32> = given_up.iter().map(|outcome| outcome.0).collect();
    tags.sort_unstable();
    assert_eq!(tags, [1, 2]);
    assert!(given_up.iter().all(|outcome| outcome.1 == Err(Failure::Unreachable)));
    assert_eq!(path.engines[0].counters().given_up, 1);
    // The fourth repetition has been waited for: 200 + 400 + 800 + 1600 us.
    assert_eq!(path.now, 3_000_000);

    path.silent.clear();
    let now = path.now;
    path.engines[0].post_put(now, &put(BUFFER_AT, 5000, 3)).unwrap();
    assert_eq!(outcomes(&mut path, 0), [(3, Ok(()))]);
    assert_eq!(outcomes(&mut path, 1), [(3, Ok(()))]);
}

#[test]
fn a_node_given_up_in_the_middle_takes_each_put_at_most_once() {
    // Acknowledgements are lost, data are not: the PUT arrives, and its sender cannot know.
    let mut path = pair(Faults::NONE, |configuration| configuration.replay.attempts = 3);
    path.engines[0].post_put(0, &put(BUFFER_AT, 4, 1)).unwrap();
    path.silent.push(0);
    let mut packet = [0; 4096];
    let first = path.engines[0].next_packet(0, &mut packet).unwrap();
    path.engines[1].packet_in(0, &packet[..first.length]);
    assert_eq!(outcomes(&mut path, 0), [(1, Err(Failure::Unreachable))]);
    path.silent.clear();
    let now = path.now;
    path.engines[0].post_put(now, &put(BUFFER_AT, 4, 2)).unwrap();
    // The first packet comes once more, late, and is known by its number.
    assert_eq!(outcomes(&mut path, 0), [(2, Ok(()))]);
    let now = path.now;
    path.engines[1].packet_in(now, &packet[..first.length]);
    assert!(path.engines[1].counters().duplicates > 0);
    assert_eq!(outcomes(&mut path, 1), [(1, Ok(())), (2, Ok(()))]);
}

#[test]
fn a_get_whose_answer_stays_away_ends() {
    let mut path = pair(Faults::NONE, |configuration| {
        (configuration.replay.attempts, configuration.timing.read_latency_ns) = (3, 1);
    });
    path.engines[0].post_get(0, &get(BUFFER_AT, 10, 1)).unwrap();
    let mut packet = [0; 4096];
    let request = path.engines[0].next_packet(0, &mut packet).unwrap();
    path.engines[1].packet_in(0, &packet[..request.length]);
    // The request is acknowledged, and then the answer is lost.
    let control = path.engines[1].next_packet(0, &mut packet).unwrap();
    path.engines[0].packet_in(0, &packet[..control.length]);
    path.silent.push(1);
    assert_eq!(outcomes(&mut path, 0), [(1, Err(Failure::Unreachable))]);
    assert_eq!(path.now, 1_000_000_000);
}

#[test]
fn a_buffer_deregistered_on_either_side_ends_the_get() {
    for side in [0, 1] {
        let mut path = pair(Faults::NONE, |configuration| configuration.limits.transmit_queue = 1);
        path.engines[0].post_get(0, &get(BUFFER_AT, 8192, 1)).unwrap();
        let mut packet = [0; 4096];
        let request = path.engines[0].next_packet(0, &mut packet).unwrap();
        path.engines[1].packet_in(0, &packet[..request.length]);
        assert!(path.engines[side].deregister(0, BUFFER_AT));
        assert!(!path.engines[side].deregister(0, BUFFER_AT));
        assert_eq!(outcomes(&mut path, 0), [(1, refused(Refusal::Unknown))], "side {side}");
        let now = path.now;
        path.engines[0].post_put(now, &put(BUFFER_AT + 8192, 0, 2)).unwrap();
        assert_eq!(outcomes(&mut path, 0), [(2, Ok(()))]);
    }
}

#[test]
fn a_full_completion_queue_holds_the_sender_or_drops_the_event() {
    for overflow in [Overflow::Hold, Overflow::Drop] {
        let mut path = pair(Faults::NONE, |configuration| {
            configuration.overflow = overflow;
            (configuration.limits.posts, configuration.limits.completions) = (50, 60);
            configuration.replay.attempts = 3;
        });
        path.engines[1] = {
            let mut configuration = Configuration::new(Node(1));
            configuration.overflow = overflow;
            (configuration.limits.posts, configuration.limits.completions) = (3, 4);
            let mut engine = Engine::new(configuration, vec![0; 4096]);
            let buffer = Registration {
                process: 0,
                start: BUFFER_AT,
                length: 4096,
                writable: true,
                pages: &[0],
            };
            engine.register(&buffer).unwrap();
            engine
        };
        for tag in 0..40 {
            path.engines[0].post_put(0, &put(BUFFER_AT, 1, tag)).unwrap();
        }
        // Far longer than the sender would wait for a node that is silent.
        while path.now < 1_000_000_000 && path.step() {}
        let mut tags = Vec::new();
        loop {
            let more = outcomes_until(&mut path, 2_000_000_000);
            if more.is_empty() {
                break;
            }
            tags.extend(more);
        }
        let sent = outcomes(&mut path, 0);
        assert_eq!(sent.len(), 40);
        assert!(sent.iter().all(|outcome| outcome.1.is_ok()));
        match overflow {
            Overflow::Hold => assert_eq!(tags, (0..40).collect::<Vec<_>>()),
            Overflow::Drop => {
                assert_eq!(tags, [0, 1, 2, 3]);
                assert_eq!(path.engines[1].counters().completions_dropped, 36);
            }
        }
    }
}

/// Tags of the completions of node 1, polled now; then some time passes.
fn outcomes_until(path: &mut Path, until: u64) -> Vec<u32> {
    let completions: Vec<_> = path.engines[1].completions().collect();
    for _ in 0..200 {
        if path.now > until || !path.step() {
            break;
        }
    }
    let tag = |completion: &Completion| match *completion {
        Completion::RxDone { tag, .. } => tag,
        _ => panic!("{completion:?}"),
    };
    completions.iter().map(tag).collect()
}

#[test]
fn more_nodes_and_posts_than_there_may_be_are_refused() {
    let mut path = pair(Faults::NONE, |configuration| {
        (configuration.limits.nodes, configuration.limits.posts) = (2, 2);
    });
    let sender = &mut path.engines[0];
    sender.post_put(0, &put(BUFFER_AT, 1, 1)).unwrap();
    let third = Put { destination: Node(2), ..put(BUFFER_AT, 1, 2) };
    assert_eq!(sender.post_put(0, &third), Err(PostError::NoSuchNode(Node(2))));
    sender.post_put(0, &put(BUFFER_AT, 1, 3)).unwrap();
    assert_eq!(sender.post_put(0, &put(BUFFER_AT, 1, 4)), Err(PostError::Full));
    let outside = PostError::OutsideMemory { source_address: 16384, length: 1 };
    assert_eq!(sender.post_put(0, &Put { source: 16384, ..third }), Err(outside));
    let local = Get { local_address: 5, ..get(BUFFER_AT, 1, 5) };
    assert_eq!(sender.post_get(0, &local), Err(PostError::Local(Refusal::Unknown)));
    let page = Registration { process: 5, start: 0, length: 1, writable: true, pages: &[16384] };
    assert_eq!(sender.register(&page), Err(RegistrationError::OutsideMemory(16384)));
}

#[test]
fn any_bytes_are_counted_and_change_nothing() {
    let mut random = gannet_measure::random::Random::new(8);
    let mut path = pair(Faults::NONE, |_| ());
    path.engines[0].post_put(0, &put(BUFFER_AT, 100, 1)).unwrap();
    let mut packet = [0; 4096];
    let sent = path.engines[0].next_packet(0, &mut packet).unwrap();
    for trial in 0..20_000 {
        let mut bytes = packet[..sent.length].to_vec();
        for _ in 0..=random.below(3) {
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] ^= 1 << random.below(8);
        }
        bytes.truncate(random.below(bytes.len() as u64 + 40) as usize);
        if bytes != packet[..sent.length] {
            path.engines[1].packet_in(trial, &bytes);
        }
    }
    assert_eq!(path.engines[1].memory()[..], [2; 16384]);
    assert_eq!(path.engines[1].poll_completion(), None);
}

#[test]
fn an_acknowledgement_of_an_epoch_that_is_over_ends_nothing() {
    let mut path = pair(Faults::NONE, |configuration| configuration.replay.attempts = 1);
    let [sender, receiver] = &mut path.engines[..] else { panic!("two engines") };
    let mut packet = [0; 4096];
    for tag in 1..3 {
        sender.post_put(0, &put(BUFFER_AT, 4, tag)).unwrap();
        let sent = sender.next_packet(0, &mut packet).unwrap();
        receiver.packet_in(0, &packet[..sent.length]);
    }
    let mut late = [0; 4096];
    let acknowledgement = receiver.next_packet(0, &mut late).unwrap();
    let now = sender.next_deadline().unwrap();
    sender.advance(now);
    for _ in 1..3 {
        assert!(matches!(
            sender.poll_completion(),
            Some(Completion::TxDone { outcome: Err(Failure::Unreachable), .. })
        ));
    }
    for tag in 3..5 {
        sender.post_put(now, &put(BUFFER_AT, 4, tag)).unwrap();
        assert!(sender.next_packet(now, &mut packet).is_some());
    }
    sender.packet_in(now, &late[..acknowledgement.length]);
    assert_eq!(sender.poll_completion(), None);
}

#[test]
fn a_packet_read_in_an_epoch_that_is_over_is_not_sent() {
    let mut path = pair(Faults::NONE, |configuration| configuration.replay.attempts = 1);
    let [sender, receiver] = &mut path.engines[..] else { panic!("two engines") };
    sender.memory_mut()[8192..].fill(9);
    let mut packet = [0; 4096];
    sender.post_put(0, &put(BUFFER_AT, 12_000, 1)).unwrap();
    assert!(sender.next_packet(0, &mut packet).is_some());
    // The other node knows nothing of the numbers of this one, and says so.
    receiver.post_put(0, &Put { destination: Node(0), ..put(BUFFER_AT, 0, 7) }).unwrap();
    let other = receiver.next_packet(0, &mut packet).unwrap();
    sender.packet_in(0, &packet[..other.length]);
    let second = sender.next_packet(0, &mut packet).unwrap();
    let told = Packet::new_checked(&packet[..second.length]).unwrap();
    assert_eq!((told.header().sequence(), told.header().acknowledged()), (1, 1));
    // The third packet waits for the link while the first one is given up.
    assert!(sender.has_packet());
    let mut now = 0;
    while sender.counters().given_up == 0 {
        now = sender.next_deadline().unwrap();
        sender.advance(now);
    }
    sender.post_put(now, &Put { source: 8192, ..put(BUFFER_AT, 8000, 2) }).unwrap();
    for sequence in 0..2 {
        let sent = sender.next_packet(now, &mut packet).unwrap();
        let view = Packet::new_checked(&packet[..sent.length]).unwrap();
        assert_eq!((view.header().epoch(), view.header().sequence()), (2, sequence));
        assert!(view.data().iter().all(|&byte| byte == 9));
    }
    assert!(sender.next_packet(now, &mut packet).is_none());
}

#[test]
fn nobody_is_told_of_a_quiet_put() {
    let limits = |configuration: &mut Configuration| {
        (configuration.limits.posts, configuration.limits.completions) = (1, 2);
    };
    let mut path = pair(Faults::NONE, limits);
    for tag in [1, 2] {
        path.engines[0].post_put(0, &put(BUFFER_AT, 1, tag)).unwrap();
        assert_eq!(outcomes(&mut path, 0), [(tag, Ok(()))]);
    }
    // There is no room for a completion at the other node now, and none is needed.
    path.engines[0].post_quiet_put(0, &put(BUFFER_AT, 8000, 3)).unwrap();
    assert_eq!(outcomes(&mut path, 0), [(3, Ok(()))]);
    // Pages of the buffer lie the other way round.
    let memory = path.engines[1].memory_mut();
    assert!(memory[4096..].iter().take(4096).chain(&memory[..3904]).all(|&byte| byte == 1));
    assert!(memory[3904..4096].iter().all(|&byte| byte == 2));
    path.engines[0].post_quiet_put(0, &put(BUFFER_AT - 1, 1, 4)).unwrap();
    assert_eq!(outcomes(&mut path, 0), [(4, refused(Refusal::Unknown))]);
    assert_eq!(outcomes(&mut path, 1), [(1, Ok(())), (2, Ok(()))]);
}

#[test]
fn a_put_that_is_refused_in_part_is_not_told_as_arrived() {
    let mut path = pair(Faults::NONE, |_| ());
    // The first packet ends in the gap before the buffer, the last one lies in it.
    path.engines[0].post_put(0, &put(BUFFER_AT - 4000, 4048 + 2000, 1)).unwrap();
    path.engines[0].post_put(0, &put(BUFFER_AT, 1, 2)).unwrap();
    assert_eq!(outcomes(&mut path, 0), [(1, refused(Refusal::Unknown)), (2, Ok(()))]);
    assert_eq!(outcomes(&mut path, 1), [(2, Ok(()))]);
}

/// Starts a node of a pair anew.
fn restart(path: &mut Path, node: usize) {
    let again = pair(Faults::NONE, |configuration| {
        configuration.replay.attempts = 1;
        *configuration = configuration.clone().restarted();
    });
    path.engines[node] = again.engines.into_iter().nth(node).unwrap();
}

#[test]
fn an_answer_to_what_a_node_asked_before_its_restart_is_not_taken_for_another() {
    let mut path = pair(Faults::NONE, |_| ());
    // So many requests as there are from the epoch of a node to that after its restart.
    for tag in 0..64 * 256 {
        let now = path.now;
        path.engines[0].post_put(now, &put(BUFFER_AT, 4, tag)).unwrap();
        assert_eq!(outcomes(&mut path, 0), [(tag, Ok(()))]);
        assert_eq!(path.engines[1].completions().count(), 1);
    }
    let now = path.now;
    let mut packet = [0; 4096];
    let before = path.engines[0].post_get(now, &get(BUFFER_AT, 10, 1)).unwrap();
    let asked = path.engines[0].next_packet(now, &mut packet).unwrap();
    path.engines[1].packet_in(now, &packet[..asked.length]);
    let mut late = Vec::new();
    while let Some(sent) = path.engines[1].next_packet(now, &mut packet) {
        late.push(packet[..sent.length].to_vec());
    }
    restart(&mut path, 0);
    let wanted = get(BUFFER_AT + 8192, 10, 2);
    assert_eq!(path.engines[0].post_get(now, &wanted), Ok(before), "the same request");
    late.iter().for_each(|packet| path.engines[0].packet_in(now, packet));
    assert_eq!(path.engines[0].poll_completion(), None);
    assert_eq!(path.engines[0].memory()[..], [1; 16384]);
    path.engines[1].memory_mut()[8192..].fill(9);
    assert_eq!(outcomes(&mut path, 0), [(2, Ok(()))]);
    assert_eq!(path.engines[0].memory()[4096..4106], [9; 10]);
}

#[test]
fn a_node_that_has_started_anew_is_found_again() {
    for before in [3, 40] {
        let mut path = pair(Faults::NONE, |configuration| configuration.replay.attempts = 1);
        for tag in 0..before {
            let now = path.now;
            path.engines[0].post_put(now, &put(BUFFER_AT, 4, tag)).unwrap();
            assert_eq!(outcomes(&mut path, 0), [(tag, Ok(()))]);
        }
        restart(&mut path, 1);
        let told = [90, 91].map(|tag| {
            let now = path.now;
            path.engines[0].post_put(now, &put(BUFFER_AT, 4, tag)).unwrap();
            (outcomes(&mut path, 0), outcomes(&mut path, 1))
        });
        // What was sent first cannot be told from what the node had before; it fails by name.
        assert_eq!(told[0], (vec![(90, Err(Failure::Unreachable))], vec![]));
        assert_eq!(told[1], (vec![(91, Ok(()))], vec![(91, Ok(()))]));
        let now = path.now;
        path.engines[1]
            .post_put(now, &Put { destination: Node(0), ..put(BUFFER_AT, 4, 92) })
            .unwrap();
        assert_eq!(outcomes(&mut path, 1), [(92, Ok(()))]);
        assert_eq!(outcomes(&mut path, 0), [(92, Ok(()))]);
    }
}

#[test]
fn a_node_that_was_away_for_more_epochs_than_there_are_is_taken_back() {
    for epochs in [3, 127, 128, 129, 200, 256] {
        let mut path = pair(Faults::NONE, |configuration| configuration.replay.attempts = 1);
        path.engines[0].post_put(0, &put(BUFFER_AT, 4, 0)).unwrap();
        assert_eq!(outcomes(&mut path, 0), [(0, Ok(()))]);
        path.silent.push(1);
        for tag in 0..epochs {
            let now = path.now;
            path.engines[0].post_put(now, &put(BUFFER_AT, 4, tag)).unwrap();
            assert_eq!(outcomes(&mut path, 0), [(tag, Err(Failure::Unreachable))]);
        }
        path.silent.clear();
        let told = [1, 2].map(|tag| {
            let now = path.now;
            path.engines[0].post_put(now, &put(BUFFER_AT, 4, tag)).unwrap();
            outcomes(&mut path, 0)
        });
        assert_eq!(told[1], [(2, Ok(()))], "after {epochs}");
    }
}

#[test]
fn a_node_that_is_told_to_have_begun_anew_is_reached_and_heard_at_once() {
    let mut path = pair(Faults::NONE, |_| ());
    let puts = |path: &mut Path, from: usize, tags: std::ops::Range<u32>| {
        for tag in tags {
            let destination = Node(1 - from as u32);
            let put = Put { destination, ..put(BUFFER_AT, 100, tag) };
            path.engines[from].post_put(path.now, &put).unwrap();
        }
    };
    puts(&mut path, 0, 0..40);
    puts(&mut path, 1, 0..3);
    let before = [0, 1].map(|node| outcomes(&mut path, node).len());
    assert_eq!(before, [43, 43]);
    // One is under way when the other node dies.
    puts(&mut path, 0, 40..41);
    let mut again = pair(Faults::NONE, |configuration| configuration.epoch = 77);
    path.engines[1] = again.engines.remove(1);
    path.engines[0].renewed(Node(1), 77);
    let failed = path.engines[0].poll_completion();
    let is_40 =
        |it| matches!(it, Completion::TxDone { tag: 40, outcome: Err(Failure::Unreachable), .. });
    assert!(failed.is_some_and(is_40), "{failed:?}");
    puts(&mut path, 1, 50..55);
    puts(&mut path, 0, 60..65);
    for node in [0, 1] {
        let mut got = outcomes(&mut path, node);
        got.sort_unstable_by_key(|(tag, _)| *tag);
        let all: Vec<_> = (50..55).chain(60..65).map(|tag| (tag, Ok(()))).collect();
        assert_eq!(got, all, "node {node}");
        assert_eq!(path.engines[node].counters().timeouts, 0, "node {node}");
    }
}
