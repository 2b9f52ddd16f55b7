//! Clients that are many, slow or gone, over real sockets.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use gannet_control::figures::Figures;
use gannet_control::snapshot::Snapshot;
use gannet_web::limits::{ANSWER_TIME, CONNECTIONS_MAX, NEWCOMERS_SHARE, REQUEST_TIME};
use gannet_web::{Access, Content, Listener, Server};

/// Connections that clients of one address can have.
const FROM_ONE_ADDRESS: usize = CONNECTIONS_MAX - CONNECTIONS_MAX / NEWCOMERS_SHARE;
const REQUEST: &[u8] = b"GET /snapshot.json HTTP/1.1\r\nHost: localhost\r\n\r\n";

fn figures(source: impl Fn() -> Snapshot + Send + Sync + 'static) -> Arc<Figures> {
    Arc::new(Figures::new(Arc::new(source)))
}

/// Serves snapshots that are `bytes` long and more.
fn serve(bytes: usize) -> Server {
    let failure = Some("x".repeat(bytes));
    let snapshot = Snapshot { failure, ..Snapshot::default() };
    let listener = Listener::open("127.0.0.1:0".parse().unwrap(), Access::Loopback).unwrap();
    listener.serve(figures(move || snapshot.clone()), Content::Metrics).unwrap()
}

fn connect(server: &Server) -> TcpStream {
    let client = TcpStream::connect(server.address()).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    client
}

/// Everything that comes until the connection ends, in whatever way.
fn rest(client: &mut TcpStream) -> String {
    let mut text = Vec::new();
    match client.read_to_end(&mut text) {
        Err(error) if error.kind() == ErrorKind::WouldBlock => panic!("it stays open"),
        _ => String::from_utf8_lossy(&text).into_owned(),
    }
}

/// The first line of the answer to a good request on a connection of its own.
fn first_line(server: &Server) -> String {
    let mut client = connect(server);
    let mut text = [0; 12];
    let answered = client.write_all(REQUEST).and_then(|()| client.read_exact(&mut text));
    answered.map_or_else(|error| error.to_string(), |()| String::from_utf8_lossy(&text).into())
}

/// Waits until a good request is answered well.
fn wait_until_served(server: &Server) {
    let begin = Instant::now();
    while first_line(server) != "HTTP/1.1 200" {
        assert!(begin.elapsed() < Duration::from_secs(60), "{}", first_line(server));
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn one_connection_too_many_is_refused_and_a_free_place_is_given_again() {
    let server = serve(0);
    let mut clients: Vec<_> = (0..FROM_ONE_ADDRESS).map(|_| connect(&server)).collect();
    for client in &mut clients {
        client.write_all(REQUEST).unwrap();
        client.read_exact(&mut [0; 12]).unwrap();
    }
    assert!(rest(&mut connect(&server)).starts_with("HTTP/1.1 503 "));
    assert_ne!(first_line(&server), "HTTP/1.1 200");
    drop(clients);
    wait_until_served(&server);
}

#[test]
fn who_does_not_send_a_request_in_time_is_disconnected() {
    let server = serve(0);
    let begin = Instant::now();
    let mut clients: Vec<_> = (0..10).map(|_| connect(&server)).collect();
    // Some say nothing, some never come to an end, some have had an answer.
    let drip = thread::spawn({
        let mut dripping = clients.pop().unwrap();
        move || {
            let _closed = dripping.write_all(b"GET / HTTP/1.1\r\n");
            while dripping.write_all(b"A: b\r\n").is_ok() {
                assert!(begin.elapsed() < Duration::from_secs(60), "it stays open");
                thread::sleep(Duration::from_millis(200));
            }
        }
    });
    clients[0].write_all(b"GET /sn").unwrap();
    clients[1].write_all(REQUEST).unwrap();
    clients.iter_mut().for_each(|client| drop(rest(client)));
    drip.join().unwrap();
    assert!(begin.elapsed() >= REQUEST_TIME, "{:?}", begin.elapsed());
}

#[test]
fn who_does_not_read_is_disconnected_and_nobody_waits_for_it() {
    let server = serve(8 << 20);
    let mut idle: Vec<_> = (0..FROM_ONE_ADDRESS - 1).map(|_| connect(&server)).collect();
    idle.iter_mut().for_each(|client| client.write_all(&REQUEST.repeat(40)).unwrap());
    // One is slow and reads: it gets all of its answer.
    let mut slow = connect(&server);
    slow.write_all(b"GET /snapshot.json HTTP/1.0\r\n\r\n").unwrap();
    let begin = Instant::now();
    let (mut read, mut buffer) = (0, vec![0; 256 << 10]);
    loop {
        match slow.read(&mut buffer).unwrap() {
            0 => break,
            count => read += count,
        }
        thread::sleep(Duration::from_millis(if begin.elapsed() < 2 * ANSWER_TIME {
            200
        } else {
            0
        }));
    }
    // It may have been refused: too many answers were held by those who do not read.
    assert!(!(1000..=8 << 20).contains(&read), "{read}");
    wait_until_served(&server);
    for client in &mut idle {
        assert!(rest(client).len() < 40 * (8 << 20), "it got everything without reading");
    }
}

#[test]
fn stopping_waits_for_no_client() {
    let server = serve(4 << 20);
    let mut clients: Vec<_> = (0..FROM_ONE_ADDRESS).map(|_| connect(&server)).collect();
    clients.iter_mut().for_each(|client| client.write_all(&REQUEST.repeat(10)).unwrap());
    clients[0].read_exact(&mut [0; 12]).unwrap();
    let address = server.address();
    assert!(server.stop(), "the server still waits");
    let error = TcpStream::connect(address).map(drop).map_err(|error: io::Error| error.kind());
    assert_eq!(error, Err(ErrorKind::ConnectionRefused));
}

#[test]
fn a_snapshot_that_hangs_does_not_hang_the_stop() {
    let (asked, release) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
    let (now, go_on) = (Arc::clone(&asked), Arc::clone(&release));
    let listener = Listener::open("127.0.0.1:0".parse().unwrap(), Access::Loopback).unwrap();
    let figures = figures(move || {
        now.store(true, Ordering::Release);
        while !go_on.load(Ordering::Acquire) {
            thread::sleep(Duration::from_millis(1));
        }
        Snapshot::default()
    });
    let server = listener.serve(figures, Content::Metrics).unwrap();
    connect(&server).write_all(REQUEST).unwrap();
    while !asked.load(Ordering::Acquire) {
        thread::sleep(Duration::from_millis(1));
    }
    assert!(!server.stop());
    release.store(true, Ordering::Release);
}

#[test]
fn an_address_in_use_is_an_error_that_names_it() {
    let server = serve(0);
    let error = Listener::open(server.address(), Access::Loopback).map(drop).unwrap_err();
    assert!(error.to_string().contains(&server.address().to_string()), "{error}");
}
