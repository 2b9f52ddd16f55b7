//! The process that answers.

use std::path::PathBuf;

use gannet_fabric::{
    Completion, Endpoint, Failure, Key, Local, Opening, OverOfi, OverShm, OverTorus, OverUdp, Peer,
    PostError, Put, RegionId, Remote, Trust,
};
use gannet_measure::clock::{Clock, SystemClock};
use gannet_memory::{Access, SharedRegion};

use super::backend::{Backend, Measured};
use super::driver::span;
use super::{Error, memory};
use crate::cores::Cores;

/// What the one that measures calls its window, and the partner its own.
pub(super) const ANSWERS: u32 = 1;
pub(super) const DATA: u32 = 2;
/// What a notification asks for.
pub(super) const TAKE: u32 = 0;
pub(super) const ANSWER_SHORT: u32 = 1;
pub(super) const ANSWER_ALL: u32 = 2;
/// Bytes of a short answer.
pub(super) const SHORT: u64 = 8;
/// Turns between two looks at the clock.
const TURNS: u32 = 4096;

pub(super) const REGION: RegionId = RegionId(0);

/// The process that answers, as the plan of the one that measures has it.
#[derive(Clone, Debug)]
pub struct Serving {
    /// What carries the operations.
    pub backend: Backend,
    /// Which provider of libfabric, for that backend.
    pub provider: Option<String>,
    /// Where it listens.
    pub place: String,
    /// Bytes of the longest operation.
    pub longest: u64,
    /// Whether each operation has other bytes than the one before.
    pub streaming: bool,
    /// The file that is its memory.
    pub memory: Option<PathBuf>,
    /// How endpoints know that they may join.
    pub trust: Trust,
}

impl Serving {
    /// Listens for one that measures, and answers it until it leaves.
    ///
    /// # Errors
    /// When nobody connects, or memory cannot be had.
    pub fn run(&self) -> Result<(), Error> {
        Cores::usable().pin(1);
        match self.backend {
            Backend::Shm => self.answer(&OverShm(self.place.clone().into())),
            Backend::Udp => self.answer(&OverUdp(self.place.clone())),
            Backend::Ofi => {
                let (place, provider) = (self.place.clone(), self.provider.clone());
                self.answer(&OverOfi { place, provider })
            }
            Backend::Torus => self.answer(&OverTorus { place: self.place.clone(), node: None }),
            Backend::Sim => Err(Error::NoPath),
        }
    }

    fn answer<M: Measured>(&self, meet: &M) -> Result<(), Error> {
        let bytes = span(self.longest, self.streaming);
        let region = memory(self.memory.as_deref(), bytes)?;
        answer(Answering::new(meet.accept_one(&self.place, &self.trust)?, region, bytes))
    }
}

fn answer<E: Endpoint>(mut answering: Answering<E>) -> Result<(), Error> {
    let clock = SystemClock::start();
    loop {
        answering.progress(clock.now_ns());
        for _ in 0..TURNS {
            if !answering.take()? {
                return Ok(());
            }
        }
    }
}

/// An endpoint that answers.
pub(super) struct Answering<E> {
    endpoint: E,
    peer: Peer,
    /// Length of the window.
    bytes: u64,
    /// Window of the one that measures.
    answers: Option<Key>,
    told: Vec<Completion>,
}

impl<E: Endpoint> Answering<E> {
    /// One that lets `bytes` bytes of `region` be reached.
    pub fn new((mut endpoint, peer): (E, Peer), region: SharedRegion, bytes: u64) -> Self {
        assert!(endpoint.add_region(region).is_ok(), "the first region finds room");
        Self { endpoint, peer, bytes, answers: None, told: Vec::with_capacity(256) }
    }

    /// The endpoint, and what it calls the one that measures.
    pub fn endpoint(&mut self) -> (&mut E, Peer) {
        (&mut self.endpoint, self.peer)
    }

    pub fn progress(&mut self, now_ns: u64) {
        self.endpoint.progress(now_ns);
    }

    /// Answers what has come; gives whether the one that measures is still there.
    #[inline]
    pub fn take(&mut self) -> Result<bool, Error> {
        self.told.clear();
        self.endpoint.poll(&mut self.told);
        for at in 0..self.told.len() {
            match self.told[at] {
                Completion::Notified { bytes, immediate, .. } => self.answer(bytes, immediate)?,
                Completion::WindowOpened { window, .. } if window.label == ANSWERS => {
                    self.answers = Some(window.key);
                    self.open()?;
                }
                Completion::Left { failure: Failure::Ended, .. } => return Ok(false),
                Completion::Left { failure, .. } => return Err(failure.into()),
                _ => {}
            }
        }
        Ok(true)
    }

    /// Lets the one that measures begin: now it can be answered.
    fn open(&mut self) -> Result<(), Error> {
        let start = Local { region: REGION, offset: 0 };
        let (bytes, access) = (self.bytes, Access::Write);
        self.endpoint.open_window(&Opening { start, bytes, access, label: DATA })?;
        Ok(())
    }

    fn answer(&mut self, bytes: u64, immediate: u32) -> Result<(), Error> {
        let bytes = match immediate {
            ANSWER_SHORT => SHORT.min(bytes),
            ANSWER_ALL => bytes,
            _ => return Ok(()),
        };
        let Some(key) = self.answers else { return Ok(()) };
        let source = Local { region: REGION, offset: 0 };
        let put = Put { source, target: Remote { peer: self.peer, key, offset: 0 }, bytes };
        match self.endpoint.put_notify(&put, TAKE) {
            // Who asks has one answer under way, and is told to have left by `poll`.
            Ok(_) | Err(PostError::Full { .. } | PostError::NotJoined(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
