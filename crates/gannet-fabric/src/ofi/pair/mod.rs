//! What an endpoint has of another one: the cable between them, and what goes over it.

mod transfers;
mod windows;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use gannet_memory::Access;
use gannet_wire::exchange::Message;

pub(super) use self::transfers::Posted;
use self::transfers::{Operation, Part, Untold};
use super::drive::Drive;
use super::provider::{FarName, is_too_near, may_hang};
use super::ring::{EVENT_LEN, Ring, Word};
use super::sys::{Cable, CallError, Info, Lent, Mapped, Piece, Reach};
use crate::endpoint::{Failure, Key, Level};
use crate::exchange::{Carrier, JoinError, hear_address, tell_address};
use crate::own::{Limits, Returns};
use crate::tcp::Connection;
use crate::windows::Windows;

/// Most operations to one endpoint that are not done.
const POSTS: usize = 256;
/// Transfers that the ring needs besides: its words.
const WORDS: usize = 2;
/// Number of the ring among the memory of a cable; regions follow.
const RING: usize = 0;
/// Times that the provider has nothing to tell, in turn, after which nothing more comes from one that has ended.
const SILENCE: u32 = 8;

/// How the events of PUTs follow their bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Telling {
    /// In one transfer: the provider takes two pieces, and keeps writes in order.
    Together,
    /// Right behind: the provider keeps writes in order.
    Behind,
    /// When all before them is placed.
    Afterwards,
}

/// A ring without room.
#[derive(Clone, Copy, Debug)]
struct Full {
    taken: u64,
    since: u64,
}

/// Another endpoint.
#[derive(Debug)]
pub(super) struct Pair {
    connection: Connection,
    cable: Drive,
    ring: Ring,
    far_ring: Reach,
    _far_name: FarName,
    telling: Telling,
    level: Level,
    posts_max: usize,
    /// Windows of the other one; the region of a place is one of `reaches`.
    pub windows: Windows,
    reaches: Vec<Option<Reach>>,
    /// How the window of which the next message tells is reached.
    reach: Option<(u32, Reach)>,
    /// Windows that it takes back, until no operation needs them, and those that wait for a barrier.
    closing: Vec<Key>,
    unbarred: VecDeque<Key>,
    /// Own windows that it may reach.
    lent: Vec<(Key, Lent)>,
    /// Windows told, for their numbers.
    lends: u32,
    /// Not told to be done, in the order of posting, and the number of the first; the first that is not done.
    operations: VecDeque<Operation>,
    first: u64,
    settled: u64,
    untold: VecDeque<Untold>,
    /// Whether the word of the ring is under way.
    is_telling: bool,
    pub returned: Returns,
    /// When an operation was done last, or the first of those under way was posted.
    since: u64,
    full: Option<Full>,
    /// What the provider says is wrong, and since when.
    broken: Option<(i32, u64)>,
    /// How often in turn the provider had nothing to tell.
    silence: u32,
    windows_max: usize,
    /// Why it is used no more.
    pub ending: Option<Failure>,
}

/// What is told to the other side: protocol (4) and its version (4), little-endian, name.
fn address(protocol: (u32, u32), name: &[u8]) -> Vec<u8> {
    [&protocol.0.to_le_bytes()[..], &protocol.1.to_le_bytes(), name].concat()
}

impl Pair {
    /// Agrees with the other side of a connection on a cable, and tries it both ways.
    pub fn join(
        mut connection: Connection,
        info: &Info,
        level: Level,
        limits: &Limits,
    ) -> Result<Self, JoinError> {
        let until = Instant::now() + limits.deadline;
        let is_ordered = info.orders(bytes_max(info)).write_after_write;
        let telling = match is_ordered {
            true if info.pieces() >= 2 => Telling::Together,
            true => Telling::Behind,
            false => Telling::Afterwards,
        };
        let (transfers, each) = match telling {
            Telling::Together => (info.operations(), 1),
            _ => (info.operations(), 2),
        };
        let posts_max = (transfers.saturating_sub(WORDS) / each).clamp(1, POSTS);
        let ring = Ring::new(limits.events, posts_max)?;
        let transfers = posts_max * each + WORDS;
        let mut cable = Cable::open(info, transfers, limits.events)?;
        let (protocol, own_name) = (info.protocol(), cable.name()?);
        tell_address(&mut connection, &address(protocol, &own_name))?;
        let theirs = hear_address(&mut connection)?;
        let (words, name) = theirs.split_at_checked(8).ok_or(JoinError::Address)?;
        if words != address(protocol, &[]) {
            return Err(JoinError::Address);
        }
        if is_too_near(info.library(), name) {
            return Err(JoinError::OneProcess { provider: info.provider() });
        }
        let far_name = FarName(name.to_vec());
        cable.reach(name)?;
        cable.add_memory(Arc::new(Mapped::new(ring.region())?))?;
        let (_, Reach { base, key }) = cable.lend(RING, (0, ring.lent()), Access::Write)?;
        connection.send(&Message::Region { region: ring.entries() as u32, base, key })?;
        let message = connection.receive()?;
        let Message::Region { region, base, key } = message else {
            return Err(JoinError::Turn(message));
        };
        connection.stop_waiting()?;
        // Until here nothing was asked of the provider that waits for the other side.
        let cable = match may_hang(info) {
            true => Drive::apart(cable, own_name, transfers, limits.deadline)?,
            false => Drive::Here(cable),
        };
        let mut pair = Self {
            connection,
            cable,
            ring,
            far_ring: Reach { base, key },
            _far_name: far_name,
            telling,
            // Without order nothing but being placed says that all before it are.
            level: if is_ordered { level } else { Level::Placed },
            posts_max,
            windows: Windows::new(limits.windows),
            reaches: Vec::new(),
            reach: None,
            closing: Vec::new(),
            unbarred: VecDeque::new(),
            lent: Vec::new(),
            lends: 0,
            operations: VecDeque::new(),
            first: 0,
            settled: 0,
            untold: VecDeque::new(),
            is_telling: false,
            returned: Returns::default(),
            since: 0,
            full: None,
            broken: None,
            silence: 0,
            windows_max: limits.windows,
            ending: None,
        };
        if !pair.ring.join(region) {
            return Err(JoinError::Turn(message));
        }
        pair.probe(until, info)?;
        Ok(pair)
    }

    /// Tries the cable both ways.
    fn probe(&mut self, until: Instant, info: &Info) -> Result<(), JoinError> {
        let events = Message::Events { entries: self.ring.entries() as u32 };
        let (mut is_posted, mut is_told, mut is_heard) = (false, false, false);
        while !(is_told && is_heard) {
            if !is_posted {
                is_posted = self.write_word(Word::Probe)?;
                self.is_telling = is_posted;
            }
            self.work(0);
            if let Some((code, _)) = self.broken {
                return Err(info.library().error("moving data", code as isize).into());
            }
            let is_done = is_posted && !self.is_telling && self.ring.is_probed();
            if is_done && !is_told {
                let told = self.connection.tell(&events, 1);
                told.map_err(|_| JoinError::Closed)?;
                is_told = true;
            }
            if !is_heard {
                match self.connection.hear() {
                    Ok(None) => {}
                    Ok(Some(Message::Events { .. })) => is_heard = true,
                    Ok(Some(message)) => return Err(JoinError::Turn(message)),
                    Err(_) => return Err(JoinError::Closed),
                }
            }
            if Instant::now() > until {
                return Err(JoinError::Undelivered { provider: info.provider() });
            }
        }
        Ok(())
    }

    /// Writes a word of the other side's ring; gives false if it is to be tried again.
    fn write_word(&mut self, word: Word) -> Result<bool, CallError> {
        let piece = Piece {
            memory: RING,
            offset: self.ring.source(word),
            reach: self.far_ring,
            remote_offset: word.place(),
            bytes: size_of::<u64>(),
        };
        self.cable.write(&[piece], None, true, Part::Word(word).tag())
    }

    pub fn add_region(&mut self, region: Arc<Mapped>) -> Result<(), Failure> {
        self.cable.add_memory(region).map_err(|_| Failure::Resources)
    }

    /// Whether the provider has told all that it will, if the other side has ended.
    pub fn is_silent(&self) -> bool {
        self.silence >= SILENCE || self.cable.is_lost()
    }

    pub fn tell(&mut self, message: &Message) -> Result<(), Failure> {
        self.connection.tell(message, 4 * self.windows_max)
    }

    /// The next message of the other side; those of this one go on.
    pub fn hear(&mut self) -> Result<Option<Message>, Failure> {
        self.connection.empty_outbox()?;
        if self.returned.len() > self.windows_max {
            return Ok(None);
        }
        self.connection.hear()
    }
}

/// Most bytes of an operation over what a provider offers, with its event.
pub(super) fn bytes_max(info: &Info) -> u64 {
    info.bytes_max().saturating_sub(EVENT_LEN as u64).min(u32::MAX.into())
}
