//! Readout and builder as two processes: the threads that join them.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use gannet_fabric::clop::Backend;
use gannet_fabric::meet::{Meet, OverOfi, OverShm, OverUdp, Reception};
use gannet_fabric::messenger::{Messenger, Ring};
use gannet_fabric::{Endpoint, Limits, Peer, Trust};
use gannet_measure::clock::Clock;
use gannet_readout::remote::{self, BuilderEnd, LinkError, ReadoutEnd};
use gannet_trigger::Item;
use gannet_wire::record::Record;

use super::RunError;
use super::drain::DrainState;
use super::life::Life;
use super::receive::Gate;
use crate::config::{BuilderConfig, Plan};

/// How long the builder waits for a readout between two looks at what it is asked.
const LOOK: Duration = Duration::from_millis(10);
/// How long either side waits for more when nothing came.
const REST: Duration = Duration::from_micros(200);
/// Time after which a readout looks for the builder again.
const RETRY: Duration = Duration::from_millis(100);

/// Digest by which readout and builder know that they have the same configuration.
pub(super) fn digest(plan: &Plan) -> u64 {
    // Of the whole text; FNV-1a, which is no secret and need be none.
    plan.text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// What both sides need to meet.
pub(super) struct Meeting {
    config: BuilderConfig,
    trust: Trust,
    limits: Limits,
    ring: Ring,
}

impl Meeting {
    /// Where readout and builder of `plan` meet; no frame gives more than `frame_items_max` items.
    pub fn new<I: Item + Record>(plan: &Plan, frame_items_max: usize) -> Result<Self, RunError> {
        let config = plan.settings.builder.clone();
        let trust = config.place().trust().map_err(|error| RunError::Builder(error.to_string()))?;
        let limits = Limits { deadline: config.deadline.duration(), ..Limits::default() };
        Ok(Self { config, trust, limits, ring: remote::ring::<I>(frame_items_max) })
    }

    fn messenger<E: Endpoint + Send + 'static>(
        &self,
        (endpoint, peer): (E, Peer),
    ) -> Option<Messenger> {
        let messenger = Messenger::new(Box::new(endpoint), peer, self.ring);
        messenger.inspect_err(|error| tracing::warn!(%error, "no link can be had")).ok()
    }
}

/// What a thread of the link shares with the run.
pub(super) struct Shared {
    pub clock: Arc<dyn Clock>,
    pub gate: Arc<Gate>,
    pub life: Arc<Life>,
    pub drain: Arc<DrainState>,
    /// Whether the other side is there.
    pub joined: Arc<AtomicBool>,
}

/// The builder's thread.
pub(super) struct BuilderLink<I> {
    pub meeting: Meeting,
    pub end: BuilderEnd<I>,
    pub shared: Shared,
    /// Whether the trigger was told that no more items come.
    pub is_stopped: bool,
}

/// The socket at which a builder waits.
pub(super) enum Listening {
    Shm(OverShm, <OverShm as Meet>::Listener),
    Udp(OverUdp, <OverUdp as Meet>::Listener),
    Ofi(OverOfi, <OverOfi as Meet>::Listener),
}

fn over_ofi(config: &BuilderConfig) -> OverOfi {
    OverOfi { place: config.listen.clone(), provider: config.provider.clone() }
}

impl Listening {
    /// Listens where the plan says.
    pub fn at(config: &BuilderConfig) -> Result<Self, RunError> {
        let refuse = |error: io::Error| {
            let listen = &config.listen;
            RunError::Builder(format!(
                "cannot listen at {listen}: {error}; is another builder there?"
            ))
        };
        Ok(match config.backend {
            Backend::Shm => {
                let place = OverShm(config.listen.clone().into());
                let listener = place.listen().map_err(refuse)?;
                Self::Shm(place, listener)
            }
            Backend::Udp => {
                let place = OverUdp(config.listen.clone());
                let listener = place.listen().map_err(refuse)?;
                Self::Udp(place, listener)
            }
            Backend::Ofi => {
                let place = over_ofi(config);
                let listener = place.listen().map_err(refuse)?;
                Self::Ofi(place, listener)
            }
        })
    }
}

impl<I: Item + Record> BuilderLink<I> {
    /// Serves one readout after the other, until nobody asks for windows any more.
    pub fn run(self, listening: &Listening) {
        match listening {
            Listening::Shm(place, listener) => self.serve_all(place, listener),
            Listening::Udp(place, listener) => self.serve_all(place, listener),
            Listening::Ofi(place, listener) => self.serve_all(place, listener),
        }
    }

    fn serve_all<M: Meet>(mut self, place: &M, listener: &M::Listener) {
        let (limits, trust) = (self.meeting.limits.clone(), self.meeting.trust.clone());
        let mut reception = Reception::new(place.clone(), limits, trust);
        while !self.look() {
            if let Some(joined) = reception.next(listener, LOOK)
                && let Some(messenger) = self.meeting.messenger(joined)
            {
                self.serve(messenger);
            }
        }
    }

    /// Looks whether the run is to stop, and what is asked; gives whether nobody asks any more.
    fn look(&mut self) -> bool {
        let now_ns = self.shared.clock.now_ns();
        if !self.is_stopped
            && (self.end.has_ended() || self.shared.gate.stop.load(Ordering::Acquire))
        {
            self.end.stop();
            self.is_stopped = true;
            self.shared.gate.at_work.fetch_sub(1, Ordering::AcqRel);
        }
        self.end.take_orders(now_ns);
        self.end.flush_due(now_ns);
        self.end.is_over() || self.shared.drain.is_cut_short()
    }

    fn serve(&mut self, mut messenger: Messenger) {
        let deadline = self.meeting.limits.deadline;
        let begin = Instant::now();
        let mut over = None;
        let mut is_known = false;
        loop {
            match self.end.step(self.shared.clock.now_ns(), &mut messenger) {
                Ok(true) => {}
                Ok(false) => thread::sleep(REST),
                Err(error) => {
                    if !self.end.has_ended() && !self.end.is_over() {
                        tracing::warn!(%error, "the readout is gone; the builder waits for it");
                    }
                    break;
                }
            }
            if self.end.is_joined() && !std::mem::replace(&mut is_known, true) {
                self.shared.joined.store(true, Ordering::Release);
            }
            if !is_known && begin.elapsed() > deadline {
                tracing::warn!("who came is no readout of this run");
                break;
            }
            if self.look() {
                let over = over.get_or_insert_with(Instant::now);
                if self.end.has_said_all(&messenger) || over.elapsed() > deadline {
                    break;
                }
            }
        }
        self.shared.joined.store(false, Ordering::Release);
        self.end.leave();
    }
}

/// The readout's thread.
pub(super) struct ReadoutLink<I> {
    pub meeting: Meeting,
    pub end: ReadoutEnd<I>,
    pub shared: Shared,
}

impl<I: Item + Record> ReadoutLink<I> {
    /// Serves the builder, and looks for it when it is gone, until no items come any more and it needs nothing.
    pub fn run(self) {
        let config = &self.meeting.config;
        let (listen, ofi) = (config.listen.clone(), over_ofi(config));
        match config.backend {
            Backend::Shm => self.serve_all(&OverShm(listen.into())),
            Backend::Udp => self.serve_all(&OverUdp(listen)),
            Backend::Ofi => self.serve_all(&ofi),
        }
    }

    fn serve_all<M: Meet>(mut self, place: &M) {
        let mut is_told = false;
        while !self.end.has_ended() && !self.shared.drain.is_cut_short() {
            let Meeting { limits, trust, .. } = &self.meeting;
            match place.connect(limits, trust) {
                Ok(joined) => {
                    is_told = false;
                    if let Some(messenger) = self.meeting.messenger(joined)
                        && !self.serve(messenger)
                    {
                        return;
                    }
                }
                Err(error) => {
                    if !std::mem::replace(&mut is_told, true) {
                        let listen = &self.meeting.config.listen;
                        tracing::warn!(%error, "no builder at {listen}; looking for it");
                    }
                }
            }
            let begin = Instant::now();
            while begin.elapsed() < RETRY && !self.end.has_ended() {
                self.end.lose(RETRY.saturating_sub(begin.elapsed()));
            }
        }
    }

    /// Gives whether to look for another builder.
    fn serve(&mut self, mut messenger: Messenger) -> bool {
        let mut is_known = false;
        let again = loop {
            let step = self.end.step(self.shared.clock.now_ns(), &mut messenger, REST);
            if self.end.is_joined() && !std::mem::replace(&mut is_known, true) {
                self.shared.joined.store(true, Ordering::Release);
            }
            match step {
                Err(error @ LinkError::Refused(_)) => {
                    self.shared.life.fail(error.to_string());
                    break false;
                }
                Err(error) => {
                    tracing::warn!(%error, "the builder is gone");
                    break true;
                }
                Ok(()) if self.end.is_done() => {
                    if !self.end.has_ended() {
                        tracing::warn!("the builder has ended its run");
                    }
                    break !self.end.has_ended();
                }
                Ok(()) if self.shared.drain.is_cut_short() => break false,
                Ok(()) => {}
            }
        };
        self.end.leave();
        again
    }
}
