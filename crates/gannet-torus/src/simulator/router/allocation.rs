//! Both allocators: who gets which channel, and who passes the switch.

use super::{Departure, Queue, Router};
use crate::router::take_lowest;
use crate::routes::{LOCAL, MAX_CLASSES, PORTS};
use crate::simulator::FlowControl;
use crate::simulator::rules::Rules;

/// The virtual channels of each input port, one bit each, that ask for each output port.
type Lanes = [[u8; PORTS]; PORTS];

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
                    let first = self.first_channels(fit, output, rules);
                    let input = self.output(output).turn.first(first);
                    offers[usize::from(input)] |= 1 << output;
                    offered |= 1 << input;
                }
            }
        }
        let (granted, mut taken) = (offered, 0);
        while offered != 0 {
            let channel = take_lowest(&mut offered);
            let input = self.input(channel);
            let output = input.turn.first(offers[usize::from(channel)]);
            input.turn.served(output);
            input.output = output;
            taken |= 1 << output;
            self.output(output).turn.served(channel);
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

    /// Those of the input channels, of whom the turn decides, that go first to an output channel.
    #[inline]
    fn first_channels(&self, channels: u64, output: u8, rules: &Rules) -> u64 {
        let output = output / V as u8;
        if !rules.shares_equally || output == LOCAL {
            return channels;
        }
        self.shares[usize::from(output)].least(channels, |channel| {
            self.place_of_source(usize::from(channel) / V, channel % V as u8, output, rules)
        })
    }

    /// Those of the input ports, of whom the turn decides, that go first to an output port.
    #[inline]
    fn first_ports(&self, ports: u64, output: u8, lanes: &Lanes, rules: &Rules) -> u64 {
        if !rules.shares_equally || output == LOCAL {
            return ports;
        }
        self.shares[usize::from(output)].least(ports, |port| {
            let port = usize::from(port);
            let vc = self.lane[port].first(lanes[port][usize::from(output)].into());
            self.place_of_source(port, vc, output, rules)
        })
    }

    /// Where in the dimension of a link the source of the packet in front of a channel is.
    #[inline]
    fn place_of_source(&self, port: usize, vc: u8, output: u8, rules: &Rules) -> u16 {
        let source = self.inputs[port][usize::from(vc)].front.source;
        rules.packing.coordinate(source, usize::from(output) / 2)
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
        // For each output port the input ports that ask for it, and with which channels.
        let mut requests = [0u64; PORTS];
        let mut lanes: Lanes = [[0; PORTS]; PORTS];
        let mut outputs = 0u64;
        while ready != 0 {
            let channel = take_lowest(&mut ready);
            let (input, vc) = (usize::from(channel) / V, channel % V as u8);
            let asked = self.inputs[input][usize::from(vc)].output;
            let output = usize::from(asked) / V;
            if self.outputs[output][usize::from(asked) % V].credits == 0 {
                continue;
            }
            lanes[input][output] |= 1 << vc;
            requests[output] |= 1 << input;
            outputs |= 1 << output;
        }
        let mut offers = [0u64; PORTS];
        let mut offered = 0u64;
        while outputs != 0 {
            let output = take_lowest(&mut outputs);
            let asking = requests[usize::from(output)];
            let first = self.first_ports(asking, output, &lanes, rules);
            let input = self.grant[usize::from(output)].first(first);
            offers[usize::from(input)] |= 1 << output;
            offered |= 1 << input;
        }
        while offered != 0 {
            let input = take_lowest(&mut offered);
            let port = usize::from(input);
            let output = self.accept[port].first(offers[port]);
            let vc = self.lane[port].first(lanes[port][usize::from(output)].into());
            self.accept[port].served(output);
            self.grant[usize::from(output)].served(input);
            self.lane[port].served(vc);
            if rules.shares_equally && output != LOCAL {
                let place = self.place_of_source(port, vc, output, rules);
                self.shares[usize::from(output)].count(place);
            }
            self.pass(input * V as u8 + vc, rules, queue, departures);
        }
    }
}
