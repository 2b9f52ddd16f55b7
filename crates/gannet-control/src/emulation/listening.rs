//! Finding out whether anybody listens at an address.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::thread;
use std::time::Duration;

/// Longest time between the port and the start of a readout, and far more than an answer of the
/// network takes.
const SETTLE: Duration = Duration::from_millis(100);

/// Asks twice whether anybody listens at `address`, by empty datagrams, in 200 ms.
///
/// A host answers a datagram to a port that nobody has. The second question finds out whether a
/// readout that had its port at the first still has it, and by then it takes frames; it counts the
/// questions as `before_start` and `empty`, neither of which is a loss. Where a firewall swallows
/// the question or its answer, this says yes: silence is all that a listener gives, too.
///
/// # Errors
/// When there is no socket or no route to be had.
pub fn is_listening(address: SocketAddr) -> io::Result<bool> {
    let any = match address {
        SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
    };
    let socket = UdpSocket::bind(any)?;
    socket.connect(address)?;
    for _ in 0..2 {
        let sent = socket.send(&[]).map(drop);
        thread::sleep(SETTLE);
        let answered = socket.take_error()?.map_or(Ok(()), Err);
        match sent.and(answered) {
            Ok(()) => {}
            Err(error) if is_refusal(&error) => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

/// Whether the host says that nobody listens, or is not there itself.
fn is_refusal(error: &io::Error) -> bool {
    use ErrorKind::{ConnectionRefused, HostUnreachable, NetworkUnreachable};
    matches!(error.kind(), ConnectionRefused | HostUnreachable | NetworkUnreachable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_without_a_listener_is_told_from_one_with() {
        for local in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = UdpSocket::bind(local) else { continue };
            let address = listener.local_addr().unwrap();
            assert!(is_listening(address).unwrap());
            drop(listener);
            assert!(!is_listening(address).unwrap());
        }
    }
}
