//! The rules of a router: which link and channel a packet takes, and who goes first.
//!
//! A live [`node`](crate::node) and the [`simulator`](crate::simulator) both decide by them, the one for
//! whole packets and the other flit by flit.

use std::ops::Range;

use serde::Serialize;

use crate::routes::{Hop, Journey, Position, Routes};

/// Who goes first where packets compete for a channel or for a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arbitration {
    /// Each input in its turn. In overload, sources that meet few others take the share of those that
    /// meet many, down to nothing.
    #[default]
    Turns,
    /// The packet whose source has sent least over the link, turns among equals. Sources count
    /// together that have the same coordinate in the dimension of the link: in a ring each node then
    /// gets the same share, with all that it brings from other dimensions.
    EqualShares,
}

/// Why a packet does not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stranded {
    /// The routes lead nowhere.
    NoRoute,
    /// The link that it has to take is down.
    LinkDown,
}

/// The next step of a packet at a router whose links `down`, one bit each, do not work.
#[inline]
pub(crate) fn next_hop(
    routes: &Routes,
    down: u8,
    position: Position,
    journey: &Journey,
) -> Result<Hop, Stranded> {
    let hop = routes.hop(position, journey).ok_or(Stranded::NoRoute)?;
    if down >> hop.port & 1 == 1 { Err(Stranded::LinkDown) } else { Ok(hop) }
}

/// Virtual channels of a link, by number, that serve a class of the routes.
///
/// They are divided evenly among the classes; the first have one more, since most packets are in
/// them.
pub fn channels_of_class(class: u8, vcs: u8, classes: u8) -> Range<u32> {
    let share = |class: u8| (u32::from(vcs) * u32::from(class)).div_ceil(u32::from(classes));
    share(class)..share(class + 1)
}

/// The class that virtual channel `vc` belongs to.
#[inline]
pub(crate) fn class_of(vc: u8, vcs: u8, classes: u8) -> u8 {
    // The inverse of `channels_of_class`.
    (u32::from(vc) * u32::from(classes) / u32::from(vcs)) as u8
}

/// Whose turn it is among fewer than 64, by number.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Turn {
    next: u8,
}

impl Turn {
    /// The first that wants at or after the one whose turn it is, round the circle; `wants` has one bit
    /// each and is not 0.
    #[inline]
    pub fn first(self, wants: u64) -> u8 {
        debug_assert!(wants != 0 && self.next < 64);
        let behind = wants >> self.next << self.next;
        if behind != 0 { behind.trailing_zeros() as u8 } else { wants.trailing_zeros() as u8 }
    }

    /// Gives the turn to the one after `one`, which was served.
    #[inline]
    pub fn served(&mut self, one: u8) {
        self.next = one + 1;
    }
}

/// Takes the lowest set bit out of `mask`, which is not 0.
#[inline]
pub(crate) fn take_lowest(mask: &mut u64) -> u8 {
    let bit = mask.trailing_zeros() as u8;
    *mask &= *mask - 1;
    bit
}

/// Coordinates that a link tells apart; those so far from each other share a count. No two sources of
/// one link do in rings of up to twice as many nodes.
const PLACES: usize = 16;

/// Most by which one source of a link can have sent more than another, as far as the link remembers.
/// It bounds what a source that was silent may send before others, and covers some packets of many
/// flits.
const LEAD_MAX: u8 = 64;

/// What the sources of a link have sent over it of late, by their coordinate in its dimension.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Shares {
    sent: [u8; PLACES],
}

impl Shares {
    /// Those of `wants`, one bit each, whose sources have sent least; `place` tells the coordinate of
    /// the source of each.
    #[inline]
    pub fn least(&self, wants: u64, place: impl Fn(u8) -> u16) -> u64 {
        let (mut least, mut fewest) = (0, u8::MAX);
        let mut left = wants;
        while left != 0 {
            let one = take_lowest(&mut left);
            let sent = self.sent[usize::from(place(one)) % PLACES];
            if sent < fewest {
                (least, fewest) = (0, sent);
            }
            least |= u64::from(sent == fewest) << one;
        }
        least
    }

    /// Counts a packet, or a flit, of a source at coordinate `place`.
    #[inline]
    pub fn count(&mut self, place: u16) {
        let sent = &mut self.sent[usize::from(place) % PLACES];
        *sent += 1;
        if *sent > LEAD_MAX {
            self.sent = self.sent.map(|sent| sent.saturating_sub(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_class_of_a_channel_is_the_one_it_was_given_to() {
        for vcs in 1..=8u8 {
            for classes in 1..=vcs.min(4) {
                for vc in 0..vcs {
                    let class = class_of(vc, vcs, classes);
                    assert!(
                        channels_of_class(class, vcs, classes).contains(&u32::from(vc)),
                        "channel {vc} of {vcs}, {classes} classes: {class}"
                    );
                }
            }
        }
    }

    #[test]
    fn the_turn_goes_round() {
        let mut turn = Turn::default();
        let served: Vec<u8> = (0..7)
            .map(|_| {
                let one = turn.first(0b1001_0010);
                turn.served(one);
                one
            })
            .collect();
        assert_eq!(served, [1, 4, 7, 1, 4, 7, 1]);
        assert_eq!(turn.first(0b11), 0);
    }

    #[test]
    fn who_has_sent_less_goes_first_until_it_has_caught_up() {
        let (mut shares, place) = (Shares::default(), |one: u8| u16::from(one));
        (0..3).for_each(|_| shares.count(2));
        shares.count(5);
        assert_eq!(shares.least(0b10_0110, place), 0b10);
        assert_eq!(shares.least(0b10_0100, place), 0b10_0000);
        (0..2).for_each(|_| shares.count(5));
        assert_eq!(shares.least(0b10_0100, place), 0b10_0100);
    }

    #[test]
    fn a_silent_source_catches_up_with_a_bounded_number() {
        let mut shares = Shares::default();
        (0..1000).for_each(|_| shares.count(3));
        let mut ahead = 0;
        while shares.least(0b1001, u16::from) == 1 {
            shares.count(0);
            ahead += 1;
        }
        assert_eq!(ahead, LEAD_MAX);
    }
}
