//! Modules that take commands, played: they answer at their addresses, as faults let them.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use gannet_measure::random::Random;
use gannet_wire::slow_control::{Datagram, LEN_MAX};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{EmulationError, Playing, Progress, RoleReport, Running};
use crate::config::{EmulatedModules, SlowControlPlan};
use crate::slow_control::{Module, Received, Responder, Verdict};

/// How long one look for datagrams waits, in nanoseconds; also how long an acknowledgement is held back.
const WAIT_NS: i64 = 5_000_000;

/// Is told of every command that was applied: the module, the key and the value.
pub type AppliedSink = Box<dyn FnMut(u32, &str, &str) + Send>;

/// Some modules with one address.
struct Board {
    socket: UdpSocket,
    responders: BTreeMap<u32, Responder>,
}

/// All modules of a configuration.
struct Modules {
    boards: Vec<Board>,
    config: EmulatedModules,
    random: Random,
    applied: AppliedSink,
    /// Datagrams that were lost on purpose.
    lost: u64,
    /// An acknowledgement that the next one is to overtake: from which board, to whom.
    held: Option<(usize, SocketAddr, Vec<u8>)>,
    /// Datagrams that are no command to a module of the board they came to.
    strange: u64,
}

/// Plays the modules of `plan` at their own addresses, or all of them at `listen`.
///
/// # Errors
/// When a socket cannot be had.
pub fn play_modules(
    plan: &SlowControlPlan,
    listen: Option<SocketAddr>,
    applied: AppliedSink,
) -> Result<Playing, EmulationError> {
    let mut by_address: BTreeMap<SocketAddr, Vec<&Module>> = BTreeMap::new();
    for module in &plan.modules {
        by_address.entry(listen.unwrap_or(module.address)).or_default().push(module);
    }
    let board = |(address, modules): (SocketAddr, Vec<&Module>)| {
        let socket = UdpSocket::bind(address).and_then(|socket| {
            socket.set_nonblocking(true)?;
            Ok(socket)
        });
        let socket = socket.map_err(|cause| EmulationError::Module { address, cause })?;
        let responders = modules.iter().map(|module| (module.id, Responder::new(module.id)));
        Ok(Board { socket, responders: responders.collect() })
    };
    let boards = by_address.into_iter().map(board).collect::<Result<_, EmulationError>>()?;
    let config = plan.emulate.clone();
    let random = Random::new(config.seed);
    let mut modules = Modules { boards, config, random, applied, lost: 0, held: None, strange: 0 };
    let progress = Arc::new(Progress::default());
    let seen = Arc::clone(&progress);
    Running::spawn("modules", progress, move |stop| {
        while !stop.load(Ordering::Relaxed) {
            modules.wait();
            modules.turn(&seen);
        }
        Ok(modules.report())
    })
}

impl Modules {
    fn wait(&self) {
        let sockets = self.boards.iter().map(|board| board.socket.as_fd());
        let mut fds: Vec<_> =
            sockets.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        // What fails is looked at again.
        let _ready = poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: WAIT_NS }));
    }

    /// Takes all that came.
    fn turn(&mut self, progress: &Progress) {
        let held = self.held.take();
        let mut bytes = [0; LEN_MAX + 1];
        for place in 0..self.boards.len() {
            loop {
                match self.boards[place].socket.recv_from(&mut bytes) {
                    Ok((len, sender)) => {
                        progress.datagrams.add(1);
                        progress.bytes.add(len as u64);
                        for _ in 0..self.copies() {
                            self.take(place, sender, &bytes[..len]);
                        }
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    // A refusal by who has gone away.
                    Err(_) => {}
                }
            }
        }
        if let Some((place, to, answer)) = held {
            self.send(place, to, &answer);
        }
    }

    /// How often a datagram comes: once, unless it is lost or doubled.
    fn copies(&mut self) -> usize {
        if self.random.chance(self.config.loss) {
            self.lost += 1;
            return 0;
        }
        1 + usize::from(self.random.chance(self.config.duplicate))
    }

    fn take(&mut self, place: usize, sender: SocketAddr, bytes: &[u8]) {
        let module = Datagram::new_checked(bytes).ok().map(|datagram| datagram.address().module);
        let board = &mut self.boards[place];
        let responder =
            module.and_then(|module| Some((module, board.responders.get_mut(&module)?)));
        let Some((module, responder)) = responder else {
            self.strange += 1;
            return;
        };
        let (config, applied) = (&self.config, &mut self.applied);
        let apply = |key: &str, value: &str| {
            let is_in = |keys: &[String]| keys.iter().any(|own| own == key);
            if is_in(&config.locked) {
                return Verdict::Refused("it is locked".into());
            }
            if !config.keys.is_empty() && !is_in(&config.keys) {
                return Verdict::UnknownKey;
            }
            applied(module, key, value);
            Verdict::Applied
        };
        let mut answer = [0; LEN_MAX];
        let Some(len) = responder.take(bytes, apply, &mut answer) else { return };
        for _ in 0..self.copies() {
            if self.held.is_none() && self.random.chance(self.config.reorder) {
                self.held = Some((place, sender, answer[..len].to_vec()));
            } else {
                self.send(place, sender, &answer[..len]);
            }
        }
    }

    fn send(&self, place: usize, to: SocketAddr, answer: &[u8]) {
        // What the network does not take is lost, as on its way.
        let _sent = self.boards[place].socket.send_to(answer, to);
    }

    fn report(&self) -> RoleReport {
        let all = self.boards.iter().flat_map(|board| board.responders.values());
        let sum = |of: fn(&Received) -> u64| -> u64 {
            all.clone().map(|responder| of(&responder.received())).sum()
        };
        let damaged = sum(|received| received.damaged) + self.strange;
        let figures = [
            ("applied", sum(|received| received.applied)),
            ("refused", sum(|received| received.refused)),
            ("doubled", sum(|received| received.doubled)),
            ("overtaken", sum(|received| received.overtaken)),
            ("damaged", damaged),
            ("lost on purpose", self.lost),
        ];
        let figures = figures.map(|(name, count)| (name.to_owned(), count)).to_vec();
        RoleReport { figures, is_sound: damaged == 0 }
    }
}
