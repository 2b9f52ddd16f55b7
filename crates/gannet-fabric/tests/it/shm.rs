//! The suite over shared memory, and what is its own.

use std::thread;
use std::time::Duration;

use gannet_fabric::endpoint::Endpoint;
use gannet_fabric::exchange::Side;
use gannet_fabric::shm::{Limits, Shm};
use gannet_fabric::{Completion, Peer, Trust};
use gannet_memory::SharedRegion;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use crate::conformance::{Clock, Pair, REGION, SUITE};

pub fn limits() -> Limits {
    Limits { events: 64, deadline: Duration::from_millis(500), ..Limits::default() }
}

/// For endpoints whose joining takes its time on a loaded machine.
pub fn patient() -> Limits {
    Limits { deadline: Duration::from_secs(4), ..limits() }
}

/// Two endpoints of this process, of which each takes the other's memory for that of a stranger.
pub fn joined(near: Limits, far: Limits) -> ((Shm, Peer), (Shm, Peer)) {
    let (here, there) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    let far = thread::spawn(move || {
        let mut far = Shm::new(far);
        let peer = far.join(there, Side::Accepting, &Trust::SameUser).unwrap();
        (far, peer)
    });
    let mut endpoint = Shm::new(near);
    let peer = endpoint.join(here, Side::Connecting, &Trust::SameUser).unwrap();
    ((endpoint, peer), far.join().unwrap())
}

#[test]
fn conforms() {
    for (name, test) in SUITE {
        println!("{name}");
        let ((near, far_peer), (far, near_peer)) = joined(limits(), limits());
        test(Pair::new((Box::new(near), far_peer), (Box::new(far), near_peer), Clock::real()));
    }
}

#[test]
fn windows_that_were_open_before_are_told_to_who_joins() {
    use gannet_fabric::{Local, Opening};
    use gannet_memory::Access;

    let mut far = Shm::new(limits());
    assert_eq!(far.add_region(SharedRegion::new(4096).unwrap()).unwrap(), REGION);
    let start = Local { region: REGION, offset: 0 };
    let opening = Opening { start, bytes: 10, access: Access::Read, label: 3 };
    far.open_window(&opening).unwrap();
    let (here, there) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    let far = thread::spawn(move || {
        far.join(there, Side::Accepting, &Trust::Secret(b"gannets and terns".to_vec())).unwrap();
        far
    });
    let mut near = Shm::new(limits());
    near.join(here, Side::Connecting, &Trust::Secret(b"gannets and terns".to_vec())).unwrap();
    let _far = far.join().unwrap();
    near.progress(1);
    let mut told = Vec::with_capacity(4);
    near.poll(&mut told);
    assert!(
        matches!(told[..], [Completion::WindowOpened { window, .. }] if window.label == 3),
        "{told:?}"
    );
}

#[test]
fn there_are_only_so_many_regions() {
    let mut endpoint = Shm::new(Limits { regions: 1, ..limits() });
    endpoint.add_region(SharedRegion::new(1).unwrap()).unwrap();
    let region = endpoint.add_region(SharedRegion::new(9000).unwrap());
    assert_eq!(region.unwrap_err().len(), 12_288, "it is given back");
}
