//! From an Ethernet frame to the UDP payload in it, and back.
//!
//! ```text
//! byte 0          14 (18 tagged)     34               42
//!     +----------+------------------+----------------+---------------------+
//!     | Ethernet |  IPv4 (options)  |      UDP       |  payload            |
//!     +----------+------------------+----------------+---------------------+
//! ```
//!
//! The layers are [`ethernet`], [`ipv4`] and [`udp`]. This is the path of frames that do not come
//! through a socket: capture files, AF_PACKET and AF_XDP. What is not a whole UDP datagram is
//! refused with a [`Refusal`] that a receiver can count by kind.

use core::net::SocketAddrV4;

use crate::{Error, ethernet, ipv4, udp};

/// Bytes that [`Addresses::emit`] puts before a payload.
pub const HEADERS_LEN: usize = ethernet::HEADER_LEN + ipv4::HEADER_LEN + udp::HEADER_LEN;

/// Hops that an emitted packet may travel.
const TIME_TO_LIVE: u8 = 64;

/// Whether check sums are tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksums {
    /// Test the check sums of the IPv4 header and, when given, of the datagram.
    Verify,
    /// Do not test: a network card has done so, or the frame was captured where it was sent and
    /// the card had still to fill them in.
    Trust,
}

/// Why a frame holds no UDP payload that may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// A header is cut short or has impossible lengths.
    #[error(transparent)]
    Malformed(#[from] Error),
    /// The frame carries something else than IPv4, for example ARP or IPv6.
    #[error("Ethernet frame: ethertype is {ethertype:#06x}, not IPv4")]
    NotIpv4 {
        /// Ethertype after at most one 802.1Q tag.
        ethertype: u16,
    },
    /// The packet carries something else than UDP.
    #[error("IPv4 packet: protocol is {protocol}, not UDP (17)")]
    NotUdp {
        /// Protocol number.
        protocol: u8,
    },
    /// The datagram was split on its way; raise the MTU of the path above the frame length.
    #[error("IPv4 packet: fragment at byte {offset}; raise the MTU along the path")]
    Fragment {
        /// Place of the fragment in the datagram, in bytes.
        offset: usize,
    },
    /// The check sum of the IPv4 header is wrong.
    #[error("IPv4 packet: wrong header check sum")]
    Ipv4Checksum,
    /// The check sum of the datagram is wrong.
    #[error("UDP datagram: wrong check sum")]
    UdpChecksum,
}

/// A UDP payload and where it travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpPayload<'a> {
    /// Address and port of the sender.
    pub source: SocketAddrV4,
    /// Address and port of the receiver.
    pub destination: SocketAddrV4,
    /// The payload.
    pub payload: &'a [u8],
}

/// The UDP payload of an Ethernet frame.
///
/// # Errors
/// Why there is none.
#[inline]
pub fn from_ethernet(frame: &[u8], checksums: Checksums) -> Result<UdpPayload<'_>, Refusal> {
    let frame_view = ethernet::Frame::new_checked(frame)?;
    let ethertype = frame_view.ethertype();
    if ethertype != ethernet::ETHERTYPE_IPV4 {
        return Err(Refusal::NotIpv4 { ethertype });
    }
    from_ipv4(&frame[frame_view.header_len()..], checksums)
}

/// The UDP payload of an IPv4 packet, for captures without an Ethernet header.
///
/// # Errors
/// Why there is none.
#[inline]
pub fn from_ipv4(packet: &[u8], checksums: Checksums) -> Result<UdpPayload<'_>, Refusal> {
    let ip = ipv4::Packet::new_checked(packet)?;
    let verify = checksums == Checksums::Verify;
    if verify && !ip.verify_checksum() {
        return Err(Refusal::Ipv4Checksum);
    }
    if ip.protocol() != ipv4::PROTOCOL_UDP {
        return Err(Refusal::NotUdp { protocol: ip.protocol() });
    }
    if ip.is_fragment() {
        return Err(Refusal::Fragment { offset: ip.fragment_offset() });
    }
    let bytes = &packet[ip.header_len()..ip.total_len()];
    let datagram = udp::Datagram::new_checked(bytes)?;
    if verify && !datagram.verify_checksum(ip.source(), ip.destination()) {
        return Err(Refusal::UdpChecksum);
    }
    Ok(UdpPayload {
        source: SocketAddrV4::new(ip.source(), datagram.source_port()),
        destination: SocketAddrV4::new(ip.destination(), datagram.destination_port()),
        payload: &bytes[udp::HEADER_LEN..datagram.len()],
    })
}

/// Where a datagram travels, in hardware and in network addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Addresses {
    /// Hardware address of the sender.
    pub source_hardware: ethernet::Address,
    /// Hardware address of the receiver.
    pub destination_hardware: ethernet::Address,
    /// Address and port of the sender.
    pub source: SocketAddrV4,
    /// Address and port of the receiver.
    pub destination: SocketAddrV4,
}

impl Addresses {
    /// Bytes of the frame around a payload.
    pub const fn buffer_len(&self, payload_len: usize) -> usize {
        HEADERS_LEN + payload_len
    }

    /// Writes the Ethernet frame that carries `payload`, with all check sums, don't-fragment set.
    ///
    /// # Errors
    /// [`Error::Range`] when the payload is longer than [`udp::PAYLOAD_LEN_MAX`],
    /// [`Error::Truncated`] when `frame` is shorter than [`Addresses::buffer_len`].
    pub fn emit(&self, payload: &[u8], frame: &mut [u8]) -> crate::Result<()> {
        let max = udp::PAYLOAD_LEN_MAX as u64;
        if payload.len() > udp::PAYLOAD_LEN_MAX {
            let (format, field, got) = ("UDP datagram", "payload length", payload.len() as u64);
            return Err(Error::Range { format, field, min: 0, max, got });
        }
        crate::layout::check_len("Ethernet frame", frame, self.buffer_len(payload.len()))?;
        let (ethernet_bytes, rest) = frame.split_at_mut(ethernet::HEADER_LEN);
        let (ip_bytes, rest) = rest.split_at_mut(ipv4::HEADER_LEN);
        let udp_bytes = &mut rest[..udp::HEADER_LEN + payload.len()];

        self.ethernet().emit(&mut ethernet::Frame::new_unchecked(ethernet_bytes));
        self.ipv4(udp_bytes.len()).emit(&mut ipv4::Packet::new_unchecked(ip_bytes));
        let mut datagram = udp::Datagram::new_unchecked(udp_bytes);
        self.udp(payload.len()).emit(&mut datagram);
        datagram.payload_mut().copy_from_slice(payload);
        datagram.fill_checksum(*self.source.ip(), *self.destination.ip());
        Ok(())
    }

    fn ethernet(&self) -> ethernet::Repr {
        ethernet::Repr {
            destination: self.destination_hardware,
            source: self.source_hardware,
            tci: None,
            ethertype: ethernet::ETHERTYPE_IPV4,
        }
    }

    fn ipv4(&self, payload_len: usize) -> ipv4::Repr {
        ipv4::Repr {
            dscp_ecn: 0,
            identification: 0,
            dont_fragment: true,
            more_fragments: false,
            fragment_offset: 0,
            time_to_live: TIME_TO_LIVE,
            protocol: ipv4::PROTOCOL_UDP,
            source: *self.source.ip(),
            destination: *self.destination.ip(),
            payload_len: payload_len as u16,
        }
    }

    fn udp(&self, payload_len: usize) -> udp::Repr {
        udp::Repr {
            source_port: self.source.port(),
            destination_port: self.destination.port(),
            payload_len: payload_len as u16,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ethernet::Address;
    use crate::noise;
    use core::net::Ipv4Addr;
    use proptest::prelude::*;

    const ADDRESSES: Addresses = Addresses {
        source_hardware: Address([2, 0, 0, 0, 0, 1]),
        destination_hardware: Address([2, 0, 0, 0, 0, 2]),
        source: SocketAddrV4::new(Ipv4Addr::new(10, 73, 139, 16), 17476),
        destination: SocketAddrV4::new(Ipv4Addr::new(10, 73, 139, 17), 17477),
    };

    fn frame(payload: &[u8]) -> Vec<u8> {
        let mut frame = vec![0; ADDRESSES.buffer_len(payload.len())];
        ADDRESSES.emit(payload, &mut frame).unwrap();
        frame
    }

    /// Refusal of a good frame in which one byte was replaced, check sums being trusted.
    fn corrupt(at: usize, value: u8) -> Refusal {
        let mut bytes = frame(b"payload");
        bytes[at] = value;
        from_ethernet(&bytes, Checksums::Trust).unwrap_err()
    }

    #[test]
    fn a_wibeth_frame_is_7242_bytes_on_the_link() {
        assert_eq!(frame(&[0; crate::wibeth::FRAME_LEN]).len(), 7242);
    }

    #[test]
    fn finds_the_payload_behind_a_tag_and_before_padding() {
        let mut bytes = frame(b"payload");
        bytes.splice(12..12, [0x81, 0x00, 0x00, 0x2a]);
        bytes.extend([0xee; 5]);
        let found = from_ethernet(&bytes, Checksums::Verify).unwrap();
        assert_eq!(found.payload, b"payload");
        assert_eq!((found.source, found.destination), (ADDRESSES.source, ADDRESSES.destination));
    }

    #[test]
    fn refuses_arp() {
        assert_eq!(corrupt(13, 0x06), Refusal::NotIpv4 { ethertype: 0x0806 });
    }

    #[test]
    fn refuses_tcp() {
        assert_eq!(corrupt(14 + 9, 6), Refusal::NotUdp { protocol: 6 });
    }

    #[test]
    fn refuses_a_fragment() {
        assert_eq!(corrupt(14 + 7, 2), Refusal::Fragment { offset: 16 });
        assert_eq!(corrupt(14 + 6, 0x20), Refusal::Fragment { offset: 0 });
    }

    #[test]
    fn refuses_a_wrong_check_sum_only_when_asked_to_verify() {
        for (at, refusal) in [(14 + 8, Refusal::Ipv4Checksum), (42, Refusal::UdpChecksum)] {
            let mut bytes = frame(b"payload");
            bytes[at] ^= 0x10;
            assert_eq!(from_ethernet(&bytes, Checksums::Verify), Err(refusal));
            assert!(from_ethernet(&bytes, Checksums::Trust).is_ok());
        }
    }

    #[test]
    fn refuses_a_udp_length_past_the_packet() {
        let refusal = corrupt(34 + 5, 16);
        let expected = Error::Truncated { format: "UDP datagram", expected: 16, got: 15 };
        assert_eq!(refusal, Refusal::Malformed(expected));
        assert_eq!(refusal.to_string(), "UDP datagram: 15 bytes, expected at least 16");
    }

    #[test]
    fn refuses_a_frame_cut_anywhere() {
        let bytes = frame(b"payload");
        for len in 0..bytes.len() {
            let refusal = from_ethernet(&bytes[..len], Checksums::Verify).unwrap_err();
            assert!(matches!(refusal, Refusal::Malformed(Error::Truncated { .. })), "{len}");
        }
    }

    #[test]
    fn a_payload_too_long_for_ipv4_is_not_emitted() {
        let payload = vec![0; udp::PAYLOAD_LEN_MAX + 1];
        let error = ADDRESSES.emit(&payload, &mut vec![0; 70_000]).unwrap_err();
        assert!(matches!(error, Error::Range { max: 65507, got: 65508, .. }));
        assert!(ADDRESSES.emit(&payload[1..], &mut vec![0; 70_000]).is_ok());
    }

    #[test]
    fn a_frame_buffer_too_short_is_reported() {
        let error = ADDRESSES.emit(b"payload", &mut [0; 48]).unwrap_err();
        assert_eq!(error, Error::Truncated { format: "Ethernet frame", expected: 49, got: 48 });
    }

    proptest! {
        #[test]
        fn the_payload_of_an_emitted_frame_is_found_again(seed: u64, len in 0usize..1500) {
            let payload = noise::bytes(seed, len);
            let bytes = frame(&payload);
            let found = from_ethernet(&bytes, Checksums::Verify).unwrap();
            prop_assert_eq!(found.payload, payload);
        }
    }
}
