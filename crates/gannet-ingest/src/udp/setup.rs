//! Making a source: a socket without a port yet, and the best that the kernel offers to go with it.

use std::fmt;
use std::net::SocketAddr;

use crate::Error;
use crate::landed::Landed;
use crate::source::{KernelBuffer, Landing};
use crate::sys::arrival_counter::ArrivalCounter;
use crate::sys::socket::Socket;
use crate::udp::config::{Engine, UdpConfig};
use crate::udp::receiver::{UdpReceiver, arrivals_max};
use crate::udp::socket_account::SocketAccount;

/// What a source is made of.
pub(super) struct Parts {
    pub(super) receiver: UdpReceiver,
    pub(super) socket: Socket,
    pub(super) landed: Landed,
    pub(super) socket_account: SocketAccount,
    /// Whether messages may be coalesced.
    pub(super) coalesces: bool,
}

/// Makes the parts of a source for one socket that is to be bound to `address`.
pub(super) fn set_up(
    config: &UdpConfig,
    address: SocketAddr,
    landing: Landing,
) -> Result<Parts, Error> {
    let (socket, kernel_buffer) = open_socket(config, address)?;
    let failed = |what| Error::socket(what, address);
    let mut refusals = Refusals::default();
    let engine = choose(config.engine, &socket, &mut refusals);
    let coalesces = engine != Engine::Recvmmsg;
    let counter = (config.count_before_queue && coalesces)
        .then(|| refusals.unless("counting before the queue (BPF)", ArrivalCounter::load()));
    let socket_account =
        SocketAccount::new(&socket, counter.flatten()).map_err(failed("read the drops of"))?;
    let lengths = landing.lengths.clone();
    let (name, arrivals_max) = (format!("udp {address}"), arrivals_max(&lengths));
    let mut landed = Landed::new(landing, arrivals_max, name, engine.name())?;
    landed.facts.refusals = refusals.0;
    landed.facts.kernel_buffer = Some(kernel_buffer);
    landed.facts.drop_sizes = socket_account.drop_sizes(coalesces);
    Ok(Parts { receiver: UdpReceiver::new(lengths), socket, landed, socket_account, coalesces })
}

/// Engines and aids that the kernel refused, with the reasons.
#[derive(Default)]
struct Refusals(Vec<String>);

impl Refusals {
    /// What was asked for, unless it was refused; then that is noted.
    fn unless<T>(&mut self, what: &str, result: Result<T, impl fmt::Display>) -> Option<T> {
        result
            .map_err(|cause| {
                tracing::info!("{what} is not available: {cause}");
                self.0.push(format!("{what}: {cause}"));
            })
            .ok()
    }
}

/// The engine to use: the one asked for if the kernel offers it, else the next.
fn choose(asked: Engine, socket: &Socket, refusals: &mut Refusals) -> Engine {
    if asked == Engine::Recvmmsg {
        return asked;
    }
    if refusals.unless("coalescing (UDP_GRO)", socket.set_coalescing(false)).is_none() {
        return Engine::Recvmmsg;
    }
    Engine::Recvmsg
}

/// A socket that will refuse every datagram when it is bound to `address`.
fn open_socket(config: &UdpConfig, address: SocketAddr) -> Result<(Socket, KernelBuffer), Error> {
    let failed = |what| Error::socket(what, address);
    let socket = Socket::new(&address).map_err(failed("open a socket for"))?;
    let asked = config.kernel_buffer.bytes();
    let obtained = socket.set_receive_buffer(asked).map_err(failed("set the buffer of"))?;
    // Before the socket has a port, so that nothing slips in uncounted.
    socket.refuse_all().map_err(failed("set the filter of"))?;
    Ok((socket, KernelBuffer { asked, obtained }))
}
