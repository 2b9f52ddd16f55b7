//! What keeps a node going between its ports.

use std::io;
use std::net::Ipv6Addr;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use gannet_lattice::Direction;
use gannet_measure::clock::{Clock, SystemClock};
use gannet_rdma::PhysicalMemory;
use gannet_torus::link::{FrameError, Frames, Most};
use gannet_torus::node::TorusNode;
use gannet_wire::neighbour::PORTS_MAX;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::port::Port;

/// A port by which nothing has come for so long, while frames went elsewhere, is quiet.
const QUIET_NS: u64 = 100_000;
/// How often quiet ports are looked at by a driver that spins, and by one that sleeps, which the system tells of them.
const LOOK_SPINNING_NS: u64 = 5_000;
const LOOK_SLEEPING_NS: u64 = 50_000;
/// Who has slept for so long has seldom anything to do. It goes back to sleep after each step, until frames have come or gone so often.
const REST_NS: u64 = 1_000_000;
const TIMES_AT_REST: u32 = 8;

/// What came and went by a port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// Frames sent.
    pub sent: u64,
    /// Frames taken.
    pub taken: u64,
    /// Frames of others, that were dropped.
    pub strangers: u64,
    /// Frames that the link refused.
    pub refused: u64,
    /// Why it refused the last one of them.
    pub refusal: Option<FrameError>,
    /// Times that the cable was not there.
    pub failures: u64,
    /// What the system said the last time.
    pub failure: Option<String>,
}

#[derive(Debug)]
struct Plugged {
    port: Box<dyn Port + Send>,
    counters: PortCounters,
    /// A message that goes beside the frames of a link, and its length until the cable has taken it.
    room: Box<[u8]>,
    said: usize,
    /// The cable has not taken all that was due.
    is_blocked: bool,
    /// When it was known to have no frame, 0 if one may be there, and when one has come.
    looked_at: u64,
    heard_at: u64,
}

/// What takes the frames that ports bring, and has those that are to be sent.
pub trait Speaker {
    /// Takes a frame that has come by a port; gives whether it is from the other end, and not counted as one of somebody else.
    ///
    /// # Errors
    /// When it is of no use; nothing of it was taken then.
    fn accept(&mut self, port: usize, frame: &[u8], now: u64) -> Result<bool, FrameError>;

    /// Writes the next message that goes by a port beside the frames of a link to the front of `room`, which is as long as a frame, and gives
    /// its length; 0 if there is none.
    fn say(&mut self, port: usize, room: &mut [u8], now: u64) -> usize {
        let _ = (port, room, now);
        0
    }

    /// The frames that are due by a port and go at once; none if none is. More may be due behind them. They count as sent.
    fn take_frames(&mut self, port: usize, most: Most, now: u64) -> Option<Frames<'_>>;

    /// Returns the `count` frames that were taken last and could not be sent: they are due again.
    fn return_frames(&mut self, port: usize, count: usize);

    /// Lets time pass.
    fn advance(&mut self, now: u64);

    /// Whether what was accepted at a port since the last call proves that its sender is the other end.
    fn has_proof(&mut self, port: usize) -> bool {
        let _ = port;
        true
    }

    /// When there is something to do if no frame comes before; none if never. What is due by a port that takes none, since it has no cable or one
    /// that has not taken all, is nothing to do.
    fn next_deadline(&self, takes: &dyn Fn(usize) -> bool) -> Option<u64>;

    /// What becomes readable when there is something to do for another reason.
    fn descriptors(&self) -> [Option<BorrowedFd<'_>>; 2] {
        [None, None]
    }

    /// Whether there is nothing to do before a frame comes or one of the [`descriptors`](Self::descriptors) becomes readable, which they do
    /// only after this was called.
    fn may_sleep(&mut self) -> bool {
        true
    }

    /// Takes note which of the descriptors are readable.
    fn woken(&mut self, which: [bool; 2]) {
        let _ = which;
    }
}

/// Its ports are its links, by the numbers of their directions.
impl<M: PhysicalMemory> Speaker for TorusNode<M> {
    fn accept(&mut self, port: usize, frame: &[u8], now: u64) -> Result<bool, FrameError> {
        self.accept(Direction::ALL[port], frame, now).map(|()| true)
    }

    fn take_frames(&mut self, port: usize, most: Most, now: u64) -> Option<Frames<'_>> {
        self.take_frames(Direction::ALL[port], most, now)
    }

    fn return_frames(&mut self, port: usize, _: usize) {
        self.return_frames(Direction::ALL[port]);
    }

    fn advance(&mut self, now: u64) {
        self.advance_in_part(now);
    }

    fn may_sleep(&mut self) -> bool {
        !self.engine().has_completion()
    }

    fn next_deadline(&self, takes: &dyn Fn(usize) -> bool) -> Option<u64> {
        self.next_deadline_of(|direction| takes(direction.index()))
    }
}

/// A node, or a host, and its ports, on one thread.
#[derive(Debug)]
pub struct Driver<S> {
    node: S,
    ports: Vec<Option<Plugged>>,
    clock: SystemClock,
    /// When it last took or sent frames.
    looked_at: u64,
    spin_ns: u64,
    /// When the last frame came.
    busy_at: u64,
    /// When it last let others run before it sleeps.
    yielded_at: u64,
    /// How often frames have come or gone since it has slept for long.
    busy_times: u32,
}

impl<S: Speaker> Driver<S> {
    /// A driver of `node`, which has no cables yet and spins for `spin_ns` after the last frame before it sleeps.
    pub fn new(node: S, spin_ns: u64) -> Self {
        Self {
            node,
            ports: Vec::new(),
            clock: SystemClock::start(),
            looked_at: 0,
            spin_ns,
            busy_at: 0,
            yielded_at: 0,
            busy_times: 0,
        }
    }

    /// Plugs the end of a cable into the port of this number, in the place of any other. It has to carry the frames of the node, with what is
    /// behind them.
    ///
    /// # Panics
    /// When no host has a port of this number.
    pub fn plug(&mut self, number: usize, port: Box<dyn Port + Send>) {
        assert!(number < PORTS_MAX, "port {number} of {PORTS_MAX}");
        if self.ports.len() <= number {
            self.ports.resize_with(number + 1, || None);
        }
        let counters = PortCounters::default();
        let room = vec![0; port.frame_bytes()].into();
        let (looked_at, heard_at) = (0, self.clock.now_ns());
        let plugged =
            Plugged { port, counters, room, said: 0, is_blocked: false, looked_at, heard_at };
        self.ports[number] = Some(plugged);
    }

    /// The node.
    pub fn node(&self) -> &S {
        &self.node
    }

    /// The node, to be posted to and polled; what is posted leaves in the next [`step`](Self::step).
    pub fn node_mut(&mut self) -> &mut S {
        &mut self.node
    }

    /// The time of the node, ns.
    pub fn now(&self) -> u64 {
        self.clock.now_ns()
    }

    /// What came and went by the port of this number, if a cable is plugged in there.
    pub fn counters(&self, number: usize) -> Option<PortCounters> {
        let Plugged { port, counters, .. } = self.ports.get(number)?.as_ref()?;
        Some(PortCounters { strangers: port.strangers(), ..counters.clone() })
    }

    /// Interface and other end of the cable at the port of this number: see [`Port::interface`].
    pub fn interface(&self, number: usize) -> Option<(&str, Option<Ipv6Addr>)> {
        self.ports.get(number)?.as_ref()?.port.interface()
    }

    /// Takes what has come, lets time pass and sends what is due; gives whether that is worth doing again at once, and else it is time to
    /// [`wait`](Self::wait).
    pub fn step(&mut self) -> bool {
        let came = self.receive();
        (self.send() || came) && !self.is_at_rest()
    }

    fn is_at_rest(&self) -> bool {
        self.busy_times <= TIMES_AT_REST
    }

    /// Notes that frames have come or gone.
    fn was_busy(&mut self, now: u64) {
        self.busy_at = now;
        self.busy_times = self.busy_times.saturating_add(1);
    }

    /// Takes what has come; gives whether a frame came. Answers that are posted before the next [`send`](Self::send) acknowledge it.
    pub fn receive(&mut self) -> bool {
        self.receive_at(self.clock.now_ns())
    }

    fn receive_at(&mut self, now: u64) -> bool {
        self.looked_at = now;
        // Frames that waited while this thread did not run are heard before the silence is judged, but for what has come to
        // quiet ports since the last look, a few microseconds ago.
        let spins = self.spin_ns > 0;
        let mut is_busy = false;
        for (number, plugged) in self.ports.iter_mut().enumerate() {
            if let Some(plugged) = plugged
                && plugged.is_worth_a_look(now, self.busy_at, spins)
            {
                is_busy |= plugged.receive(&mut self.node, number, now);
            }
        }
        if is_busy {
            self.was_busy(now);
        }
        is_busy
    }

    /// Lets time pass and sends what is due; gives whether a frame went.
    pub fn send(&mut self) -> bool {
        let now = self.clock.now_ns();
        self.looked_at = now;
        self.node.advance(now);
        let mut is_busy = false;
        for (number, plugged) in self.ports.iter_mut().enumerate() {
            if let Some(plugged) = plugged {
                is_busy |= plugged.send(&mut self.node, number, now);
            }
        }
        if is_busy {
            self.was_busy(now);
        }
        is_busy
    }

    /// Sleeps until a frame comes or the node has something to do, at most for `most`; not at all within the time to
    /// spin after the last frame, nor while a node has completions that nobody has taken. Where frames come often, others that can run have their turn first.
    ///
    /// # Errors
    /// When the system cannot wait for the ports.
    pub fn wait(&mut self, most: Duration) -> io::Result<()> {
        // Who spins has looked for frames just now, and a look at the clock is a good part of a turn.
        if self.looked_at < self.busy_at.saturating_add(self.spin_ns) {
            std::hint::spin_loop();
            return Ok(());
        }
        let now = self.clock.now_ns();
        if !self.node.may_sleep() {
            return Ok(());
        }
        // Who waits for this processor may have what comes next, and who does not sleep need not be woken.
        if self.yielded_at < self.busy_at && !self.is_at_rest() {
            self.yielded_at = now;
            std::thread::yield_now();
            return Ok(());
        }
        let most_ns = u64::try_from(most.as_nanos()).unwrap_or(u64::MAX);
        let takes = |number: usize| {
            let plugged = self.ports.get(number).and_then(Option::as_ref);
            plugged.is_some_and(|plugged| !plugged.is_blocked)
        };
        let deadline = self.node.next_deadline(&takes).unwrap_or(u64::MAX).saturating_sub(now);
        let blocked = self.ports.iter().flatten().filter(|plugged| plugged.is_blocked);
        let blocked = blocked.map(|plugged| plugged.port.asked_again_after().as_nanos() as u64);
        let wait_ns = blocked.fold(most_ns.min(deadline), u64::min);
        let own = self.node.descriptors();
        let are_own = own.map(|it| it.is_some());
        let ports = self.ports.iter().flatten().map(|plugged| plugged.port.descriptor());
        let mut all = own.iter().flatten().copied().chain(ports);
        let count = all.clone().count();
        let Some(first) = all.clone().next() else {
            std::thread::sleep(Duration::from_nanos(wait_ns));
            return Ok(());
        };
        let mut descriptors: [PollFd<'_>; PORTS_MAX + 2] = std::array::from_fn(|_| {
            PollFd::from_borrowed_fd(all.next().unwrap_or(first), PollFlags::IN)
        });
        let wait = Timespec {
            tv_sec: (wait_ns / 1_000_000_000) as i64,
            tv_nsec: (wait_ns % 1_000_000_000) as i64,
        };
        match poll(&mut descriptors[..count], Some(&wait)) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        let mut came = descriptors.map(|descriptor| !descriptor.revents().is_empty()).into_iter();
        let woken = are_own.map(|is_there| is_there && came.next() == Some(true));
        let woken_at = self.clock.now_ns();
        if woken_at >= now.saturating_add(REST_NS) {
            self.busy_times = 0;
        }
        for (plugged, came) in self.ports.iter_mut().flatten().zip(came) {
            plugged.looked_at = if came { 0 } else { woken_at };
        }
        if woken != [false; 2] {
            self.node.woken(woken);
        }
        Ok(())
    }
}

impl Plugged {
    /// Whether a frame is to be expected, or it has not been looked for one for long; a look costs a system call.
    fn is_worth_a_look(&self, now: u64, busy_at: u64, spins: bool) -> bool {
        let is_lively = self.heard_at.saturating_add(QUIET_NS) >= busy_at;
        let look_ns = if spins { LOOK_SPINNING_NS } else { LOOK_SLEEPING_NS };
        spins && is_lively || now >= self.looked_at.saturating_add(look_ns)
    }

    fn receive(&mut self, node: &mut impl Speaker, number: usize, now: u64) -> bool {
        let counters = &mut self.counters;
        let before = counters.taken;
        let received = self.port.receive(&mut |frame| match node.accept(number, frame, now) {
            Ok(is_of_other) => counters.taken += u64::from(is_of_other),
            Err(refusal) => {
                counters.refused += 1;
                counters.refusal = Some(refusal);
            }
        });
        let came = counters.taken > before;
        if came {
            self.heard_at = now;
            if node.has_proof(number) {
                self.port.confirm();
            }
        }
        self.looked_at = if let Ok(false) = received { 0 } else { now };
        match received {
            Ok(were_all) => came || !were_all,
            Err(error) => self.failed(&error) || came,
        }
    }

    fn send(&mut self, node: &mut impl Speaker, number: usize, now: u64) -> bool {
        let before = self.counters.sent;
        match self.send_all(node, number, now) {
            Ok(took_all) => self.is_blocked = !took_all,
            Err(error) => {
                self.is_blocked = false;
                self.failed(&error);
            }
        }
        self.counters.sent > before
    }

    /// Sends all that is due; gives whether the cable has taken it.
    fn send_all(&mut self, node: &mut impl Speaker, number: usize, now: u64) -> io::Result<bool> {
        if self.is_blocked && !self.port.may_send() {
            return Ok(false);
        }
        let mut outcome = Ok(true);
        loop {
            if self.said == 0 {
                self.said = node.say(number, &mut self.room, now);
            }
            if self.said == 0 {
                break;
            }
            match self.port.send(&self.room[..self.said], self.said) {
                Ok(true) => self.counters.sent += 1,
                Ok(false) => return Ok(false),
                // The message is sent again when its time has come, and frames may still get through.
                Err(error) => outcome = Err(error),
            }
            self.said = 0;
        }
        let most = self.port.at_once();
        while let Some(frames) = node.take_frames(number, most, now) {
            let count = frames.count();
            if !self.port.send(frames.bytes, frames.frame)? {
                node.return_frames(number, count);
                return Ok(false);
            }
            self.counters.sent += count as u64;
        }
        outcome
    }

    /// Notes a failure, of which the link learns by the silence behind it.
    fn failed(&mut self, error: &io::Error) -> bool {
        self.counters.failures += 1;
        self.counters.failure = Some(error.to_string());
        false
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::os::fd::{AsFd, BorrowedFd};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// Takes all, and says nothing.
    #[derive(Debug)]
    struct Listener;

    impl Speaker for Listener {
        fn accept(&mut self, _: usize, _: &[u8], _: u64) -> Result<bool, FrameError> {
            Ok(true)
        }

        fn take_frames(&mut self, _: usize, _: Most, _: u64) -> Option<Frames<'_>> {
            None
        }

        fn return_frames(&mut self, _: usize, _: usize) {}

        fn advance(&mut self, _: u64) {}

        fn next_deadline(&self, _: &dyn Fn(usize) -> bool) -> Option<u64> {
            None
        }
    }

    /// Counts the looks at it, and has a frame at each or at none.
    #[derive(Debug)]
    struct Counting {
        looks: Arc<AtomicU64>,
        is_busy: bool,
    }

    impl Port for Counting {
        fn frame_bytes(&self) -> usize {
            64
        }

        fn window_bytes(&self) -> usize {
            64
        }

        fn send(&mut self, _: &[u8], _: usize) -> io::Result<bool> {
            Ok(true)
        }

        fn receive(&mut self, take: &mut dyn FnMut(&[u8])) -> io::Result<bool> {
            self.looks.fetch_add(1, Ordering::Relaxed);
            if self.is_busy {
                take(&[0; 64]);
            }
            Ok(true)
        }

        fn descriptor(&self) -> BorrowedFd<'_> {
            unreachable!("nobody sleeps")
        }
    }

    /// Takes nothing for now.
    #[derive(Debug)]
    struct Blocked(UdpSocket);

    const BLOCKED: Duration = Duration::from_millis(5);

    impl Port for Blocked {
        fn frame_bytes(&self) -> usize {
            64
        }

        fn window_bytes(&self) -> usize {
            64
        }

        fn send(&mut self, _: &[u8], _: usize) -> io::Result<bool> {
            Ok(false)
        }

        fn asked_again_after(&self) -> Duration {
            BLOCKED
        }

        fn receive(&mut self, _: &mut dyn FnMut(&[u8])) -> io::Result<bool> {
            Ok(true)
        }

        fn descriptor(&self) -> BorrowedFd<'_> {
            self.0.as_fd()
        }
    }

    /// Has always something to send by its port.
    #[derive(Debug)]
    struct Talker([u8; 64]);

    impl Speaker for Talker {
        fn accept(&mut self, _: usize, _: &[u8], _: u64) -> Result<bool, FrameError> {
            Ok(true)
        }

        fn take_frames(&mut self, _: usize, _: Most, _: u64) -> Option<Frames<'_>> {
            Some(Frames { bytes: &mut self.0, frame: 64 })
        }

        fn return_frames(&mut self, _: usize, _: usize) {}

        fn advance(&mut self, _: u64) {}

        fn next_deadline(&self, takes: &dyn Fn(usize) -> bool) -> Option<u64> {
            takes(0).then_some(0)
        }
    }

    #[test]
    fn a_driver_sleeps_while_its_cable_takes_nothing() {
        let mut driver = Driver::new(Talker([0; 64]), 0);
        driver.plug(0, Box::new(Blocked(UdpSocket::bind("127.0.0.1:0").unwrap())));
        assert!(!driver.step());
        let begin = driver.now();
        driver.wait(Duration::from_secs(1)).unwrap();
        assert!(driver.now() - begin >= BLOCKED.as_nanos() as u64, "it would spin");
    }

    #[test]
    fn a_driver_at_rest_waits_for_the_next_frame_asleep_until_they_come_often() {
        // One that spins looks in each step.
        let mut driver = Driver::new(Listener, 1);
        driver.plug(0, Box::new(Counting { looks: Arc::default(), is_busy: true }));
        let steps: Vec<bool> = (0..12).map(|_| driver.step()).collect();
        let first = steps.iter().position(|&is_worth_another| is_worth_another);
        assert_eq!(first, Some(TIMES_AT_REST as usize), "{steps:?}");
        assert!(steps[TIMES_AT_REST as usize..].iter().all(|&is_worth_another| is_worth_another));
    }

    #[test]
    fn a_quiet_port_is_looked_at_rarely_while_another_is_busy() {
        let mut driver = Driver::new(Listener, 1);
        let looks = [true, false].map(|is_busy| {
            let looks = Arc::new(AtomicU64::new(0));
            let port = Counting { looks: Arc::clone(&looks), is_busy };
            driver.plug(usize::from(!is_busy), Box::new(port));
            looks
        });
        let count = || looks.each_ref().map(|looks| looks.load(Ordering::Relaxed));
        let quiet_from = driver.now() + QUIET_NS + 1;
        driver.receive_at(quiet_from);
        let before = count();
        let step_ns = LOOK_SPINNING_NS / 10;
        for step in 1..=1000 {
            driver.receive_at(quiet_from + step * step_ns);
        }
        let [busy, quiet] = count();
        assert_eq!(busy - before[0], 1000);
        assert_eq!(quiet - before[1], 100);
    }
}
