//! The source behind one AF_XDP socket.

use std::io;
use std::net::{SocketAddr, SocketAddrV4};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use gannet_measure::clock::Clock;
use gannet_wire::network::{Checksums, from_ethernet};

use crate::Error;
use crate::landed::{BATCH_FRAMES, Landed};
use crate::source::{DropSizes, KernelBuffer, Landing, Source, SourceDrop};
use crate::sys::socket::Socket;
use crate::sys::xdp::{Path, XdpSocket, interface_index};
use crate::udp::{AllowList, DropCount};
use crate::xdp::config::{XdpConfig, XdpMode};

/// How often the kernel's counters are read while packets come, in ns.
const BOOKS_NS: u64 = 10_000_000;
/// Time in which the kernel is done with a packet that it had begun to look at.
const SETTLE: Duration = Duration::from_millis(1);
/// How long after a stop packets are waited for that the program has redirected, in `SETTLE`s.
const SETTLES_MAX: u32 = 200;

/// Where a source is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Nobody can send to it.
    Made,
    /// What is sent to it is refused and counted.
    Bound,
    Running,
    /// Nothing is redirected any more; so many times nothing was there.
    Stopping(u32),
    Exhausted,
}

/// Takes datagrams from one queue of a network card.
///
/// The check sums of IP and UDP are not tested: the card tests them and tells the kernel, which
/// does not pass that on. The Ethernet frame has been tested when it comes.
pub struct XdpSource {
    landed: Landed,
    allow: AllowList,
    xdp: XdpSocket,
    /// Keeps the port, and counts what the kernel's own network code brings.
    socket: Socket,
    beside: DropCount,
    taken: u64,
    dropped: u64,
    books_ns: u64,
    config: XdpConfig,
    clock: Arc<dyn Clock>,
    phase: Phase,
}

/// Tries whether this process may receive by AF_XDP on this kernel, on the loopback interface, without
/// taking any packet.
///
/// # Errors
/// What is missing, and what to do.
pub fn possible() -> Result<(), Error> {
    let target = SocketAddrV4::new([127, 0, 0, 1].into(), 1);
    let failed = |(what, cause)| Error::Xdp { what, interface: "lo".into(), cause };
    let index = interface_index("lo").map_err(|cause| failed(("find", cause)))?;
    XdpSocket::new(index, 0, Path::Generic, 1 << 20, target).map(drop).map_err(failed)
}

impl XdpSource {
    /// Takes the queue, in the mode asked for or not at all. Nothing comes before it is bound.
    ///
    /// # Errors
    /// When rights, the kernel or the driver do not allow it, or a number is out of range.
    pub fn open(
        config: &XdpConfig,
        landing: Landing,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, Error> {
        config.check()?;
        let interface = config.card()?;
        let failed = |(what, cause)| Error::Xdp { what, interface: interface.clone(), cause };
        let address = SocketAddr::V4(config.listen);
        let socket = Socket::new(&address).map_err(Error::socket("open a socket for", address))?;
        // Before the socket has a port, so that nothing slips in uncounted.
        socket.refuse_all().map_err(Error::socket("set the filter of", address))?;
        socket.bind(&address).map_err(Error::socket("bind", address))?;
        let address = socket.local_address().map_err(Error::socket("read", address))?;
        let SocketAddr::V4(target) = address else { return Err(Error::NoAddress) };
        let index = interface_index(&interface).map_err(|cause| failed(("find", cause)))?;
        let (path, buffer) = (config.mode.path(), config.buffer.bytes());
        let xdp = XdpSocket::new(index, config.queue, path, buffer, target).map_err(failed)?;
        if config.mode != XdpMode::ZeroCopy {
            tracing::warn!(
                "{interface}: the kernel copies (AF_XDP without zero copy); UDP sockets were \
                 measured to be faster for frames of 7200 bytes"
            );
        }
        let name = format!("xdp {interface} queue {} {address}", config.queue);
        let mut landed = Landed::new(landing, BATCH_FRAMES, name, config.mode.engine())?;
        landed.facts.address = Some(address);
        landed.facts.kernel_buffer =
            Some(KernelBuffer { asked: buffer, obtained: xdp.memory_len() });
        landed.facts.drop_sizes = DropSizes::One;
        Ok(Self {
            landed,
            allow: AllowList::new(&config.allow),
            xdp,
            socket,
            beside: DropCount::from(0),
            taken: 0,
            dropped: 0,
            books_ns: 0,
            config: XdpConfig { interface: Some(interface), ..config.clone() },
            clock,
            phase: Phase::Made,
        })
    }

    fn error(&self, what: &'static str) -> impl Fn(io::Error) -> Error {
        let interface = self.config.interface.clone().unwrap_or_default();
        move |cause| Error::Xdp { what, interface: interface.clone(), cause }
    }

    /// Counts what came to the UDP socket since the last time.
    fn count_beside(&mut self, reason: SourceDrop) -> Result<(), Error> {
        let queue = self.socket.queue().map_err(self.error("read the drops of"))?;
        let new = self.beside.observe(queue.drops);
        self.landed.discard(reason, new);
        Ok(())
    }

    /// Counts what was redirected and found no room, of `dropped` since the start.
    fn count_dropped(&mut self, dropped: u64) {
        let new = dropped.saturating_sub(self.dropped);
        self.dropped += new;
        self.landed.discard(SourceDrop::KernelQueue, new);
    }

    /// Reads the kernel's counters.
    fn keep_books(&mut self) -> Result<(), Error> {
        self.books_ns = self.landed.arrival_ns;
        let dropped = self.xdp.dropped().map_err(self.error("read the drops of"))?;
        self.count_dropped(dropped);
        self.count_beside(SourceDrop::OtherPath)
    }

    /// Lands what is there.
    fn take(&mut self) {
        let Self { landed, allow, .. } = self;
        let taken = self.xdp.take(BATCH_FRAMES, |packet| {
            landed.land_packet(allow, from_ethernet(packet, Checksums::Trust));
        });
        self.taken += taken as u64;
        self.landed.counters.messages.add(taken as u64);
    }

    /// Empties the ring after the stop, until all that was redirected is taken or counted.
    fn drain(&mut self, idle: u32) -> Result<(), Error> {
        let redirected = self.xdp.redirected();
        self.take();
        if !self.landed.arrivals().is_empty() {
            return Ok(());
        }
        let dropped = self.xdp.dropped().map_err(self.error("read the drops of"))?;
        self.count_dropped(dropped);
        if redirected > self.taken + self.dropped && idle < SETTLES_MAX || idle == 0 {
            thread::sleep(SETTLE);
            self.phase = Phase::Stopping(idle + 1);
        } else {
            // What the driver could not hand over either is known only by the program's count.
            self.count_dropped(redirected.saturating_sub(self.taken));
            self.phase = Phase::Exhausted;
        }
        Ok(())
    }
}

impl Source for XdpSource {
    fn bind(&mut self) -> Result<(), Error> {
        if self.phase == Phase::Made {
            self.xdp.attach().map_err(self.error("attach the program to"))?;
            self.phase = Phase::Bound;
        }
        Ok(())
    }

    fn start(&mut self) -> Result<(), Error> {
        self.bind()?;
        if self.phase != Phase::Bound {
            return Ok(());
        }
        self.xdp.redirect(true).map_err(self.error("redirect the packets of"))?;
        // The last packets that went the other way are counted there a moment later.
        thread::sleep(SETTLE);
        self.count_beside(SourceDrop::BeforeStart)?;
        self.phase = Phase::Running;
        Ok(())
    }

    fn poll(&mut self, wait: Duration) -> Result<usize, Error> {
        self.landed.clear();
        match self.phase {
            Phase::Made | Phase::Bound => return Err(Error::NotStarted),
            Phase::Running => {
                self.take();
                if self.landed.arrivals().is_empty() && !wait.is_zero() {
                    self.xdp.wait(wait).map_err(self.error("wait for packets of"))?;
                    self.take();
                }
            }
            Phase::Stopping(idle) => self.drain(idle)?,
            Phase::Exhausted => return Ok(0),
        }
        self.landed.arrival_ns = self.clock.now_ns();
        if self.phase == Phase::Running && self.landed.arrival_ns - self.books_ns > BOOKS_NS {
            self.keep_books()?;
        }
        Ok(self.landed.arrivals().len())
    }

    fn landed(&self) -> &Landed {
        &self.landed
    }

    fn stop(&mut self) -> Result<(), Error> {
        match self.phase {
            Phase::Made | Phase::Bound => self.phase = Phase::Exhausted,
            Phase::Running => {
                // From now on packets go the other way, where nobody counts them any more.
                self.keep_books()?;
                self.xdp.redirect(false).map_err(self.error("redirect the packets of"))?;
                self.phase = Phase::Stopping(0);
            }
            Phase::Stopping(_) | Phase::Exhausted => {}
        }
        Ok(())
    }

    fn is_exhausted(&self) -> bool {
        self.phase == Phase::Exhausted
    }
}
