//! The suite over UDP, and what is its own.

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use gannet_fabric::meet::OverUdp;
use gannet_fabric::tcp::{Joins, Listener};
use gannet_fabric::udp::Udp;
use gannet_fabric::{
    Completion, Endpoint, Get, Key, Limits, Local, Meet, Opening, Peer, PostError, Put, RegionId,
    Remote, Trust,
};
use gannet_measure::random::Random;
use gannet_memory::{Access, SharedRegion};

use crate::conformance::{Clock, Pair, REGION, SUITE};
use crate::relay::{Faults, Relay};
use crate::shm::limits;

/// Time after which a test gives up that nothing more happens.
const PATIENCE: Duration = Duration::from_secs(20);

pub fn loopback() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

pub fn secret() -> Trust {
    Trust::Secret(b"gannets and terns".to_vec())
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
        test(Pair::new((Box::new(near), far_peer), (Box::new(far), near_peer), Clock::real()));
    }
}

/// A host has several addresses, and is met at any of them.
#[test]
fn datagrams_come_from_the_address_that_was_met() {
    let meet = OverUdp("127.0.0.2:0".into());
    let listener = meet.listen().unwrap();
    let there = OverUdp(meet.place(&listener));
    let far = thread::spawn(move || {
        let caller = meet.come(&listener, PATIENCE).unwrap();
        meet.join(caller, &limits(), &secret()).unwrap()
    });
    let (near, far_peer) = there.connect(&limits(), &secret()).unwrap();
    let (far, near_peer) = far.join().unwrap();
    let (_, test) = SUITE[0];
    test(Pair::new((Box::new(near), far_peer), (Box::new(far), near_peer), Clock::real()));
}

/// Two endpoints of this process that meet through a relay.
fn joined_through(faults: Faults) -> ((Udp, Peer), (Udp, Peer), Relay) {
    // Damage by chance takes its time to be mended.
    let limits = Limits { deadline: Duration::from_secs(10), ..limits() };
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let relay = Relay::new(listener.address().unwrap(), faults);
    let mut near = Udp::bind(&loopback(), limits.clone()).unwrap();
    let far = thread::spawn(move || {
        let mut far = Udp::bind(&loopback(), limits).unwrap();
        let peer = far.accept(&listener, &secret()).unwrap();
        (far, peer)
    });
    let peer = near.connect(relay.address, &secret()).unwrap();
    ((near, peer), far.join().unwrap(), relay)
}

/// Lets both ends go on once; gives what they tell.
fn step(near: &mut Udp, far: &mut Udp, begin: Instant) -> [Vec<Completion>; 2] {
    [near, far].map(|endpoint| {
        let mut told = Vec::with_capacity(64);
        endpoint.progress(begin.elapsed().as_nanos() as u64);
        endpoint.poll(&mut told);
        told
    })
}

/// Opens a window of the far end and waits until the near one knows it.
fn window(near: &mut Udp, far: &mut Udp, opening: &Opening) -> Key {
    let key = far.open_window(opening).unwrap();
    let begin = Instant::now();
    loop {
        let [told, _] = step(near, far, begin);
        if let [Completion::WindowOpened { window, .. }] = told[..] {
            assert_eq!(window.key, key);
            return key;
        }
        assert!(told.is_empty() && begin.elapsed() < PATIENCE, "{told:?}");
    }
}

fn patterned(bytes: usize, seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    let words = (0..bytes.div_ceil(8)).flat_map(|_| random.below(u64::MAX).to_le_bytes());
    words.take(bytes).collect()
}

/// Copies the first `bytes` bytes of the near end's region to the far end's second half and back to its own,
/// in pieces of `piece`.
fn there_and_back(
    (near, peer): &mut (Udp, Peer),
    (far, _): &mut (Udp, Peer),
    (bytes, piece): (u64, u64),
    seed: u64,
) {
    let sent = patterned(bytes as usize, seed);
    near.region(REGION).write(0, &sent);
    let start = Local { region: REGION, offset: bytes };
    let [written, read] = [Access::Write, Access::Read]
        .map(|access| window(near, far, &Opening { start, bytes, access, label: 0 }));
    let at = |offset| Local { region: REGION, offset };
    let begin = Instant::now();
    for gets in [false, true] {
        let (mut posted, mut done, mut notified, mut last) = (0, 0, 0, Instant::now());
        while done < bytes / piece || (!gets && notified < bytes / piece) {
            let offset = posted * piece;
            let remote = |key| Remote { peer: *peer, key, offset };
            let result = match gets {
                _ if offset == bytes => Err(PostError::Full { queue: "nothing left" }),
                false => {
                    let put = Put { source: at(offset), target: remote(written), bytes: piece };
                    near.put_notify(&put, posted as u32)
                }
                true => {
                    let target = at(bytes + offset);
                    near.get(&Get { source: remote(read), target, bytes: piece })
                }
            };
            match result {
                Ok(_) => posted += 1,
                Err(PostError::Full { .. }) => {}
                Err(error) => panic!("{error}"),
            }
            let [here, there] = step(near, far, begin);
            for completion in &here {
                match completion {
                    Completion::Done { outcome: Ok(()), .. } => done += 1,
                    other => panic!("{other:?}"),
                }
            }
            for completion in &there {
                match *completion {
                    Completion::Notified { offset, bytes: of, immediate, .. } => {
                        let place = u64::from(immediate) * piece;
                        assert_eq!((offset, of, place), (place, piece, notified * piece));
                        notified += 1;
                    }
                    other => panic!("{other:?}"),
                }
            }
            if !here.is_empty() || !there.is_empty() {
                last = Instant::now();
            }
            assert!(last.elapsed() < PATIENCE, "{posted} posted, {done} done, {notified} told");
        }
        let mut got = vec![0; bytes as usize];
        let side: &Udp = if gets { near } else { far };
        side.region(REGION).read(bytes as usize, &mut got);
        assert!(got == sent, "what is there is not what was sent");
    }
    for key in [written, read] {
        far.close_window(key);
    }
    let (mut left, begin) = (2, Instant::now());
    while left > 0 {
        let [_, there] = step(near, far, begin);
        left -= there.len();
        assert!(begin.elapsed() < PATIENCE, "{there:?}");
    }
}

fn with_regions(ends: &mut [&mut Udp; 2], bytes: usize) {
    for end in ends {
        assert_eq!(end.add_region(SharedRegion::new(bytes).unwrap()).unwrap(), RegionId(0));
    }
}

#[test]
fn loss_doubling_and_disorder_are_mended() {
    let is_long = std::env::var_os("GANNET_LONG").is_some();
    let bytes: u64 = if is_long { 1 << 30 } else { 16 << 20 };
    let faults =
        Faults { lost: 50, doubled: 50, delayed: 100, datagram_max: 4152, ..Faults::default() };
    let (mut near, mut far, relay) = joined_through(faults);
    with_regions(&mut [&mut near.0, &mut far.0], 2 * bytes as usize);
    there_and_back(&mut near, &mut far, (bytes, 1 << 18), 1);
    let fate = |fate: &std::sync::atomic::AtomicU64| fate.load(Ordering::Relaxed);
    let fates = &relay.fates;
    let (passed, lost) = (fate(&fates.passed), fate(&fates.lost));
    assert!(lost > passed / 40 && fate(&fates.doubled) > passed / 40, "{fates:?}");
    assert!(fate(&fates.delayed) > passed / 20, "{fates:?}");
    let again = near.0.traffic(near.1).unwrap();
    assert!(again.overtaken + again.timeouts >= lost / 4, "{again:?} {fates:?}");
}

/// Bytes that no end of a pair has sent, some with a head that looks right.
fn malformed(random: &mut Random) -> Vec<u8> {
    let len = match random.below(4) {
        0 => random.below(9),
        1 => 8 + random.below(60),
        _ => random.below(1500),
    };
    let mut datagram: Vec<u8> = (0..len).map(|_| random.below(256) as u8).collect();
    // The slot of the pair, and now and then the right version behind it.
    if random.below(4) > 0 {
        datagram.iter_mut().take(2).for_each(|byte| *byte = 0);
    }
    if random.below(2) == 0
        && let Some(version) = datagram.get_mut(15)
    {
        *version = 0x11;
    }
    datagram
}

#[test]
fn strangers_and_damage_change_nothing() {
    let count = if std::env::var_os("GANNET_LONG").is_some() { 10_000_000 } else { 100_000 };
    let faults = Faults { damaged: 30, datagram_max: 1000, ..Faults::default() };
    let (mut near, mut far, relay) = joined_through(faults);
    let (bytes, guard) = (1 << 16, 1 << 16);
    with_regions(&mut [&mut near.0, &mut far.0], 2 * bytes + guard);
    let untouched = patterned(guard, 3);
    far.0.region(REGION).write(2 * bytes, &untouched);
    let address = far.0.address().unwrap();
    let flood = thread::spawn(move || {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        // Made before, as random bytes take longer to make than to send.
        let mut random = Random::new(7);
        let datagrams: Vec<_> = (0..5000).map(|_| malformed(&mut random)).collect();
        for number in 0..count {
            let datagram = &datagrams[random.below(datagrams.len() as u64) as usize];
            let _ = socket.send_to(datagram, address);
            // Sockets drop what comes faster than anybody takes it, good ones with it.
            if number % 64 == 0 {
                thread::yield_now();
            }
        }
    });
    let (mut rounds, begin) = (0, Instant::now());
    while !flood.is_finished() || rounds < 4 {
        there_and_back(&mut near, &mut far, (bytes as u64, 1 << 12), rounds);
        rounds += 1;
    }
    flood.join().unwrap();
    let mut guarded = vec![0; guard];
    far.0.region(REGION).read(2 * bytes, &mut guarded);
    assert!(guarded == untouched);
    let counters = far.0.counters();
    assert!(counters.strangers > 0 && counters.refused == 0 && counters.left == 0, "{counters:?}");
    let traffic = far.0.traffic(far.1).unwrap();
    let damaged = relay.fates.damaged.load(Ordering::Relaxed);
    assert!(traffic.corrupt > 0 && damaged > 0, "{traffic:?}");
    eprintln!(
        "{rounds} rounds beside {count} datagrams, {} seen in {:.1?}, {damaged} damaged",
        counters.strangers,
        begin.elapsed()
    );
}
