//! The source: frames that a sender puts into its ring.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use gannet_ingest::{BATCH_FRAMES, Landed, Landing, Source, SourceDrop};
use gannet_measure::clock::Clock;
use gannet_memory::{Access, Cell, Geometry, SharedRegion, clop_over};

use super::Error;
use super::config::{FabricConfig, Policy};
use super::door::{Door, RingMemory, Sender};
use super::greeting::Greeting;
use super::intake::{Intake, Told};
use super::leave::Ring;
use crate::meet::Meet;
use crate::{Completion, Limits, Trust};

/// Cells for which there may be leave: no fewer than a few polls take, and no more than events find room.
const AHEAD: std::ops::RangeInclusive<u64> = 4 * BATCH_FRAMES as u64..=1 << 19;
/// Completions that are taken at a time.
const COMPLETIONS: usize = 256;
/// Pause of a poll that has found nothing, and of one without a sender.
const PAUSE: Duration = Duration::from_micros(20);
const PAUSE_ALONE: Duration = Duration::from_millis(1);

/// Where a source is in its life.
enum State<M: Meet> {
    Made,
    Bound(M::Listener),
    Open(Door<M::Endpoint>),
    Exhausted,
}

/// Takes frames that a sender puts into the cells of its ring.
pub struct ClopSource<M: Meet> {
    landed: Landed,
    intake: Intake,
    ring: Ring,
    /// Memory of the ring, until the door has it.
    memory: Option<RingMemory>,
    meet: Option<M>,
    trust: Trust,
    policy: Policy,
    state: State<M>,
    /// Whether no more frames are wanted than those on their way.
    is_stopped: bool,
    sender: Option<Sender<M::Endpoint>>,
    completions: Vec<Completion>,
    clock: Arc<dyn Clock>,
}

impl<M: Meet> ClopSource<M> {
    /// Makes the source. Nobody can join it before it is bound.
    ///
    /// # Errors
    /// When a number is out of range, or memory or the secret cannot be had.
    pub fn new(
        meet: M,
        config: &FabricConfig,
        landing: Landing,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, gannet_ingest::Error> {
        config.check()?;
        landing.check()?;
        let cell_bytes = *landing.lengths.end();
        let ahead = (config.queue.bytes() / cell_bytes as u64).clamp(*AHEAD.start(), *AHEAD.end());
        // Beside those with leave, the arrivals of a poll are to stay until the next.
        let cells = landing.cells.max(2 * BATCH_FRAMES as u64) + ahead;
        let geometry = Geometry { cell_bytes, cells: cells as usize };
        let region = SharedRegion::new(geometry.bytes()).map_err(Error::from)?;
        let memory = RingMemory {
            file: region.descriptor(Access::Write).map_err(Error::from)?,
            region_bytes: region.len() as u64,
            bytes: geometry.bytes() as u64,
        };
        let (producer, _) = clop_over(region, geometry);
        let name = format!("fabric {}", config.listen);
        let engine = match config.backend {
            super::Backend::Shm => "shm",
            super::Backend::Udp => "udp",
            super::Backend::Ofi => "ofi",
            super::Backend::Torus => "torus",
        };
        let lengths = landing.lengths;
        let ring = Ring { cell_bytes: cell_bytes as u64, cells };
        Ok(Self {
            landed: Landed::over(producer, lengths.clone(), BATCH_FRAMES, name, engine),
            intake: Intake::new(ring, lengths, config.policy, ahead),
            ring,
            memory: Some(memory),
            meet: Some(meet),
            trust: config.trust()?,
            policy: config.policy,
            state: State::Made,
            is_stopped: false,
            sender: None,
            completions: Vec::with_capacity(COMPLETIONS),
            clock,
        })
    }

    /// What an endpoint for a sender is made with.
    fn limits(&self) -> Limits {
        // All frames with leave, and words about others, find room.
        let events = (2 * self.intake.ahead()).next_power_of_two() as usize;
        Limits { peers: 1, regions: 2, windows: 4, events, ..Limits::default() }
    }

    /// Lets the next sender begin, if there is one.
    fn meet_sender(&mut self) {
        let State::Open(door) = &self.state else { return };
        if self.is_stopped {
            return;
        }
        let Some(mut sender) = door.next() else { return };
        let next = self.intake.begin();
        if let Some(end) = self.intake.leave() {
            self.landed.producer_mut().reserve_to(Cell(end));
            self.intake.left(end);
        }
        let greeting = Greeting::Welcome { ring: self.ring, next };
        match sender.tell(Some(greeting), self.intake.end() as u32) {
            Ok(()) => self.sender = Some(sender),
            Err(_) => door.free(),
        }
    }

    /// Takes note of what the sender has done; gives whether it has done anything.
    fn hear(&mut self) -> bool {
        let Self { sender: Some(sender), intake, landed, completions, .. } = self else {
            return false;
        };
        // Looking ahead is needed only to know whether to give frames up.
        let enough = match self.policy {
            Policy::CreditStop => BATCH_FRAMES,
            Policy::OverwriteOldest => usize::MAX,
        };
        sender.progress();
        let (mut has_heard, mut has_left) = (false, false);
        // A sender has leave for no more frames, and words without any are not waited for.
        let looks = 2 + intake.ahead() as usize / COMPLETIONS;
        for _ in 0..looks {
            if intake.waiting() >= enough {
                break;
            }
            sender.poll(completions);
            if completions.is_empty() {
                break;
            }
            for completion in completions.drain(..) {
                match completion {
                    Completion::Notified { key, offset, bytes, immediate, .. }
                        if key == sender.ring =>
                    {
                        has_heard = true;
                        let Told { dropped, refused } = intake.hear(offset, bytes, immediate);
                        if dropped > 0 {
                            landed.discard(SourceDrop::NoLeave, dropped);
                        }
                        refused.into_iter().for_each(|reason| landed.discard(reason, 1));
                    }
                    Completion::Left { .. } => has_left = true,
                    _ => {}
                }
            }
        }
        if has_left {
            self.sender = None;
            if let State::Open(door) = &self.state {
                door.free();
            }
        }
        has_heard
    }

    /// Delivers what waits, as much as a poll takes, and gives leave for as many.
    fn deliver(&mut self) {
        let Self { landed, intake, sender, .. } = self;
        let given_up = intake.give_up();
        if given_up > 0 {
            landed.discard(SourceDrop::GivenUp, given_up);
        }
        while !landed.is_full()
            && let Some((cell, len)) = intake.take()
        {
            landed.deliver(Cell(cell), len as usize);
        }
        landed.producer_mut().commit_to(Cell(intake.head()));
        if let Some(sender) = sender.as_mut().filter(|_| !self.is_stopped)
            && let Some(end) = intake.leave()
        {
            // Whoever reads is told first; a sender that takes no words gets its leave later.
            landed.producer_mut().reserve_to(Cell(end));
            if sender.tell(None, end as u32).is_ok() {
                intake.left(end);
            }
        }
    }
}

impl<M: Meet> Source for ClopSource<M> {
    fn bind(&mut self) -> Result<(), gannet_ingest::Error> {
        let (State::Made, Some(meet)) = (&self.state, &self.meet) else { return Ok(()) };
        let place = self.landed.facts().name.replacen("fabric ", "", 1);
        let listener = meet.listen().map_err(|cause| Error::Listen { place, cause })?;
        self.landed.facts_mut().name = format!("fabric {}", meet.place(&listener));
        self.state = State::Bound(listener);
        Ok(())
    }

    fn start(&mut self) -> Result<(), gannet_ingest::Error> {
        self.bind()?;
        let limits = self.limits();
        let was = std::mem::replace(&mut self.state, State::Exhausted);
        self.state = match (was, self.meet.take(), self.memory.take()) {
            (State::Bound(listener), Some(meet), Some(memory)) => {
                let door = Door::open(meet, listener, memory, limits, self.trust.clone());
                State::Open(door.map_err(Error::from)?)
            }
            (was, ..) => was,
        };
        Ok(())
    }

    fn poll(&mut self, wait: Duration) -> Result<usize, gannet_ingest::Error> {
        self.landed.begin(self.clock.now_ns());
        if matches!(self.state, State::Made | State::Bound(_)) {
            return Err(gannet_ingest::Error::NotStarted);
        }
        let begin = Instant::now();
        loop {
            if self.sender.is_none() {
                self.meet_sender();
            }
            let has_heard = self.hear();
            self.deliver();
            let is_over = !has_heard && self.intake.waiting() == 0;
            if is_over && self.is_stopped {
                self.state = State::Exhausted;
                self.sender = None;
            }
            let (count, waited) = (self.landed.arrivals().len(), begin.elapsed());
            if count > 0 || self.is_exhausted() || waited >= wait {
                return Ok(count);
            }
            let pause = if self.sender.is_some() { PAUSE } else { PAUSE_ALONE };
            thread::sleep(pause.min(wait - waited));
            self.landed.begin(self.clock.now_ns());
        }
    }

    fn landed(&self) -> &Landed {
        &self.landed
    }

    fn stop(&mut self) -> Result<(), gannet_ingest::Error> {
        self.is_stopped = true;
        if let State::Open(door) = &self.state {
            door.close();
        }
        Ok(())
    }

    fn is_exhausted(&self) -> bool {
        matches!(self.state, State::Exhausted)
    }
}
