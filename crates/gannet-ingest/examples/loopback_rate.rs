//! How fast frames go from one thread to another over a loopback socket, engine by engine.
//!
//! ```text
//! cargo run --release -p gannet-ingest --example loopback_rate -- [frames/s] [MiB of ring]
//! ```
//! Without a rate the sender does not pace itself, and some frames are lost: the receiver's own
//! rate is the figure to look at. The receiving thread reads every byte of every frame.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use gannet_ingest::udp::{self, Engine, UdpConfig, UdpSink, UdpSinkConfig};
use gannet_ingest::{Datagram, Landing, Sink, Source};
use gannet_measure::clock::{Clock, SystemClock};

const FRAME_LEN: usize = 7200;
/// Time that each engine gets.
const LASTS: Duration = Duration::from_millis(800);
/// Frames that are sent by one call.
const BURST: usize = 36;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let rate_hz: f64 = arguments.next().map_or(Ok(0.0), |text| text.parse())?;
    let ring_mib: u64 = arguments.next().map_or(Ok(256), |text| text.parse())?;
    println!("engine      received      sent          lost         ns/frame  frames/message");
    for engine in [Engine::Recvmsg, Engine::Recvmmsg] {
        measure(engine, rate_hz, ring_mib << 20)?;
    }
    Ok(())
}

/// Receives for a while by one engine, and prints a line.
fn measure(engine: Engine, rate_hz: f64, ring_bytes: u64) -> Result<(), Box<dyn Error>> {
    let listen = vec!["127.0.0.1:0".parse()?];
    let config = UdpConfig { listen, engine, ..UdpConfig::default() };
    let landing = Landing { frame_len: FRAME_LEN, cells: ring_bytes / FRAME_LEN as u64 };
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    let mut source = udp::open(&config, landing, &clock)?.remove(0);
    source.start()?;
    let over = Arc::new(AtomicBool::new(false));
    let sender = {
        let (over, target) = (Arc::clone(&over), source.address());
        thread::spawn(move || send(target, rate_hz, &over))
    };
    let (began, mut sum) = (Instant::now(), 0);
    while began.elapsed() < LASTS {
        source.poll(Duration::from_millis(10))?;
        sum ^= read_all(&source);
    }
    let (took, received) = (began.elapsed().as_secs_f64(), source.account().delivered());
    over.store(true, Ordering::Relaxed);
    let sent = sender.join().expect("the sender ends well");
    source.stop()?;
    while !source.is_exhausted() {
        source.poll(Duration::from_millis(10))?;
        sum ^= read_all(&source);
    }
    let account = source.account().statement("source");
    let messages = source.counters().messages.get();
    println!(
        "{:<10} {:>6.3} M/s {:>6.3} M/s {:>12} {:>12.0} {:>10.2}   (sum {})",
        source.facts().engine,
        received as f64 / took / 1e6,
        sent as f64 / took / 1e6,
        account.dropped_total(),
        took * 1e9 / received.max(1) as f64,
        account.delivered as f64 / messages.max(1) as f64,
        sum & 1,
    );
    let unsized_drops = source.counters().unsized_drops.get();
    if account.offered != sent || unsized_drops > 0 {
        println!("    {account}, sent {sent}, {unsized_drops} drops of unknown size");
    }
    source.facts().refusals.iter().for_each(|refusal| println!("    refused: {refusal}"));
    Ok(())
}

/// Reads every byte of the frames of the last poll.
fn read_all(source: &dyn Source) -> u64 {
    let words = |bytes: &[u8]| {
        let (words, _) = bytes.as_chunks::<8>();
        words.iter().fold(0, |sum, word| sum ^ u64::from_le_bytes(*word))
    };
    let frame = |cell| words(source.producer().bytes(cell, FRAME_LEN));
    source.arrivals().iter().fold(0, |sum, arrival| sum ^ frame(arrival.cell))
}

/// Sends frames until told to stop; returns how many.
fn send(target: std::net::SocketAddr, rate_hz: f64, over: &AtomicBool) -> u64 {
    let mut sink = UdpSink::connect(target, &UdpSinkConfig::default()).expect("a sink");
    let (header, body) = ([0x5a; 32], vec![0xa5; FRAME_LEN - 32]);
    let burst = [Datagram { header: &header, body: &body }; BURST];
    let (began, mut sent) = (Instant::now(), 0);
    while !over.load(Ordering::Relaxed) {
        if rate_hz > 0.0 && sent as f64 > began.elapsed().as_secs_f64() * rate_hz {
            std::hint::spin_loop();
            continue;
        }
        sent += sink.send(&burst).expect("the kernel takes frames").datagrams;
    }
    sent
}
