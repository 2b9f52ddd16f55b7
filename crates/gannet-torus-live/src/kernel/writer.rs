//! What keeps the routes of a host in its kernel, for as long as it runs and no longer.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};

use rustix::io::Errno;
use rustix::thread::{CapabilitySet, capabilities};

use super::netlink::{Address, Netlink, Route};
use super::{HostRoute, HostRoutes, LEASE};

/// The first Linux with routes of IPv4 by neighbours of IPv6.
const LINUX_MIN: (u32, u32) = (5, 2);
/// What the kernel says of a route, an address or an interface that is not there.
const GONE: [Errno; 3] = [Errno::SRCH, Errno::ADDRNOTAVAIL, Errno::NODEV];

/// What was written, and what could not be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Routes that are new or go by another next hop.
    pub written: usize,
    /// Routes that are gone.
    pub removed: usize,
    /// Why others are not there, in words.
    pub troubles: BTreeSet<String>,
}

/// Why the kernel has no routes.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// Not without the right to do so.
    #[error("writing routes takes the capability CAP_NET_ADMIN: run this as root, or by `sudo`")]
    Rights,
    /// The kernel has no such routes.
    #[error("Linux {0} has no IPv4 routes by IPv6 neighbours, which came with 5.2")]
    TooOld(String),
    /// Somebody else has the address of this host.
    #[error(
        "{address} is an address of {interface} already; if `gannet torus tun` or another `gannet torus routes` runs here, give \
         it another --network on all hosts, or end it"
    )]
    Taken {
        /// The address.
        address: Ipv4Addr,
        /// Who has it.
        interface: String,
    },
    /// The device that has the address of this host is not there.
    #[error(
        "the network device that had the address of this host is gone: somebody has deleted it"
    )]
    Gone,
    /// What the system said else.
    #[error("the kernel does not take routes: {0}")]
    System(io::Error),
}

impl From<Errno> for KernelError {
    fn from(error: Errno) -> Self {
        io::Error::from(error).into()
    }
}

impl From<io::Error> for KernelError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::PermissionDenied => Self::Rights,
            _ if error.raw_os_error() == Some(Errno::NODEV.raw_os_error()) => Self::Gone,
            _ => Self::System(error),
        }
    }
}

/// The routes of this host in its kernel.
///
/// All routes name the address of the host as their source, and the kernel removes them with it. It does so when the device goes
/// that has the address, which is to be one that goes with its process; and when the address was not renewed for [`LEASE`],
/// since the process hangs.
pub struct Kernel {
    netlink: Netlink,
    /// Number of the interface that has the address.
    device: u32,
    /// The address that this process has leased.
    address: Option<Ipv4Addr>,
}

impl Kernel {
    /// What writes the routes of this host, whose address is at the interface that `device` makes.
    ///
    /// # Errors
    /// When this process may not, or the kernel has no such routes, or `device` fails.
    pub fn open<E: From<KernelError>>(
        device: impl FnOnce() -> Result<String, E>,
    ) -> Result<Self, E> {
        check()?;
        let netlink = Netlink::open().map_err(KernelError::from)?;
        let device = netlink.index(&device()?).map_err(KernelError::from)?;
        Ok(Self { netlink, device, address: None })
    }

    /// Makes the routes of the kernel those that are wanted, new ones in the place of old ones, and renews the lease. To be called
    /// several times in a [`LEASE`], also to put back what others, or an interface that was down, have taken away.
    ///
    /// # Errors
    /// When nothing can be written. That some routes cannot is told in [`Changes::troubles`].
    pub fn write(&mut self, wanted: &HostRoutes) -> Result<Changes, KernelError> {
        self.lease(wanted.address)?;
        let before = self.address.replace(wanted.address).filter(|it| *it != wanted.address);
        let mut changes = Changes::default();
        let there = self.own_routes(&[Some(wanted.address), before])?;
        let mut routes = Vec::with_capacity(2 * wanted.routes.len());
        for it in &wanted.routes {
            let (destination, source) = (it.address, wanted.address);
            match self.next_hop(it) {
                Ok(None) => {}
                Ok(by) => routes.push(Route { destination, by, source }),
                Err(trouble) => _ = changes.troubles.insert(trouble),
            }
            routes.push(Route { destination, by: None, source });
        }
        for route in routes.iter().filter(|route| !there.contains(route)) {
            match self.netlink.write(route) {
                Ok(()) => changes.written += usize::from(route.by.is_some()),
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    return Err(KernelError::Rights);
                }
                Err(error) => {
                    let name =
                        self.netlink.name(route.by.map_or(self.device, |(_, interface)| interface));
                    changes.troubles.insert(format!("no routes by {name}: {error}"));
                }
            }
        }
        for old in there {
            let is_same = |it: &Route| {
                (it.destination, it.by.is_some()) == (old.destination, old.by.is_some())
            };
            if !routes.iter().any(is_same) && is_done(self.netlink.remove(&old))? {
                changes.removed += usize::from(old.by.is_some());
            }
        }
        // It was the source of the routes until now.
        if let Some(before) = before {
            is_done(self.netlink.release(self.device, before))?;
        }
        Ok(changes)
    }

    /// Removes all routes of this program, and the address; gives how many ways there were.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn clear(&mut self) -> Result<usize, KernelError> {
        let there = self.own_routes(&[self.address])?;
        for route in &there {
            is_done(self.netlink.remove(route))?;
        }
        if let Some(address) = self.address.take() {
            is_done(self.netlink.release(self.device, address))?;
        }
        Ok(there.iter().filter(|route| route.by.is_some()).count())
    }

    /// The routes of the kernel by one of these addresses, which this host has or had.
    fn own_routes(&mut self, addresses: &[Option<Ipv4Addr>]) -> io::Result<Vec<Route>> {
        let mut routes = self.netlink.routes()?;
        routes.retain(|route| addresses.contains(&Some(route.source)));
        Ok(routes)
    }

    /// Takes the address of the host for the time of a lease, unless somebody else has it: then the kernel would keep the routes when
    /// this process is gone.
    fn lease(&mut self, address: Ipv4Addr) -> Result<(), KernelError> {
        let there = self.netlink.addresses()?;
        let is_other = |it: &&Address| it.address == address && it.interface != self.device;
        if let Some(other) = there.iter().find(is_other) {
            let interface = self.netlink.name(other.interface);
            return Err(KernelError::Taken { address, interface });
        }
        let seconds = LEASE.as_secs() as u32;
        self.netlink.lease(self.device, address, seconds)?;
        Ok(())
    }

    /// The next hop of a route as the kernel knows it, none where there is no way, or why there can be none now.
    fn next_hop(&self, route: &HostRoute) -> Result<Option<(Ipv6Addr, u32)>, String> {
        let HostRoute { interface, next_hop, way: Some(way), .. } = route else { return Ok(None) };
        let interface = interface
            .as_deref()
            .ok_or_else(|| format!("no routes by {way}: no interface leads there"))?;
        let next_hop = next_hop
            .ok_or_else(|| format!("no routes by {interface}: nobody was met at its other end"))?;
        let number = self
            .netlink
            .index(interface)
            .map_err(|_| format!("no routes by {interface}: there is no such interface"))?;
        Ok(Some((next_hop, number)))
    }
}

/// Makes sure that routes can be written here.
fn check() -> Result<(), KernelError> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    if version(&release).is_some_and(|version| version < LINUX_MIN) {
        return Err(KernelError::TooOld(release.trim().into()));
    }
    if !capabilities(None)?.effective.contains(CapabilitySet::NET_ADMIN) {
        return Err(KernelError::Rights);
    }
    Ok(())
}

/// The interface of this host that has an address.
///
/// # Errors
/// When the kernel does not tell.
pub fn interface_with(address: Ipv4Addr) -> io::Result<Option<String>> {
    let mut netlink = Netlink::open()?;
    let there = netlink.addresses()?.into_iter().find(|it| it.address == address);
    Ok(there.map(|it| netlink.name(it.interface)))
}

/// Gives an interface its address again where no interface has it any more; `prefix` bits of it are those of all hosts behind the
/// interface. Gives whether it was gone.
///
/// # Errors
/// When there is no such interface, or the kernel refuses.
pub fn restore_address(interface: &str, address: Ipv4Addr, prefix: u8) -> io::Result<bool> {
    let mut netlink = Netlink::open()?;
    let number = netlink.index(interface)?;
    let is_gone = !netlink.addresses()?.iter().any(|it| it.address == address);
    if is_gone {
        netlink.add(number, address, prefix)?;
    }
    Ok(is_gone)
}

/// Whether something was removed, or was gone before.
fn is_done(removed: io::Result<()>) -> Result<bool, KernelError> {
    match removed {
        Ok(()) => Ok(true),
        Err(error) if GONE.map(|it| Some(it.raw_os_error())).contains(&error.raw_os_error()) => {
            Ok(false)
        }
        Err(error) => Err(error.into()),
    }
}

/// Number and second number of the release of Linux, as in `6.18.44-arch1`.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|sign: char| !sign.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_release_of_a_kernel_has_two_numbers_that_count() {
        assert_eq!(version("6.18.44-arch1\n"), Some((6, 18)));
        assert_eq!(version("5.2-rc1"), Some((5, 2)));
        assert_eq!(version("unknown"), None);
        assert!(version("5.1.21") < Some(LINUX_MIN) && version("5.10.0") > Some(LINUX_MIN));
    }
}
