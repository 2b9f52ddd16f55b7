//! The modules that take commands: whether the kernel knows a way to them.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use super::{Check, Needs, Verdict};

/// Asks the kernel for the way to every module. Nothing is sent.
pub(super) fn checks(needs: &Needs) -> Option<Check> {
    (!needs.modules.is_empty()).then(|| judge(needs, way))
}

/// The address of this machine from which `to` is reached.
fn way(to: SocketAddr) -> io::Result<IpAddr> {
    let any: IpAddr = match to {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(to)?;
    Ok(socket.local_addr()?.ip())
}

fn judge(needs: &Needs, way: impl Fn(SocketAddr) -> io::Result<IpAddr>) -> Check {
    let (mut from, mut cut_off) = (BTreeSet::new(), Vec::new());
    for &module in &needs.modules {
        match way(module) {
            Ok(ip) => drop(from.insert(ip)),
            Err(error) => cut_off.push((module, error)),
        }
    }
    let count = needs.modules.len();
    let (value, verdict) = match cut_off.first() {
        None => {
            let from: Vec<_> = from.iter().map(IpAddr::to_string).collect();
            (format!("{count} addresses, reached from {}", from.join(", ")), Verdict::Ok)
        }
        Some((module, error)) => {
            let bad = if needs.modules_needed { Verdict::Bad } else { Verdict::Slow };
            (format!("no way to {} of {count} addresses, as {module}: {error}", cut_off.len()), bad)
        }
    };
    let remedy = cut_off.first().map(|(module, _)| {
        format!("# sudo ip route add {} dev INTERFACE, or correct the address", module.ip())
    });
    let reason = "commands go to them; whether they answer, only a run tells";
    Check::new("modules of slow control", value, verdict, reason)
        .fixed_by(remedy.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needs(modules_needed: bool) -> Needs {
        let modules = ["127.0.0.1:6000", "127.0.0.2:6000"].map(|it| it.parse().unwrap()).into();
        Needs { modules, modules_needed, ..Needs::default() }
    }

    #[test]
    fn modules_on_loopback_have_a_way() {
        let check = checks(&needs(true)).unwrap();
        assert_eq!((check.verdict, &*check.value), {
            (Verdict::Ok, "2 addresses, reached from 127.0.0.1")
        });
        assert_eq!(checks(&Needs::default()), None);
    }

    #[test]
    fn a_module_without_a_way_keeps_a_run_from_starting_that_needs_it() {
        let second_is_lost = |to: SocketAddr| match to.ip().to_string().as_str() {
            "127.0.0.2" => Err(io::ErrorKind::NetworkUnreachable.into()),
            _ => Ok(to.ip()),
        };
        let check = judge(&needs(true), second_is_lost);
        assert_eq!(check.verdict, Verdict::Bad);
        assert!(check.value.starts_with("no way to 1 of 2 addresses, as 127.0.0.2:6000: "));
        assert!(check.remedy.starts_with("# sudo ip route add 127.0.0.2 "), "{check:?}");
        assert_eq!(judge(&needs(false), second_is_lost).verdict, Verdict::Slow);
    }
}
