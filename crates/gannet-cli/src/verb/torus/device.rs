//! Network devices that are there for as long as this process.

use std::fs;
use std::io;

use tun_rs::{DeviceBuilder, SyncDevice};

use crate::exit::Lacking;

/// Most bytes of the name of a device.
const NAME_MAX: usize = 15;

/// The name of a device, from the command line.
///
/// # Errors
/// When no device can have it.
pub fn name(text: &str) -> Result<String, String> {
    let is_sign = |sign: char| sign.is_ascii_graphic() && !"/:%".contains(sign);
    let is_name = (1..=NAME_MAX).contains(&text.len()) && text.chars().all(is_sign);
    (is_name && text != "." && text != "..").then(|| text.into()).ok_or_else(|| {
        format!("the name of a device has 1 to {NAME_MAX} characters, without spaces, /, : and %")
    })
}

/// Makes a device of this name.
///
/// # Errors
/// When this process may not, or the system has no such devices, or has this one already.
pub fn make(builder: DeviceBuilder, name: &str) -> Result<SyncDevice, Lacking> {
    let built = builder.name(name).build_sync();
    let device = built.and_then(|device| device.set_nonblocking(true).map(|()| device));
    let device = device.map_err(|error| {
        let advice = match error.kind() {
            io::ErrorKind::PermissionDenied => {
                "; it takes the capability CAP_NET_ADMIN: run this as root, or by `sudo`"
            }
            io::ErrorKind::NotFound => "; load its module by `modprobe tun`",
            io::ErrorKind::ResourceBusy => "; another program has it: choose another --device",
            io::ErrorKind::InvalidInput if dropped(name).is_some() => {
                "; there is an interface of another kind with this name: choose another --device"
            }
            _ => "",
        };
        Lacking(format!("cannot make the network device {name}: {error}{advice}"))
    })?;
    // It is for IPv4 alone. What the kernel says over IPv6 by itself would only be dropped; so it is where this cannot be written.
    let _left = fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1");
    Ok(device)
}

/// Packets to the device of this name that the kernel has dropped, as it does when its queue is full; none when there is no such device.
pub fn dropped(name: &str) -> Option<u64> {
    // What is mounted at /sys may be that of another network namespace.
    dropped_in(&fs::read_to_string("/proc/net/dev").ok()?, name)
}

/// The same from the table of all devices. Source: proc_pid_net(5).
fn dropped_in(table: &str, name: &str) -> Option<u64> {
    let of_device = |line: &str| {
        let (device, counters) = line.split_once(':')?;
        (device.trim() == name).then(|| counters.split_whitespace().nth(11)?.parse().ok())?
    };
    table.lines().find_map(of_device)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_dropped_is_read() {
        let table = "Inter-|   Receive                                                |  Transmit\n \
                     face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n    \
                     lo: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n\
                     gannet0: 0 0 0 0 0 0 0 0 5 6 0 717767 0 0 0 0\n";
        assert_eq!(dropped_in(table, "gannet0"), Some(717_767));
        assert_eq!(dropped_in(table, "lo"), Some(12));
        assert_eq!(dropped_in(table, "gannet"), None);
        assert!(dropped("lo").is_some());
    }

    #[test]
    fn devices_have_short_names() {
        for text in ["gannet0", "torus-1.5", &"d".repeat(15)] {
            assert_eq!(name(text).as_deref(), Ok(text));
        }
        for text in ["", ".", "..", "a/b", "a b", "tun%d", &"d".repeat(16)] {
            assert!(name(text).is_err(), "{text}");
        }
    }
}
