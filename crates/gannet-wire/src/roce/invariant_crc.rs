//! The check sum of RoCEv2: a CRC-32 of everything from the IPv4 header on that no router changes.
//!
//! It is of eight bytes of ones, the headers of IPv4 and UDP, and the packet up to the check sum. Type
//! of service, time to live and check sum of IPv4, the check sum of UDP and the byte of the base
//! transport header for congestion count as ones.
//!
//! Covered of the IPv4 header are also the identification and the flags, which a socket does not show.
//! Senders choose them freely: Linux puts 0 into what a socket sends that has no target and forbids fragments, and
//! counts otherwise, as network cards do. But a CRC can be run backwards ([`SocketCheck`]): from a packet and its
//! check sum follow the 32 bits of identification, flags and offset that make it right. Of these, 15 must be
//! zero in a datagram that is no fragment, and 17 may be anything. So on a socket a damaged packet is
//! taken for a good one with a probability of 2^-15 rather than 2^-32.
//!
//! Source: InfiniBand Architecture Specification, volume 1, annex A17; `rxe_icrc.c` of Linux.

use core::net::SocketAddrV4;

use super::{CRC_LEN, Packet, field};
use crate::crc32::Backwards;
use crate::layout::put;
use crate::{ipv4, udp};

/// Bytes of ones in front, where InfiniBand has its local header.
const ONES: usize = 8;
/// Bytes of ones and of the headers that a socket does not show.
const PSEUDO_LEN: usize = ONES + ipv4::HEADER_LEN + udp::HEADER_LEN;
/// Where identification, flags and offset of fragments lie in these.
const IDENTIFICATION: usize = ONES + 4;
/// Of flags and offset, what is set where nobody may fragment a packet.
const DO_NOT_FRAGMENT: u16 = 0x4000;

/// The parts of the headers of IPv4 and UDP that the check sum covers, beside their lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// Address and port of the sender.
    pub source: SocketAddrV4,
    /// Address and port of the receiver.
    pub destination: SocketAddrV4,
    /// Identification of the IPv4 packet.
    pub identification: u16,
    /// Whether the IPv4 packet must not be fragmented.
    pub do_not_fragment: bool,
}

impl Path {
    /// The path of what a socket of Linux sends that has no target and forbids fragments.
    pub const fn of_socket(source: SocketAddrV4, destination: SocketAddrV4) -> Self {
        Self { source, destination, identification: 0, do_not_fragment: true }
    }

    /// The invariant CRC of `bytes`, a packet without its check sum.
    ///
    /// # Panics
    /// When `bytes` is shorter than a base transport header.
    pub fn crc(&self, bytes: &[u8]) -> u32 {
        let flags = if self.do_not_fragment { DO_NOT_FRAGMENT } else { 0 };
        self.crc_with(self.identification, flags, bytes)
    }

    fn crc_with(&self, identification: u16, flags: u16, bytes: &[u8]) -> u32 {
        // Up to the byte for congestion, which stays ones.
        let mut front = [0xff; PSEUDO_LEN + field::CONGESTION + 1];
        let (unchanged, rest) = (&bytes[..field::CONGESTION], &bytes[field::CONGESTION + 1..]);
        front[PSEUDO_LEN..][..field::CONGESTION].copy_from_slice(unchanged);
        let udp_len = udp::HEADER_LEN + bytes.len() + CRC_LEN;
        let ip = &mut front[ONES..];
        ip[0] = 0x45;
        put(ip, 2, ((ipv4::HEADER_LEN + udp_len) as u16).to_be_bytes());
        put(ip, 4, identification.to_be_bytes());
        put(ip, 6, flags.to_be_bytes());
        ip[9] = ipv4::PROTOCOL_UDP;
        put(ip, 12, self.source.ip().octets());
        put(ip, 16, self.destination.ip().octets());
        let udp = &mut ip[ipv4::HEADER_LEN..];
        put(udp, 0, self.source.port().to_be_bytes());
        put(udp, 2, self.destination.port().to_be_bytes());
        put(udp, 4, (udp_len as u16).to_be_bytes());
        let mut crc = crc32fast::Hasher::new();
        crc.update(&front);
        crc.update(rest);
        crc.finalize()
    }
}

/// Tests the invariant CRC of packets that came by a socket, so without their IPv4 header.
#[derive(Clone, Copy, Debug, Default)]
pub struct SocketCheck {
    /// Bytes of the last packet, and how to run back over it.
    last: Option<(usize, Backwards)>,
}

impl SocketCheck {
    /// Whether the check sum can be right.
    #[inline]
    pub fn is_right<T: AsRef<[u8]>>(
        &mut self,
        source: SocketAddrV4,
        destination: SocketAddrV4,
        packet: &Packet<T>,
    ) -> bool {
        let path = self.path(source, destination, packet);
        path.is_some()
    }

    /// The path with the identification and the flag by which the check sum of `packet` is right; `None` if
    /// it is wrong.
    pub fn path<T: AsRef<[u8]>>(
        &mut self,
        source: SocketAddrV4,
        destination: SocketAddrV4,
        packet: &Packet<T>,
    ) -> Option<Path> {
        let bytes = packet.bytes();
        let covered = &bytes[..bytes.len() - CRC_LEN];
        let path = Path { source, destination, identification: 0, do_not_fragment: false };
        let difference = path.crc_with(0, 0, covered) ^ packet.crc();
        let hidden = self.backwards(covered.len()).four_bytes(difference);
        let [high, low, flags @ ..] = hidden;
        let (identification, flags) = (u16::from_be_bytes([high, low]), u16::from_be_bytes(flags));
        let do_not_fragment = flags == DO_NOT_FRAGMENT;
        (do_not_fragment || flags == 0).then_some(Path { identification, do_not_fragment, ..path })
    }

    /// Back from the check sum of a packet of `len` bytes to the identification. Frames have mostly one length.
    fn backwards(&mut self, len: usize) -> Backwards {
        match self.last {
            Some((last, backwards)) if last == len => backwards,
            _ => {
                let backwards = Backwards::over(PSEUDO_LEN - IDENTIFICATION + len);
                self.last = Some((len, backwards));
                backwards
            }
        }
    }
}
