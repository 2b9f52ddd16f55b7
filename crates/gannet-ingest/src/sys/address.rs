//! Socket addresses as the kernel writes them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// Bytes of the longest address, `sockaddr_in6`.
pub(crate) const NAME_LEN: usize = 28;

/// A `sockaddr_in` or `sockaddr_in6`; all zero when there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(8))]
pub(crate) struct Name(pub(crate) [u8; NAME_LEN]);

impl Name {
    /// The address as the kernel reads it, and its length.
    pub(crate) fn encode(address: &SocketAddr) -> (Self, libc::socklen_t) {
        let mut name = Self::default();
        let bytes = &mut name.0;
        bytes[2..4].copy_from_slice(&address.port().to_be_bytes());
        let (family, len) = match address {
            SocketAddr::V4(v4) => {
                bytes[4..8].copy_from_slice(&v4.ip().octets());
                (libc::AF_INET, 16)
            }
            SocketAddr::V6(v6) => {
                bytes[4..8].copy_from_slice(&v6.flowinfo().to_be_bytes());
                bytes[8..24].copy_from_slice(&v6.ip().octets());
                bytes[24..28].copy_from_slice(&v6.scope_id().to_ne_bytes());
                (libc::AF_INET6, NAME_LEN as u32)
            }
        };
        bytes[..2].copy_from_slice(&(family as u16).to_ne_bytes());
        (name, len)
    }

    /// The address in it; `None` for families other than IPv4 and IPv6.
    pub(crate) fn decode(&self) -> Option<SocketAddr> {
        let bytes = &self.0;
        let port = u16::from_be_bytes([bytes[2], bytes[3]]);
        match libc::c_int::from(u16::from_ne_bytes([bytes[0], bytes[1]])) {
            libc::AF_INET => {
                let ip = Ipv4Addr::from(*bytes[4..].first_chunk::<4>()?);
                Some(SocketAddr::new(IpAddr::V4(ip), port))
            }
            libc::AF_INET6 => {
                let flow = u32::from_be_bytes(*bytes[4..].first_chunk()?);
                let ip = Ipv6Addr::from(*bytes[8..].first_chunk::<16>()?);
                let scope = u32::from_ne_bytes(*bytes[24..].first_chunk()?);
                Some(SocketAddr::V6(SocketAddrV6::new(ip, port, flow, scope)))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_laid_out_as_the_kernel_expects() {
        let (name, len) = Name::encode(&"10.73.139.16:17476".parse().unwrap());
        assert_eq!(len, 16);
        assert_eq!(name.0[..8], [2, 0, 0x44, 0x44, 10, 73, 139, 16]);
    }

    #[test]
    fn is_read_back() {
        for text in ["127.0.0.1:1", "[fe80::1%3]:65535", "[::]:9"] {
            let address: SocketAddr = text.parse().unwrap();
            assert_eq!(Name::encode(&address).0.decode(), Some(address));
        }
        assert_eq!(Name::default().decode(), None);
    }
}
