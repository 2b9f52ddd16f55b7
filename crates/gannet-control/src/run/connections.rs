//! Connections of other processes to a run: a line of JSON each way, in bounded time and memory.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use rustix::event::{PollFd, PollFlags};

use crate::remote::{Answer, ControlSocket, REQUEST_LEN_MAX, Request};

/// Most connections at once; more wait until one has ended.
const CONNECTIONS_MAX: usize = 16;
/// Time in which a request must be there, and an answer be taken.
const PATIENCE_NS: u64 = 1_000_000_000;

/// A connection.
#[derive(Debug)]
struct Connection {
    number: u64,
    stream: UnixStream,
    since_ns: u64,
    state: State,
}

#[derive(Debug)]
enum State {
    /// What has come of a request.
    Reading(Vec<u8>),
    /// The request is at work.
    Asked,
    /// What is left of the answer.
    Answering(Vec<u8>),
    Closed,
}

/// The connections of a run.
#[derive(Debug, Default)]
pub(super) struct Connections {
    open: Vec<Connection>,
    last_number: u64,
    now_ns: u64,
}

impl Connections {
    /// Takes new connections, reads and writes what can be, and gives the requests that are whole, or
    /// what is wrong with them.
    pub fn turn(
        &mut self,
        socket: &ControlSocket,
        now_ns: u64,
    ) -> Vec<(u64, Result<Request, String>)> {
        self.now_ns = now_ns;
        while self.open.len() < CONNECTIONS_MAX
            && let Some(stream) = socket.accept()
        {
            self.last_number += 1;
            let (number, state) = (self.last_number, State::Reading(Vec::new()));
            self.open.push(Connection { number, stream, since_ns: now_ns, state });
        }
        let mut requests = Vec::new();
        for connection in &mut self.open {
            if let Some(request) = connection.turn() {
                (connection.state, connection.since_ns) = (State::Asked, now_ns);
                requests.push((connection.number, request));
            }
        }
        self.open.retain(|connection| connection.is_open(now_ns));
        requests
    }

    /// Sends an answer, if there is still somebody to take it.
    pub fn answer(&mut self, number: u64, answer: &Answer) {
        let connection = self.open.iter_mut().find(|connection| connection.number == number);
        let Some(connection) = connection else { return };
        let mut line = serde_json::to_vec(answer).unwrap_or_default();
        line.push(b'\n');
        connection.state = State::Answering(line);
        connection.since_ns = self.now_ns;
        connection.turn();
    }

    /// Adds what is to be waited for.
    pub fn poll_on<'a>(&'a self, socket: &'a ControlSocket, fds: &mut Vec<PollFd<'a>>) {
        if self.open.len() < CONNECTIONS_MAX {
            fds.push(PollFd::from_borrowed_fd(socket.listener().as_fd(), PollFlags::IN));
        }
        for connection in &self.open {
            let flags = match connection.state {
                State::Reading(_) => PollFlags::IN,
                State::Answering(_) => PollFlags::OUT,
                State::Asked | State::Closed => continue,
            };
            fds.push(PollFd::from_borrowed_fd(connection.stream.as_fd(), flags));
        }
    }
}

impl Connection {
    /// Reads or writes what can be; gives the request when it is whole.
    fn turn(&mut self) -> Option<Result<Request, String>> {
        match &mut self.state {
            State::Reading(bytes) => match read_line(&mut self.stream, bytes) {
                Line::Whole => {
                    let request = serde_json::from_slice(bytes);
                    Some(request.map_err(|error| format!("this is no request: {error}")))
                }
                Line::TooLong => {
                    Some(Err(format!("a request has at most {REQUEST_LEN_MAX} bytes")))
                }
                Line::Part => None,
                Line::Gone => {
                    self.state = State::Closed;
                    None
                }
            },
            State::Answering(bytes) => {
                match self.stream.write(bytes) {
                    Ok(len) => drop(bytes.drain(..len)),
                    Err(error) if is_later(error.kind()) => return None,
                    Err(_) => bytes.clear(),
                }
                if bytes.is_empty() {
                    self.state = State::Closed;
                }
                None
            }
            State::Asked | State::Closed => None,
        }
    }

    fn is_open(&self, now_ns: u64) -> bool {
        match self.state {
            State::Asked => true,
            State::Closed => false,
            _ => now_ns < self.since_ns + PATIENCE_NS,
        }
    }
}

fn is_later(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// How far a line is.
enum Line {
    Part,
    Whole,
    TooLong,
    Gone,
}

fn read_line(stream: &mut UnixStream, bytes: &mut Vec<u8>) -> Line {
    let mut piece = [0; 4096];
    loop {
        match stream.read(&mut piece) {
            Ok(0) => return Line::Gone,
            Ok(len) => bytes.extend(&piece[..len]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Line::Part,
            Err(_) => return Line::Gone,
        }
        if let Some(end) = bytes.iter().position(|&byte| byte == b'\n') {
            bytes.truncate(end);
            return Line::Whole;
        }
        if bytes.len() > REQUEST_LEN_MAX {
            return Line::TooLong;
        }
    }
}
