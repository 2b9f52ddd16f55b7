//! What sockets allow between two processors, without an engine that mends losses.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use gannet_ingest::udp::{CoalescedSocket, Message};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::Operation;
use crate::cores::Cores;
use crate::path::Path;

/// Datagrams under way, as many as the engine allows.
const WINDOW: u64 = 32;
/// Memory asked for datagrams that wait.
const BUFFER_BYTES: u64 = 8 << 20;
/// Time after which a datagram is taken for lost.
const LOST: Duration = Duration::from_millis(100);
/// Time without any after which there is no path.
const SILENCE: Duration = Duration::from_secs(1);
/// For how long a thread sleeps at a time, where threads sleep.
const NAP: Timespec = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
/// What a datagram asks for, in its first byte: to be sent back, or to be counted.
const ECHO: u8 = 0;
const COUNT: u8 = 1;

/// Figures of datagrams of one length.
struct Figures {
    bytes: u64,
    /// Half a round trip, ns: of which half take less.
    half_trip_ns: f64,
    /// Datagrams a second, [`WINDOW`] of them under way, where the kernel takes up to half of them at once; those that come together are
    /// answered together.
    per_s: f64,
    /// The same where it takes them one by one, so that each is answered.
    one_by_one_per_s: f64,
}

/// Figures for datagrams as long as the operations that are measured.
pub(crate) struct Datagrams(Vec<Figures>);

impl Datagrams {
    /// Measures over loopback, between the first two processors.
    pub fn measure(sizes: &[u64], time: Duration, cores: &Cores) -> io::Result<Self> {
        Self::measure_over(&Path::loopback(1), sizes, time, cores)
    }

    /// Measures from the first host of a path to the last one, by way of threads on those between, which pass on what comes. With any of
    /// them all threads sleep while nothing comes, and the system chooses their processors.
    pub fn measure_over(
        path: &Path,
        sizes: &[u64],
        time: Duration,
        cores: &Cores,
    ) -> io::Result<Self> {
        let (last, is_relayed) = (path.cables(), path.cables() > 1);
        let socket = |host| {
            let address = path.any_address(host);
            let socket = path.at(host, || CoalescedSocket::bind(&address))?;
            socket.set_buffers(BUFFER_BYTES)?;
            io::Result::Ok(socket)
        };
        let sockets = (0..=last).map(socket).collect::<io::Result<Vec<_>>>()?;
        let ports = sockets.iter().map(|socket| Ok(socket.address()?.port()));
        let ports = ports.collect::<io::Result<Vec<_>>>()?;
        let after = |host: usize| path.address(host + 1, true, ports[host + 1]);
        let before = |host: usize| path.address(host - 1, false, ports[host - 1]);
        let mut sides = sockets.into_iter().map(|socket| Side::new(socket, is_relayed));
        let here = sides.next().expect("a path has two ends");
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let stopped = &stop;
            let others = sides.zip(1..).map(|(side, host)| {
                let ends = (host < last).then(|| [before(host), after(host)]);
                scope.spawn(move || match ends {
                    Some(ends) => relay(side, ends, stopped),
                    None => {
                        if !is_relayed {
                            cores.pin(1);
                        }
                        answer(side, stopped)
                    }
                })
            });
            let others = others.collect::<Vec<_>>();
            let mut asking = Asking { side: here, to: after(0) };
            let mut sizes = sizes.to_vec();
            sizes.dedup();
            let figures = sizes.iter().map(|&bytes| asking.figures(bytes, time));
            let figures = figures.collect::<io::Result<Vec<_>>>();
            stop.store(true, Ordering::Relaxed);
            for other in others {
                other.join().unwrap_or_else(|_| Err(io::Error::other("the thread ended")))?;
            }
            Ok(Self(figures?))
        })
    }

    /// Half a round trip of datagrams of `bytes`, which are among those that were measured, ns.
    pub fn half_trip_ns(&self, bytes: u64) -> f64 {
        self.of(bytes).map_or(f64::NAN, |figures| figures.half_trip_ns)
    }

    /// Datagrams of `bytes` a second, which are among those that were measured.
    pub fn per_s(&self, bytes: u64) -> f64 {
        self.of(bytes).map_or(f64::NAN, |figures| figures.per_s)
    }

    /// The same where the kernel takes them one by one.
    pub fn one_by_one_per_s(&self, bytes: u64) -> f64 {
        self.of(bytes).map_or(f64::NAN, |figures| figures.one_by_one_per_s)
    }

    fn of(&self, bytes: u64) -> Option<&Figures> {
        self.0.iter().find(|figures| figures.bytes == bytes)
    }

    /// The limit of an operation, ns of half a round trip or operations a second, and what it is.
    pub fn limit(&self, operation: Operation, bytes: u64) -> (f64, &'static str) {
        let Some(figures) = self.of(bytes) else { return (f64::NAN, "") };
        let datagrams = bytes.div_ceil(CoalescedSocket::BYTES_MAX as u64) as f64;
        match operation {
            Operation::RoundTrip if datagrams == 1.0 => {
                (figures.half_trip_ns, "a datagram of as many bytes, sent back over loopback")
            }
            Operation::RoundTrip => {
                let rest_ns = (datagrams - 1.0) / figures.per_s * 1e9;
                (
                    figures.half_trip_ns + rest_ns,
                    "the longest datagram sent back, and those behind it",
                )
            }
            _ => (
                figures.per_s / datagrams,
                "datagrams of as many bytes over loopback, 32 under way",
            ),
        }
    }
}

/// A socket, and room for what comes.
struct Side {
    socket: CoalescedSocket,
    /// Whether its thread sleeps while nothing comes.
    sleeps: bool,
    room: Vec<u8>,
}

impl Side {
    fn new(socket: CoalescedSocket, sleeps: bool) -> Self {
        Self { socket, sleeps, room: vec![0; CoalescedSocket::ROOM] }
    }

    /// Takes what has come, or comes within [`NAP`] if the thread sleeps.
    fn receive(&mut self) -> io::Result<Option<Message>> {
        let message = self.socket.receive(&mut self.room)?;
        if message.is_some() || !self.sleeps {
            return Ok(message);
        }
        let mut readable = [PollFd::from_borrowed_fd(self.socket.descriptor(), PollFlags::IN)];
        match poll(&mut readable, Some(&NAP)) {
            Ok(_) | Err(Errno::INTR) => self.socket.receive(&mut self.room),
            Err(error) => Err(error.into()),
        }
    }
}

/// Passes on what comes from one of two ends to the other, until it is stopped.
fn relay(mut side: Side, ends: [SocketAddr; 2], stop: &AtomicBool) -> io::Result<()> {
    while !stop.load(Ordering::Relaxed) {
        let Some(message) = side.receive()? else { continue };
        let to = ends[usize::from(message.sender == ends[0])];
        // What the socket does not take is lost, as on any way.
        let _ = side.socket.send(&side.room[..message.bytes], message.datagram, &to)?;
    }
    Ok(())
}

/// Sends back, or counts, what comes, until it is stopped.
fn answer(mut side: Side, stop: &AtomicBool) -> io::Result<()> {
    let mut count = 0u64;
    while !stop.load(Ordering::Relaxed) {
        let Some(message) = side.receive()? else { continue };
        let Side { socket, room, .. } = &side;
        let (bytes, datagram) = (&room[..message.bytes], message.datagram);
        match bytes.first() {
            Some(&COUNT) => {
                count += bytes.chunks(datagram).len() as u64;
                socket.send(&count.to_le_bytes(), 8, &message.sender)?;
            }
            _ => _ = socket.send(bytes, datagram, &message.sender)?,
        }
    }
    Ok(())
}

fn silent() -> io::Error {
    let what = "no datagram came back in 1 s: does the interface pass UDP?";
    io::Error::new(io::ErrorKind::TimedOut, what)
}

/// The side that measures.
struct Asking {
    side: Side,
    to: SocketAddr,
}

impl Asking {
    fn figures(&mut self, bytes: u64, time: Duration) -> io::Result<Figures> {
        let datagram = vec![ECHO; (bytes as usize).min(CoalescedSocket::BYTES_MAX)];
        self.forget()?;
        let mut trips = Vec::new();
        let (begin, mut heard) = (Instant::now(), Instant::now());
        while trips.len() < 120 || begin.elapsed() < time {
            let sent = Instant::now();
            self.side.socket.send(&datagram, datagram.len(), &self.to)?;
            while self.side.receive()?.is_none() && sent.elapsed() < LOST {}
            if sent.elapsed() < LOST {
                heard = Instant::now();
            } else if heard.elapsed() > SILENCE {
                return Err(silent());
            }
            trips.push(sent.elapsed().as_nanos() as f64 / 2.0);
        }
        // The first ones are for the other thread to come to its processor.
        trips.drain(..100);
        trips.sort_by(f64::total_cmp);
        let half_trip_ns = trips[trips.len() / 2];
        let fit = CoalescedSocket::BYTES_MAX / datagram.len();
        let together = fit.min(self.side.socket.datagrams_max()).clamp(1, WINDOW as usize / 2);
        let per_s = self.stream(datagram.len(), together, time)?;
        let one_by_one_per_s = self.stream(datagram.len(), 1, time)?;
        Ok(Figures { bytes, half_trip_ns, per_s, one_by_one_per_s })
    }

    /// Drops what is still on its way from what was measured before: it would be taken for an answer.
    fn forget(&mut self) -> io::Result<()> {
        let mut heard = Instant::now();
        while heard.elapsed() < LOST / 10 {
            if self.side.receive()?.is_some() {
                heard = Instant::now();
            }
        }
        Ok(())
    }

    /// Datagrams a second, given so many at once to the kernel.
    fn stream(&mut self, datagram: usize, together: usize, time: Duration) -> io::Result<f64> {
        let message = vec![COUNT; together * datagram];
        let mut counted = self.counted(&message[..datagram], datagram)?;
        let (first, mut sent) = (counted, counted);
        let begin = Instant::now();
        let (mut heard, mut lost) = (begin, begin);
        while begin.elapsed() < time || counted < first + 4 * WINDOW {
            while sent - counted + together as u64 <= WINDOW
                && self.side.socket.send(&message, datagram, &self.to)?
            {
                sent += together as u64;
            }
            if let Some(count) = self.count()? {
                (counted, heard) = (counted.max(count), Instant::now());
                // Some that were taken for lost were late.
                sent = sent.max(counted);
            } else if heard.elapsed() > SILENCE {
                return Err(silent());
            } else if heard.max(lost).elapsed() > LOST {
                // They are not sent again, and the count goes on without them.
                (sent, lost) = (counted, Instant::now());
            }
        }
        Ok((counted - first) as f64 / begin.elapsed().as_secs_f64())
    }

    /// The count, from which on others are counted.
    fn counted(&mut self, message: &[u8], datagram: usize) -> io::Result<u64> {
        let begin = Instant::now();
        while begin.elapsed() <= SILENCE {
            self.side.socket.send(message, datagram, &self.to)?;
            let sent = Instant::now();
            let mut last = None;
            while sent.elapsed() < LOST / 10 {
                last = self.count()?.or(last);
            }
            if let Some(count) = last {
                return Ok(count);
            }
        }
        Err(silent())
    }

    fn count(&mut self) -> io::Result<Option<u64>> {
        let Some(message) = self.side.receive()? else { return Ok(None) };
        // Counts may come together: the last one counts. Late echoes have another length, or are zeros.
        let count = self.side.room[..message.bytes].as_chunks::<8>().0.last();
        let count = count.filter(|_| message.datagram == 8).map(|count| u64::from_le_bytes(*count));
        Ok(count.filter(|&count| count > 0))
    }
}
