//! The sink: frames put into the ring of a far source.

use std::thread;
use std::time::{Duration, Instant};

use gannet_ingest::{Datagram, Sent, Sink};
use gannet_memory::{Access, SharedRegion};

use super::Error;
use super::config::FabricConfig;
use super::greeting::{self, Greeting, RING, WORDS};
use super::leave::Leave;
use crate::meet::Meet;
use crate::{
    Completion, Endpoint, Failure, Key, Limits, Local, Opening, Peer, PostError, Put, RegionId,
    Remote, Trust, Window,
};

/// Frames under way at most. Those of a processor that copies them stay in its second-level cache.
const SLOTS: u64 = 32;
/// Completions that are taken at a time.
const COMPLETIONS: usize = 256;
/// Time for the receiver to answer, and for the last frames to arrive.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// Time between two attempts to join a receiver that has gone.
const REJOIN_AFTER: Duration = Duration::from_secs(1);
/// Looks for leave without a pause, and the pause between later ones.
const SPINS: u32 = 64;
const PAUSE: Duration = Duration::from_micros(20);

const WORD_REGION: RegionId = RegionId(0);
const FRAME_REGION: RegionId = RegionId(1);

/// Puts frames into the ring of a far source.
///
/// A frame for which there is no leave within [`FabricConfig::wait`] is dropped, and those behind it in the same
/// call; the receiver counts them. While the receiver is away all are, and it is looked for once a second.
pub struct ClopSink<M: Meet> {
    meet: M,
    place: String,
    trust: Trust,
    wait: Duration,
    joint: Option<Joint<M::Endpoint>>,
    joined_at: Instant,
}

impl<M: Meet> ClopSink<M> {
    /// Joins a receiver, and waits until it lets this sender begin.
    ///
    /// # Errors
    /// When nobody takes frames there, or not of this sender.
    pub fn connect(meet: M, config: &FabricConfig) -> Result<Self, Error> {
        let mut sink = Self {
            meet,
            place: config.listen.clone(),
            trust: config.trust()?,
            wait: config.wait.duration(),
            joint: None,
            joined_at: Instant::now(),
        };
        sink.joint = Some(sink.join()?);
        Ok(sink)
    }

    fn join(&self) -> Result<Joint<M::Endpoint>, Error> {
        let place = || self.place.clone();
        let limits = Limits { peers: 1, regions: 2, windows: 4, events: 256, ..Limits::default() };
        let joined = self.meet.connect(&limits, &self.trust);
        let (endpoint, peer) = joined.map_err(|cause| Error::Join { place: place(), cause })?;
        match Joining::new(endpoint, peer)?.finish()? {
            Answer::Welcome(joint) => Ok(*joint),
            Answer::Busy => Err(Error::Busy(place())),
            Answer::Nonsense => Err(Error::NoReceiver(place())),
            Answer::Silence => Err(Error::Silent(place())),
            Answer::Left(cause) => Err(Error::Left { place: place(), cause }),
        }
    }

    /// Joins a receiver again that has gone; says whether it is there.
    fn is_joined(&mut self) -> bool {
        if self.joint.is_none() && self.joined_at.elapsed() >= REJOIN_AFTER {
            self.joint = self.join().ok();
            self.joined_at = Instant::now();
        }
        self.joint.is_some()
    }

    /// Notes that the receiver has gone.
    fn lose(&mut self) {
        tracing::warn!(place = %self.place, "the receiver has gone; frames are dropped until it is back");
        self.joint = None;
        self.joined_at = Instant::now();
    }
}

impl<M: Meet> Sink for ClopSink<M> {
    fn send(&mut self, datagrams: &[Datagram<'_>]) -> Result<Sent, gannet_ingest::Error> {
        let mut sent = Sent::default();
        if !self.is_joined() {
            sent.refused = 1;
            return Ok(sent);
        }
        let Some(joint) = &mut self.joint else { return Ok(sent) };
        let frame_bytes = joint.leave.frame_bytes();
        joint.tend();
        for datagram in datagrams {
            let len = datagram.len() as u64;
            if !(1..=frame_bytes).contains(&len) {
                let (field, max) = ("bytes of a frame", frame_bytes);
                return Err(gannet_ingest::Error::Range { field, got: len, min: 1, max });
            }
            if !joint.put(datagram) && !joint.put_within(datagram, self.wait) {
                joint.leave.dropped(datagrams.len() as u64 - sent.datagrams);
                break;
            }
            sent.datagrams += 1;
            sent.bytes += len;
        }
        if joint.has_gone {
            sent.refused = 1;
            self.lose();
        }
        Ok(sent)
    }

    fn tend(&mut self) {
        if let Some(joint) = &mut self.joint {
            joint.tend();
            if joint.has_gone {
                self.lose();
            }
        }
    }
}

/// What a receiver answers.
enum Answer<E: Endpoint> {
    Welcome(Box<Joint<E>>),
    Busy,
    Nonsense,
    Silence,
    Left(Failure),
}

/// A sender that waits to be let in.
struct Joining<E> {
    endpoint: E,
    peer: Peer,
    /// The window for words.
    words: Key,
    begin: Instant,
}

impl<E: Endpoint> Joining<E> {
    fn new(mut endpoint: E, peer: Peer) -> Result<Self, Error> {
        let region = SharedRegion::new(greeting::LEN as usize)?;
        assert!(endpoint.add_region(region).is_ok(), "the first region finds room");
        let opening = Opening {
            start: Local { region: WORD_REGION, offset: 0 },
            bytes: greeting::LEN,
            access: Access::Write,
            label: WORDS,
        };
        let words = endpoint.open_window(&opening).map_err(std::io::Error::other)?;
        Ok(Self { endpoint, peer, words, begin: Instant::now() })
    }

    /// Waits for the greeting and the window of the ring.
    fn finish(mut self) -> Result<Answer<E>, Error> {
        let mut told = Vec::with_capacity(16);
        let (mut ring, mut leave) = (None::<Window>, None);
        while self.begin.elapsed() < ANSWER_WITHIN {
            self.endpoint.progress(self.begin.elapsed().as_nanos() as u64);
            self.endpoint.poll(&mut told);
            for completion in told.drain(..) {
                match completion {
                    Completion::WindowOpened { window, .. } if window.label == RING => {
                        ring = Some(window);
                    }
                    Completion::Notified { bytes: greeting::LEN, immediate, .. } => {
                        leave = Some(immediate);
                    }
                    Completion::Left { failure, .. } => return Ok(Answer::Left(failure)),
                    _ => {}
                }
            }
            if let Some(low) = leave {
                match (Greeting::read(self.endpoint.region(WORD_REGION)), ring) {
                    (None, _) => return Ok(Answer::Nonsense),
                    (Some(Greeting::Busy), _) => return Ok(Answer::Busy),
                    (Some(welcome), Some(ring)) => {
                        let Some(leave) = welcome.leave(ring.bytes, low) else {
                            return Ok(Answer::Nonsense);
                        };
                        return Ok(Answer::Welcome(Box::new(self.begin_with(ring.key, leave)?)));
                    }
                    (Some(_), None) => {}
                }
            }
            thread::sleep(PAUSE);
        }
        Ok(Answer::Silence)
    }

    fn begin_with(mut self, ring: Key, leave: Leave) -> Result<Joint<E>, Error> {
        let region = SharedRegion::new((SLOTS * leave.frame_bytes()) as usize)?;
        assert!(self.endpoint.add_region(region).is_ok(), "the second region finds room");
        let Self { endpoint, peer, words, begin } = self;
        let completions = Vec::with_capacity(COMPLETIONS);
        Ok(Joint {
            endpoint,
            peer,
            words,
            ring,
            leave,
            begin,
            completions,
            posted: 0,
            done: 0,
            has_gone: false,
        })
    }
}

/// A receiver that takes frames.
struct Joint<E: Endpoint> {
    endpoint: E,
    peer: Peer,
    words: Key,
    ring: Key,
    leave: Leave,
    begin: Instant,
    completions: Vec<Completion>,
    posted: u64,
    done: u64,
    has_gone: bool,
}

impl<E: Endpoint> Joint<E> {
    /// Does what is due, and hears what the receiver has to say.
    fn tend(&mut self) {
        self.endpoint.progress(self.begin.elapsed().as_nanos() as u64);
        loop {
            self.endpoint.poll(&mut self.completions);
            let is_all = self.completions.len() < self.completions.capacity();
            for completion in self.completions.drain(..) {
                match completion {
                    Completion::Done { outcome, .. } => {
                        self.done += 1;
                        self.has_gone |= outcome.is_err();
                    }
                    Completion::Notified { key, bytes: 0, immediate, .. } if key == self.words => {
                        self.has_gone |= !self.leave.extend(immediate);
                    }
                    Completion::Left { .. } | Completion::WindowClosed { .. } => {
                        self.has_gone = true;
                    }
                    _ => {}
                }
            }
            if is_all {
                return;
            }
        }
    }

    /// Puts a frame, if there is leave and room for it; says whether it did.
    #[inline]
    fn put(&mut self, frame: &Datagram<'_>) -> bool {
        if self.posted - self.done >= SLOTS {
            self.tend();
        }
        let Some((offset, count)) = self.leave.next() else { return false };
        if self.posted - self.done >= SLOTS || self.has_gone {
            return false;
        }
        let slot = self.posted % SLOTS * self.leave.frame_bytes();
        let region = self.endpoint.region(FRAME_REGION);
        region.write(slot as usize, frame.header);
        region.write(slot as usize + frame.header.len(), frame.body);
        let source = Local { region: FRAME_REGION, offset: slot };
        let is_sent = self.post(source, offset, frame.len() as u64, count);
        if is_sent {
            self.leave.sent();
        }
        is_sent
    }

    /// Puts a frame as soon as there is leave and room, but waits no longer than `wait`; says whether it did.
    #[cold]
    fn put_within(&mut self, frame: &Datagram<'_>, wait: Duration) -> bool {
        let (begin, mut looks) = (Instant::now(), 0);
        while !self.has_gone && begin.elapsed() < wait {
            self.tend();
            if self.put(frame) {
                return true;
            }
            looks += 1;
            if looks < SPINS { std::hint::spin_loop() } else { thread::sleep(PAUSE) }
        }
        false
    }

    /// Puts bytes and tells of them; says whether it did.
    #[inline]
    fn post(&mut self, source: Local, offset: u64, bytes: u64, count: u32) -> bool {
        let target = Remote { peer: self.peer, key: self.ring, offset };
        match self.endpoint.put_notify(&Put { source, target, bytes }, count) {
            Ok(_) => {
                self.posted += 1;
                true
            }
            Err(PostError::Full { .. }) => false,
            Err(_) => {
                self.has_gone = true;
                false
            }
        }
    }
}

/// Tells the receiver how many frames there were, and waits for the last of them to arrive.
impl<E: Endpoint> Drop for Joint<E> {
    fn drop(&mut self) {
        let (begin, mut is_told) = (Instant::now(), false);
        let source = Local { region: FRAME_REGION, offset: 0 };
        while !self.has_gone && begin.elapsed() < ANSWER_WITHIN {
            is_told = is_told || self.post(source, 0, 0, self.leave.count());
            if is_told && self.posted == self.done {
                return;
            }
            self.tend();
        }
    }
}
