//! Datagrams that nobody asked for.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use gannet_measure::random::Random;
use gannet_wire::{GeoId, tpc_frame, wibeth};

use crate::readout::process::{Bench, Readout, alone, resident_kib, scale};

const CONFIG: &str = r#"
[[source]]
streams = { count = 2 }
udp = { listen = ["127.0.0.1:0"] }
depth = "100 ms"

[emulate]
streams = { count = 2 }
pace = { rate_scale = 0.2 }
"#;

/// A datagram of garbage: a frame of a foreign stream with damage, cut or lengthened, or noise.
fn garbage(random: &mut Random, datagram: &mut Vec<u8>) {
    let mut frame = [0u8; tpc_frame::FRAME_LEN];
    let mut view = wibeth::Frame::new_unchecked(&mut frame[..]);
    view.daq_mut().set_geo_id(GeoId::new(63, random.below(1024) as u16, 15, 255));
    view.daq_mut().set_block_length(tpc_frame::BLOCK_LENGTH);
    view.daq_mut().set_timestamp(random.below(u64::MAX));
    // Whatever is damaged, the detector number stays one that no stream here has.
    for _ in 0..random.below(8) {
        let place = 2 + random.below(tpc_frame::FRAME_LEN as u64 - 2) as usize;
        frame[place] ^= 1 << random.below(8);
    }
    datagram.clear();
    match random.below(4) {
        0 => datagram.extend_from_slice(&frame[..random.below(7201) as usize]),
        1 => datagram.resize(random.below(9001) as usize, random.below(256) as u8 | 0xc0),
        _ => datagram.extend_from_slice(&frame),
    }
}

#[test]
fn garbage_among_good_frames_is_counted_and_harms_nothing() {
    let _alone = alone();
    let bench = Bench::new(CONFIG);
    let readout = Readout::start(&bench.config());
    let good = bench.emulate(readout.address, None);
    let (socket, done) = (UdpSocket::bind("127.0.0.1:0").unwrap(), AtomicBool::new(false));
    let bad = 50_000 * scale(20);
    let mut memory = (0, 0);
    thread::scope(|scope| {
        scope.spawn(|| {
            let (mut random, mut datagram) = (Random::new(5), Vec::new());
            for number in 0..bad {
                garbage(&mut random, &mut datagram);
                socket.send_to(&datagram, readout.address).unwrap();
                if number % 16 == 0 {
                    thread::sleep(std::time::Duration::from_micros(100));
                }
                if number == bad / 5 {
                    memory.0 = resident_kib(readout.id());
                }
            }
            memory.1 = resident_kib(readout.id());
            done.store(true, Ordering::Release);
        });
    });
    good.stop();
    let sent = good.join().unwrap();
    let ended = readout.stop();
    if ended.kernel_was_short("garbage among good frames") {
        return;
    }
    let frames = sent.truth.total().frames_made;
    assert_eq!(ended.ledger("frames", "delivered"), frames, "{}", ended.report);
    assert_eq!(ended.ledger("source", "offered"), frames + bad, "{}", ended.report);
    assert_eq!(ended.open_books(), [""; 0]);
    let refused = [
        ended.ledger("source", "wrong_length"),
        ended.ledger("frames", "bad_header"),
        ended.ledger("frames", "unknown_stream"),
    ];
    let empty = ended.ledger("source", "empty");
    assert_eq!(refused.iter().sum::<u64>() + empty, bad, "{}", ended.report);
    assert!(refused.iter().all(|count| *count > 0), "{refused:?}");
    let (early, late) = memory;
    assert!(late < early + 4096, "resident memory went from {early} to {late} KiB");
}
