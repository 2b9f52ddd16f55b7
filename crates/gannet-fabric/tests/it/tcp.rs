//! Meeting over TCP.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use gannet_fabric::exchange::{ADDRESS_MAX, Carrier, hear_address, tell_address};
use gannet_fabric::tcp::{Connection, Listener, connect};
use gannet_fabric::{Failure, JoinError, Trust};
use gannet_measure::random::Random;
use gannet_wire::exchange::{Message, Window};
use gannet_wire::record::Record;

use crate::meeting::strange;

const BACKEND: u32 = 99;
const DEADLINE: Duration = Duration::from_millis(300);

fn secret(secret: &[u8]) -> Trust {
    Trust::Secret(secret.to_vec())
}

/// Both ends of a meeting.
fn meet(
    here: Trust,
    there: Trust,
) -> (Result<Connection, JoinError>, Result<Connection, JoinError>) {
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let address = listener.address().unwrap();
    let far = thread::spawn(move || listener.accept(&there, BACKEND, DEADLINE));
    let near = connect(address, &here, BACKEND, DEADLINE);
    (near, far.join().unwrap())
}

#[test]
fn only_a_secret_that_both_know_is_trusted() {
    let secrets: [&[u8]; 3] =
        [b"gannets and terns", b"gannets and herns", b"gannets and terns\0\0"];
    for here in secrets {
        for there in secrets {
            let (near, far) = meet(secret(here), secret(there));
            let is_same = here == there;
            assert_eq!((near.is_ok(), far.is_ok()), (is_same, is_same), "{here:?} {there:?}");
        }
    }
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let refused = listener.accept(&Trust::SameUser, BACKEND, DEADLINE);
    assert!(matches!(refused, Err(JoinError::NoSecret)));
    let refused =
        connect(listener.address().unwrap(), &secret(b"fifteen letters"), BACKEND, DEADLINE);
    assert!(matches!(refused, Err(JoinError::ShortSecret(15))));
}

#[test]
fn messages_come_whole_and_in_order_without_waiting() {
    let (near, far) = meet(secret(b"gannets and terns"), secret(b"gannets and terns"));
    let (mut near, mut far) = (near.unwrap(), far.unwrap());
    let address: Vec<u8> = (0..=255).collect();
    for bytes in [1, 47, 48, 49, 96, ADDRESS_MAX] {
        tell_address(&mut near, &address[..bytes]).unwrap();
        assert_eq!(hear_address(&mut far).unwrap(), address[..bytes]);
    }
    near.stop_waiting().unwrap();
    far.stop_waiting().unwrap();
    assert_eq!(far.hear(), Ok(None));
    // More than the socket takes at once.
    let message = |number| Message::Window(Window { key: number, ..Window::default() });
    (0..100_000).for_each(|number| near.tell(&message(number), usize::MAX).unwrap());
    let (mut expected, begin) = (0, Instant::now());
    while expected < 100_000 {
        near.empty_outbox().unwrap();
        while let Some(heard) = far.hear().unwrap() {
            assert_eq!(heard, message(expected));
            expected += 1;
        }
        assert!(begin.elapsed() < Duration::from_secs(20), "{expected}");
    }
    drop(near);
    assert_eq!(far.hear(), Err(Failure::Ended));
}

#[test]
fn an_address_in_disorder_is_refused() {
    let piece = [7; 48];
    for (bytes, place) in [(0, 0), (257, 0), (100, 48), (u32::MAX, 0), (10, u32::MAX)] {
        let (near, far) = meet(secret(b"gannets and terns"), secret(b"gannets and terns"));
        let (mut near, mut far) = (near.unwrap(), far.unwrap());
        near.send(&Message::Address { bytes, place, piece }).unwrap();
        let refused = hear_address(&mut far);
        assert!(matches!(refused, Err(JoinError::Turn(_))), "{bytes} {place}");
    }
}

/// A listener, as which somebody waits for one that knows the secret.
fn awaited() -> (SocketAddr, thread::JoinHandle<Result<Connection, JoinError>>) {
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let address = listener.address().unwrap();
    (
        address,
        thread::spawn(move || listener.accept(&secret(b"gannets and terns"), BACKEND, DEADLINE)),
    )
}

#[test]
fn who_says_a_byte_now_and_then_is_not_waited_for() {
    let (address, far) = awaited();
    let begin = Instant::now();
    let mut stranger = TcpStream::connect(address).unwrap();
    let hello = Message::Hello { nonce: [0; 32], backend: BACKEND, deadline_ms: 1 }.to_bytes();
    for byte in hello.chunks(1) {
        if far.is_finished() || stranger.write_all(byte).is_err() {
            break;
        }
        thread::sleep(DEADLINE / 10);
    }
    assert!(far.is_finished(), "still waited for after {:?}", begin.elapsed());
    assert!(matches!(far.join().unwrap(), Err(JoinError::System(_))));
}

#[test]
fn a_stranger_is_told_nothing_but_hello_and_proof() {
    let mut random = Random::new(5);
    for _ in 0..1000 {
        let (address, far) = awaited();
        let mut stranger = TcpStream::connect(address).unwrap();
        let mut heard = Vec::new();
        stranger.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        for _ in 0..4 {
            let _ = stranger.write_all(&strange(&mut random, BACKEND, &heard));
            let mut bytes = [0; 64];
            if stranger.read_exact(&mut bytes).is_ok() {
                heard.push(Message::parse(&bytes).unwrap());
            }
        }
        let _ = stranger.shutdown(std::net::Shutdown::Write);
        assert!(far.join().unwrap().is_err());
        let mut rest = Vec::new();
        stranger.set_read_timeout(Some(DEADLINE)).unwrap();
        let _ = stranger.read_to_end(&mut rest);
        heard.extend(rest.chunks_exact(64).map(|bytes| Message::parse(bytes).unwrap()));
        let proves =
            |message: &Message| matches!(message, Message::Hello { .. } | Message::Proof { .. });
        assert!(heard.iter().all(proves), "{heard:?}");
    }
}
