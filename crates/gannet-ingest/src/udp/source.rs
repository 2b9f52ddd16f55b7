//! The source behind one UDP socket.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use gannet_measure::clock::Clock;
use gannet_measure::ledger::Account;
use gannet_memory::{Producer, clop};

use crate::Error;
use crate::lander::Lander;
use crate::source::{Arrival, Counters, Facts, KernelBuffer, Landing, Source, SourceDrop};
use crate::sys::arrival_counter::ArrivalCounter;
use crate::sys::ring;
use crate::sys::socket::Socket;
use crate::udp::allow::AllowList;
use crate::udp::books::Books;
use crate::udp::coalescing::{Coalescing, Seen};
use crate::udp::config::{Engine, UdpConfig};
use crate::udp::engine::{self, arrivals_max};
use crate::udp::intake::Intake;

/// Longest time that the kernel needs to finish with a datagram that it has found a socket for.
const SETTLE: Duration = Duration::from_millis(1);

/// Where a source is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Made,
    Running,
    /// Nothing comes in any more; the queue is being emptied.
    Stopping,
    Exhausted,
}

/// Takes datagrams from one UDP socket.
pub struct UdpSource {
    // The engine comes first, as it must let go of the socket before that is closed.
    engine: engine::Engine,
    socket: Socket,
    intake: Intake,
    books: Books,
    coalescing: Option<Coalescing>,
    clock: Arc<dyn Clock>,
    arrival_ns: u64,
    phase: Phase,
    facts: Facts,
    address: SocketAddr,
}

/// Makes a source for each socket that `config` asks for: for each address, so many sockets.
///
/// Every source has a ring of its own with the given `landing`.
///
/// # Errors
/// When the configuration cannot be met: an address is taken, memory is short, a number is out
/// of range.
pub fn open(
    config: &UdpConfig,
    landing: Landing,
    clock: &Arc<dyn Clock>,
) -> Result<Vec<UdpSource>, Error> {
    config.check()?;
    landing.check()?;
    let mut sources = Vec::new();
    for address in &config.listen {
        // All sockets of one address share the port that the first one got.
        let mut address = *address;
        for _ in 0..config.sockets {
            let source = UdpSource::open(config, address, landing, Arc::clone(clock))?;
            address = source.address;
            sources.push(source);
        }
    }
    Ok(sources)
}

/// Engines and aids that the kernel refused, with the reasons.
#[derive(Default)]
struct Refusals(Vec<String>);

impl Refusals {
    fn note(&mut self, what: &str, cause: impl std::fmt::Display) {
        tracing::info!("{what} is not available: {cause}");
        self.0.push(format!("{what}: {cause}"));
    }
}

/// The engine to use: the one asked for if the kernel offers it, else the next.
fn choose(asked: Engine, frame_len: usize, socket: &Socket, refusals: &mut Refusals) -> Engine {
    if asked == Engine::Recvmmsg {
        return asked;
    }
    if let Err(cause) = socket.set_coalescing(false) {
        refusals.note("coalescing (UDP_GRO)", cause);
        return Engine::Recvmmsg;
    }
    if asked == Engine::IoUring {
        let reason = match frame_len {
            ..ring::FRAME_LEN_MIN => {
                format!("frames have less than {} bytes", ring::FRAME_LEN_MIN)
            }
            _ => match ring::Ring::probe() {
                Ok(()) => return asked,
                Err(cause) => cause.to_string(),
            },
        };
        refusals.note("io_uring", reason);
    }
    Engine::Recvmsg
}

/// A socket that is bound to `address` and refuses every datagram.
fn bind(config: &UdpConfig, address: SocketAddr) -> Result<(Socket, KernelBuffer), Error> {
    let failed = |what| Error::socket(what, address);
    let socket = Socket::new(&address).map_err(failed("open a socket for"))?;
    if config.sockets > 1 {
        socket.share_address().map_err(failed("share"))?;
    }
    let asked = config.kernel_buffer.bytes();
    let obtained = socket.set_receive_buffer(asked).map_err(failed("set the buffer of"))?;
    // Before the socket has a port, so that nothing slips in.
    socket.refuse_all().map_err(failed("set the filter of"))?;
    socket.bind(&address).map_err(failed("bind"))?;
    Ok((socket, KernelBuffer { asked, obtained }))
}

impl UdpSource {
    fn open(
        config: &UdpConfig,
        address: SocketAddr,
        landing: Landing,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, Error> {
        let (socket, kernel_buffer) = bind(config, address)?;
        let address = socket.local_address().map_err(Error::socket("ask the port of", address))?;
        let failed = |what| Error::socket(what, address);
        let mut refusals = Refusals::default();
        let frame_len = landing.frame_len;
        let chosen = choose(config.engine, frame_len, &socket, &mut refusals);
        let coalesces = chosen != Engine::Recvmmsg;
        let counter = match config.count_before_queue && coalesces {
            true => ArrivalCounter::load()
                .map_err(|cause| refusals.note("counting before the queue (BPF)", cause))
                .ok(),
            false => None,
        };
        let is_ring = chosen == Engine::IoUring;
        let geometry = engine::Engine::geometry(is_ring, frame_len, landing.cells);
        let (producer, _) = clop(geometry).map_err(Error::Memory)?;
        let engine =
            engine::Engine::new(is_ring, &producer).map_err(failed("set up io_uring for"))?;
        let books = Books::new(&socket, counter).map_err(failed("read the counters of"))?;
        let facts = Facts {
            name: format!("udp {address}"),
            engine: match chosen {
                Engine::IoUring => "io-uring",
                Engine::Recvmmsg => "recvmmsg",
                Engine::Recvmsg | Engine::Auto => "recvmsg",
            },
            refusals: refusals.0,
            address: Some(address),
            frame_len,
            cells: geometry.capacity(),
            pages: producer.pages(),
            kernel_buffer: Some(kernel_buffer),
            drop_sizes: books.drop_sizes(coalesces),
        };
        let lander = Lander::new(producer, frame_len, arrivals_max(frame_len));
        let now_ns = clock.now_ns();
        Ok(Self {
            engine,
            socket,
            intake: Intake::new(lander, AllowList::new(&config.allow)),
            coalescing: coalesces.then(|| Coalescing::new(books.is_sized(), !is_ring)),
            books,
            clock,
            arrival_ns: now_ns,
            phase: Phase::Made,
            facts,
            address,
        })
    }

    /// Address that the socket is bound to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Makes the kernel find the socket no more; what is queued stays.
    fn shut(&self) -> Result<(), Error> {
        let mut own = self.address;
        if own.ip().is_unspecified() {
            own.set_ip(match own {
                SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
                SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
            });
        }
        self.socket.connect(&own).map_err(Error::socket("shut", self.address))
    }

    fn is_coalesced(&self) -> bool {
        self.coalescing.is_some_and(|coalescing| coalescing.is_on())
    }

    /// Lands what is there; says whether the queue was found empty.
    fn receive(&mut self, wait: Duration) -> Result<bool, Error> {
        let coalesced = self.is_coalesced();
        self.engine
            .receive(&self.socket, &mut self.intake, coalesced, wait)
            .map_err(Error::socket("receive on", self.address))
    }

    /// Keeps the account, and decides about coalescing.
    fn keep_books(&mut self, messages: u64, datagrams: u64, empty: bool) -> Result<(), Error> {
        let (taken, last) = (self.intake.taken(), self.phase == Phase::Exhausted);
        let account = &self.intake.lander.account;
        let (queue, drops) = self.books.keep(&self.socket, taken, account, (empty, last));
        self.count_unsized(drops, self.is_coalesced());
        if empty {
            self.intake.expect_residue(0);
        }
        let Some(coalescing) = &mut self.coalescing else { return Ok(()) };
        let fill_sixteenths = 16 * u64::from(queue.used) / u64::from(queue.limit.max(1));
        let now_ns = self.arrival_ns;
        if !coalescing.observe(Seen { now_ns, messages, datagrams, drops, fill_sixteenths }) {
            return Ok(());
        }
        let on = coalescing.is_on();
        self.socket
            .set_coalescing(on)
            .map_err(Error::socket("set the coalescing of", self.address))?;
        self.intake.lander.counters.coalescing_switches.add(1);
        // Until this moment messages were coalesced, those in the queue and those dropped.
        let account = &self.intake.lander.account;
        let (queue, drops) = self.books.keep(&self.socket, taken, account, (false, false));
        self.count_unsized(drops, !on);
        let queued = queue.used as usize + self.engine.held_bytes();
        self.intake.expect_residue(if on { 0 } else { queued });
        Ok(())
    }

    /// Notes drops of which nobody knows how many datagrams they were.
    fn count_unsized(&self, drops: u64, coalesced: bool) {
        if coalesced && !self.books.is_sized() {
            self.intake.lander.counters.unsized_drops.add(drops);
        }
    }

    /// Empties the queue after the stop.
    fn drain(&mut self) -> Result<bool, Error> {
        let mut empty = self.receive(Duration::ZERO)?;
        if empty && self.intake.lander.arrivals().is_empty() {
            // What the kernel had found the socket for just before the stop may still come.
            thread::sleep(SETTLE);
            empty = self.receive(Duration::ZERO)?;
            if empty && self.intake.lander.arrivals().is_empty() {
                self.phase = Phase::Exhausted;
                self.engine.finish();
            }
        }
        Ok(empty)
    }
}

impl Source for UdpSource {
    fn start(&mut self) -> Result<(), Error> {
        if self.phase != Phase::Made {
            return Ok(());
        }
        let failed = |what| Error::socket(what, self.address);
        if self.is_coalesced() {
            self.socket.set_coalescing(true).map_err(failed("set the coalescing of"))?;
        }
        let producer = &mut self.intake.lander.producer;
        self.engine.start(&self.socket, producer).map_err(failed("start io_uring on"))?;
        self.books.begin(&self.socket).map_err(failed("set the filter of"))?;
        self.phase = Phase::Running;
        Ok(())
    }

    fn poll(&mut self, wait: Duration) -> Result<usize, Error> {
        self.intake.lander.clear();
        let before = self.intake.taken();
        let empty = match self.phase {
            Phase::Made => return Err(Error::NotStarted),
            Phase::Running => self.receive(wait)?,
            Phase::Stopping => self.drain()?,
            Phase::Exhausted => return Ok(0),
        };
        self.arrival_ns = self.clock.now_ns();
        let taken = self.intake.taken();
        let messages = taken.messages - before.messages;
        self.keep_books(messages, taken.datagrams - before.datagrams, empty)?;
        Ok(self.arrivals().len())
    }

    fn arrivals(&self) -> &[Arrival] {
        self.intake.lander.arrivals()
    }

    fn arrival_ns(&self) -> u64 {
        self.arrival_ns
    }

    fn producer(&self) -> &Producer {
        &self.intake.lander.producer
    }

    fn account(&self) -> Arc<Account<SourceDrop>> {
        Arc::clone(&self.intake.lander.account)
    }

    fn counters(&self) -> Arc<Counters> {
        Arc::clone(&self.intake.lander.counters)
    }

    fn facts(&self) -> Facts {
        self.facts.clone()
    }

    fn stop(&mut self) -> Result<(), Error> {
        match self.phase {
            Phase::Made => self.phase = Phase::Exhausted,
            Phase::Running => {
                self.shut()?;
                self.phase = Phase::Stopping;
            }
            Phase::Stopping | Phase::Exhausted => {}
        }
        Ok(())
    }

    fn is_exhausted(&self) -> bool {
        self.phase == Phase::Exhausted
    }
}
