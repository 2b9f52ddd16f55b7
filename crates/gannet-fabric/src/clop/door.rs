//! The thread that lets senders in, one at a time.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use gannet_memory::{Access, SharedRegion};

use super::greeting::{Greeting, LEN, RING, WORDS};
use crate::meet::{Meet, Reception};
use crate::{
    Completion, Endpoint, JoinError, Key, Limits, Local, Opening, Peer, PostError, Put, RegionId,
    Remote, Trust, Window,
};

/// Time between two looks whether to end.
const LOOK: Duration = Duration::from_millis(50);
/// Time between two looks at one that has joined.
const STEP: Duration = Duration::from_micros(100);
/// Time for a sender to leave before the next is refused: one that was killed is noticed by then.
const LEAVES_WITHIN: Duration = Duration::from_millis(500);

/// The ring of the receiver, in each endpoint of its own, and the memory for words.
const RING_REGION: RegionId = RegionId(0);
const WORD_REGION: RegionId = RegionId(1);

/// A sender that has joined.
pub(super) struct Sender<E> {
    endpoint: E,
    peer: Peer,
    /// Its window for words.
    words: Key,
    /// The window of the ring.
    pub ring: Key,
    begin: Instant,
}

impl<E: Endpoint> Sender<E> {
    fn new((endpoint, peer): (E, Peer)) -> Self {
        Self { endpoint, peer, words: Key(0), ring: Key(0), begin: Instant::now() }
    }

    /// Does what is due. What happened is told by [`poll`](Self::poll).
    pub fn progress(&mut self) {
        self.endpoint.progress(self.begin.elapsed().as_nanos() as u64);
    }

    /// Gives what happened, as much as `told` has room for.
    #[inline]
    pub fn poll(&mut self, told: &mut Vec<Completion>) {
        told.clear();
        self.endpoint.poll(told);
    }

    /// Tells it a greeting, or without one, leave.
    pub fn tell(&mut self, greeting: Option<Greeting>, leave: u32) -> Result<(), PostError> {
        if let Some(greeting) = greeting {
            greeting.write(self.endpoint.region(WORD_REGION));
        }
        let put = Put {
            source: Local { region: WORD_REGION, offset: 0 },
            target: Remote { peer: self.peer, key: self.words, offset: 0 },
            bytes: if greeting.is_some() { LEN } else { 0 },
        };
        self.endpoint.put_notify(&put, leave).map(drop)
    }
}

/// Where the ring lies, for each endpoint that is to reach it.
pub(super) struct RingMemory {
    pub file: OwnedFd,
    /// Bytes of the region, and of the ring in it.
    pub region_bytes: u64,
    pub bytes: u64,
}

/// The open door.
pub(super) struct Door<E> {
    stop: Arc<AtomicBool>,
    is_served: Arc<AtomicBool>,
    senders: Receiver<Sender<E>>,
    thread: Option<JoinHandle<()>>,
}

impl<E: Endpoint + Send + 'static> Door<E> {
    /// Lets senders in that come to `listener`.
    pub fn open<M: Meet<Endpoint = E>>(
        meet: M,
        listener: M::Listener,
        memory: RingMemory,
        limits: Limits,
        trust: Trust,
    ) -> io::Result<Self> {
        let (stop, is_served) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        let (found, senders) = sync_channel(1);
        let place = meet.place(&listener);
        let keeper = Keeper {
            meet,
            place,
            memory,
            limits,
            trust,
            stop: Arc::clone(&stop),
            is_served: Arc::clone(&is_served),
            found,
        };
        let thread = thread::Builder::new().name("fabric door".into());
        let thread = Some(thread.spawn(move || keeper.run(&listener))?);
        Ok(Self { stop, is_served, senders, thread })
    }

    /// The next sender, if there is one.
    pub fn next(&self) -> Option<Sender<E>> {
        self.senders.try_recv().ok()
    }

    /// Lets the next one in, as the last has gone.
    pub fn free(&self) {
        self.is_served.store(false, Ordering::Release);
    }
}

impl<E> Door<E> {
    /// Lets nobody in any more.
    pub fn close(&self) {
        self.stop.store(true, Ordering::Release);
    }
}

impl<E> Drop for Door<E> {
    fn drop(&mut self) {
        self.close();
        if let Some(thread) = self.thread.take() {
            let _ended = thread.join();
        }
    }
}

struct Keeper<M: Meet> {
    meet: M,
    place: String,
    memory: RingMemory,
    limits: Limits,
    trust: Trust,
    stop: Arc<AtomicBool>,
    is_served: Arc<AtomicBool>,
    found: SyncSender<Sender<M::Endpoint>>,
}

impl<M: Meet> Keeper<M> {
    fn run(self, listener: &M::Listener) {
        let (limits, trust) = (self.limits.clone(), self.trust.clone());
        let mut reception = Reception::new(self.meet.clone(), limits, trust);
        while !self.is_stopped() {
            if let Some(joined) = reception.next(listener, LOOK) {
                self.admit(Sender::new(joined));
            }
        }
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Hands over one that has joined, if nobody else sends.
    fn admit(&self, mut sender: Sender<M::Endpoint>) {
        let place = &self.place;
        match self.hear_words(&mut sender) {
            Ok(true) => {}
            Ok(false) => return tracing::warn!(%place, "who joined is no sender of frames"),
            Err(error) => return tracing::warn!(%place, %error, "a sender cannot be let in"),
        }
        let begin = Instant::now();
        while self.is_served.load(Ordering::Acquire) && begin.elapsed() < LEAVES_WITHIN {
            thread::sleep(STEP);
        }
        if self.is_served.swap(true, Ordering::AcqRel) {
            tracing::warn!(%place, "a second sender was refused");
            return self.refuse(sender);
        }
        let (start, bytes) = (Local { region: RING_REGION, offset: 0 }, self.memory.bytes);
        let opening = Opening { start, bytes, access: Access::Write, label: RING };
        match sender.endpoint.open_window(&opening) {
            Ok(ring) => sender.ring = ring,
            Err(error) => {
                self.is_served.store(false, Ordering::Release);
                return tracing::warn!(%place, %error, "a sender cannot be let in");
            }
        }
        // There is room, as nobody is served; a source that has gone needs no sender.
        let _ = self.found.send(sender);
    }

    /// Waits for the window of a sender for words; gives whether it came.
    fn hear_words(&self, sender: &mut Sender<M::Endpoint>) -> Result<bool, JoinError> {
        let (file, bytes) = (self.memory.file.try_clone()?, self.memory.region_bytes);
        let ring = SharedRegion::attach(file, bytes, Access::Write)?;
        let words = SharedRegion::new(LEN as usize)?;
        let added = [ring, words].map(|region| sender.endpoint.add_region(region).is_ok());
        assert!(added == [true; 2], "the first regions find room");
        let is_words = |window: &Window| window.label == WORDS && window.bytes >= LEN;
        let key = self.wait(sender, |completion| match completion {
            Completion::WindowOpened { window, .. } if is_words(&window) => Some(window.key),
            _ => None,
        });
        key.into_iter().for_each(|key| sender.words = key);
        Ok(key.is_some())
    }

    /// Tells a sender that there is another, and waits until it has gone.
    fn refuse(&self, mut sender: Sender<M::Endpoint>) {
        if sender.tell(Some(Greeting::Busy), 0).is_ok() {
            self.wait::<()>(&mut sender, |_| None);
        }
    }

    /// Waits until a sender tells what is asked for, leaves, or takes too long.
    fn wait<T>(
        &self,
        sender: &mut Sender<M::Endpoint>,
        mut asked: impl FnMut(Completion) -> Option<T>,
    ) -> Option<T> {
        let (begin, mut told) = (Instant::now(), Vec::with_capacity(16));
        while begin.elapsed() < self.limits.deadline && !self.is_stopped() {
            sender.progress();
            sender.poll(&mut told);
            for completion in told.drain(..) {
                if matches!(completion, Completion::Left { .. }) {
                    return None;
                }
                if let Some(found) = asked(completion) {
                    return Some(found);
                }
            }
            thread::sleep(STEP);
        }
        None
    }
}
