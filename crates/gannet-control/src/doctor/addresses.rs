//! The addresses that a run listens on: whether it will get them.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener, UdpSocket};

use super::{Check, Needs, Verdict};

/// Tries to bind every address of the configuration, and lets go of it at once.
pub(super) fn checks(needs: &Needs) -> Vec<Check> {
    let frames = needs.listen.iter().flatten();
    let frames = frames.map(|address| judge("udp", *address, UdpSocket::bind(address).err()));
    let metrics = needs.metrics.iter();
    let metrics = metrics.map(|address| judge("tcp", *address, TcpListener::bind(address).err()));
    frames.chain(metrics).collect()
}

/// `refusal` is why the address could not be bound.
fn judge(protocol: &str, address: SocketAddr, refusal: Option<io::Error>) -> Check {
    let (ip, port) = (address.ip(), address.port());
    let (value, remedy) = match refusal.as_ref().map(io::Error::kind) {
        None => ("free".to_owned(), String::new()),
        Some(ErrorKind::AddrInUse) => {
            let flag = &protocol[..1];
            let value = "in use by another program".to_owned();
            (
                value,
                format!(
                    "ss -ln{flag}p 'sport = :{port}'  # shows which; stop it, or choose another port"
                ),
            )
        }
        Some(ErrorKind::AddrNotAvailable) => {
            let bits = if ip.is_ipv4() { 24 } else { 64 };
            let value = "not an address of this machine".to_owned();
            (
                value,
                format!("# sudo ip address add {ip}/{bits} dev INTERFACE, or listen on another"),
            )
        }
        Some(ErrorKind::PermissionDenied) => {
            let value = format!("not permitted: port {port} is reserved for root");
            (value, "# choose a port from 1024 on".to_owned())
        }
        Some(_) => {
            let value = refusal.iter().map(io::Error::to_string).collect();
            (value, "# choose another address".to_owned())
        }
    };
    let verdict = if refusal.is_none() { Verdict::Ok } else { Verdict::Bad };
    let reason = "the configuration listens on it";
    Check::new(format!("address {protocol} {address}"), value, verdict, reason).fixed_by(remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(address: &str) -> Check {
        let listen = Some(vec![address.parse().unwrap()]);
        checks(&Needs { listen, ..Needs::default() }).remove(0)
    }

    #[test]
    fn an_address_of_another_machine_is_bad() {
        // Of the range that is kept for documents, RFC 5737.
        let check = check("192.0.2.1:7000");
        assert_eq!(
            (check.verdict, &*check.value),
            (Verdict::Bad, "not an address of this machine")
        );
        assert!(check.remedy.starts_with("# sudo ip address add 192.0.2.1/24"), "{check:?}");
    }

    #[test]
    fn a_port_is_free_or_in_use() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap().to_string();
        assert_eq!(check(&address).value, "in use by another program");
        drop(socket);
        assert_eq!((check(&address).verdict, check(&address).remedy), (Verdict::Ok, String::new()));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let metrics = Some(listener.local_addr().unwrap());
        let checks = checks(&Needs { metrics, ..Needs::default() });
        assert_eq!(checks[0].verdict, Verdict::Bad);
        assert!(checks[0].remedy.starts_with("ss -lntp"), "{checks:?}");
    }

    #[test]
    fn a_privileged_port_says_so() {
        let refusal = io::Error::from(ErrorKind::PermissionDenied);
        let check = judge("udp", "127.0.0.1:80".parse().unwrap(), Some(refusal));
        assert_eq!(check.value, "not permitted: port 80 is reserved for root");
    }
}
