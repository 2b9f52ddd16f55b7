//! How a pair begins: with a user of the node, memory that it knows, and a word to the other side.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use gannet_lattice::Node;
use gannet_memory::SharedRegion;
use gannet_wire::exchange::TorusAddress;
use gannet_wire::record::Record;
use gannet_wire::torus_user::{Outcome, Refused};
use rustix::rand::{GetRandomFlags, getrandom};

use super::super::credit::{Credit, PROBE, WORD_LEN, WORDS_LEN};
use super::super::user::{self, Completion, Place, Reach, RegionId, User, UserError};
use super::Pair;
use crate::endpoint::Failure;
use crate::exchange::{JoinError, hear_address, tell_address};
use crate::own::{Limits, Returns};
use crate::tcp::Connection;
use crate::windows::Windows;

/// Bytes of a page of the node, at which memory begins.
pub(super) const PAGE: u64 = 4096;
/// Bits of a virtual address.
const ADDRESS_BITS: u32 = 48;
/// Times that a number or an address is drawn which another one may have.
const DRAWS: usize = 4;
/// Lowest number of a user that is drawn: the node gives lower ones to those who ask for them.
const NUMBERS_FROM: u16 = 1024;
/// Time between two looks at a node.
const LOOK: Duration = Duration::from_micros(100);

impl Pair {
    /// Meets the endpoint at the other end of a connection, by the node that listens at `node`.
    pub fn join(
        mut connection: Connection,
        node: &Path,
        limits: &Limits,
    ) -> Result<Self, JoinError> {
        let until = Instant::now() + limits.deadline;
        let mut user = numbered(node)?;
        let place = placed(&mut user, until)?;
        let memory = SharedRegion::new(WORDS_LEN)?;
        let own_words = memory.again()?;
        let (words, words_address) = register(&mut user, memory)?;
        let events = user.arrivals_max().min(limits.events as u64);
        let mut own = [0; TorusAddress::LEN];
        TorusAddress {
            node: place.node.0,
            process: user.process(),
            events: events as u32,
            words: words_address,
        }
        .emit(&mut own);
        tell_address(&mut connection, &own)?;
        let theirs = hear_address(&mut connection)?;
        let theirs = TorusAddress::parse(&theirs).map_err(|_| JoinError::Address)?;
        let (node, process) = (Node(theirs.node), theirs.process);
        if theirs.events == 0 || theirs.words.checked_add(WORDS_LEN as u64).is_none() {
            return Err(JoinError::Address);
        }
        let far = user::Remote { node, process, address: theirs.words };
        probe(&mut user, words, far, until)?;
        connection.stop_waiting()?;
        Ok(Self {
            connection,
            user,
            place,
            far,
            words,
            words_address,
            credit: Credit::new(own_words, events, theirs.events.into()),
            word: None,
            regions: Vec::new(),
            views: Vec::new(),
            windows: Windows::new(limits.windows),
            closing: Vec::new(),
            operations: VecDeque::new(),
            returned: Returns::default(),
            since: 0,
            windows_max: limits.windows,
            barrier: None,
            ending: None,
        })
    }

    /// Lets the node reach a region of the endpoint, for what goes and what is got.
    pub fn add_region(&mut self, region: &SharedRegion) -> Result<(), Failure> {
        let memory = region.again().map_err(|_| Failure::Resources)?;
        let registered = register(&mut self.user, memory);
        let (region, _) = registered.map_err(|error| refusal(&error))?;
        self.regions.push(region);
        Ok(())
    }
}

/// What the refusal of memory by the node means for an endpoint, for which it is logged.
pub(super) fn refusal(error: &UserError) -> Failure {
    tracing::warn!(%error, "the node of the torus does not take memory of an endpoint");
    match error {
        UserError::Ended => Failure::Node,
        _ => Failure::Resources,
    }
}

/// A user of the node at `path`, with a number that nobody guesses.
fn numbered(path: &Path) -> Result<User, UserError> {
    let mut last = UserError::Ended;
    for _ in 0..DRAWS {
        let number = random()? % u64::from(u16::MAX - NUMBERS_FROM) + u64::from(NUMBERS_FROM);
        match User::connect(path, Some(number as u16)) {
            Err(error @ UserError::Refused(Refused::Taken)) => last = error,
            other => return other,
        }
    }
    Err(last)
}

/// Waits until the host has a place in a machine.
fn placed(user: &mut User, until: Instant) -> Result<Place, JoinError> {
    loop {
        if let Some(place) = user.place() {
            return Ok(place);
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || user.has_ended() {
            return Err(JoinError::NoMachine);
        }
        user.wait(left)?;
    }
}

/// Registers memory at an address that is drawn.
fn register(user: &mut User, memory: SharedRegion) -> Result<(RegionId, u64), UserError> {
    at_free_address(|| {
        let address = address_for(memory.len() as u64)?;
        Ok((user.register(memory.again()?, address, Reach::Write)?, address))
    })
}

/// Has another address drawn where the process has something already.
pub(super) fn at_free_address<T>(
    mut place: impl FnMut() -> Result<T, UserError>,
) -> Result<T, UserError> {
    for _ in 1..DRAWS {
        match place() {
            Err(UserError::Refused(Refused::Address)) => {}
            other => return other,
        }
    }
    place()
}

/// Draws an address that begins a page, with room for `bytes` behind it.
pub(super) fn address_for(bytes: u64) -> io::Result<u64> {
    let pages = (1 << ADDRESS_BITS) / PAGE - bytes.div_ceil(PAGE).min(1 << 30);
    Ok(random()? % pages * PAGE)
}

fn random() -> io::Result<u64> {
    let mut bytes = [0; 8];
    getrandom(&mut bytes, GetRandomFlags::empty())?;
    Ok(u64::from_ne_bytes(bytes))
}

/// Waits until a word has got to the other side.
fn probe(
    user: &mut User,
    words: RegionId,
    far: user::Remote,
    until: Instant,
) -> Result<(), JoinError> {
    let from = user::Local { region: words, offset: PROBE.source };
    let to = user::Remote { address: far.address + PROBE.target, ..far };
    let request = user.put_quietly(from, to, WORD_LEN)?;
    while Instant::now() < until {
        match user.poll() {
            Some(Completion::Done { request: done, outcome }) if done == request => {
                return match outcome {
                    Outcome::Done => Ok(()),
                    other => Err(JoinError::Torus(other)),
                };
            }
            Some(_) => {}
            None => thread::sleep(LOOK),
        }
    }
    Err(JoinError::Torus(Outcome::Unreachable))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_begin_pages_and_leave_room() {
        for bytes in [1, PAGE, 4 << 30] {
            let drawn: Vec<u64> = (0..100).map(|_| address_for(bytes).unwrap()).collect();
            let is_address = |it: &u64| it.is_multiple_of(PAGE) && it + bytes <= 1 << ADDRESS_BITS;
            assert!(drawn.iter().all(is_address), "{drawn:x?}");
            assert!(drawn.iter().any(|it| it >> 40 != 0), "high ones are drawn too");
        }
    }

    #[test]
    fn a_place_that_is_taken_is_drawn_again() {
        let mut draws = 0;
        let taken = || UserError::Refused(Refused::Address);
        let second = at_free_address(|| {
            draws += 1;
            if draws < 2 { Err(taken()) } else { Ok(draws) }
        });
        assert_eq!(second.unwrap(), 2);
        let mut draws = 0;
        let never = at_free_address::<()>(|| {
            draws += 1;
            Err(taken())
        });
        assert!(never.is_err() && draws == DRAWS);
    }
}
