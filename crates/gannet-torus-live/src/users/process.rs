//! A process that uses a node.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use gannet_fabric::local::{Line, Reader, RingMemory, Writer};
use gannet_lattice::Node;
use gannet_memory::Registration;
use gannet_rdma::{Get, PostError, Put, Request};
use gannet_wire::torus_user::{
    Completion, Message, Operation, Outcome, POSTS_MAX, Place, Post, Reach, Refused, WORDS,
};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use super::Seat;
use super::memory::{NodeMemory, PAGE, Slot};
use crate::tunnel::{self, Carrier};

/// Entries of the rings for posts and for completions: the second has room for what others send while a process does not look.
const POSTS: usize = 1024;
const COMPLETIONS: usize = 8192;
/// Posts of a process that are taken before others have their turn.
const POSTS_AT_ONCE: usize = 16;
/// Most regions of a process.
const REGIONS_MAX: usize = 64;

/// Memory of a process, or a view of it.
#[derive(Clone, Copy, Debug)]
struct Region {
    number: u32,
    slot: Slot,
    /// Where it begins in the memory, and of which region it is a view.
    offset: u64,
    of: Option<u32>,
    bytes: u64,
    address: u64,
    reach: Reach,
}

impl Region {
    /// Addresses of the pages that hold its own.
    fn pages(&self) -> std::ops::Range<u64> {
        let page = PAGE as u64;
        self.address / page * page..(self.address + self.bytes).next_multiple_of(page)
    }
}

/// A post under way, by its number.
#[derive(Clone, Copy, Debug)]
pub enum Posted {
    /// Of the process.
    Own(u32),
    /// Of what moves packets of its device.
    Carried(u32),
}

/// A process.
#[derive(Debug)]
pub struct Process {
    pub number: u16,
    pub line: Line<Message>,
    posts: Reader<RingMemory, WORDS>,
    completions: Writer<RingMemory, WORDS>,
    /// What wakes it.
    wake: OwnedFd,
    /// What it wakes the node by, to be looked at as long as it is there.
    pub wakes_node: Option<OwnedFd>,
    regions: Vec<Region>,
    /// Numbers of regions that it gives back, which go when all is done that it posted before.
    released: Vec<u32>,
    /// Regions that go when nothing is under way.
    leaving: Vec<Region>,
    /// What moves packets of its device, in the place of its own posts.
    carrier: Option<Carrier>,
    /// A post for which the engine had no room.
    pending: Option<Post>,
    /// No more posts are taken before something that is under way is done, as far as was known when the node went to sleep.
    is_held_back: bool,
    /// Posts under way.
    posted: u64,
    /// Arrivals that were not told.
    missed: u64,
    /// Whether it was told something since it was last woken.
    is_told: bool,
    /// Whether it has ended; it goes when nothing is under way.
    pub is_gone: bool,
}

impl Process {
    /// Lets the process at the other end of `line` use the node; gives with it what it wakes the node by.
    ///
    /// # Errors
    /// When the system has not what it takes, which the process is told, or the process is gone.
    pub fn welcome(number: u16, line: Line<Message>) -> io::Result<(Self, OwnedFd)> {
        let made = || Ok((ring(POSTS)?, ring(COMPLETIONS)?, event()?, event()?));
        let ((posts, posts_file), (completions, completions_file), wakes_node, wake) = made()
            .inspect_err(|_: &io::Error| {
                let refused = Message::Refused { reason: Refused::Processes, region: 0 };
                let _told = send(&line, refused, None);
            })?;
        let tell = |message: Message, file: &OwnedFd| send(&line, message, Some(file));
        tell(Message::Posts { process: number, entries: POSTS as u32 }, &posts_file)?;
        tell(Message::Completions { entries: COMPLETIONS as u32 }, &completions_file)?;
        tell(Message::Wake { is_process: false }, &wakes_node)?;
        tell(Message::Wake { is_process: true }, &wake)?;
        let process = Self {
            number,
            line,
            posts: Reader::new(posts, POSTS),
            completions: Writer::new(completions, COMPLETIONS),
            wake,
            wakes_node: None,
            regions: Vec::new(),
            released: Vec::new(),
            leaving: Vec::new(),
            carrier: None,
            pending: None,
            is_held_back: false,
            posted: 0,
            missed: 0,
            is_told: false,
            is_gone: false,
        };
        Ok((process, wakes_node))
    }

    /// Tells it something; a process that does not read what it is told is gone.
    pub fn tell(&mut self, message: Message) {
        self.is_gone |= send(&self.line, message, None).is_err();
    }

    /// Why it may not register memory, as far as that is known before it is mapped.
    pub fn refuses(&self, region: u32) -> Option<Refused> {
        let all = self.regions.iter().chain(&self.leaving).map(|it| it.number);
        let mut all = all.chain(self.carrier.as_ref().map(|it| it.number));
        if self.regions.len() + self.leaving.len() >= REGIONS_MAX {
            Some(Refused::Memory)
        } else {
            all.any(|number| number == region).then_some(Refused::Region)
        }
    }

    /// Registers memory that was attached.
    pub fn register(
        &mut self,
        (number, reach, bytes, address): (u32, Reach, u64, u64),
        slot: Slot,
        seat: &mut Seat<'_>,
    ) -> Result<(), Refused> {
        self.add(Region { number, slot, offset: 0, of: None, bytes, address, reach }, seat)
    }

    /// Lets a part of a region, of which `offset` and `bytes` are given, be reached at an address of its own.
    pub fn view(
        &mut self,
        (number, reach, address): (u32, Reach, u64),
        (of, offset, bytes): (u32, u64, u64),
        seat: &mut Seat<'_>,
    ) -> Result<(), Refused> {
        self.refuses(number).map_or(Ok(()), Err)?;
        let whole = self.regions.iter().find(|it| it.number == of && it.of.is_none());
        let end = offset.checked_add(bytes).filter(|_| bytes > 0);
        let whole = whole.filter(|whole| end.is_some_and(|end| end <= whole.bytes));
        let slot = whole.ok_or(Refused::Region)?.slot;
        self.add(Region { number, slot, offset, of: Some(of), bytes, address, reach }, seat)
    }

    fn add(&mut self, region: Region, seat: &mut Seat<'_>) -> Result<(), Refused> {
        let Region { address, bytes, offset, .. } = region;
        // Without an engine nobody says what is wrong before there is one.
        let is_page = (address ^ offset).is_multiple_of(PAGE as u64);
        let is_address = is_page && address.checked_add(bytes).is_some_and(|end| end <= 1 << 48);
        let is_beside = |it: &Region| {
            let (own, others) = (region.pages(), it.pages());
            own.start >= others.end || others.start >= own.end
        };
        let is_free = |it: &Region| it.reach == Reach::Own || is_beside(it);
        let mut all = self.regions.iter().chain(&self.leaving);
        if region.reach != Reach::Own && !(is_address && all.all(is_free)) {
            return Err(Refused::Address);
        }
        enter(self.number, &region, seat)?;
        self.regions.push(region);
        Ok(())
    }

    /// Carries packets of a device, which the process calls `number`, by way of the regions `rings` and `buffers`.
    pub fn carry(
        &mut self,
        (number, device): (u32, OwnedFd),
        (rings, buffers): (u32, u32),
        (place, first): (Option<Place>, u8),
        memory: &NodeMemory,
    ) -> Result<(), Refused> {
        self.refuses(number).map_or(Ok(()), Err)?;
        let slot = |number| {
            let is_it = |it: &&Region| it.number == number && it.of.is_none();
            self.regions.iter().find(is_it).filter(|it| it.reach == Reach::Own).map(|it| it.slot)
        };
        let carrier = || {
            let regions = [rings, buffers];
            let slots = tunnel::Memory { regions, rings: slot(rings)?, buffers: slot(buffers)? };
            Carrier::new((number, device), place?, first, (slots, memory))
        };
        let is_idle = self.posted == 0 && self.pending.is_none() && self.carrier.is_none();
        let is_able = self.number == tunnel::PROCESS && is_idle;
        let carrier = if is_able { carrier() } else { None };
        self.carrier = Some(carrier.ok_or(Refused::Device)?);
        Ok(())
    }

    /// What moves packets of its device.
    pub fn carrier(&mut self) -> Option<&mut Carrier> {
        self.carrier.as_mut()
    }

    /// Its device, if a packet of that is to wake the node.
    pub fn device(&self) -> Option<BorrowedFd<'_>> {
        self.carrier.as_ref()?.device().filter(|_| !self.is_held_back)
    }

    /// When there is something to do for it at the latest.
    pub fn next_deadline(&self) -> Option<u64> {
        let carrier = self.carrier.as_ref()?;
        if self.is_held_back { carrier.end_deadline() } else { carrier.next_deadline() }
    }

    /// Tells what has become of packets of its device, and that it is carried no more, if that is so.
    pub fn report(&mut self, memory: &NodeMemory, now: u64) {
        match &mut self.carrier {
            Some(carrier) if !carrier.is_over(now) => carrier.report(memory),
            _ => self.end_carrying(memory),
        }
    }

    fn end_carrying(&mut self, memory: &NodeMemory) {
        let Some(carrier) = self.carrier.take() else { return };
        let region = carrier.number;
        carrier.give_up(memory);
        self.pending = None;
        self.tell(Message::Deregistered { region });
    }

    /// Gives back what has this number: memory when all is done that was posted before.
    pub fn release(&mut self, number: u32, seat: &mut Seat<'_>, now: u64) {
        let is_memory = |it: &Region| it.number == number && it.of.is_none();
        if self.carrier.is_none() && self.regions.iter().any(is_memory) {
            self.released.retain(|it| *it != number);
            self.released.push(number);
        } else {
            self.deregister(number, seat, now);
        }
    }

    /// Lets nobody reach a region or its views any more; it is let go when nothing is under way. A device is carried until nothing of it is.
    pub fn deregister(&mut self, number: u32, seat: &mut Seat<'_>, now: u64) {
        if let Some(carrier) = self.carrier.as_mut().filter(|it| it.number == number) {
            return carrier.end(now);
        }
        if self.carrier.as_ref().is_some_and(|carrier| carrier.uses(number)) {
            self.end_carrying(seat.memory());
        }
        let is_left = |it: &mut Region| it.number == number || it.of == Some(number);
        for region in self.regions.extract_if(.., is_left) {
            if let Seat::Node(engine) = seat
                && region.reach != Reach::Own
            {
                engine.deregister(self.number, region.address);
            }
            self.leaving.push(region);
        }
        // Views have no memory that is to be kept.
        for view in self.leaving.extract_if(.., |it| it.of.is_some()) {
            if view.number == number && !self.is_gone {
                let told = send(&self.line, Message::Deregistered { region: number }, None);
                self.is_gone |= told.is_err();
            }
        }
    }

    /// Lets nobody reach its memory any more.
    pub fn leave(&mut self, seat: &mut Seat<'_>, now: u64) {
        self.is_gone = true;
        self.end_carrying(seat.memory());
        while let Some(Region { number, .. }) = self.regions.last().copied() {
            self.deregister(number, seat, now);
        }
    }

    /// Lets go of memory that leaves, once nothing is under way.
    pub fn settle(&mut self, seat: &mut Seat<'_>, now: u64) {
        if self.posted > 0 || self.leaving.is_empty() && self.released.is_empty() {
            return;
        }
        // Posts for whose completions there is no room wait until the process takes some, which it does not while it waits for this.
        let is_blocked = self.is_blocked();
        if is_blocked || self.pending.is_none() && !self.posts.has_next() {
            for number in std::mem::take(&mut self.released) {
                self.deregister(number, seat, now);
            }
        }
        for region in std::mem::take(&mut self.leaving) {
            seat.memory().detach(region.slot);
            if !self.is_gone {
                self.tell(Message::Deregistered { region: region.number });
            }
        }
    }

    /// Whether nothing of it is left.
    pub fn has_left(&self) -> bool {
        self.is_gone && self.posted == 0 && self.leaving.is_empty()
    }

    /// Goes on with another engine, which knows nothing of it.
    pub fn begin(&mut self, seat: &mut Seat<'_>) {
        for region in &self.regions {
            // There was room for them before.
            let _entered = enter(self.number, region, seat);
        }
    }

    /// Takes posts; gives those that are under way now with the numbers that the process gave them, by `posted`.
    pub fn take_posts(
        &mut self,
        seat: &mut Seat<'_>,
        now: u64,
        mut posted: impl FnMut(Request, Posted),
    ) -> bool {
        for _ in 0..POSTS_AT_ONCE {
            if self.is_blocked() {
                return false;
            }
            let next = self.pending.take().or_else(|| match &mut self.carrier {
                Some(carrier) => carrier.next_post(seat.memory(), now),
                None => self.posts.pop().map(Post::from),
            });
            let Some(post) = next else { return false };
            match self.post(&post, seat, now) {
                Ok(request) => {
                    self.posted += 1;
                    posted(request, self.posted_as(post.request));
                }
                Err(None) => {
                    self.pending = Some(post);
                    return false;
                }
                Err(Some(outcome)) => self.tell_done(self.posted_as(post.request), outcome),
            }
        }
        true
    }

    /// Hands a post to the engine; no outcome if it has no room.
    fn post(&self, post: &Post, seat: &mut Seat<'_>, now: u64) -> Result<Request, Option<Outcome>> {
        let Seat::Node(engine) = seat else { return Err(Some(Outcome::Unreachable)) };
        let region = self.regions.iter().find(|it| it.number == post.region);
        let end = post.offset.checked_add(post.length.into());
        let is_inside = |it: &&Region| end.is_some_and(|end| end <= it.bytes);
        let region = region.filter(is_inside).ok_or(Some(Outcome::Invalid))?;
        let &Post { node, process, address, length, tag, .. } = post;
        let result = if post.operation == Operation::Get {
            // The address of other memory means nothing, and may be any.
            if region.reach != Reach::Write {
                return Err(Some(Outcome::Invalid));
            }
            let (local_process, local_address) = (self.number, region.address + post.offset);
            let source = Node(node);
            let get = Get { source, process, address, local_process, local_address, length, tag };
            engine.post_get(now, &get)
        } else {
            let source = region.slot.address(region.offset + post.offset);
            let destination = Node(node);
            let put = Put { source, destination, process, address, length, tag };
            match post.operation {
                Operation::QuietPut => engine.post_quiet_put(now, &put),
                _ => engine.post_put(now, &put),
            }
        };
        result.map_err(|error| match error {
            PostError::Full => None,
            _ => Some(Outcome::Invalid),
        })
    }

    /// A post of it is done.
    pub fn done(&mut self, posted: Posted, outcome: Outcome) {
        self.posted -= 1;
        self.tell_done(posted, outcome);
    }

    fn tell_done(&mut self, posted: Posted, outcome: Outcome) {
        match (posted, &mut self.carrier) {
            (Posted::Own(request), _) => self.push(Completion::Done { request, outcome }),
            (Posted::Carried(request), Some(carrier)) => carrier.done(request, outcome),
            // It was given up when it was still under way.
            (Posted::Carried(_), None) => {}
        }
    }

    /// Who posts now, with the number of a post.
    fn posted_as(&self, request: u32) -> Posted {
        if self.carrier.is_some() { Posted::Carried(request) } else { Posted::Own(request) }
    }

    /// Tells what has arrived from another node, if it takes it.
    pub fn arrived(
        &mut self,
        node: Node,
        (address, length, tag): (u64, u32, u32),
        memory: &NodeMemory,
    ) {
        if let Some(carrier) = &mut self.carrier {
            return carrier.arrived(node, address, length, tag, memory);
        }
        let arrived = Completion::Arrived { node: node.0, address, length, tag };
        let room = self.completions.room().saturating_sub(self.posted);
        // One more says how many were missed.
        if self.missed > 0 && room > 1 {
            let missed = std::mem::take(&mut self.missed);
            self.push(Completion::Missed(missed));
        }
        if self.missed == 0 && room > 1 {
            self.push(arrived);
        } else {
            self.missed += 1;
        }
    }

    fn push(&mut self, completion: Completion) {
        if !self.is_gone {
            self.is_told = true;
            self.completions.push(completion.into());
        }
    }

    /// Wakes it if it was told something and sleeps.
    pub fn wake(&mut self) {
        if std::mem::take(&mut self.is_told) && self.completions.must_wake() {
            // The process can have cleared `O_NONBLOCK` and filled the counter. One that is full wakes it, too.
            let mut wake = [PollFd::new(&self.wake, PollFlags::OUT)];
            let has_room = poll(&mut wake, Some(&Timespec::default())).is_ok()
                && wake[0].revents().contains(PollFlags::OUT);
            if has_room {
                let _woken = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
            }
        }
    }

    /// Whether no more posts of it are taken before it takes completions, or posts under way are done.
    fn is_blocked(&mut self) -> bool {
        let is_full = self.carrier.is_none() && self.completions.room() <= self.posted;
        self.is_gone || self.posted >= POSTS_MAX || is_full
    }

    /// Whether the node need not look for posts of it before it is woken, by this process or by a frame.
    pub fn may_sleep(&mut self) -> bool {
        self.is_held_back = self.is_blocked() || self.pending.is_some();
        if self.is_held_back {
            return true;
        }
        match &self.carrier {
            Some(carrier) => carrier.may_sleep(),
            None => self.posts.may_sleep(),
        }
    }
}

/// A ring, and a descriptor of it for the process.
fn ring(entries: usize) -> io::Result<(RingMemory, OwnedFd)> {
    let ring = RingMemory::new::<WORDS>(entries).map_err(io::Error::other)?;
    let descriptor = ring.descriptor()?;
    Ok((ring, descriptor))
}

/// What the node or a process is woken by.
fn event() -> io::Result<OwnedFd> {
    Ok(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)
}

/// Lets others reach memory of a process, as far as they may.
fn enter(process: u16, region: &Region, seat: &mut Seat<'_>) -> Result<(), Refused> {
    let Seat::Node(engine) = seat else { return Ok(()) };
    if region.reach == Reach::Own {
        return Ok(());
    }
    let pages = region.slot.pages(region.offset, region.bytes);
    let registration = Registration {
        process,
        start: region.address,
        length: region.bytes,
        writable: region.reach == Reach::Write,
        pages: &pages,
    };
    engine.register(&registration).map_err(|_| Refused::Memory)
}

fn send(line: &Line<Message>, message: Message, file: Option<&OwnedFd>) -> io::Result<()> {
    match line.send(&message, file.map(AsFd::as_fd), false)? {
        true => Ok(()),
        false => Err(io::ErrorKind::WouldBlock.into()),
    }
}
