//! How much an engine may keep, and for how many nodes.

use gannet_lattice::Node;
use gannet_rdma::{Configuration, ConfigurationError, Engine, Put, WINDOW_MAX};
use gannet_wire::rdma::{HEADER_LEN, Operation, Repr};

use crate::path::Faults;
use crate::refusals::{BUFFER_AT, engines, outcomes, pair, put};

#[test]
fn a_parameter_out_of_its_range_is_named() {
    type Change = fn(&mut Configuration);
    let wrong: [(&str, Change); 15] = [
        ("nodes", |c| c.limits.nodes = 0),
        ("nodes", |c| c.limits.nodes = (1 << 20) + 1),
        ("posts", |c| c.limits.posts = usize::MAX),
        ("replies", |c| c.limits.replies = 1 << 15),
        ("completions", |c| c.limits.completions = c.limits.posts),
        ("completions", |c| c.limits.completions = usize::MAX),
        ("receive_queue", |c| c.limits.receive_queue = 0),
        ("transmit_queue", |c| c.limits.transmit_queue = usize::MAX),
        ("data_bytes", |c| c.limits.data_bytes = 4 * 4096 + 1),
        ("window", |c| c.limits.window = 129),
        ("buffers", |c| c.limits.buffers = usize::MAX),
        ("pages", |c| c.limits.pages = usize::MAX),
        ("entries of the TLB", |c| c.translation.entries = 1 << 20),
        ("read_engines", |c| c.timing.read_engines = 0),
        ("write_engines", |c| c.timing.write_engines = 5),
    ];
    for (name, change) in wrong {
        let mut configuration = Configuration::new(Node(0));
        assert_eq!(configuration.check(), Ok(()));
        change(&mut configuration);
        match configuration.check() {
            Err(ConfigurationError::Range { parameter, .. }) => assert_eq!(parameter, name),
            other => panic!("{name}: {other:?}"),
        }
    }
    let mut configuration = Configuration::new(Node(64));
    assert_eq!(configuration.check(), Err(ConfigurationError::NoSuchNode(Node(64), 64)));
    configuration.limits.nodes = 65;
    assert_eq!(configuration.check(), Ok(()));
    configuration.timing.write_bytes_per_s = 0;
    assert_eq!(configuration.check(), Err(ConfigurationError::Rate));
}

#[test]
fn a_node_that_starts_anew_begins_in_an_epoch_64_further_on() {
    for (before, after) in [(0, 65), (1, 65), (190, 254), (191, 255), (192, 1), (255, 64)] {
        let configuration = Configuration { epoch: before, ..Configuration::new(Node(0)) };
        assert_eq!(configuration.restarted().epoch, after);
    }
}

#[test]
fn every_node_of_a_large_machine_is_heard() {
    let mut path = engines(512, Faults::NONE, |configuration| configuration.limits.nodes = 512);
    for (tag, engine) in path.engines.iter_mut().enumerate() {
        let to_first = Put { destination: Node(0), ..put(BUFFER_AT, 4, tag as u32) };
        engine.post_put(0, &to_first).unwrap();
    }
    let told = outcomes(&mut path, 0);
    // The first node hears its own PUT twice: as sender and as receiver.
    assert_eq!(told.len(), 513);
    assert!(told.iter().all(|outcome| outcome.1.is_ok()));
    let last = outcomes(&mut path, 511);
    assert_eq!(last, [(511, Ok(()))]);
}

#[test]
fn what_is_no_node_takes_no_room() {
    let mut path = pair(Faults::NONE, |configuration| configuration.limits.nodes = 2);
    let mut packet = [0; HEADER_LEN];
    for source in 2..2000 {
        let stranger = Repr { source, destination: 1, epoch: 1, ..Repr::default() };
        Repr { operation: Operation::Put, ..stranger }.seal(&mut packet);
        path.engines[1].packet_in(0, &packet);
    }
    assert_eq!(path.engines[1].counters().strangers, 1998);
    assert!(!path.engines[1].has_packet());
    path.engines[0].post_put(0, &put(BUFFER_AT, 4, 1)).unwrap();
    assert_eq!(outcomes(&mut path, 0), [(1, Ok(()))]);
}

#[test]
fn no_more_packets_are_under_way_than_the_window_has() {
    for window in [1, 32, 33, WINDOW_MAX] {
        let mut configuration = Configuration::new(Node(0));
        configuration.limits.window = window;
        configuration.limits.data_bytes = 16;
        let mut engine = Engine::new(configuration, vec![0; 1 << 16]);
        let put = Put {
            source: 0,
            destination: Node(1),
            process: 0,
            address: 0,
            length: 1 << 16,
            tag: 0,
        };
        engine.post_put(0, &put).unwrap();
        let mut packet = [0; 4096];
        let sent = std::iter::from_fn(|| engine.next_packet(0, &mut packet)).count();
        assert_eq!(sent, window as usize);
    }
}
