//! A link of a node with what is kept beside it, and the fault monitor that listens to all of them.

use gannet_checksum::copy_padded;
use gannet_lattice::{Direction, LINKS, Lattice, Node};
use gannet_lofamo::{Disassembler, Nic, NicAction, Thresholds, Timing};
use gannet_wire::apelink::{Header, WORD_LEN, Word};
use gannet_wire::lofamo::{Assembler, Diagnostic};
use gannet_wire::rdma::sealed_sum;

use crate::link::{
    Arrival, Config, ConfigError, Counters, Event, FrameError, Link, Origin, Refused,
};

/// Bits of a word.
const WORD_BITS: u64 = Word::BITS as u64;

/// What a link heard in a credit word.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heard {
    pub diagnostics: u16,
    /// Bits that came since the last good credit.
    pub bits: u64,
    /// Errors in them.
    pub errors: u32,
}

#[derive(Clone, Debug)]
pub(super) struct Port {
    pub link: Link,
    /// A frame has told the diagnostics that the link has.
    pub is_told: bool,
    /// Packets with a footer given to the link.
    given: u64,
    /// Words that came since the last good credit.
    words: u64,
    /// Errors up to the last good credit.
    errors: u64,
}

impl Port {
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        let link = Link::new(config)?;
        Ok(Self { link, is_told: false, given: 0, words: 0, errors: 0 })
    }

    pub fn receive(&mut self, word: Word, now: u64) -> Option<Event> {
        self.words += 1;
        self.link.receive(word, now)
    }

    pub fn accept(
        &mut self,
        frame: &[u8],
        now: u64,
        take: impl FnMut(&Arrival, &[u8]) -> bool,
        out: impl FnMut(Event),
    ) -> Result<(), FrameError> {
        self.words += (frame.len() / WORD_LEN) as u64;
        self.link.accept_offering(frame, now, take, out)
    }

    /// What the good credit that has just come says.
    pub fn heard(&mut self) -> Heard {
        let errors = errors(self.link.counters());
        let since = errors.saturating_sub(std::mem::replace(&mut self.errors, errors));
        Heard {
            diagnostics: self.link.diagnostics().map_or(0, |diagnostics| diagnostics.bits),
            bits: std::mem::take(&mut self.words) * WORD_BITS,
            errors: since.min(u32::MAX.into()) as u32,
        }
    }

    /// Gives a packet to the link that another one brought.
    pub fn forward(
        &mut self,
        header: Header,
        arrival: &Arrival,
        payload: &[u8],
    ) -> Result<(), Refused> {
        self.link.send_written(header, arrival.origin, payload.len(), |place| {
            copy_padded(payload, place);
            arrival.sum
        })?;
        self.given += 1;
        Ok(())
    }

    /// Gives a packet of the engine to the link, which `write` writes.
    pub fn send_written(
        &mut self,
        header: Header,
        origin: Origin,
        size: usize,
        write: impl FnOnce(&mut [u8]),
    ) -> Result<(), Refused> {
        self.link.send_written(header, origin, size, |place| {
            let (packet, padding) = place.split_at_mut(size);
            write(packet);
            padding.fill(0);
            sealed_sum(packet)
        })?;
        self.given += 1;
        Ok(())
    }

    /// Packets given to the link that the other end has not acknowledged.
    pub fn under_way(&self) -> u64 {
        let counters = self.link.counters();
        self.given - counters.tx_acknowledged - counters.tx_given_up
    }
}

/// What speaks of a bad line.
fn errors(counters: &Counters) -> u64 {
    counters.rx_credit_errors
        + counters.header_errors
        + counters.fatal_header_errors
        + counters.header_refused
        + counters.crc_errors
        + counters.cut_packets
}

/// LO|FA|MO of a node: its NIC, and the spare bits of credits that carry its diagnostics.
#[derive(Debug)]
pub(super) struct Monitor {
    pub nic: Nic,
    disassemblers: [Disassembler; LINKS],
    assemblers: [Assembler; LINKS],
}

impl Monitor {
    pub fn new(lattice: Lattice, node: Node, timing: Timing, thresholds: Thresholds) -> Self {
        Self {
            nic: Nic::new(lattice, node, timing, thresholds),
            disassemblers: Direction::ALL.map(Disassembler::new),
            assemblers: Default::default(),
        }
    }

    /// The spare bits of the next credit.
    pub fn bits(&mut self, direction: Direction, now: u64) -> u16 {
        self.disassemblers[direction.index()].word(now, &mut self.nic)
    }

    /// Takes what a credit said.
    pub fn hear(
        &mut self,
        direction: Direction,
        heard: Heard,
        now: u64,
        mut notice: impl FnMut(Diagnostic),
    ) {
        let Self { nic, assemblers, .. } = self;
        let mut out = |action| {
            if let NicAction::Notify(diagnostic) = action {
                notice(diagnostic);
            }
        };
        nic.credit(now, direction, &mut out);
        nic.link_errors(now, direction, heard.bits, heard.errors, &mut out);
        if let Some(diagnostic) = assemblers[direction.index()].take(heard.diagnostics) {
            nic.receive(now, direction, &diagnostic, &mut out);
        }
    }

    /// Lets the NIC act on its deadlines.
    pub fn poll(&mut self, now: u64, mut notice: impl FnMut(Diagnostic)) {
        self.nic.poll(now, &mut |action| {
            if let NicAction::Notify(diagnostic) = action {
                notice(diagnostic);
            }
        });
    }
}
