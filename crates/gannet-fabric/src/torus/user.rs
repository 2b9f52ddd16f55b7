//! What a process uses the node of its host by: PUT and GET over the torus.
//!
//! A process registers memory at a virtual address of its choosing; from then on processes of other hosts reach it by node,
//! number of the process, and address. What they may do is said with it ([`Reach`]). What happens is told by
//! [`User::poll`], and [`User::wait`] sleeps until something has.
//!
//! Nothing waits but [`User::connect`], [`User::register`], [`User::view`], [`User::carry`], [`User::deregister`] and [`User::take_back`], for the
//! node of this host, and no longer than a few seconds. When that node ends, all that is under way is told to have failed.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use gannet_lattice::{Lattice, Node};
use gannet_memory::{Access, SharedRegion};
use gannet_wire::torus_user::{self, Message, Operation, POSTS_MAX, Post, Refused, WORDS};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use thiserror::Error;

use crate::exchange::JoinError;
use crate::local::{ENTRIES, Line, Reader, RingMemory, Writer, connected};

pub use gannet_wire::torus_user::{Outcome, REGION_BYTES_MAX, Reach};

/// How long the node of this host is waited for.
const PATIENCE: Duration = Duration::from_secs(5);
/// Looks at an empty ring before the socket is looked at.
const LOOKS: u32 = 1024;

/// Why a process cannot use a node.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum UserError {
    /// There is no node, or it does not answer.
    #[error("no node of a torus answers: {0}")]
    Join(#[from] JoinError),
    /// The operating system refuses it.
    #[error("cannot use the node of this host: {0}")]
    System(#[from] io::Error),
    /// The node refuses it.
    #[error("the node of this host refuses: {0}")]
    Refused(Refused),
    /// The node has ended.
    #[error("the node of this host has ended")]
    Ended,
    /// So much is under way that there is no room for more.
    #[error("the queue of posts is full; poll completions and post again")]
    Full,
}

impl From<Errno> for UserError {
    fn from(error: Errno) -> Self {
        Self::System(error.into())
    }
}

/// Memory that is registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RegionId(u32);

/// A part of memory that others reach at an address of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct View(u32);

/// A network device whose packets the node carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceId(u32);

/// A PUT or GET that was posted; unique among the last four billion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Request(pub u32);

/// Bytes of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Local {
    /// Region that has them.
    pub region: RegionId,
    /// Where they begin in it, bytes.
    pub offset: u64,
}

/// Bytes of another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remote {
    /// Its node.
    pub node: Node,
    /// Its number there.
    pub process: u16,
    /// Virtual address of the first byte.
    pub address: u64,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// A PUT or GET is done: its data are in the far or the own memory, or an outcome says why perhaps not.
    Done {
        /// Which.
        request: Request,
        /// What has become of it.
        outcome: Outcome,
    },
    /// A PUT of another process has placed all its bytes in memory of this one.
    Arrived {
        /// From which node.
        node: Node,
        /// Virtual address of the first byte.
        address: u64,
        /// Bytes.
        length: u32,
        /// What the other process says of them.
        tag: u32,
    },
    /// So many arrivals were not told, since this process took none for too long.
    Missed(u64),
}

/// Where the host is in the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The lattice of the machine.
    pub lattice: Lattice,
    /// The node that the host is there.
    pub node: Node,
}

/// What a number of this process stands for.
#[derive(Debug)]
enum Held {
    Memory(SharedRegion),
    View,
    Device,
}

/// A process that uses the node of its host.
#[derive(Debug)]
pub struct User {
    line: Line<Message>,
    posts: Writer<RingMemory, WORDS>,
    completions: Reader<RingMemory, WORDS>,
    wake: OwnedFd,
    woken: OwnedFd,
    process: u16,
    /// Entries of the ring for completions.
    entries: u64,
    place: Option<Place>,
    /// Times that it has got another place, or none.
    moves: u64,
    burst_bytes: u32,
    regions: Vec<Option<Held>>,
    under_way: BTreeSet<u32>,
    next_request: u32,
    looks: u32,
    has_ended: bool,
}

impl User {
    /// Uses the node that listens at `path`, as the process of this number, or of any.
    ///
    /// # Errors
    /// When no node answers there, or refuses.
    pub fn connect(path: &Path, process: Option<u16>) -> Result<Self, UserError> {
        let socket = connected(path).map_err(JoinError::from)?;
        let line = Line::new(socket, PATIENCE)?;
        line.send(&Message::Hello { process: process.unwrap_or(0) }, None, true)?;
        Self::welcomed(line)
    }

    /// What this process is called by others, with its node.
    pub fn process(&self) -> u16 {
        self.process
    }

    /// Where this host is in the machine; none while there is none.
    pub fn place(&self) -> Option<Place> {
        self.place
    }

    /// How often the place has become another one, or none.
    pub fn moves(&self) -> u64 {
        self.moves
    }

    /// Longest PUT that leaves in one message of the kernel, bytes; 0 if nothing is known of it. Longer ones, and those of half of it, cost
    /// more for each byte.
    pub fn burst_bytes(&self) -> u32 {
        self.burst_bytes
    }

    /// Whether the node of this host has ended; what was under way is still told.
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Registers memory at a virtual address, a whole number of pages, which means nothing for memory that is only sent from.
    /// Data of GETs go to memory that others may write.
    ///
    /// # Errors
    /// When the node refuses it, or has ended.
    pub fn register(
        &mut self,
        memory: SharedRegion,
        address: u64,
        reach: Reach,
    ) -> Result<RegionId, UserError> {
        let (region, bytes) = (self.free_number(), memory.len() as u64);
        let file = memory.descriptor(Access::Write)?;
        let register = Message::Register { region, reach, bytes, address };
        self.ask(&register, Some(file.as_fd()), Message::Registered { region })?;
        self.regions[region as usize] = Some(Held::Memory(memory));
        Ok(RegionId(region))
    }

    /// Lets others reach `bytes` bytes of a region from `offset` on at a virtual address of their own, which has the same place in
    /// a page as the first of them.
    ///
    /// # Errors
    /// When the node refuses it, or has ended.
    pub fn view(
        &mut self,
        of: RegionId,
        (offset, bytes): (u64, u64),
        address: u64,
        reach: Reach,
    ) -> Result<View, UserError> {
        let (region, RegionId(of)) = (self.free_number(), of);
        let view = Message::View { region, reach, bytes, address, offset, of };
        self.ask(&view, None, Message::Registered { region })?;
        self.regions[region as usize] = Some(Held::View);
        Ok(View(region))
    }

    /// Takes a view back, without waiting for the node to do so.
    ///
    /// # Errors
    /// When the node has ended, or does not listen.
    pub fn close_view(&mut self, view: View) -> Result<(), UserError> {
        let View(region) = view;
        self.regions[region as usize] = None;
        // The node takes messages in their order: whatever gets this number next comes behind this one.
        match self.line.send(&Message::Deregister { region }, None, false) {
            Ok(true) => Ok(()),
            _ => Err(UserError::Ended),
        }
    }

    /// Has the node carry IP packets between `device` and the other nodes, whose addresses begin with `first`, by way of memory of this process alone: `rings`,
    /// to a view of which other nodes put packets, and `buffers`, to which those of the device are read.
    ///
    /// # Errors
    /// When the node refuses it, or has ended.
    pub fn carry(
        &mut self,
        device: BorrowedFd<'_>,
        rings: RegionId,
        buffers: RegionId,
        first: u8,
    ) -> Result<DeviceId, UserError> {
        let (region, RegionId(rings), RegionId(buffers)) = (self.free_number(), rings, buffers);
        let carry = Message::Carry { region, rings, buffers, first };
        self.ask(&carry, Some(device), Message::Registered { region })?;
        self.regions[region as usize] = Some(Held::Device);
        Ok(DeviceId(region))
    }

    /// Whether the node still carries packets of a device; it does not once that is gone.
    pub fn is_carried(&self, device: DeviceId) -> bool {
        matches!(self.regions[device.0 as usize], Some(Held::Device))
    }

    /// Has the node carry packets of a device no more; returns once nothing of it is under way, or after a tenth of a second.
    ///
    /// # Errors
    /// When the node has ended, or does not answer.
    pub fn take_back(&mut self, device: DeviceId) -> Result<(), UserError> {
        let DeviceId(region) = device;
        if self.is_carried(device) {
            self.ask(&Message::Deregister { region }, None, Message::Deregistered { region })?;
            self.regions[region as usize] = None;
        }
        Ok(())
    }

    /// A number that nothing has.
    fn free_number(&mut self) -> u32 {
        let free = self.regions.iter().position(Option::is_none).unwrap_or(self.regions.len());
        if free == self.regions.len() {
            self.regions.push(None);
        }
        free as u32
    }

    /// Gives memory back, which others cannot reach from now on, once nothing of it is under way.
    ///
    /// # Errors
    /// When the node has ended, or does not answer.
    ///
    /// # Panics
    /// When there is no such region.
    pub fn deregister(&mut self, region: RegionId) -> Result<SharedRegion, UserError> {
        let held = self.regions[region.0 as usize].take();
        let Some(Held::Memory(memory)) = held else { panic!("the region is registered") };
        let RegionId(region) = region;
        self.ask(&Message::Deregister { region }, None, Message::Deregistered { region })?;
        Ok(memory)
    }

    /// Memory that is registered.
    ///
    /// # Panics
    /// When there is no such region.
    pub fn region(&self, region: RegionId) -> &SharedRegion {
        match &self.regions[region.0 as usize] {
            Some(Held::Memory(memory)) => memory,
            _ => panic!("the region is registered"),
        }
    }

    /// Posts a PUT of `length` bytes, of which the other process is told with `tag`. They may not be changed before it is done.
    ///
    /// # Errors
    /// When there is no room, or the node has ended; nothing happened then.
    pub fn put(
        &mut self,
        source: Local,
        target: Remote,
        length: u32,
        tag: u32,
    ) -> Result<Request, UserError> {
        self.post(Operation::Put, source, target, length, tag)
    }

    /// Posts a PUT of `length` bytes of which the other process is told nothing. They may not be changed before it is done.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn put_quietly(
        &mut self,
        source: Local,
        target: Remote,
        length: u32,
    ) -> Result<Request, UserError> {
        self.post(Operation::QuietPut, source, target, length, 0)
    }

    /// Posts a GET of `length` bytes. They mean nothing before it is done.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn get(
        &mut self,
        source: Remote,
        target: Local,
        length: u32,
    ) -> Result<Request, UserError> {
        self.post(Operation::Get, target, source, length, 0)
    }

    fn post(
        &mut self,
        operation: Operation,
        local: Local,
        remote: Remote,
        length: u32,
        tag: u32,
    ) -> Result<Request, UserError> {
        if self.has_ended {
            return Err(UserError::Ended);
        }
        if !self.posts.has_room() {
            return Err(UserError::Full);
        }
        let request = self.next_request;
        self.next_request = request.wrapping_add(1);
        let Remote { node: Node(node), process, address } = remote;
        let Local { region: RegionId(region), offset } = local;
        let post = Post { operation, request, node, process, address, region, offset, length, tag };
        self.posts.push(post.into());
        self.under_way.insert(request);
        if self.posts.must_wake() {
            rustix::io::write(&self.wake, &1u64.to_ne_bytes())?;
        }
        Ok(Request(request))
    }

    /// Arrivals that find room while none is taken, as long as no more than [`POSTS_MAX`] posts are under way or have completions that were not
    /// taken.
    pub fn arrivals_max(&self) -> u64 {
        // The node knows of all but a quarter of what was taken. One more would say how many were missed.
        self.entries - self.entries / 4 - (POSTS_MAX + 2).min(self.entries / 2)
    }

    /// Posts that are not done.
    pub fn under_way(&self) -> usize {
        self.under_way.len()
    }

    /// The next thing that happened, oldest first.
    pub fn poll(&mut self) -> Option<Completion> {
        while let Some(words) = self.completions.pop() {
            match torus_user::Completion::of(words) {
                Some(torus_user::Completion::Done { request, outcome })
                    if self.under_way.remove(&request) =>
                {
                    return Some(Completion::Done { request: Request(request), outcome });
                }
                Some(torus_user::Completion::Arrived { node, address, length, tag }) => {
                    return Some(Completion::Arrived { node: Node(node), address, length, tag });
                }
                Some(torus_user::Completion::Missed(count)) => {
                    return Some(Completion::Missed(count));
                }
                _ => {}
            }
        }
        self.looks += 1;
        if self.looks >= LOOKS {
            self.hear();
        }
        if !self.has_ended {
            return None;
        }
        let request = Request(self.under_way.pop_first()?);
        Some(Completion::Done { request, outcome: Outcome::Ended })
    }

    /// Sleeps until something has happened, at most for `most`.
    ///
    /// # Errors
    /// When the system cannot wait.
    pub fn wait(&mut self, most: Duration) -> io::Result<()> {
        if !self.may_sleep() {
            return Ok(());
        }
        let mut descriptors =
            self.descriptors().map(|it| PollFd::from_borrowed_fd(it, PollFlags::IN));
        let most = Timespec {
            tv_sec: most.as_secs().min(i64::MAX as u64) as i64,
            tv_nsec: most.subsec_nanos().into(),
        };
        match poll(&mut descriptors, Some(&most)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        self.woken();
        Ok(())
    }

    /// Asks to be woken by [`descriptors`](Self::descriptors), for who waits for others, too; gives whether to sleep, which there is no
    /// reason to if something has happened. After it [`woken`](Self::woken) is due.
    pub fn may_sleep(&mut self) -> bool {
        let is_told = self.has_ended && !self.under_way.is_empty();
        !is_told && self.completions.may_sleep()
    }

    /// What becomes readable when something happens.
    pub fn descriptors(&self) -> [BorrowedFd<'_>; 2] {
        [self.woken.as_fd(), self.line.as_fd()]
    }

    /// Takes note of what the node says.
    pub fn woken(&mut self) {
        // Nothing is read if it was something else that woke this process.
        let _count = rustix::io::read(&self.woken, &mut [0; 8]);
        self.hear();
    }

    /// Hears what the node says unasked.
    pub(super) fn hear(&mut self) {
        self.looks = 0;
        while !self.has_ended {
            match self.line.receive(false) {
                Ok(Some((message, _))) => self.note(&message),
                Err(JoinError::System(error)) if error.kind() == io::ErrorKind::WouldBlock => {
                    return;
                }
                _ => self.has_ended = true,
            }
        }
    }

    fn note(&mut self, message: &Message) {
        match *message {
            Message::Place(place) => {
                let before = std::mem::replace(&mut self.place, place.and_then(place_of));
                self.moves += u64::from(before != self.place);
                self.burst_bytes = place.map_or(0, |place| place.burst_bytes);
            }
            Message::Deregistered { region } => {
                if let Some(held) = self.regions.get_mut(region as usize) {
                    held.take_if(|held| matches!(held, Held::Device));
                }
            }
            _ => {}
        }
    }

    /// Says something, and waits for its answer.
    fn ask(
        &mut self,
        message: &Message,
        file: Option<BorrowedFd<'_>>,
        expected: Message,
    ) -> Result<(), UserError> {
        if self.has_ended {
            return Err(UserError::Ended);
        }
        // Who neither takes nor answers it in time will not answer later either.
        let sent = self.line.send(message, file, true);
        sent.inspect_err(|_| self.has_ended = true)?;
        loop {
            let received = self.line.receive(true);
            match received.inspect_err(|_| self.has_ended = true)? {
                None => {
                    self.has_ended = true;
                    return Err(UserError::Ended);
                }
                Some((Message::Refused { reason, .. }, _)) => {
                    return Err(UserError::Refused(reason));
                }
                Some((message, _)) if message == expected => return Ok(()),
                Some((message, _)) => self.note(&message),
            }
        }
    }

    /// Takes what the node gives to a process that it lets use it.
    fn welcomed(line: Line<Message>) -> Result<Self, UserError> {
        let (process, posts) = match next(&line)? {
            (Message::Posts { process, entries }, Some(file)) => {
                (process, Writer::new(ring(file, entries)?, entries as usize))
            }
            _ => return Err(nonsense()),
        };
        let (completions, entries) = match next(&line)? {
            (Message::Completions { entries }, Some(file)) => {
                (Reader::new(ring(file, entries)?, entries as usize), entries.into())
            }
            _ => return Err(nonsense()),
        };
        let event = |of_process: bool| match next(&line)? {
            (Message::Wake { is_process }, Some(file)) if is_process == of_process => Ok(file),
            _ => Err(nonsense()),
        };
        let (wake, woken) = (event(false)?, event(true)?);
        let mut user = Self {
            line,
            posts,
            completions,
            wake,
            woken,
            process,
            entries,
            place: None,
            moves: 0,
            burst_bytes: 0,
            regions: Vec::new(),
            under_way: BTreeSet::new(),
            next_request: 0,
            looks: 0,
            has_ended: false,
        };
        let (message, _) = next(&user.line)?;
        user.note(&message);
        Ok(user)
    }
}

/// The next message of a node that lets a process use it.
fn next(line: &Line<Message>) -> Result<(Message, Option<OwnedFd>), UserError> {
    match line.receive(true)? {
        None => Err(JoinError::Closed.into()),
        Some((Message::Refused { reason, .. }, _)) => Err(UserError::Refused(reason)),
        // The node gives them with a descriptor, which the system drops where this process may have no more.
        Some((
            Message::Posts { .. } | Message::Completions { .. } | Message::Wake { .. },
            None,
        )) => {
            let what = "this process may have no more descriptors; raise its limit (ulimit -n)";
            Err(UserError::System(io::Error::other(what)))
        }
        Some(received) => Ok(received),
    }
}

fn ring(file: OwnedFd, entries: u32) -> Result<RingMemory, UserError> {
    let entries = entries as usize;
    if !ENTRIES.contains(&entries) || !entries.is_power_of_two() {
        return Err(nonsense());
    }
    Ok(RingMemory::attach::<WORDS>(file, entries).map_err(JoinError::from)?)
}

fn place_of(torus_user::Place { node, sizes, .. }: torus_user::Place) -> Option<Place> {
    let lattice = Lattice::new(sizes).ok()?;
    ((node as usize) < lattice.nodes()).then_some(Place { lattice, node: Node(node) })
}

fn nonsense() -> UserError {
    let what = "it says something out of turn: it may be of another version";
    UserError::System(io::Error::new(io::ErrorKind::InvalidData, what))
}
