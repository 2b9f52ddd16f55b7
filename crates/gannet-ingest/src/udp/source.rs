//! The source behind one UDP socket.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use gannet_measure::clock::Clock;

use crate::Error;
use crate::landed::Landed;
use crate::source::{Landing, Source, SourceDrop};
use crate::sys::socket::{Queue, Socket};
use crate::udp::allow::AllowList;
use crate::udp::coalescing::{Coalescing, Seen};
use crate::udp::config::UdpConfig;
use crate::udp::group::Group;
use crate::udp::intake::Intake;
use crate::udp::receiver::UdpReceiver;
use crate::udp::setup::{Parts, set_up};
use crate::udp::socket_account::{Moment, SocketAccount};
use crate::udp::spread::Spread;

/// Longest time that the kernel needs to finish with a datagram that it has found a socket for.
const SETTLE: Duration = Duration::from_millis(1);

/// Where a source is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Nobody can send to it.
    Made,
    /// What is sent to it is refused and counted.
    Bound,
    Running,
    /// Nothing comes in any more; the queue is being emptied.
    Stopping,
    Exhausted,
}

/// Takes datagrams from one UDP socket.
pub struct UdpSource {
    receiver: UdpReceiver,
    socket: Arc<Socket>,
    intake: Intake,
    socket_account: SocketAccount,
    coalescing: Option<Coalescing>,
    /// Whether the kernel may join datagrams into messages at present.
    joins: bool,
    /// Whether datagrams of several lengths are taken.
    varied: bool,
    clock: Arc<dyn Clock>,
    phase: Phase,
    address: SocketAddr,
    group: Arc<Group>,
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
    let mut sources = prepare(config, landing, None, clock)?;
    sources.iter_mut().try_for_each(Source::bind)?;
    Ok(sources)
}

/// As [`open`], but nothing can be sent to the sources until they are bound, and `spread` says which
/// streams come by which of the sockets that share an address.
///
/// # Errors
/// As [`open`], except that nobody knows yet whether an address is taken.
pub fn prepare(
    config: &UdpConfig,
    landing: Landing,
    spread: Option<&Spread>,
    clock: &Arc<dyn Clock>,
) -> Result<Vec<UdpSource>, Error> {
    config.check()?;
    landing.check()?;
    let mut sources = Vec::new();
    let shares_address = config.sockets > 1;
    let spread = spread.filter(|_| shares_address);
    for address in &config.listen {
        let program = spread.map(|spread| spread.program(config.listen.len(), config.sockets));
        let group = Arc::new(Group::new(shares_address, program));
        for _ in 0..config.sockets {
            let (group, clock) = (Arc::clone(&group), Arc::clone(clock));
            sources.push(UdpSource::prepare(config, *address, group, landing.clone(), clock)?);
        }
    }
    Ok(sources)
}

impl UdpSource {
    fn prepare(
        config: &UdpConfig,
        address: SocketAddr,
        group: Arc<Group>,
        landing: Landing,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, Error> {
        let varied = landing.lengths.start() < landing.lengths.end();
        let Parts { receiver, socket, landed, socket_account, coalesces } =
            set_up(config, address, landing)?;
        let coalescing = coalesces.then(|| Coalescing::new(socket_account.is_sized(), varied));
        Ok(Self {
            receiver,
            address,
            group,
            socket: Arc::new(socket),
            intake: Intake::new(landed, AllowList::new(&config.allow)),
            joins: coalesces,
            varied,
            coalescing,
            socket_account,
            clock,
            phase: Phase::Made,
        })
    }

    /// Address that the socket is bound to, or is to be bound to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Keeps the sender of each arrival from now on.
    pub(crate) fn keep_senders(&mut self) {
        self.intake.keep_senders();
    }

    /// Sender of an arrival of the last poll, if it is kept.
    pub(crate) fn sender(&self, arrival: usize) -> Option<SocketAddr> {
        self.intake.sender(arrival)
    }

    /// Makes the kernel find the socket no more; what is queued stays.
    fn shut(&self) -> Result<(), Error> {
        self.group.close().map_err(Error::socket("close", self.address))?;
        let mut own = self.address;
        if own.ip().is_unspecified() {
            own.set_ip(match own {
                SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
                SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
            });
        }
        let shut = self.socket.connect(&own);
        // Without a loopback address the filter has to do. It counts what it refuses as drops.
        shut.or_else(|_| self.socket.refuse_all()).map_err(Error::socket("shut", self.address))
    }

    fn is_coalesced(&self) -> bool {
        self.coalescing.is_some_and(|coalescing| coalescing.is_on())
    }

    /// Lands what is there; says whether the queue was found empty.
    fn receive(&mut self, wait: Duration) -> Result<bool, Error> {
        let coalesced = self.is_coalesced();
        self.receiver
            .receive(&self.socket, &mut self.intake, coalesced, wait)
            .map_err(Error::socket("receive on", self.address))
    }

    /// Keeps the account, and decides about coalescing.
    fn keep_books(&mut self, messages: u64, datagrams: u64, empty: bool) -> Result<(), Error> {
        let moment = match (self.phase, empty) {
            (Phase::Exhausted, _) => Moment::Last,
            (_, true) => Moment::Empty,
            (_, false) => Moment::Busy,
        };
        let (queue, drops) = self.read_books(moment, self.joins);
        if empty {
            self.intake.expect_residue(0, false);
        }
        let Some(coalescing) = &mut self.coalescing else { return Ok(()) };
        if self.group.is_parted() {
            coalescing.end();
        }
        let fill_sixteenths = 16 * u64::from(queue.used) / u64::from(queue.limit.max(1));
        let now_ns = self.intake.landed.arrival_ns;
        let seen = Seen { now_ns, messages, datagrams, drops, fill_sixteenths, is_empty: empty };
        if coalescing.observe(seen) {
            self.intake.landed.counters.coalescing_switches.add(1);
        }
        let (joins, few) = (coalescing.joins(), coalescing.has_given_up(now_ns));
        if joins == std::mem::replace(&mut self.joins, joins) {
            return Ok(());
        }
        self.socket
            .set_coalescing(joins)
            .map_err(Error::socket("set the coalescing of", self.address))?;
        if self.varied && !joins {
            thread::sleep(SETTLE);
        }
        // Until this moment messages were coalesced, those in the queue and those dropped.
        let (queue, _) = self.read_books(Moment::Busy, !joins);
        self.intake.expect_residue(if joins { 0 } else { queue.used as usize }, few);
        Ok(())
    }

    /// Puts new drops into the account, and notes those whose size nobody knows because messages
    /// were coalesced. Returns the state of the queue and the number of new drops.
    fn read_books(&mut self, moment: Moment, coalesced: bool) -> (Queue, u64) {
        let (taken, landed) = (self.intake.taken(), &self.intake.landed);
        let (queue, drops) = self.socket_account.keep(&self.socket, taken, &landed.account, moment);
        if coalesced && !self.socket_account.is_sized() {
            landed.counters.unsized_drops.add(drops);
        }
        (queue, drops)
    }

    /// Empties the queue after the stop.
    fn drain(&mut self) -> Result<bool, Error> {
        let mut empty = self.receive(Duration::ZERO)?;
        if empty && self.intake.landed.arrivals().is_empty() {
            // What the kernel had found the socket for just before the stop may still come.
            thread::sleep(SETTLE);
            empty = self.receive(Duration::ZERO)?;
            if empty && self.intake.landed.arrivals().is_empty() {
                self.phase = Phase::Exhausted;
            }
        }
        Ok(empty)
    }
}

impl Source for UdpSource {
    fn bind(&mut self) -> Result<(), Error> {
        if self.phase != Phase::Made {
            return Ok(());
        }
        self.address = self.group.bind(&self.socket, self.address)?;
        self.intake.landed.facts.name = format!("udp {}", self.address);
        self.intake.landed.facts.address = Some(self.address);
        self.phase = Phase::Bound;
        Ok(())
    }

    fn start(&mut self) -> Result<(), Error> {
        self.bind()?;
        if self.phase != Phase::Bound {
            return Ok(());
        }
        let failed = |what| Error::socket(what, self.address);
        let begun = self.socket_account.begin(&self.socket, self.joins);
        let refused = begun.map_err(failed("set the filter and coalescing of"))?;
        let account = &self.intake.landed.account;
        account.offer(refused);
        account.discard(SourceDrop::BeforeStart, refused);
        self.phase = Phase::Running;
        Ok(())
    }

    fn poll(&mut self, wait: Duration) -> Result<usize, Error> {
        self.intake.clear();
        let before = self.intake.taken();
        let empty = match self.phase {
            Phase::Made | Phase::Bound => return Err(Error::NotStarted),
            Phase::Running => self.receive(wait)?,
            Phase::Stopping => self.drain()?,
            Phase::Exhausted => return Ok(0),
        };
        self.intake.landed.arrival_ns = self.clock.now_ns();
        let taken = self.intake.taken();
        let messages = taken.messages - before.messages;
        let datagrams = taken.datagrams - before.datagrams;
        self.keep_books(messages, datagrams, empty)?;
        Ok(self.intake.landed.arrivals().len())
    }

    fn landed(&self) -> &Landed {
        &self.intake.landed
    }

    fn part(&mut self) {
        self.group.part();
    }

    fn stop(&mut self) -> Result<(), Error> {
        match self.phase {
            Phase::Made | Phase::Bound => self.phase = Phase::Exhausted,
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
