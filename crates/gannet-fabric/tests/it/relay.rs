//! A path between two endpoints over UDP that loses, doubles, delays and damages datagrams.
//!
//! It sits in the middle: endpoints meet through it, and it tells each of them its own ports in place of the
//! other's. That is what anybody on the path can do.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use gannet_measure::random::Random;
use gannet_wire::exchange::{LEN, Message, PIECE_LEN};
use gannet_wire::record::Record;

/// What happens to a datagram, in 1000.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    pub lost: u64,
    pub doubled: u64,
    pub delayed: u64,
    pub damaged: u64,
    /// Longest datagram that endpoints are told to take.
    pub datagram_max: u32,
}

/// How many datagrams had each fate.
#[derive(Debug, Default)]
pub struct Fates {
    pub passed: AtomicU64,
    pub lost: AtomicU64,
    pub doubled: AtomicU64,
    pub delayed: AtomicU64,
    pub damaged: AtomicU64,
}

/// A relay; it ends when it is dropped.
pub struct Relay {
    pub address: SocketAddr,
    pub fates: Arc<Fates>,
    is_over: Arc<AtomicBool>,
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

impl Relay {
    /// A relay to the endpoint that listens at `far`, for one that connects.
    pub fn new(far: SocketAddr, faults: Faults) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (fates, is_over) = (Arc::<Fates>::default(), Arc::<AtomicBool>::default());
        let (told, over) = (Arc::clone(&fates), Arc::clone(&is_over));
        thread::spawn(move || {
            let near = listener.accept().unwrap().0;
            let far = TcpStream::connect(far).unwrap();
            // The socket that each end takes for the other one, and who that end is.
            let sockets = [0, 1].map(|_| Arc::new(UdpSocket::bind("127.0.0.1:0").unwrap()));
            let ports = [0, 1].map(|_| Arc::new(AtomicU64::new(0)));
            for end in 0..2 {
                let (from, to) = if end == 0 { (&near, &far) } else { (&far, &near) };
                let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                let (port, own) = (Arc::clone(&ports[end]), sockets[1 - end].local_addr().unwrap());
                thread::spawn(move || messages(from, to, &port, own.port(), faults.datagram_max));
                let (socket, out) = (Arc::clone(&sockets[end]), Arc::clone(&sockets[1 - end]));
                let (port, fates, over) =
                    (Arc::clone(&ports[1 - end]), Arc::clone(&told), Arc::clone(&over));
                let random = Random::new(end as u64);
                thread::spawn(move || {
                    datagrams(&socket, &out, &port, faults, random, &fates, &over)
                });
            }
        });
        Self { address, fates, is_over }
    }
}

/// Passes messages on, with another port for the one that is told.
fn messages(mut from: TcpStream, mut to: TcpStream, port: &AtomicU64, own: u16, datagram_max: u32) {
    let mut bytes = [0; LEN];
    while from.read_exact(&mut bytes).is_ok() {
        let mut message = Message::parse(&bytes).unwrap();
        if let Message::Address { piece, .. } = &mut message {
            let told: &mut [u8; PIECE_LEN] = piece;
            port.store(u16::from_le_bytes([told[0], told[1]]).into(), Ordering::Relaxed);
            told[..2].copy_from_slice(&own.to_le_bytes());
            let longest = u32::from_le_bytes(told[2..6].try_into().unwrap()).min(datagram_max);
            told[2..6].copy_from_slice(&longest.to_le_bytes());
        }
        if to.write_all(&message.to_bytes()).is_err() {
            break;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Both);
}

fn datagrams(
    socket: &UdpSocket,
    out: &UdpSocket,
    port: &AtomicU64,
    faults: Faults,
    mut random: Random,
    fates: &Fates,
    is_over: &AtomicBool,
) {
    socket.set_read_timeout(Some(Duration::from_millis(2))).unwrap();
    let (mut bytes, mut late) = (vec![0; 1 << 16], Vec::<Vec<u8>>::new());
    while !is_over.load(Ordering::Relaxed) {
        let to = ("127.0.0.1", port.load(Ordering::Relaxed) as u16);
        let send = |bytes: &[u8]| _ = out.send_to(bytes, to);
        let Ok((len, _)) = socket.recv_from(&mut bytes) else {
            late.drain(..).for_each(|bytes| send(&bytes));
            continue;
        };
        let bytes = &mut bytes[..len];
        let mut happens = |fate: &AtomicU64, of_1000| {
            let happens = random.below(1000) < of_1000;
            fate.fetch_add(happens.into(), Ordering::Relaxed);
            happens
        };
        if happens(&fates.lost, faults.lost) {
            continue;
        }
        if happens(&fates.damaged, faults.damaged) {
            let (at, bit) = (random.below(len as u64) as usize, random.below(8));
            bytes[at] ^= 1 << bit;
            send(&bytes[..random.below(len as u64 + 1) as usize]);
            send(bytes);
            continue;
        }
        if happens(&fates.delayed, faults.delayed) {
            late.push(bytes.to_vec());
            continue;
        }
        fates.passed.fetch_add(1, Ordering::Relaxed);
        send(bytes);
        if happens(&fates.doubled, faults.doubled) {
            send(bytes);
        }
        // Late ones come after some that were sent behind them, the last first.
        if late.len() >= 4 {
            late.drain(..).rev().for_each(|bytes| send(&bytes));
        }
    }
}
