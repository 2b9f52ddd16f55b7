//! How much an engine may keep, and for how many nodes.

use gannet_lattice::Node;
use gannet_rdma::{Configuration, ConfigurationError, Put};
use gannet_wire::rdma::{HEADER_LEN, Operation, Repr};

use crate::path::Faults;
use crate::refusals::{BUFFER_AT, engines, outcomes, pair, put};

#[test]
fn a_parameter_out_of_its_range_is_named() {
    type Change = fn(&mut Configuration);
    let wrong: [(&str, Change); 14] = [
        ("nodes", |c| c.limits.nodes = 0),
        ("nodes", |c| c.limits.nodes = (1 << 20) + 1),
        ("posts", |c| c.limits.posts = usize::MAX),
        ("replies", |c| c.limits.replies = 1 << 15),
        ("completions", |c| c.limits.completions = c.limits.posts),
        ("completions", |c| c.limits.completions = usize::MAX),
        ("receive_queue", |c| c.limits.receive_queue = 0),
        ("transmit_queue", |c| c.limits.transmit_queue = usize::MAX),
        ("data_bytes", |c| c.limits.data_bytes = 4097),
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
