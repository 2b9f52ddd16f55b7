//! Both allocators: who gets which channel, and who passes the switch; and the turns over bit masks
//! by which they decide.

use super::{Departure, Queue, Router};
use crate::routes::{MAX_CLASSES, PORTS};
use crate::simulator::FlowControl;
use crate::simulator::rules::Rules;

impl<const V: usize> Router<V> {
    /// Matches packets that wait with output channels that are free. Input and output channels of
    /// the match are returned as masks, and take effect after the switch was allocated.
    #[inline]
    pub(super) fn allocate_channels(&mut self, rules: &Rules) -> (u64, u64) {
        let mut requests = [0u64; PORTS * MAX_CLASSES as usize];
        let mut wants = 0u64;
        let mut waiting = self.waiting;
        while waiting != 0 {
            let channel = take_lowest(&mut waiting);
            let want = self.input(channel).want;
            requests[usize::from(want)] |= 1 << channel;
            wants |= 1 << want;
        }
        let mut offers = [0u64; 64];
        let mut offered = 0u64;
        while wants != 0 {
            let want = take_lowest(&mut wants);
            let mut outputs = self.free & rules.channels(want);
            while outputs != 0 {
                let output = take_lowest(&mut outputs);
                let fit = self.fitting(requests[usize::from(want)], output, rules);
                if fit != 0 {
                    let turn = self.output(output).turn;
                    let input = self.first_input(fit, turn, rules);
                    offers[usize::from(input)] |= 1 << output;
                    offered |= 1 << input;
                }
            }
        }
        let (granted, mut taken) = (offered, 0);
        while offered != 0 {
            let channel = take_lowest(&mut offered);
            let input = self.input(channel);
            let output = next_from(offers[usize::from(channel)], input.turn);
            input.turn = following(output, Self::CHANNELS);
            input.output = output;
            taken |= 1 << output;
            self.output(output).turn = following(channel, Self::CHANNELS);
        }
        (granted, taken)
    }

    /// Those of the input channels whose packet may take the output channel.
    #[inline]
    fn fitting(&mut self, requests: u64, output: u8, rules: &Rules) -> u64 {
        if rules.flow_control == FlowControl::Wormhole {
            return requests;
        }
        let credits = self.output(output).credits;
        let mut fit = requests;
        let mut left = requests;
        while left != 0 {
            let channel = take_lowest(&mut left);
            let input = self.input(channel);
            let other_channel = !usize::from(channel ^ output).is_multiple_of(V);
            if input.room > credits || input.keeps_channel && other_channel {
                fit &= !(1 << channel);
            }
        }
        fit
    }

    /// The input channel that goes first: that of the source which is owed most, if any is, else the
    /// one whose turn it is.
    #[inline]
    fn first_input(&mut self, channels: u64, turn: u8, rules: &Rules) -> u8 {
        if channels & (channels - 1) == 0 {
            return channels.trailing_zeros() as u8;
        }
        let (mut least, mut most) = ((u32::MAX, 0), 0);
        let mut left = channels;
        while left != 0 {
            let channel = take_lowest(&mut left);
            let sent = self.input(channel).front.sent_before;
            least = least.min((sent, channel));
            most = most.max(sent);
        }
        if rules.owes(least.0, most) { least.1 } else { next_from(channels, turn) }
    }

    /// Matches input ports with output ports, one flit each.
    #[inline]
    pub(super) fn allocate_switch(
        &mut self,
        mut ready: u64,
        rules: &Rules,
        queue: &mut Queue,
        departures: &mut Vec<Departure>,
    ) {
        // For each output port the input ports that ask for it, and with which channel.
        let mut requests = [0u64; PORTS];
        let mut chosen = [[0u8; PORTS]; PORTS];
        let mut outputs = 0u64;
        while ready != 0 {
            let channel = take_lowest(&mut ready);
            let (input, vc) = (usize::from(channel) / V, channel % V as u8);
            let asked = self.inputs[input][usize::from(vc)].output;
            let output = usize::from(asked) / V;
            if self.outputs[output][usize::from(asked) % V].credits == 0 {
                continue;
            }
            let first = requests[output] >> input & 1 == 0;
            if first || self.supersedes(input, vc, chosen[input][output], rules) {
                chosen[input][output] = vc;
            }
            requests[output] |= 1 << input;
            outputs |= 1 << output;
        }
        let mut offers = [0u64; PORTS];
        let mut offered = 0u64;
        while outputs != 0 {
            let output = take_lowest(&mut outputs);
            let asking = requests[usize::from(output)];
            let input = self.first_port(asking, output, &chosen, rules);
            offers[usize::from(input)] |= 1 << output;
            offered |= 1 << input;
        }
        while offered != 0 {
            let input = take_lowest(&mut offered);
            let port = usize::from(input);
            let output = next_from(offers[port], self.accept[port]);
            let vc = chosen[port][usize::from(output)];
            self.accept[port] = following(output, PORTS);
            self.grant[usize::from(output)] = following(input, PORTS);
            self.lane[port] = if vc + 1 == rules.vcs { 0 } else { vc + 1 };
            self.pass(input * V as u8 + vc, rules, queue, departures);
        }
    }

    /// Whether `vc` goes before `other` of the same input port.
    #[inline]
    fn supersedes(&self, port: usize, vc: u8, other: u8, rules: &Rules) -> bool {
        let sent = |vc: u8| self.inputs[port][usize::from(vc)].front.sent_before;
        let (mine, theirs) = (sent(vc), sent(other));
        if rules.owes(mine.min(theirs), mine.max(theirs)) {
            return mine < theirs;
        }
        let turn = self.lane[port];
        (vc >= turn, other) > (other >= turn, vc)
    }

    /// The input port that an output port grants itself to.
    #[inline]
    fn first_port(
        &self,
        ports: u64,
        output: u8,
        chosen: &[[u8; PORTS]; PORTS],
        rules: &Rules,
    ) -> u8 {
        let turn = next_from(ports, self.grant[usize::from(output)]);
        if ports & (ports - 1) == 0 {
            return turn;
        }
        let sent = |port: u8| {
            let vc = chosen[usize::from(port)][usize::from(output)];
            self.inputs[usize::from(port)][usize::from(vc)].front.sent_before
        };
        let (mut least, mut most) = ((u32::MAX, turn), 0);
        let mut left = ports;
        while left != 0 {
            let port = take_lowest(&mut left);
            least = least.min((sent(port), port));
            most = most.max(sent(port));
        }
        if rules.owes(least.0, most) { least.1 } else { turn }
    }
}

/// The turn after `last`.
#[inline]
fn following(last: u8, all: usize) -> u8 {
    if usize::from(last) + 1 == all { 0 } else { last + 1 }
}

/// The first set bit at or after `from`, wrapping round; `mask` is not 0.
#[inline]
fn next_from(mask: u64, from: u8) -> u8 {
    debug_assert!(mask != 0 && from < 64);
    let behind = mask >> from << from;
    if behind != 0 { behind.trailing_zeros() as u8 } else { mask.trailing_zeros() as u8 }
}

/// Takes the lowest set bit out of `mask`, which is not 0.
#[inline]
pub(super) fn take_lowest(mask: &mut u64) -> u8 {
    let bit = mask.trailing_zeros() as u8;
    *mask &= *mask - 1;
    bit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_turn_goes_round() {
        let mask = 0b1001_0010;
        let turns: Vec<u8> = (0..8).map(|from| next_from(mask, from)).collect();
        assert_eq!(turns, [1, 1, 4, 4, 4, 7, 7, 7]);
        assert_eq!(next_from(mask, 8), 1);
        let mut left = mask;
        assert_eq!(
            [take_lowest(&mut left), take_lowest(&mut left), take_lowest(&mut left)],
            [1, 4, 7]
        );
        assert_eq!(left, 0);
    }
}
