//! Ends of cables, as they are named on the command line.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;

use gannet_torus_live::udp::UdpPort;
use gannet_wire::neighbour::PORTS_MAX;

use crate::exit::{Lacking, Usage};

/// Most bytes of the name of an interface.
const INTERFACE_NAME_MAX: usize = 15;

/// The end of a cable at this host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// At an interface, wherever the other end is.
    Interface(String),
    /// At an address of this host, with that of the other end.
    Addresses(SocketAddr, SocketAddr),
}

impl FromStr for End {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let ends = text
            .split_once('=')
            .and_then(|(own, other)| Some((own.trim().parse().ok()?, other.trim().parse().ok()?)));
        match ends {
            Some((own, other)) if are_ends(&own, &other) => Ok(Self::Addresses(own, other)),
            None if is_interface(text) => Ok(Self::Interface(text.into())),
            _ => Err(format!(
                "`{text}` is no end of a cable: write the name of an interface, such as eth1, or OWN=OTHER, such as \
                 10.0.0.1:4700=10.0.0.2:4700"
            )),
        }
    }
}

fn are_ends(own: &SocketAddr, other: &SocketAddr) -> bool {
    let is_broadcast = other.ip() == IpAddr::V4(Ipv4Addr::BROADCAST);
    let is_one = !(other.ip().is_unspecified() || other.ip().is_multicast() || is_broadcast);
    is_one && own.is_ipv4() == other.is_ipv4() && own.port() > 0 && other.port() > 0
}

/// Whether a text can be the name of an interface, and is not a wrong address.
fn is_interface(text: &str) -> bool {
    let is_sign = |sign: char| sign.is_ascii_graphic() && !"/:=,".contains(sign);
    let is_other = text == "." || text == ".." || text.parse::<IpAddr>().is_ok();
    (1..=INTERFACE_NAME_MAX).contains(&text.len()) && text.chars().all(is_sign) && !is_other
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Interface(name) => write!(f, "{name}, to whatever is plugged in there"),
            Self::Addresses(own, other) => write!(f, "{own} to {other}"),
        }
    }
}

impl End {
    /// What people call the `at`th port of a host, where it is this.
    pub fn name(&self, at: usize) -> String {
        match self {
            Self::Interface(name) => name.clone(),
            Self::Addresses(..) => format!("p{at}"),
        }
    }

    /// The port of `host`; another end may take the place of the one that was met after `silence`.
    ///
    /// # Errors
    /// When this host lacks what it takes.
    pub fn open(&self, host: &str, silence: Duration) -> Result<UdpPort, Lacking> {
        match self {
            Self::Interface(name) => UdpPort::open_at(name, silence)
                .map_err(|error| Lacking(format!("{host} port {name}: {error}"))),
            Self::Addresses(own, other) => UdpPort::open(*own, *other).map_err(|error| {
                let advice = match error.kind() {
                    io::ErrorKind::AddrNotAvailable => format!(
                        "; {} has to be an address of this host, and `ip address` lists those it has",
                        own.ip()
                    ),
                    _ => String::new(),
                };
                Lacking(format!("{host} cannot open the port from {self}: {error}{advice}"))
            }),
        }
    }
}

/// The end of a path over the service network: between addresses, since one interface may lead to many hosts there.
///
/// # Errors
/// When it is none.
pub fn path(text: &str) -> Result<End, String> {
    match text.parse() {
        Ok(end @ End::Addresses(..)) => Ok(end),
        _ => Err(format!(
            "`{text}` is no path of the service network: write OWN=OTHER, such as 10.0.0.1:4800=10.0.0.2:4800"
        )),
    }
}

/// Checks that one host can have all these ends.
///
/// # Errors
/// When they are too many, or two are at one place.
pub fn check(ends: &[&End]) -> Result<(), Usage> {
    if ends.len() > PORTS_MAX {
        let got = ends.len();
        return Err(Usage(format!("{got} ports are too many: a host has at most {PORTS_MAX}")));
    }
    let mut places = BTreeSet::new();
    for end in ends {
        let place = match end {
            End::Interface(name) => name.clone(),
            End::Addresses(own, _) => own.to_string(),
        };
        if !places.insert(place.clone()) {
            return Err(Usage(format!(
                "two ports are at {place}: each cable has an end of its own"
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_read_and_other_text_is_refused() {
        let end: End = "10.0.0.1:4700=10.0.0.2:4701".parse().unwrap();
        assert_eq!(end.to_string(), "10.0.0.1:4700 to 10.0.0.2:4701");
        assert!("[::1]:1=[::1]:2".parse::<End>().is_ok());
        for name in ["eth0", "enp1s0f0np0", "eth1.100"] {
            assert_eq!(name.parse(), Ok(End::Interface(name.into())));
        }
        for text in [
            "",
            "10.0.0.1",
            "10.0.0.1:1",
            "10.0.0.1=10.0.0.2",
            "10.0.0.1:1=[::1]:2",
            "1.2.3.4:1=1.2.3.4:0",
            "1.2.3.4:0=1.2.3.4:1",
            "1.2.3.4:1=224.0.0.1:1",
            "1.2.3.4:1=255.255.255.255:1",
            "[::1]:1=[::]:1",
            "..",
            "../eth0",
            "a name",
            "a-name-too-long-",
        ] {
            assert!(text.parse::<End>().unwrap_err().contains("is no end of a cable"), "{text}");
        }
    }

    #[test]
    fn an_end_is_at_one_cable() {
        let check = |texts: &[&str]| {
            let ends: Vec<End> = texts.iter().map(|text| text.parse().unwrap()).collect();
            check(&ends.iter().collect::<Vec<_>>())
        };
        assert!(path("10.0.0.1:4800=10.0.0.2:4800").is_ok() && path("eth0").is_err());
        check(&["eth0", "eth1", "10.0.0.1:4700=10.0.0.2:4700"]).unwrap();
        assert!(check(&["eth0", "eth1", "eth0"]).is_err());
        assert!(check(&["1.0.0.1:4=1.0.0.2:4", "1.0.0.1:4=1.0.0.3:4"]).is_err());
    }
}
