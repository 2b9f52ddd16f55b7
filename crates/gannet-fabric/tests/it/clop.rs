//! Frames put into the ring of a source, over each backend, within one process.

use std::fs::{self, Permissions};
use std::io::Write;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use gannet_fabric::clop::{self, Backend, FabricConfig, Policy};
use gannet_ingest::{Datagram, Landing, Sink, Source};
use gannet_measure::clock::{Clock, SystemClock};
use gannet_measure::ledger::Statement;
use gannet_measure::quantity::{Bytes, Span};
use tempfile::TempDir;

/// Time after which a test gives up.
const PATIENCE: Duration = Duration::from_secs(20);
const BACKENDS: [Backend; 2] = [Backend::Shm, Backend::Udp];

/// Those that are here, by name, for what differs by backend.
fn backends(test: &str) -> Vec<Backend> {
    let ofi = crate::ofi::library(&format!("{test}, over libfabric"));
    BACKENDS.into_iter().chain(ofi.map(|_| Backend::Ofi)).collect()
}
/// Bytes that a frame may have.
pub const LENGTHS: std::ops::RangeInclusive<usize> = 100..=1000;

fn write_secret(path: &Path, secret: &str) {
    fs::write(path, secret).unwrap();
    fs::set_permissions(path, Permissions::from_mode(0o600)).unwrap();
}

/// A place to meet at, with a secret where it needs one.
fn place(backend: Backend) -> (FabricConfig, TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let secret = dir.path().join("secret");
    write_secret(&secret, "gannets and cod, and terns\n");
    let listen = match backend {
        Backend::Shm => dir.path().join("ring").display().to_string(),
        _ => "127.0.0.1:0".into(),
    };
    let secret_file = (backend != Backend::Shm).then_some(secret);
    // Leave for 128 frames.
    let queue = Bytes(1000 * 128);
    let provider = (backend == Backend::Ofi).then(|| "tcp".to_owned());
    (FabricConfig { provider, secret_file, queue, ..FabricConfig::new(backend, listen) }, dir)
}

/// A source that takes frames, and the place of it.
fn source(config: &FabricConfig) -> (Box<dyn Source>, FabricConfig) {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    let landing = Landing { lengths: LENGTHS, cells: 100 };
    let mut source = clop::open(config, landing, &clock).unwrap();
    source.bind().unwrap();
    let place = source.landed().facts().name.strip_prefix("fabric ").unwrap().to_owned();
    source.start().unwrap();
    (source, FabricConfig { listen: place, ..config.clone() })
}

/// Frame number `number`, of its own length and bytes.
fn frame(number: u64) -> Vec<u8> {
    let len = 100 + (number * 7919 % 901) as usize;
    let bytes = (0..len as u64).map(|at| (number * 31 + at * 7) as u8);
    number.to_le_bytes().into_iter().chain(bytes).take(len).collect()
}

/// Numbers of the frames that arrived with the last poll, each tested to the last byte.
fn arrived(source: &dyn Source) -> Vec<u64> {
    let landed = source.landed();
    let arrivals = landed.arrivals().iter();
    arrivals
        .map(|arrival| {
            let bytes = landed.producer().bytes(arrival.cell, arrival.len as usize);
            let number = u64::from_le_bytes(bytes[..8].try_into().unwrap());
            assert!(bytes == frame(number), "frame {number}");
            number
        })
        .collect()
}

/// Polls a source, with a pause after each poll, until it has the frames that `is_all` waits for; then it is
/// stopped. Gives the numbers of the frames that came, and the account.
pub fn take(
    mut source: Box<dyn Source>,
    pause: Duration,
    is_all: impl Fn(&Statement) -> bool,
) -> (Vec<u64>, Statement) {
    let (mut numbers, begin) = (Vec::new(), Instant::now());
    let mut statement = source.landed().account().statement("source");
    while !source.is_exhausted() {
        source.poll(Duration::from_millis(1)).unwrap();
        numbers.extend(arrived(&*source));
        statement = source.landed().account().statement("source");
        assert!(begin.elapsed() < PATIENCE, "{statement:?}");
        if is_all(&statement) {
            source.stop().unwrap();
        } else {
            thread::sleep(pause);
        }
    }
    (numbers, statement)
}

/// Sends frames `from..to`, some at a time, and gives how many were taken.
pub fn send(sink: &mut dyn Sink, from: u64, to: u64) -> u64 {
    let (mut next, mut sent) = (from, 0);
    while next < to {
        let frames: Vec<_> = (next..to.min(next + 1 + next % 13)).map(frame).collect();
        let datagrams: Vec<_> = frames
            .iter()
            .map(|frame| {
                let (header, body) = frame.split_at(frame.len() / 3);
                Datagram { header, body }
            })
            .collect();
        sent += sink.send(&datagrams).unwrap().datagrams;
        next += frames.len() as u64;
    }
    sent
}

#[test]
fn frames_arrive_whole_and_in_order() {
    for backend in backends("frames in the ring of another process") {
        let (config, _dir) = place(backend);
        let (source, place) = source(&config);
        let sender = thread::spawn(move || {
            let place = FabricConfig { wait: Span::s(10), ..place };
            let mut sink = clop::connect(&place).unwrap();
            send(&mut *sink, 0, 20_000)
        });
        let (numbers, account) = take(source, Duration::ZERO, |account| account.offered == 20_000);
        assert_eq!(sender.join().unwrap(), 20_000);
        assert!(numbers.into_iter().eq(0..20_000), "{backend}");
        assert_eq!((account.delivered, account.dropped_total()), (20_000, 0));
    }
}

#[test]
fn a_sender_without_leave_drops_and_both_ends_count_the_same() {
    for backend in backends("frames in the ring of another process") {
        let (config, _dir) = place(backend);
        let (source, place) = source(&config);
        let sender = thread::spawn(move || {
            let place = FabricConfig { wait: Span(0), ..place };
            let mut sink = clop::connect(&place).unwrap();
            let sent = send(&mut *sink, 0, 3000);
            // The last word is about frames behind the last that came.
            assert!(sent < 3000);
            sent
        });
        let pause = Duration::from_millis(5);
        let (numbers, account) = take(source, pause, |account| account.offered == 3000);
        let sent = sender.join().unwrap();
        assert!(numbers.is_sorted_by(|a, b| a < b), "{backend}");
        assert_eq!(account.delivered, sent, "{backend}: {account:?}");
        assert_eq!(account.count("no_leave"), 3000 - sent, "{backend}: {account:?}");
        assert!(account.closes());
    }
}

#[test]
fn the_oldest_are_given_up_for_newer_ones() {
    for backend in backends("frames in the ring of another process") {
        let (config, _dir) = place(backend);
        let (source, place) = source(&FabricConfig { policy: Policy::OverwriteOldest, ..config });
        let sender = thread::spawn(move || {
            let place = FabricConfig { wait: Span::s(10), ..place };
            send(&mut *clop::connect(&place).unwrap(), 0, 3000)
        });
        let pause = Duration::from_millis(5);
        let (numbers, account) =
            take(source, pause, |account| account.delivered + account.count("given_up") == 3000);
        assert_eq!(sender.join().unwrap(), 3000, "a sender need not drop any");
        assert!(numbers.is_sorted_by(|a, b| a < b), "{backend}");
        assert_eq!(numbers.last(), Some(&2999), "the newest are kept");
        // Over a network hardly more come at a poll than it takes.
        let given_up = account.count("given_up");
        assert!(given_up > 1000 || backend != Backend::Shm, "{account:?}");
        assert_eq!(account.dropped_total(), account.count("given_up"));
    }
}

#[test]
fn one_sender_at_a_time_and_another_after_it() {
    for backend in backends("frames in the ring of another process") {
        let (config, _dir) = place(backend);
        let (source, place) = source(&config);
        let senders = thread::spawn(move || {
            let place = FabricConfig { wait: Span::s(10), ..place };
            let mut first = clop::connect(&place).unwrap();
            let error = clop::connect(&place).map(drop).unwrap_err().to_string();
            assert!(error.contains("takes frames of another sender"), "{error}");
            send(&mut *first, 0, 500);
            drop(first);
            send(&mut *clop::connect(&place).unwrap(), 500, 1000);
        });
        let (numbers, account) = take(source, Duration::ZERO, |account| account.offered == 1000);
        senders.join().unwrap();
        assert!(numbers.into_iter().eq(0..1000), "{backend}");
        assert_eq!(account.dropped_total(), 0);
    }
}

#[test]
fn strangers_are_kept_out_and_hold_nobody_up() {
    for backend in backends("frames in the ring of another process") {
        let (mut config, dir) = place(backend);
        config.secret_file = Some(dir.path().join("secret"));
        let (source, place) = source(&config);
        let senders = thread::spawn(move || {
            let other = dir.path().join("other");
            write_secret(&other, "another secret one");
            let wrong = FabricConfig { secret_file: Some(other), ..place.clone() };
            let error = clop::connect(&wrong).map(drop).unwrap_err().to_string();
            assert!(error.contains("does not know the secret"), "{backend}: {error}");
            match backend {
                Backend::Shm => assert!(UnixStream::connect(&place.listen).is_err()),
                _ => {
                    let mut stranger = TcpStream::connect(&place.listen).unwrap();
                    stranger.write_all(&[7; 64]).unwrap();
                }
            }
            assert!(clop::is_listening(&place).unwrap());
            let place = FabricConfig { wait: Span::s(10), ..place };
            send(&mut *clop::connect(&place).unwrap(), 0, 100)
        });
        let (numbers, _) = take(source, Duration::ZERO, |account| account.offered == 100);
        assert_eq!(senders.join().unwrap(), 100);
        assert!(numbers.into_iter().eq(0..100), "{backend}");
    }
}

#[test]
fn frames_of_other_lengths_are_counted_and_leave_no_hole() {
    let (config, _dir) = place(Backend::Shm);
    let (source, place) = source(&config);
    let sender = thread::spawn(move || {
        let mut sink = clop::connect(&place).unwrap();
        for number in 0..50 {
            let body = if number % 5 == 2 { vec![1; 99] } else { frame(number) };
            let sent = sink.send(&[Datagram { header: &[], body: &body }]).unwrap();
            assert_eq!(sent.datagrams, 1);
        }
        let long = [0; 1001];
        let error = sink.send(&[Datagram { header: &[], body: &long }]).unwrap_err();
        assert!(error.to_string().contains("1001"), "{error}");
    });
    let (numbers, account) = take(source, Duration::ZERO, |account| account.offered == 50);
    sender.join().unwrap();
    assert!(numbers.into_iter().eq((0..50).filter(|number| number % 5 != 2)));
    assert_eq!(account.count("wrong_length"), 10);
    assert_eq!(account.dropped_total(), 10);
}

#[test]
fn a_sender_finds_a_receiver_again_that_came_back() {
    let (config, _dir) = place(Backend::Shm);
    let (first, place) = source(&config);
    let sender = thread::spawn(move || {
        let mut sink = clop::connect(&place).unwrap();
        let (begin, mut sent) = (Instant::now(), [0u64; 2]);
        let mut number = 0;
        // The second receiver is stopped by this word of the first run being over.
        while sent[1] < 100 && begin.elapsed() < PATIENCE {
            let frame = frame(number);
            let now = sink.send(&[Datagram { header: &frame, body: &[] }]).unwrap();
            number += 1;
            sent[usize::from(begin.elapsed() > Duration::from_millis(500))] += now.datagrams;
            thread::sleep(Duration::from_millis(1));
        }
        sent[1]
    });
    take(first, Duration::ZERO, |account| account.offered > 20);
    thread::sleep(Duration::from_millis(600));
    let (second, _) = source(&config);
    let (numbers, _) = take(second, Duration::ZERO, |account| account.offered >= 100);
    assert!(numbers.len() >= 100 && numbers[0] > 20);
    assert!(sender.join().unwrap() >= 100);
}

#[test]
fn a_place_that_is_taken_or_left_behind_is_told_apart() {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    for backend in backends("frames in the ring of another process") {
        let (config, _dir) = place(backend);
        let (_source, place) = source(&config);
        let landing = Landing { lengths: LENGTHS, cells: 100 };
        let mut second = clop::open(&place, landing, &clock).unwrap();
        let error = second.bind().unwrap_err().to_string();
        assert!(error.contains("another program has it"), "{error}");
    }
    let (config, dir) = place(Backend::Shm);
    // What a process that was killed leaves behind.
    drop(std::os::unix::net::UnixListener::bind(&config.listen).unwrap());
    assert!(!clop::is_listening(&config).unwrap());
    let error = clop::connect(&config).map(drop).unwrap_err().to_string();
    assert!(error.contains("start the readout first"), "{error}");
    drop(source(&config));
    let file = dir.path().join("file");
    std::fs::write(&file, "not ours").unwrap();
    let taken = FabricConfig::new(Backend::Shm, file.display().to_string());
    let landing = Landing { lengths: LENGTHS, cells: 100 };
    assert!(clop::open(&taken, landing, &clock).unwrap().bind().is_err());
    assert_eq!(std::fs::read(&file).unwrap(), b"not ours", "no file is removed that is no socket");
    assert!(!dir.path().join("ring").exists(), "and nothing is left of one that ended");
}
