//! Signals: packets of a header only.

use gannet_lattice::{Direction, Node};
use gannet_wire::apelink::{Destination, HEADER_ONLY, Header};
use thiserror::Error;

use super::arbiter::{EJECTION, port_of};
use super::event::{Event, Reason, Signal};
use super::guide::Came;
use super::torus_node::{TorusNode, keep};
use crate::link::{Origin, Refused};
use crate::rdma::PhysicalMemory;

/// Bits that a signal says.
pub const SIGNAL_BITS: u32 = 28;

/// Why a signal is not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SignalRefused {
    /// It says more than there is room for.
    #[error("{0:#x} has more than {SIGNAL_BITS} bits")]
    TooLarge(u32),
    /// There is no way to the node.
    #[error("no way to {0}: {1:?}")]
    NoWay(Node, Reason),
    /// The link does not take it now.
    #[error(transparent)]
    Link(#[from] Refused),
}

impl<M: PhysicalMemory> TorusNode<M> {
    /// Sends a signal of up to [`SIGNAL_BITS`] bits, which may be lost.
    ///
    /// # Errors
    /// When it cannot even be sent.
    pub fn send_signal(&mut self, destination: Node, bits: u32) -> Result<(), SignalRefused> {
        if bits >> SIGNAL_BITS != 0 {
            return Err(SignalRefused::TooLarge(bits));
        }
        let source = self.guide.node;
        let way = self.guide.first_output(destination);
        let output = way.map_err(|reason| SignalRefused::NoWay(destination, reason))?;
        if output == EJECTION {
            self.counters.signals_sent += 1;
            self.take_signal(Signal { source, bits });
            return Ok(());
        }
        let header = Header {
            packet_type: HEADER_ONLY,
            process: self.guide.epoch.into(),
            destination: Destination::Node(destination.0),
            address: u64::from(source.0) << SIGNAL_BITS | u64::from(bits),
            hops: 1,
            ..Header::default()
        };
        self.pass_signal(header, output)?;
        self.counters.signals_sent += 1;
        Ok(())
    }

    /// A packet of a header only has come.
    pub(super) fn signal_arrived(&mut self, direction: Direction) {
        let port = self.ports[direction.index()].as_mut();
        let Some(header) = port.and_then(|port| port.link.take_header_only()) else { return };
        let source = (header.address >> SIGNAL_BITS) as u32;
        let (port, class) = (direction.index() as u8, header.virtual_channel);
        let reason = match self.guide.output(&header, Came { source, port, class }) {
            Ok(EJECTION) => {
                let bits = header.address as u32 & ((1 << SIGNAL_BITS) - 1);
                return self.take_signal(Signal { source: Node(source), bits });
            }
            Ok(output) => {
                let hops = header.hops + 1;
                match self.pass_signal(Header { hops, ..header }, output) {
                    Ok(()) => {
                        self.counters.signals_forwarded += 1;
                        return;
                    }
                    Err(_) => Reason::SignalQueue,
                }
            }
            Err(reason) => reason,
        };
        self.counters.drop_one(reason, true);
        self.tell(Event::Dropped { reason, source, header });
    }

    fn take_signal(&mut self, signal: Signal) {
        self.counters.signals_received += 1;
        keep(&mut self.signals, signal, &mut self.counters.untold);
    }

    fn pass_signal(&mut self, header: Header, output: usize) -> Result<(), Refused> {
        let (out, virtual_channel) = port_of(output);
        let Some(port) = &mut self.ports[out] else { return Err(Refused::NotUp) };
        port.link.send(Header { virtual_channel, ..header }, Origin::default(), &[])
    }
}
