//! Sending datagrams as RDMA WRITEs.

use std::net::{SocketAddr, SocketAddrV4};

use gannet_wire::roce::invariant_crc::Path;
use gannet_wire::roce::{CRC_LEN, HEADERS_LEN_MAX, NUMBERS, Opcode, Repr, Write};
use gannet_wire::{ipv4, udp};

use super::{DATA_LEN_MAX, DATA_LEN_MIN};
use crate::Error;
use crate::sink::{Datagram, Sent, Sink};
use crate::udp::{UdpSink, UdpSinkConfig};

/// Packets given to the socket at once.
const PACKETS_MAX: usize = 64;

/// The window of a receiver, and the queue pair that leads to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RoceTarget {
    /// Queue pair of the receiver.
    pub queue_pair: u32,
    /// Key of the window.
    pub key: u32,
    /// Virtual address of its first byte.
    pub start: u64,
    /// Bytes between two messages.
    pub cell_bytes: u64,
    /// Number of messages that lie in it at a time.
    pub cells: u64,
}

/// Writes each datagram, as one message, into the next cell of a far window.
///
/// A message that is longer than the path allows a packet to be, or than 4096 bytes, goes as several. The last
/// has the number of the cell as its immediate. The packets have the IPv4 identification 0, as their check sums say, so an RDMA
/// card takes them as well as a [`RoceSource`](super::RoceSource) does.
pub struct RoceSink {
    udp: UdpSink,
    path: Path,
    target: RoceTarget,
    /// Most bytes of data in a packet.
    data_len_max: usize,
    /// Messages sent.
    messages: u64,
    /// Number of the next packet.
    sequence: u32,
    packets: Vec<u8>,
    /// End of each packet, and whether it is the last of its message.
    ends: Vec<(usize, bool)>,
}

impl RoceSink {
    /// A sink for the window `target` of the receiver at `address`. Packets are coalesced over the loopback
    /// interface only: where a message is cut up, the identifications of its packets differ.
    ///
    /// # Errors
    /// When the socket cannot be made or bound, or there is no route to the address.
    pub fn connect(
        address: SocketAddrV4,
        target: RoceTarget,
        config: &UdpSinkConfig,
    ) -> Result<Self, Error> {
        let coalesce = config.coalesce && address.ip().is_loopback();
        let config = UdpSinkConfig { coalesce, ..config.clone() };
        let (udp, mtu) = UdpSink::unnumbered(address, &config)?;
        let SocketAddr::V4(own) = udp.local_address() else { return Err(Error::NoAddress) };
        Ok(Self {
            udp,
            path: Path::of_socket(own, address),
            target,
            data_len_max: data_len_max(mtu),
            messages: 0,
            sequence: 0,
            packets: Vec::new(),
            ends: Vec::new(),
        })
    }

    /// Makes the packets of message `number`.
    fn write(&mut self, datagram: &Datagram<'_>, number: u64) {
        let (cell, len) = (number % self.target.cells, datagram.len());
        let write = Write {
            address: self.target.start + cell * self.target.cell_bytes,
            key: self.target.key,
            length: len as u32,
        };
        let mut at = 0;
        loop {
            let end = len.min(at + self.data_len_max);
            let opcode = match (at == 0, end == len) {
                (true, true) => Opcode::WriteOnlyImmediate,
                (true, false) => Opcode::WriteFirst,
                (false, false) => Opcode::WriteMiddle,
                (false, true) => Opcode::WriteLastImmediate,
            };
            let repr = Repr {
                queue_pair: self.target.queue_pair,
                sequence: (self.sequence + self.ends.len() as u32) % NUMBERS,
                solicited: end == len,
                write,
                immediate: cell as u32,
                data_len: end - at,
                ..Repr::new(opcode)
            };
            let start = self.packets.len();
            self.packets.resize(start + opcode.headers_len(), 0);
            let parts = [(datagram.header, 0), (datagram.body, datagram.header.len())];
            for (part, before) in parts {
                let within = |place: usize| place.saturating_sub(before).min(part.len());
                self.packets.extend_from_slice(&part[within(at)..within(end)]);
            }
            self.packets.resize(start + repr.buffer_len(), 0);
            repr.seal(&self.path, &mut self.packets[start..]);
            self.ends.push((self.packets.len(), end == len));
            at = end;
            if end == len {
                return;
            }
        }
    }

    /// Sends the packets that were made, and counts them. Says whether all were sent.
    fn flush(&mut self, sent: &mut Sent, messages: &[Datagram<'_>]) -> Result<bool, Error> {
        let starts = std::iter::once(0).chain(self.ends.iter().map(|(end, _)| *end));
        let packets: Vec<_> = starts
            .zip(&self.ends)
            .map(|(start, (end, _))| Datagram { header: &self.packets[start..*end], body: &[] })
            .collect();
        let now = self.udp.send(&packets)?;
        let gone = &self.ends[..now.datagrams as usize];
        let whole = gone.iter().filter(|(_, is_last)| *is_last).count();
        sent.datagrams += whole as u64;
        sent.bytes += messages[..whole].iter().map(|message| message.len() as u64).sum::<u64>();
        sent.refused += now.refused;
        self.messages += whole as u64;
        self.sequence = (self.sequence + gone.len() as u32) % NUMBERS;
        Ok(gone.len() == self.ends.len())
    }
}

/// The largest MTU of InfiniBand that fits into IPv4 packets of `mtu` bytes.
fn data_len_max(mtu: usize) -> usize {
    let headers = ipv4::HEADER_LEN + udp::HEADER_LEN + HEADERS_LEN_MAX + CRC_LEN;
    let room = mtu.saturating_sub(headers).max(1);
    (1 << room.ilog2()).clamp(DATA_LEN_MIN, DATA_LEN_MAX)
}

impl Sink for RoceSink {
    fn send(&mut self, datagrams: &[Datagram<'_>]) -> Result<Sent, Error> {
        let (mut rest, mut sent) = (datagrams, Sent::default());
        while !rest.is_empty() {
            self.packets.clear();
            self.ends.clear();
            let mut count = 0;
            while count < rest.len() && self.ends.len() < PACKETS_MAX {
                self.write(&rest[count], self.messages + count as u64);
                count += 1;
            }
            let (now, later) = rest.split_at(count);
            if !self.flush(&mut sent, now)? {
                break;
            }
            rest = later;
        }
        Ok(sent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_as_long_as_the_path_lets_them_be() {
        for (mtu, len) in [(65_536, 4096), (9000, 4096), (4159, 2048), (4160, 4096), (1500, 1024)] {
            assert_eq!(data_len_max(mtu), len, "{mtu}");
        }
        assert_eq!((data_len_max(576), data_len_max(68)), (512, 256));
    }
}
