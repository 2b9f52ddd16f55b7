//! The suite over UDP, and what is its own.

use std::net::SocketAddr;
use std::thread;

use gannet_fabric::tcp::Listener;
use gannet_fabric::udp::Udp;
use gannet_fabric::{Limits, Peer, Trust};

use crate::conformance::{Pair, SUITE};
use crate::shm::limits;

pub fn loopback() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

pub fn secret() -> Trust {
    Trust::Secret(b"gannet".to_vec())
}

/// Two endpoints of this process.
pub fn joined(near: Limits, far: Limits) -> ((Udp, Peer), (Udp, Peer)) {
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let address = listener.address().unwrap();
    let far = thread::spawn(move || {
        let mut far = Udp::bind(&loopback(), far).unwrap();
        let peer = far.accept(&listener, &secret()).unwrap();
        (far, peer)
    });
    let mut endpoint = Udp::bind(&loopback(), near).unwrap();
    let peer = endpoint.connect(address, &secret()).unwrap();
    ((endpoint, peer), far.join().unwrap())
}

#[test]
fn conforms() {
    for (name, test) in SUITE {
        println!("{name}");
        let ((near, far_peer), (far, near_peer)) = joined(limits(), limits());
        test(Pair::new((Box::new(near), far_peer), (Box::new(far), near_peer)));
    }
}
