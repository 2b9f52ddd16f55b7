//! What cannot be done is told, and does not hinder what can.

use gannet_memory::{Refusal, Registration};
use gannet_torus::Node;
use gannet_torus::rdma::{
    Completion, Configuration, Engine, Failure, Get, Overflow, PostError, Put, Reason,
    RegistrationError,
};

use crate::path::{Faults, Memory, Path};

const BUFFER_AT: u64 = 0x40000;

/// Two engines, each with a buffer of two pages that may be written and one that may not.
fn pair(faults: Faults, configure: impl Fn(&mut Configuration)) -> Path {
    let engines = (0..2).map(|node| {
        let mut configuration = Configuration::new(Node(node));
        configure(&mut configuration);
        let mut engine = Engine::new(configuration, vec![node as u8 + 1; 16384]);
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

fn put(address: u64, length: u32, tag: u32) -> Put {
    Put { source: 0, destination: Node(1), process: 0, address, length, tag }
}

fn get(address: u64, length: u32, tag: u32) -> Get {
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
fn outcomes(path: &mut Path, node: usize) -> Vec<(u32, Result<(), Failure>)> {
    while path.step() {}
    let engine = &mut path.engines[node];
    let completions = std::iter::from_fn(|| engine.poll_completion());
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
    // A packet of the epoch that is over comes late, and is known by it.
    assert_eq!(outcomes(&mut path, 0), [(2, Ok(()))]);
    let now = path.now;
    path.engines[1].packet_in(now, &packet[..first.length]);
    assert_eq!(path.engines[1].counters().stale, 1);
    assert_eq!(outcomes(&mut path, 1), [(1, Ok(())), (2, Ok(()))]);
}

#[test]
fn a_get_whose_answer_stays_away_ends() {
    let mut path = pair(Faults::NONE, |configuration| configuration.replay.attempts = 3);
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
    let engine = &mut path.engines[1];
    let completions: Vec<_> = std::iter::from_fn(|| engine.poll_completion()).collect();
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
fn more_peers_and_posts_than_allowed_are_refused() {
    let mut path = pair(Faults::NONE, |configuration| {
        (configuration.limits.peers, configuration.limits.posts) = (1, 2);
    });
    let sender = &mut path.engines[0];
    sender.post_put(0, &put(BUFFER_AT, 1, 1)).unwrap();
    let third = Put { destination: Node(2), ..put(BUFFER_AT, 1, 2) };
    assert_eq!(sender.post_put(0, &third), Err(PostError::TooManyPeers(Node(2))));
    let far = Put { destination: Node(1 << 20), ..third };
    assert_eq!(sender.post_put(0, &far), Err(PostError::NoSuchNode(Node(1 << 20))));
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
