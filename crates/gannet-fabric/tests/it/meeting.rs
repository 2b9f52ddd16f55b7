//! Who may join, and what a stranger gets to see.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::TcpStream;
use std::os::fd::{AsFd, OwnedFd};
use std::thread;
use std::time::Duration;

use gannet_fabric::exchange::{JoinError, Side};
use gannet_fabric::local::Listener;
use gannet_fabric::meet::{OverShm, OverUdp, Reception};
use gannet_fabric::shm::{Limits, Shm};
use gannet_fabric::{Endpoint, Local, Meet, Opening, Trust};
use gannet_measure::random::Random;
use gannet_memory::{Access, SharedRegion};
use gannet_wire::exchange::Message;
use gannet_wire::record::Record;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags,
    SocketType, connect, recv, recvmsg, send, socket_with, socketpair,
};

use crate::conformance::REGION;
use crate::shm::limits;

fn pair() -> (OwnedFd, OwnedFd) {
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap()
}

/// An endpoint with an open window.
fn with_a_window() -> Shm {
    let mut endpoint = Shm::new(limits());
    endpoint.add_region(SharedRegion::new(4096).unwrap()).unwrap();
    let start = Local { region: REGION, offset: 0 };
    let opening = Opening { start, bytes: 4096, access: Access::Write, label: 1 };
    endpoint.open_window(&opening).unwrap();
    endpoint
}

#[test]
fn secrets_that_differ_keep_endpoints_apart() {
    let secrets: [&[u8]; 4] =
        [b"", b"gannets and terns", b"gannets and herns", b"gannets and terns\0\0"];
    let trust = |secret: &[u8]| match secret {
        b"" => Trust::SameUser,
        secret => Trust::Secret(secret.to_vec()),
    };
    for here in secrets {
        for there in secrets {
            let (near, far) = pair();
            let far = thread::spawn(move || {
                with_a_window().join(far, Side::Accepting, &trust(there)).map(|_| ())
            });
            let joined = Shm::new(limits()).join(near, Side::Connecting, &trust(here)).map(|_| ());
            let far = far.join().unwrap();
            let is_same = here == there;
            assert_eq!((joined.is_ok(), far.is_ok()), (is_same, is_same), "{here:?} {there:?}");
        }
    }
}

#[test]
fn a_secret_that_can_be_guessed_is_none() {
    for bytes in [0, 15] {
        let (near, _far) = pair();
        let short = Trust::Secret(vec![b'x'; bytes]);
        let joined = Shm::new(limits()).join(near, Side::Connecting, &short);
        assert!(matches!(joined, Err(JoinError::ShortSecret(it)) if it == bytes), "{joined:?}");
    }
}

/// What a stranger tries: messages drawn at random, or true ones with a wrong code.
pub fn strange(random: &mut Random, backend: u32, heard: &[Message]) -> Vec<u8> {
    match random.below(5) {
        0 => (0..random.below(100)).map(|_| random.below(256) as u8).collect(),
        1 => Message::Proof { code: std::array::from_fn(|_| random.below(256) as u8) }
            .to_bytes()
            .to_vec(),
        // Its own words, sent back to it.
        2 => heard.last().map_or_else(Vec::new, |message| message.to_bytes().to_vec()),
        3 => Message::Events { entries: random.below(1 << 32) as u32 }.to_bytes().to_vec(),
        _ => {
            let nonce = std::array::from_fn(|_| random.below(256) as u8);
            Message::Hello { nonce, backend, deadline_ms: 1 }.to_bytes().to_vec()
        }
    }
}

#[test]
fn a_stranger_is_told_no_window() {
    let mut random = Random::new(14);
    for side in [Side::Accepting, Side::Connecting] {
        for _ in 0..500 {
            let (near, far) = pair();
            let far = thread::spawn(move || {
                with_a_window()
                    .join(far, side, &Trust::Secret(b"gannets and terns".to_vec()))
                    .map(|_| ())
            });
            let mut heard = Vec::new();
            for _ in 0..4 {
                let _ = send(&near, &strange(&mut random, 1, &heard), SendFlags::NOSIGNAL);
                let mut bytes = [0; 64];
                let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
                let mut ancillary = RecvAncillaryBuffer::new(&mut space);
                let mut into = [IoSliceMut::new(&mut bytes)];
                let got = recvmsg(&near, &mut into, &mut ancillary, RecvFlags::DONTWAIT);
                if got.is_ok_and(|got| got.bytes == 64) {
                    heard.push(Message::parse(&bytes).unwrap());
                }
                assert_eq!(ancillary.drain().count(), 0, "a stranger was given memory");
            }
            drop(near);
            assert!(far.join().unwrap().is_err());
            let proves = |message: &Message| {
                matches!(message, Message::Hello { .. } | Message::Proof { .. })
            };
            assert!(heard.iter().all(proves), "{heard:?}");
        }
    }
}

#[test]
fn who_says_nothing_is_not_waited_for() {
    let (_near, far) = pair();
    let error = with_a_window().join(far, Side::Accepting, &Trust::SameUser).unwrap_err();
    assert!(matches!(&error, JoinError::System(_)), "{error}");
}

#[test]
fn a_ring_of_no_size_is_refused() {
    // It knows the secret, and still has to keep to the rules.
    for entries in [0, 1, 3, 1 << 21, u32::MAX] {
        let (near, far) = pair();
        let far = thread::spawn(move || {
            with_a_window().join(far, Side::Accepting, &Trust::SameUser).map(|_| ())
        });
        let mut line = Plain(near);
        gannet_fabric::exchange::meet(
            &mut line,
            Side::Connecting,
            b"",
            1,
            std::time::Duration::from_secs(1),
        )
        .unwrap();
        let file = SharedRegion::new(4096).unwrap().descriptor(Access::Write).unwrap();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = rustix::net::SendAncillaryBuffer::new(&mut space);
        let files = [std::os::fd::AsFd::as_fd(&file)];
        ancillary.push(rustix::net::SendAncillaryMessage::ScmRights(&files));
        let bytes = Message::Events { entries }.to_bytes();
        let bytes = [IoSlice::new(&bytes)];
        rustix::net::sendmsg(&line.0, &bytes, &mut ancillary, SendFlags::NOSIGNAL).unwrap();
        assert!(far.join().unwrap().is_err(), "{entries}");
    }
}

/// A socket as it is.
struct Plain(OwnedFd);

impl gannet_fabric::exchange::Carrier for Plain {
    fn send(&mut self, message: &Message) -> Result<(), JoinError> {
        send(&self.0, &message.to_bytes(), SendFlags::NOSIGNAL).map_err(std::io::Error::from)?;
        Ok(())
    }

    fn receive(&mut self) -> Result<Message, JoinError> {
        let mut bytes = [0; 64];
        rustix::net::recv(&self.0, &mut bytes, RecvFlags::empty()).map_err(std::io::Error::from)?;
        Ok(Message::parse(&bytes)?)
    }
}

#[test]
fn a_listener_leaves_no_name_behind() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("fabric.sock");
    let listener = Listener::bind(&path).unwrap();
    let taken = Listener::bind(&path).unwrap_err();
    assert_eq!(taken.kind(), std::io::ErrorKind::AddrInUse);
    let far = {
        let path = path.clone();
        thread::spawn(move || {
            Shm::new(Limits::default()).connect(&path, &Trust::SameUser).map(|_| ())
        })
    };
    Shm::new(Limits::default()).accept(&listener, &Trust::SameUser).unwrap();
    far.join().unwrap().unwrap();
    drop(listener);
    assert!(!path.exists());
}

/// Whether a stranger that says nothing is still listened to, and has heard a hello and no more.
fn is_waited_for(stranger: impl AsFd) -> bool {
    let mut heard = [0; 256];
    let mut hear = || recv(&stranger, &mut heard[..], RecvFlags::DONTWAIT).map(|(len, _)| len);
    // On a busy machine the hello comes later than the one that joins.
    let first = loop {
        match hear() {
            Err(Errno::AGAIN) => thread::yield_now(),
            first => break first,
        }
    };
    first.is_ok_and(|len| len > 0) && hear() == Err(Errno::AGAIN)
}

/// One joins at a place where strangers came before it, who say nothing and are not given up yet.
fn joins_beside_strangers<M: Meet, S: AsFd>(meet: M, call: impl Fn(&str) -> (M, S)) {
    // Far more than a join takes, so that one that waits for the strangers finds them given up.
    let patient = Limits { deadline: Duration::from_secs(20), ..Limits::default() };
    let trust = Trust::Secret(b"gannets and terns".to_vec());
    let listener = meet.listen().unwrap();
    let place = meet.place(&listener);
    let strangers: Vec<_> = (0..4).map(|_| call(&place)).collect();
    let (there, limits, secret) = (strangers[0].0.clone(), patient.clone(), trust.clone());
    let far = thread::spawn(move || there.connect(&limits, &secret).map(drop));
    let mut reception = Reception::new(meet, patient.clone(), trust);
    let joined = reception.next(&listener, 2 * patient.deadline);
    assert!(joined.is_some() && far.join().unwrap().is_ok());
    for (_, stranger) in &strangers {
        assert!(is_waited_for(stranger), "a stranger was given up first");
    }
}

/// A socket that is connected to a place.
fn silent_socket(place: &str) -> OwnedFd {
    let kind = SocketType::SEQPACKET;
    let socket = socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap();
    connect(&socket, &SocketAddrUnix::new(place).unwrap()).unwrap();
    socket
}

#[test]
fn strangers_that_say_nothing_hold_up_nobody() {
    joins_beside_strangers(OverUdp("127.0.0.1:0".into()), |place| {
        (OverUdp(place.into()), TcpStream::connect(place).unwrap())
    });
    let directory = tempfile::tempdir().unwrap();
    joins_beside_strangers(OverShm(directory.path().join("place")), |place| {
        (OverShm(place.into()), silent_socket(place))
    });
}

/// One joins at a place where strangers who say nothing have taken all there is, before any of them is given up.
fn joins_in_the_place_of_a_stranger<M: Meet, S: AsFd>(meet: M, call: impl Fn(&str) -> (M, S)) {
    let patient = Limits { deadline: Duration::from_secs(20), ..Limits::default() };
    let trust = Trust::Secret(b"gannets and terns".to_vec());
    let listener = meet.listen().unwrap();
    let place = meet.place(&listener);
    let mut reception = Reception::new(meet, patient.clone(), trust.clone());
    let strangers: Vec<_> = (0..16)
        .map(|_| {
            let stranger = call(&place);
            assert!(reception.next(&listener, Duration::from_millis(10)).is_none());
            stranger
        })
        .collect();
    let there = strangers[0].0.clone();
    let limits = patient.clone();
    let far = thread::spawn(move || there.connect(&limits, &trust).map(drop));
    let joined = reception.next(&listener, patient.deadline);
    assert!(joined.is_some() && far.join().unwrap().is_ok());
    assert!(!is_waited_for(&strangers[0].1), "who has said nothing for longest had to go");
    for (_, stranger) in &strangers[1..] {
        assert!(is_waited_for(stranger), "more than one had to go");
    }
}

#[test]
fn who_has_said_nothing_for_longest_goes_first() {
    joins_in_the_place_of_a_stranger(OverUdp("127.0.0.1:0".into()), |place| {
        (OverUdp(place.into()), TcpStream::connect(place).unwrap())
    });
    let directory = tempfile::tempdir().unwrap();
    joins_in_the_place_of_a_stranger(OverShm(directory.path().join("place")), |place| {
        (OverShm(place.into()), silent_socket(place))
    });
}
