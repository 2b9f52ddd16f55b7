//! LO|FA|MO of a node: its NIC, and the spare bits of credits that carry its diagnostics.

use gannet_lattice::{Direction, LINKS, Lattice, Node};
use gannet_wire::lofamo::{Assembler, Diagnostic};

use super::port::Heard;
use gannet_lofamo::{Disassembler, Nic, NicAction, Thresholds, Timing};

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
