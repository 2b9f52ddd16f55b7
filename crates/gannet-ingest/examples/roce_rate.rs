//! Frames of 4096 bytes by datagrams and by RDMA WRITEs, in turn, over the loopback interface.
//!
//! ```text
//! cargo run --release -p gannet-ingest --example roce_rate
//! ```
//!
//! The sender waits for the receiver, so that nothing is lost, and both coalesce. Printed are medians over the
//! rounds, with the least and the most: frames a second, and processor time of the receiving thread for a frame.

use std::fs;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use gannet_ingest::roce::{RoceConfig, RoceSink, RoceSource, RoceTarget};
use gannet_ingest::udp::{self, UdpConfig, UdpSink, UdpSinkConfig};
use gannet_ingest::{Datagram, Error, Landing, Sink, Source};
use gannet_measure::clock::{Clock, SystemClock};

const FRAME_LEN: usize = 4096;
const FRAMES: u64 = 300_000;
const ROUNDS: usize = 9;
/// Frames of one call of the sender.
const BURST: usize = 15;
/// Frames on their way at most.
const IN_FLIGHT_MAX: u64 = 512;
const LANDING: Landing = Landing { lengths: FRAME_LEN..=FRAME_LEN, cells: 8192 };

/// Where frames land, and the way there.
type Path = (Box<dyn Source>, Box<dyn Sink>);

fn datagrams(clock: &Arc<dyn Clock>) -> Result<Path, Error> {
    let listen = vec![(Ipv4Addr::LOCALHOST, 0).into()];
    let config = UdpConfig { listen, ..UdpConfig::default() };
    let mut source = udp::open(&config, LANDING, clock)?.remove(0);
    source.start()?;
    let sink = UdpSink::connect(source.address(), &UdpSinkConfig::default())?;
    Ok((Box::new(source), Box::new(sink)))
}

fn writes(clock: &Arc<dyn Clock>, check_crc: bool) -> Result<Path, Error> {
    let listen = std::net::SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0);
    let config = RoceConfig { check_crc, ..RoceConfig::new(listen, vec![17], 7) };
    let mut source = RoceSource::open(&config, LANDING, clock)?;
    source.start()?;
    let cells = source.landed().facts().cells;
    let cell_bytes = FRAME_LEN as u64;
    let target = RoceTarget { queue_pair: 17, key: 7, start: 0, cell_bytes, cells };
    let sink = RoceSink::connect(source.address(), target, &UdpSinkConfig::default())?;
    Ok((Box::new(source), Box::new(sink)))
}

/// Processor time that this thread has had.
fn thread_time() -> Duration {
    let figures = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let ns = figures.split(' ').next().and_then(|ns| ns.parse().ok());
    Duration::from_nanos(ns.unwrap_or(0))
}

/// Frames a second, and nanoseconds of the receiving thread for a frame.
fn pass((mut source, mut sink): Path) -> Result<(f64, f64), Error> {
    let taken = AtomicU64::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            let body = [0xa5; FRAME_LEN];
            let burst = [Datagram { header: &[], body: &body }; BURST];
            let mut sent = 0;
            while sent < FRAMES {
                while sent + BURST as u64 > taken.load(Ordering::Acquire) + IN_FLIGHT_MAX {
                    thread::yield_now();
                }
                sent += sink.send(&burst).map_or(FRAMES, |sent| sent.datagrams);
            }
        });
        let (begin, cpu) = (Instant::now(), thread_time());
        let (mut got, mut last) = (0, Instant::now());
        while got < FRAMES && last.elapsed() < Duration::from_secs(2) {
            let now = source.poll(Duration::from_millis(20))? as u64;
            if now > 0 {
                (got, last) = (got + now, Instant::now());
                taken.store(got, Ordering::Release);
            }
        }
        taken.store(u64::MAX / 2, Ordering::Release);
        let statement = source.landed().account().statement("source");
        assert!(got >= FRAMES, "frames were lost: {statement:?}");
        let (time, cpu) = (last - begin, thread_time() - cpu);
        Ok((got as f64 / time.as_secs_f64(), cpu.as_nanos() as f64 / got as f64))
    })
}

fn main() -> Result<(), Error> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    let names = ["datagrams", "writes, CRC tested", "writes, CRC not tested"];
    let mut figures = names.map(|_| (Vec::new(), Vec::new()));
    for _ in 0..ROUNDS {
        let paths = [datagrams(&clock)?, writes(&clock, true)?, writes(&clock, false)?];
        for (path, (rates, costs)) in paths.into_iter().zip(&mut figures) {
            let (rate, cost) = pass(path)?;
            rates.push(rate);
            costs.push(cost);
        }
    }
    for (name, (rates, costs)) in names.iter().zip(&mut figures) {
        rates.sort_by(f64::total_cmp);
        costs.sort_by(f64::total_cmp);
        let [least, median, most] = [0, ROUNDS / 2, ROUNDS - 1].map(|at| rates[at] * 1e-3);
        let [low, middle, high] = [0, ROUNDS / 2, ROUNDS - 1].map(|at| costs[at]);
        println!(
            "{name:<24} {median:.0} kframe/s ({least:.0} to {most:.0}), \
             {middle:.0} ns a frame ({low:.0} to {high:.0})"
        );
    }
    Ok(())
}
