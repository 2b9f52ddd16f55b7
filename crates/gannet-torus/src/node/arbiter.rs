//! Whose turn it is at each output: round robin among the inputs that want it.

use gannet_lattice::LINKS;
use gannet_wire::apelink::VIRTUAL_CHANNELS;

/// The input of the packets of this node's own engine; those before it are links and their virtual
/// channels.
pub(super) const INJECTION: usize = LINKS * VIRTUAL_CHANNELS;
/// The output to this node's own engine; those before it are links and their virtual channels.
pub(super) const EJECTION: usize = LINKS * VIRTUAL_CHANNELS;
pub(super) const INPUTS: usize = INJECTION + 1;
pub(super) const OUTPUTS: usize = EJECTION + 1;

/// Number of a virtual channel of a link, as input or output.
pub(super) fn channel(port: usize, vc: u8) -> usize {
    port * VIRTUAL_CHANNELS + usize::from(vc)
}

/// Link and virtual channel of an input or output that is neither injection nor ejection.
pub(super) fn port_of(channel: usize) -> (usize, u8) {
    (channel / VIRTUAL_CHANNELS, (channel % VIRTUAL_CHANNELS) as u8)
}

/// Who wants which output, and who had it last.
///
/// The input next after the last one served has the turn until it is served, however little room its
/// packet needs or however much: no input waits for more than one packet of each other one.
#[derive(Clone, Debug)]
pub(super) struct Arbiter {
    /// One bit an input, by output.
    wants: [u32; OUTPUTS],
    last: [u8; OUTPUTS],
}

impl Arbiter {
    pub fn new() -> Self {
        Self { wants: [0; OUTPUTS], last: [INJECTION as u8; OUTPUTS] }
    }

    /// Lets `input` want exactly the outputs of `outputs`, one bit each.
    pub fn want(&mut self, input: usize, outputs: u32) {
        for (output, wants) in self.wants.iter_mut().enumerate() {
            *wants = *wants & !(1 << input) | (outputs >> output & 1) << input;
        }
    }

    /// The input whose turn it is.
    pub fn turn(&self, output: usize) -> Option<usize> {
        let wants = self.wants[output];
        let after = wants & !0u32 << (self.last[output] + 1);
        let input = if after != 0 { after } else { wants }.trailing_zeros() as usize;
        (input < INPUTS).then_some(input)
    }

    pub fn served(&mut self, output: usize, input: usize) {
        self.last[output] = input as u8;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_that_always_want_an_output_get_it_in_turn() {
        let mut arbiter = Arbiter::new();
        for input in [3, 7, INJECTION] {
            arbiter.want(input, 1 << 5);
        }
        let served: Vec<usize> = (0..6)
            .map(|_| {
                let input = arbiter.turn(5).unwrap();
                arbiter.served(5, input);
                input
            })
            .collect();
        assert_eq!(served, [3, 7, INJECTION, 3, 7, INJECTION]);
        assert_eq!(arbiter.turn(4), None);
    }

    #[test]
    fn an_input_wants_only_what_it_said_last() {
        let mut arbiter = Arbiter::new();
        arbiter.want(0, 1 << 2 | 1 << EJECTION);
        arbiter.want(0, 1 << 3);
        let turns = [2, 3, EJECTION].map(|output| arbiter.turn(output));
        assert_eq!(turns, [None, Some(0), None]);
    }
}
