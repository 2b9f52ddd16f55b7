//! What becomes of packets when links and nodes fail.

use gannet_lattice::LINKS;

use super::{Input, NOWHERE, Queue, Router};
use crate::routes::{LOCAL, MAX_CLASSES};
use crate::simulator::packet::Packet;
use crate::simulator::rules::Rules;

impl<const V: usize> Router<V> {
    /// Lets the link at `port` fail at its sending end: packets that need it are thrown away.
    pub fn fail_output(&mut self, port: u8) {
        self.dead_links |= 1 << port;
        for channel in 0..Self::CHANNELS as u8 {
            let bit = 1 << channel;
            let Input { want, output, .. } = *self.input(channel);
            let holds = self.active & !self.doomed & bit != 0
                && usize::from(output) / V == usize::from(port);
            let waits = self.waiting & bit != 0 && want / MAX_CLASSES == port;
            if holds {
                self.free |= 1 << output;
            }
            if holds || waits {
                self.input(channel).output = NOWHERE;
                self.waiting &= !bit;
                self.active |= bit;
                self.doomed |= bit;
            }
        }
    }

    /// Lets the link at `port` fail at its receiving end, where nothing will arrive any more. A packet
    /// of which a part has arrived is completed and marked as damaged; packets of which nothing has
    /// arrived are handed to `lose`.
    pub fn fail_input(&mut self, port: u8, queue: &mut Queue, mut lose: impl FnMut(Packet)) {
        for vc in 0..V as u8 {
            let channel = port * V as u8 + vc;
            let begun = (self.waiting | self.active) >> channel & 1 == 1;
            let mut missing = self.awaited(channel, begun, queue);
            while missing > 0 {
                let input = self.input(channel);
                let last = input.packets - 1;
                let packet = *self.nth(channel, last, queue);
                if last == 0 && begun || missing < packet.flits {
                    self.nth(channel, last, queue).damaged = true;
                    self.input(channel).flits += missing;
                    self.visible |= 1 << channel;
                    break;
                }
                missing -= packet.flits;
                self.input(channel).packets -= 1;
                lose(packet);
            }
        }
    }

    /// Flits of the packets of a channel that have not arrived.
    fn awaited(&mut self, channel: u8, begun: bool, queue: &mut Queue) -> u16 {
        let Input { packets, left, flits, .. } = *self.input(channel);
        let mut expected = 0;
        for packet in 0..packets {
            let is_begun = packet == 0 && begun;
            expected += if is_begun { left } else { self.nth(channel, packet, queue).flits };
        }
        expected - flits
    }

    /// A packet of a channel, counted from the one in front.
    pub(super) fn nth<'a>(
        &'a mut self,
        channel: u8,
        n: u16,
        queue: &'a mut Queue,
    ) -> &'a mut Packet {
        let input = self.input(channel);
        match n {
            0 => &mut input.front,
            1 => &mut input.second,
            n => {
                let place = queue.behind(input.head, n - 2);
                queue.at(channel, place)
            }
        }
    }

    /// Forgets everything, as a router that has lost its power; packets whose head was here are
    /// handed to `lose`.
    pub fn fail(&mut self, rules: &Rules, queue: &mut Queue, mut lose: impl FnMut(Packet)) {
        for channel in 0..Self::CHANNELS as u8 {
            let begun = (self.waiting | self.active) >> channel & 1 == 1;
            let Input { packets, left, front, output, .. } = *self.input(channel);
            // A head that has gone to the node itself is not in any other router.
            let stays = usize::from(output) / V == usize::from(LOCAL);
            let head_is_gone = begun && left != front.flits && !stays;
            for packet in u16::from(head_is_gone)..packets {
                lose(*self.nth(channel, packet, queue));
            }
        }
        *self = Self { dead_links: (1 << LINKS) - 1, ..Self::new(self.place, rules) };
    }

    /// Flits that the channels of `port` hold.
    pub fn occupancy(&self, port: u8) -> [u16; V] {
        self.inputs[usize::from(port)].map(|input| input.flits)
    }

    /// Takes the link at `port` back into service, when its far end holds these flits.
    pub fn repair_output(&mut self, port: u8, occupancy: [u16; V], rules: &Rules) {
        self.dead_links &= !(1 << port);
        for (output, held) in self.outputs[usize::from(port)].iter_mut().zip(occupancy) {
            output.credits = rules.depth.saturating_sub(held);
        }
    }
}
