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
    (is_name && text != "." && text != "..")
        .then(|| text.into())
        .ok_or_else(|| format!("the name of a device has 1 to {NAME_MAX} letters, without / and :"))
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
            _ => "",
        };
        Lacking(format!("cannot make the network device {name}: {error}{advice}"))
    })?;
    // It is for IPv4 alone. What the kernel says over IPv6 by itself would only be dropped; so it is where this cannot be written.
    let _left = fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1");
    Ok(device)
}

#[cfg(test)]
mod tests {
    use super::*;

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
