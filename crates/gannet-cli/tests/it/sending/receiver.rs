//! A socket that keeps what it receives.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::net::sockopt;

/// Bytes of memory for datagrams that wait.
const ROOM: usize = 64 << 20;

/// Receives datagrams on a loopback port of its own.
pub struct Receiver {
    address: SocketAddr,
    count: Arc<AtomicUsize>,
    end: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Vec<u8>>>,
}

impl Receiver {
    pub fn start() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        // None may be lost while this thread waits for a processor. Without the right to force it, the system allows less.
        sockopt::set_socket_recv_buffer_size(&socket, ROOM).unwrap();
        let _without_the_right = sockopt::set_socket_recv_buffer_size_force(&socket, ROOM);
        let address = socket.local_addr().unwrap();
        let end = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&end);
        let count = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&count);
        let thread = thread::spawn(move || {
            let (mut received, mut buffer) = (Vec::new(), vec![0; 1 << 16]);
            loop {
                // Looked at before the socket: what was sent before the end is still taken.
                let is_last = ended.load(Ordering::Acquire);
                match socket.recv(&mut buffer) {
                    Ok(len) => {
                        received.push(buffer[..len].to_vec());
                        counted.store(received.len(), Ordering::Relaxed);
                    }
                    Err(_) if is_last => return received,
                    Err(_) => {}
                }
            }
        });
        Self { address, count, end, thread }
    }

    pub fn address(&self) -> String {
        self.address.to_string()
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Waits until so many datagrams have come.
    pub fn await_datagrams(&self, count: usize) {
        let start = Instant::now();
        while self.count.load(Ordering::Relaxed) < count {
            assert!(start.elapsed() < Duration::from_secs(60), "the sender has stopped");
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// All datagrams that came until now, in their order.
    pub fn finish(self) -> Vec<Vec<u8>> {
        self.end.store(true, Ordering::Release);
        self.thread.join().unwrap()
    }
}
