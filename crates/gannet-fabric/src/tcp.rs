//! Meeting over TCP, for backends whose data go another way.
//!
//! [`Listener::accept`] and [`connect`] meet the other side within a deadline, whatever it does: a stranger
//! that says nothing, or a byte now and then, is let go when the time is over. They need no endpoint, so a
//! thread of their own may wait in them. Only a secret is trusted: over a network the kernel cannot tell
//! which user is at the other end.
//!
//! Afterwards a [`Connection`] carries messages without waiting. A host that is gone without a word is noticed
//! within the deadline, or five seconds if that is longer. Messages are proved at the begin only, and
//! readable: who can change what TCP carries can take the connection over, and needs a network of its own
//! kept away from strangers, or a tunnel.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use gannet_wire::exchange::{LEN, Message};
use gannet_wire::record::Record;
use rustix::net::sockopt;

use crate::endpoint::{Failure, Peer};
use crate::exchange::{Carrier, JoinError, Side, meet};
use crate::trust::Trust;

/// How often a listener looks whether somebody has come.
const LOOK: Duration = Duration::from_millis(1);
/// Time without a word after which the kernel asks whether the other host is there, and until it asks again.
const PROBE: Duration = Duration::from_secs(1);
/// Times that it asks at least: some of them may be lost.
const PROBES: u32 = 4;

/// An endpoint that others join by a connection.
pub trait Joins {
    /// Number of its backend in a hello.
    const BACKEND: u32;

    /// How long it waits for another one.
    fn deadline(&self) -> Duration;

    /// Joins the endpoint at the other end of a connection.
    ///
    /// # Errors
    /// When it cannot be reached as the backend reaches others.
    fn join(&mut self, connection: Connection) -> Result<Peer, JoinError>;

    /// Waits for an endpoint at a listener, and joins it.
    ///
    /// # Errors
    /// When none comes in time, or it may not join.
    fn accept(&mut self, listener: &Listener, trust: &Trust) -> Result<Peer, JoinError> {
        self.join(listener.accept(trust, Self::BACKEND, self.deadline())?)
    }

    /// Joins the endpoint that listens at `address`.
    ///
    /// # Errors
    /// When nobody listens there, or does not let this one join.
    fn connect(&mut self, address: impl ToSocketAddrs, trust: &Trust) -> Result<Peer, JoinError> {
        self.join(connect(address, trust, Self::BACKEND, self.deadline())?)
    }
}

/// Waits for others at an address.
#[derive(Debug)]
pub struct Listener(TcpListener);

impl Listener {
    /// Listens at `address`; port 0 lets the system choose one.
    ///
    /// # Errors
    /// When the address is not of this host, or taken.
    pub fn bind(address: impl ToSocketAddrs) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(Self(listener))
    }

    /// Where it listens.
    ///
    /// # Errors
    /// When the system does not tell.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// Waits for somebody to come, no longer than `deadline`, and meets it, no longer than that again.
    ///
    /// # Errors
    /// [`ErrorKind::WouldBlock`] when nobody comes; else when who comes may not join.
    pub fn accept(
        &self,
        trust: &Trust,
        backend: u32,
        deadline: Duration,
    ) -> Result<Connection, JoinError> {
        secret(trust)?;
        answer(self.come(deadline)?, trust, backend, deadline)
    }

    /// Waits for somebody to come, no longer than `wait`.
    pub(crate) fn come(&self, wait: Duration) -> io::Result<TcpStream> {
        let begin = Instant::now();
        loop {
            match self.0.accept() {
                Ok((stream, _)) => return Ok(stream),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if begin.elapsed() >= wait {
                        return Err(error);
                    }
                    std::thread::sleep(LOOK);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Meets who has come, within `deadline`.
pub(crate) fn answer(
    caller: TcpStream,
    trust: &Trust,
    backend: u32,
    deadline: Duration,
) -> Result<Connection, JoinError> {
    Connection::meet(caller, Side::Accepting, &secret(trust)?, backend, deadline)
}

/// Meets who listens at `address`, within `deadline` for each address that it stands for.
///
/// # Errors
/// When nobody listens there, or does not let this side join.
pub fn connect(
    address: impl ToSocketAddrs,
    trust: &Trust,
    backend: u32,
    deadline: Duration,
) -> Result<Connection, JoinError> {
    let key = secret(trust)?;
    let mut last = io::Error::from(ErrorKind::AddrNotAvailable);
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, deadline) {
            Ok(stream) => {
                return Connection::meet(stream, Side::Connecting, &key, backend, deadline);
            }
            Err(error) => last = error,
        }
    }
    Err(last.into())
}

fn secret(trust: &Trust) -> Result<Vec<u8>, JoinError> {
    match trust {
        Trust::SameUser => Err(JoinError::NoSecret),
        Trust::Secret(_) => trust.key(),
    }
}

/// A connection to another endpoint that has proved to know the secret.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    side: Side,
    /// When the exchange has to be over; none when it is, and nothing waits any more.
    until: Option<Instant>,
    /// Bytes of a message of which more are to come.
    heard: [u8; LEN],
    heard_len: usize,
    /// Messages that the socket has not taken, and how much it has of the first.
    outbox: VecDeque<[u8; LEN]>,
    told_len: usize,
}

impl Connection {
    fn meet(
        stream: TcpStream,
        side: Side,
        key: &[u8],
        backend: u32,
        deadline: Duration,
    ) -> Result<Self, JoinError> {
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        // A host that is gone without a word is noticed by the kernel.
        sockopt::set_socket_keepalive(&stream, true).map_err(io::Error::from)?;
        sockopt::set_tcp_keepidle(&stream, PROBE).map_err(io::Error::from)?;
        sockopt::set_tcp_keepintvl(&stream, PROBE).map_err(io::Error::from)?;
        // With it the kernel gives up at this time, and not before, when an answer is missing: probes may be lost.
        let millis = deadline.max((1 + PROBES) * PROBE).as_millis();
        let millis = u32::try_from(millis).unwrap_or(u32::MAX);
        sockopt::set_tcp_user_timeout(&stream, millis).map_err(io::Error::from)?;
        let mut connection = Self {
            stream,
            side,
            until: Some(Instant::now() + deadline),
            heard: [0; LEN],
            heard_len: 0,
            outbox: VecDeque::new(),
            told_len: 0,
        };
        meet(&mut connection, side, key, backend, deadline)?;
        Ok(connection)
    }

    /// Ends the exchange: from now on nothing waits.
    ///
    /// # Errors
    /// When the socket refuses it.
    pub fn stop_waiting(&mut self) -> io::Result<()> {
        self.until = None;
        self.stream.set_nonblocking(true)
    }

    /// Which side of it this is.
    pub fn side(&self) -> Side {
        self.side
    }

    /// Who is at the other end.
    ///
    /// # Errors
    /// When it is gone.
    pub fn peer(&self) -> io::Result<SocketAddr> {
        self.stream.peer_addr()
    }

    /// The address of this host by which the other end reaches it.
    ///
    /// # Errors
    /// When the connection is gone.
    pub fn local(&self) -> io::Result<SocketAddr> {
        self.stream.local_addr()
    }

    /// Sends a message now, or as soon as the socket takes it; no more than `waiting_max` may wait.
    ///
    /// # Errors
    /// When the other end is gone, or takes nothing.
    pub fn tell(&mut self, message: &Message, waiting_max: usize) -> Result<(), Failure> {
        self.outbox.push_back(message.to_bytes());
        self.empty_outbox()?;
        if self.outbox.len() > waiting_max { Err(Failure::Unresponsive) } else { Ok(()) }
    }

    /// Sends what the socket takes of the messages that wait.
    ///
    /// # Errors
    /// When the other end is gone.
    pub fn empty_outbox(&mut self) -> Result<(), Failure> {
        while let Some(bytes) = self.outbox.front() {
            match self.stream.write(&bytes[self.told_len..]) {
                Ok(0) => return Err(Failure::Ended),
                Ok(count) => self.told_len += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Err(Failure::Ended),
            }
            if self.told_len == LEN {
                self.outbox.pop_front();
                self.told_len = 0;
            }
        }
        Ok(())
    }

    /// The next message of the other end, if one is there.
    ///
    /// # Errors
    /// When the other end is gone, or sends what is no message.
    pub fn hear(&mut self) -> Result<Option<Message>, Failure> {
        match self.fill() {
            Ok(true) => Message::parse(&self.heard).map(Some).map_err(|_| Failure::Protocol),
            Ok(false) => Err(Failure::Ended),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            Err(_) => Err(Failure::Ended),
        }
    }

    /// Reads until a message is whole; gives whether the other end has sent one, or closed.
    fn fill(&mut self) -> io::Result<bool> {
        while self.heard_len < LEN {
            if let Some(left) = self.left() {
                self.stream.set_read_timeout(Some(left))?;
            }
            match self.stream.read(&mut self.heard[self.heard_len..]) {
                Ok(0) => return Ok(false),
                Ok(count) => self.heard_len += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.heard_len = 0;
        Ok(true)
    }

    /// What is left of the time for the exchange; never zero, which would be for ever.
    fn left(&self) -> Option<Duration> {
        let left = self.until?.saturating_duration_since(Instant::now());
        Some(left.max(Duration::from_micros(1)))
    }
}

impl Carrier for Connection {
    fn send(&mut self, message: &Message) -> Result<(), JoinError> {
        self.stream.set_write_timeout(self.left())?;
        Ok(self.stream.write_all(&message.to_bytes())?)
    }

    fn receive(&mut self) -> Result<Message, JoinError> {
        match self.fill() {
            Ok(true) => Ok(Message::parse(&self.heard)?),
            Ok(false) => Err(JoinError::Closed),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => Err(JoinError::Closed),
            Err(error) => Err(error.into()),
        }
    }
}
