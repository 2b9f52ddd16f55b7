//! The network interfaces of this machine.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ptr;

/// The interfaces of this machine that have addresses, one entry an address; empty when the system
/// does not tell.
pub fn interface_addresses() -> Vec<(String, IpAddr)> {
    let mut found = Vec::new();
    for_each(|name, entry| found.extend(address(entry.ifa_addr).map(|ip| (name.to_owned(), ip))));
    found
}

/// What an interface is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterfaceState {
    /// It has been set up.
    pub is_up: bool,
    /// It leads back to this host.
    pub is_loopback: bool,
}

/// The state of the interface `name` of this machine; none when there is no such interface.
pub fn interface_state(name: &str) -> Option<InterfaceState> {
    let mut state = None;
    for_each(|found, entry| {
        if found == name {
            let has = |flag: libc::c_int| entry.ifa_flags & flag as libc::c_uint != 0;
            let (is_up, is_loopback) = (has(libc::IFF_UP), has(libc::IFF_LOOPBACK));
            state = Some(InterfaceState { is_up, is_loopback });
        }
    });
    state
}

/// Gives `what` each entry that the system has for an interface, at least one each, with its name.
fn for_each(mut what: impl FnMut(&str, &libc::ifaddrs)) {
    let mut first = ptr::null_mut();
    // SAFETY: the pointer is written when the call succeeds, and only then used.
    if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
        return;
    }
    let mut next: *const libc::ifaddrs = first;
    // SAFETY: the list ends in a null pointer and lives until it is freed below.
    while let Some(entry) = unsafe { next.as_ref() } {
        // SAFETY: the name of an entry is a text that ends in a zero byte.
        let name = unsafe { CStr::from_ptr(entry.ifa_name) };
        what(&name.to_string_lossy(), entry);
        next = entry.ifa_next;
    }
    // SAFETY: the list is the one made above, and nothing refers to it any more.
    unsafe { libc::freeifaddrs(first) };
}

/// The address behind a pointer of `getifaddrs`, if it is one of the Internet.
fn address(pointer: *const libc::sockaddr) -> Option<IpAddr> {
    // SAFETY: the pointer is null or that of an address whose family can be read.
    let family = unsafe { pointer.as_ref() }?.sa_family;
    match i32::from(family) {
        libc::AF_INET => {
            // SAFETY: an address of this family has this layout.
            let v4 = unsafe { pointer.cast::<libc::sockaddr_in>().read_unaligned() };
            Some(Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: an address of this family has this layout.
            let v6 = unsafe { pointer.cast::<libc::sockaddr_in6>().read_unaligned() };
            Some(Ipv6Addr::from(v6.sin6_addr.s6_addr).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_address_of_an_interface_can_be_listened_on() {
        let found = interface_addresses();
        // Addresses of a link alone, fe80::, need the number of the interface with them.
        let everywhere = |ip: &IpAddr| !matches!(ip, IpAddr::V6(v6) if v6.is_unicast_link_local());
        for (name, ip) in found.iter().filter(|(_, ip)| everywhere(ip)) {
            assert!(!name.is_empty());
            assert!(std::net::UdpSocket::bind((*ip, 0)).is_ok(), "{name} {ip}");
        }
        let loopback = |(_, ip): &(String, IpAddr)| *ip == Ipv4Addr::LOCALHOST;
        assert!(found.iter().any(loopback), "{found:?}");
    }

    #[test]
    fn an_interface_is_up_or_not_there() {
        let lo = InterfaceState { is_up: true, is_loopback: true };
        assert_eq!(interface_state("lo"), Some(lo));
        assert_eq!(interface_state("no-such"), None);
    }
}
