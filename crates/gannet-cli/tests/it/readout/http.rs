//! Clients of the HTTP server that mean harm, while data are taken.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use gannet_measure::random::Random;
use rustix::net::{AddressFamily, SocketType, bind, socket};

use crate::readout::process::{Bench, Ended, Readout, alone, gannet, resident_kib, scale};

const CONFIG: &str = r#"
[metrics]
listen = "127.0.0.1:0"

[[source]]
streams = { count = 8 }
udp = { listen = ["127.0.0.1:0"] }
depth = "50 ms"

[emulate]
streams = { count = 8 }
pace = { rate_scale = 0.04 }
"#;

/// Memory that clients may cost, in KiB.
const MEMORY_KIB: u64 = 8 << 10;

/// Connections that an attack holds at a time; the test process may have few descriptors itself.
const HELD_MAX: usize = 400;

/// How long an answer may take on a machine that does much else, before a test gives up.
const PATIENCE: Duration = Duration::from_secs(60);

fn connect(to: SocketAddr) -> TcpStream {
    let begin = Instant::now();
    loop {
        // While many connect at once, the kernel may turn one away.
        match TcpStream::connect_timeout(&to, PATIENCE) {
            Ok(client) => {
                client.set_read_timeout(Some(PATIENCE)).unwrap();
                client.set_write_timeout(Some(PATIENCE)).unwrap();
                return client;
            }
            Err(error) => assert!(begin.elapsed() < PATIENCE, "{error}"),
        }
    }
}

/// Reads to the end, in whatever way it comes; an end there must be.
fn read_to_end(client: &mut TcpStream) -> Vec<u8> {
    let mut answer = Vec::new();
    if let Err(error) = client.read_to_end(&mut answer) {
        assert_ne!(error.kind(), ErrorKind::WouldBlock, "the connection stays open");
    }
    answer
}

/// Waits until a client that behaves is answered.
fn wait_for_service(to: SocketAddr) {
    let begin = Instant::now();
    loop {
        let mut client = connect(to);
        let asked = client.write_all(b"GET /metrics HTTP/1.0\r\n\r\n");
        let answer = asked.map(|()| read_to_end(&mut client)).unwrap_or_default();
        if answer.starts_with(b"HTTP/1.0 200 OK") {
            return;
        }
        assert!(begin.elapsed() < PATIENCE, "{}", String::from_utf8_lossy(&answer));
        thread::sleep(Duration::from_millis(100));
    }
}

/// Bodies that are announced and never come.
fn announce_bodies(to: SocketAddr) {
    for length in ["99999999999", "18446744073709551615", "-1", "1, 2"] {
        for method in ["GET", "POST"] {
            let mut client = connect(to);
            let head = format!("{method} /metrics HTTP/1.1\r\nHost: localhost\r\n");
            let _closed = write!(client, "{head}Content-Length: {length}\r\n\r\n");
            let answer = read_to_end(&mut client);
            assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 4"), "{length}");
        }
    }
}

/// Bodies that are sent, whether anybody takes them or not: of a length that is told, and in chunks without an end.
fn send_bodies(to: SocketAddr) {
    let piece = vec![b'x'; 1 << 20];
    let chunk = [b"100000\r\n", &*piece, b"\r\n"].concat();
    for (told, piece) in
        [("Content-Length: 67108864", &piece), ("Transfer-Encoding: chunked", &chunk)]
    {
        let mut client = connect(to);
        let head = "POST /api/v1/faults HTTP/1.1\r\nHost: localhost\r\nIdempotency-Key: a";
        let _closed = write!(client, "{head}\r\nContent-Type: application/json\r\n{told}\r\n\r\n");
        let _closed = (0..64).try_for_each(|_| client.write_all(piece));
        let answer = read_to_end(&mut client);
        assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 4"), "{told}");
    }
}

/// A header that has no end.
fn send_endless_header(to: SocketAddr) {
    let mut client = connect(to);
    let _closed = client.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nX: ");
    let piece = vec![b'x'; 1 << 20];
    let pieces = 60 * scale(10);
    let written = (0..pieces).take_while(|_| client.write_all(&piece).is_ok()).count();
    assert!((written as u64) < pieces, "all of it was taken");
}

/// Requests whose answers nobody reads. The connections are given back as they are.
fn ask_and_never_read(to: SocketAddr) -> Vec<TcpStream> {
    let requests = b"GET /snapshot.json HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(50);
    let ask = |_| {
        let mut client = connect(to);
        let _refused = client.write_all(&requests);
        client
    };
    (0..60).map(ask).collect()
}

/// Requests that take for ever, a byte at a time.
fn drip(to: SocketAddr, done: &AtomicBool) {
    let mut clients: Vec<_> = (0..100 * scale(10)).map(|_| connect(to)).collect();
    let mut request = b"GET /metrics HTTP/1.1\r\nX: ".iter().chain(std::iter::repeat(&b'x'));
    while !done.load(Ordering::Acquire) {
        let byte = [*request.next().unwrap()];
        for client in &mut clients {
            if client.write_all(&byte).is_err() {
                *client = connect(to);
            }
        }
        thread::sleep(Duration::from_millis(20 * scale(50)));
    }
}

/// Connections that want nothing, each kept until many more have come.
fn connect_often(to: SocketAddr, count: u64) {
    let mut held = Vec::new();
    for _ in 0..count {
        if held.len() == HELD_MAX {
            held.drain(..HELD_MAX / 2);
        }
        held.push(connect(to));
    }
}

/// A request with a few bytes too many; more of this kind is in `gannet-web`.
fn odd_request(random: &mut Random) -> Vec<u8> {
    let mut request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec();
    for _ in 0..random.below(4) {
        let place = random.below(request.len() as u64 + 1) as usize;
        request.insert(place, random.below(256) as u8);
    }
    request
}

/// Random requests, some on one connection.
fn send_odd_requests(to: SocketAddr, count: u64, seed: u64) {
    let mut random = Random::new(seed);
    let mut sent = 0;
    while sent < count {
        let mut client = connect(to);
        for _ in 0..1 + random.below(8) {
            sent += 1;
            if client.write_all(&odd_request(&mut random)).is_err() {
                break;
            }
        }
        let _ = client.shutdown(std::net::Shutdown::Write);
        read_to_end(&mut client);
    }
}

/// The largest resident memory of a process while something is done to it, in KiB.
fn peak_kib(id: u32, work: impl FnOnce()) -> u64 {
    let (done, peak) = (AtomicBool::new(false), AtomicU64::new(resident_kib(id)));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                peak.fetch_max(resident_kib(id), Ordering::Relaxed);
                thread::sleep(Duration::from_millis(5));
            }
        });
        work();
        done.store(true, Ordering::Release);
    });
    peak.into_inner()
}

/// Says what a part of the test came to, in its long version.
fn tell(what: &str, begin: Instant, kib: u64, before: u64) {
    if scale(2) == 2 {
        let (time, more) = (begin.elapsed().as_secs_f64(), kib.saturating_sub(before));
        println!("{what}: {time:.1} s, resident memory at most {more} KiB more");
    }
}

/// A client that may see the run, at an address of its own, and how long each of its answers took.
struct Guest {
    to: SocketAddr,
    connection: Option<TcpStream>,
    took: Vec<Duration>,
}

impl Guest {
    fn new(to: SocketAddr) -> Self {
        Self { to, connection: None, took: Vec::new() }
    }

    /// A connection from an address that no attacker has.
    fn connect(&self) -> std::io::Result<TcpStream> {
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None)?;
        bind(&socket, &SocketAddr::from(([127, 0, 0, 9], 0)))?;
        rustix::net::connect(&socket, &self.to)?;
        let connection = TcpStream::from(socket);
        connection.set_read_timeout(Some(PATIENCE))?;
        Ok(connection)
    }

    /// Asks once; an answer is counted with its time, and what is closed is opened again.
    fn ask(&mut self) {
        let begin = Instant::now();
        let mut attempt = || -> std::io::Result<bool> {
            let mut connection = match self.connection.take() {
                Some(connection) => connection,
                None => self.connect()?,
            };
            connection.write_all(
                b"GET /api/v1/state HTTP/1.1\r\nHost: localhost\r\n\
                  Authorization: Bearer view-0123456789ab\r\n\r\n",
            )?;
            let mut answer = [0; 4096];
            let count = connection.read(&mut answer)?;
            self.connection = Some(connection);
            Ok(answer[..count].starts_with(b"HTTP/1.1 200 "))
        };
        if attempt().is_ok_and(|is_answered| is_answered) {
            self.took.push(begin.elapsed());
        }
    }
}

/// How long `guest` waited for its answers while `work` was done, at least one of which came.
fn entertained(guest: &mut Guest, work: impl FnOnce() + Send) -> Vec<Duration> {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            work();
            done.store(true, Ordering::Release);
        });
        let begin = Instant::now();
        while !done.load(Ordering::Acquire) || guest.took.is_empty() {
            assert!(!guest.took.is_empty() || begin.elapsed() < PATIENCE, "no answer");
            guest.ask();
            thread::sleep(Duration::from_millis(10));
        }
    });
    let mut took = std::mem::take(&mut guest.took);
    took.sort();
    took
}

/// That a run came through whole.
fn assert_unharmed(ended: &Ended, frames: u64) {
    assert!(!ended.errors.contains("panicked"), "{}", ended.errors);
    assert_eq!(ended.ledger("frames", "delivered"), frames, "{}", ended.report);
    assert_eq!(ended.open_books(), [""; 0]);
    assert!(!ended.is_degraded(), "{}", ended.report);
}

#[test]
fn no_client_stops_slows_or_bloats_a_run() {
    let _alone = alone();
    let bench = Bench::new(CONFIG);
    let readout = Readout::start(&bench.config());
    let (id, to) = (readout.id(), readout.metrics.unwrap());
    let front_end = bench.emulate(readout.address, None);
    // What the run itself takes grows for a while: records, and the first answer.
    thread::sleep(Duration::from_secs(2));
    wait_for_service(to);
    let before = resident_kib(id);
    let attack = |what: &str, work: &mut dyn FnMut()| {
        let begin = Instant::now();
        let peak = peak_kib(id, work);
        tell(what, begin, peak, before);
        assert!(peak < before + MEMORY_KIB, "{what}: {before} to {peak} KiB");
        wait_for_service(to);
    };
    attack("bodies announced", &mut || announce_bodies(to));
    attack("endless header", &mut || send_endless_header(to));
    attack("connections", &mut || connect_often(to, 500 * scale(20)));
    attack("random requests", &mut || send_odd_requests(to, 1000 * scale(100), 7));
    attack("dripping requests", &mut || {
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| drip(to, &done));
            thread::sleep(Duration::from_secs(scale(12)));
            done.store(true, Ordering::Release);
        });
    });
    attack("answers never read", &mut || drop(ask_and_never_read(to)));
    front_end.stop();
    let sent = front_end.join().unwrap();
    let unread = ask_and_never_read(to);
    let begin = Instant::now();
    let ended = readout.stop();
    tell("stop", begin, before, before);
    drop(unread);
    if ended.kernel_was_short("hostile clients of the HTTP server") {
        return;
    }
    assert_unharmed(&ended, sent.truth.total().frames_made);
}

#[test]
fn who_may_see_the_pages_is_answered_whatever_others_do() {
    let _alone = alone();
    let pages = "[web]\nlisten = \"127.0.0.1:0\"\ntoken_file = \"secret\"\ncontrol = true\n";
    let bench = Bench::new(&format!("{CONFIG}\n{pages}"));
    bench.write_secret("view view-0123456789ab\nadmin admin-0123456789a\n");
    let readout = Readout::start(&bench.config());
    let (id, to) = (readout.id(), readout.pages.unwrap());
    let front_end = bench.emulate(readout.address, None);
    let mut guest = Guest::new(to);
    // What the run itself takes grows while it uses its buffers for the first time.
    entertained(&mut guest, || thread::sleep(Duration::from_secs(1 + scale(60))));
    let before = resident_kib(id);
    let mut attack = |what: &str, work: &(dyn Fn() + Sync)| {
        let begin = Instant::now();
        let mut took = Vec::new();
        let peak = peak_kib(id, || took = entertained(&mut guest, work));
        tell(what, begin, peak, before);
        let at = |part: f64| took[((took.len() - 1) as f64 * part) as usize].as_secs_f64() * 1e3;
        if scale(2) == 2 {
            let (count, p50, p99, most) = (took.len(), at(0.5), at(0.99), at(1.0));
            println!("  {count} answers: median {p50:.1} ms, p99 {p99:.1} ms, most {most:.1} ms");
        }
        assert!(peak < before + MEMORY_KIB, "{what}: {before} to {peak} KiB");
    };
    attack("bodies announced", &|| announce_bodies(to));
    attack("bodies sent", &|| send_bodies(to));
    attack("endless header", &|| send_endless_header(to));
    attack("connections", &|| connect_often(to, 500 * scale(20)));
    attack("random requests", &|| send_odd_requests(to, 1000 * scale(100), 11));
    attack("dripping requests", &|| {
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| drip(to, &done));
            thread::sleep(Duration::from_secs(scale(12)));
            done.store(true, Ordering::Release);
        });
    });
    attack("answers never read", &|| drop(ask_and_never_read(to)));
    front_end.stop();
    let sent = front_end.join().unwrap();
    let ended = readout.stop();
    if ended.kernel_was_short("hostile clients of the pages") {
        return;
    }
    assert_unharmed(&ended, sent.truth.total().frames_made);
}

#[test]
fn where_descriptors_are_few_the_recorder_has_them() {
    let _alone = alone();
    // Small files: the recorder opens another one again and again.
    let lines = "raw_streams = \"all\"\nfile_size_max = \"4 MiB\"";
    let bench = Bench::with_recorder(CONFIG, lines);
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -n 64 && exec \"$0\" run --json \"$1\""]).arg(gannet());
    let readout = Readout::start_by(limited.arg(bench.config()));
    let to = readout.metrics.unwrap();
    let front_end = bench.emulate(readout.address, Some(3000));
    let clients: Vec<_> = (0..200).map(|_| connect(to)).collect();
    connect_often(to, 200 * scale(20));
    let sent = front_end.join().unwrap();
    drop(clients);
    wait_for_service(to);
    let ended = readout.stop();
    if ended.kernel_was_short("few descriptors") {
        return;
    }
    assert_unharmed(&ended, sent.truth.total().frames_made);
    assert!(bench.files().len() > 3, "{:?}", bench.files());
}

#[test]
fn a_taken_port_is_told_before_anything_starts() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let bench = Bench::new(&CONFIG.replacen("127.0.0.1:0", &address, 1));
    let output = Command::new(gannet()).arg("run").arg(bench.config()).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(5), "{errors}");
    assert!(errors.contains(&address) && errors.contains(" is free"), "{errors}");
    assert_eq!(bench.files(), [""; 0].map(std::path::PathBuf::from));
}
