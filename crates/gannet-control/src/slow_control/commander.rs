//! The sender of commands, as a state machine without clock or socket.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::net::SocketAddr;
use std::ops::Range;

use gannet_measure::drop_reasons;
use gannet_measure::quantity::Span;
use gannet_wire::slow_control::{Address, Answer, Repr};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Most commands that wait for one module.
pub const QUEUE_MAX: usize = 256;

/// A module that takes commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// Its identifier.
    pub id: u32,
    /// Where it listens, and answers from.
    pub address: SocketAddr,
}

/// When a command is sent again, and when it is given up, in nanoseconds since it was first sent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Timing {
    /// Time between two attempts.
    pub retry_ns: u64,
    /// Time after which it is given up.
    pub deadline_ns: u64,
}

impl Timing {
    /// The timing of these spans.
    pub fn of(retry: Span, deadline: Span) -> Self {
        Self { retry_ns: retry.0, deadline_ns: deadline.0 }
    }
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// The module says that the value is set.
    Applied,
    /// The module says that it is not, for this reason.
    Refused(String),
    /// The module says that it has no such key.
    UnknownKey,
    /// The module said nothing until the deadline: whether the value is set is not known.
    NotAcknowledged,
    /// It was not sent, since one before it in its batch failed.
    NotSent,
}

drop_reasons! {
    /// Why a command failed.
    pub enum CommandDrop {
        /// The module refused it.
        Refused => "refused",
        /// The module has no such key.
        UnknownKey => "unknown_key",
        /// No acknowledgement came until the deadline; it may be applied nevertheless.
        NotAcknowledged => "not_acknowledged",
        /// One before it in its batch failed.
        NotSent => "not_sent",
    }
}

impl Ending {
    /// Why the command failed, if it did.
    pub fn failure(&self) -> Option<CommandDrop> {
        match self {
            Self::Applied => None,
            Self::Refused(_) => Some(CommandDrop::Refused),
            Self::UnknownKey => Some(CommandDrop::UnknownKey),
            Self::NotAcknowledged => Some(CommandDrop::NotAcknowledged),
            Self::NotSent => Some(CommandDrop::NotSent),
        }
    }
}

/// A command that has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Outcome {
    /// Number of the command in its session.
    pub number: u32,
    /// Identifier of the module.
    pub module: u32,
    /// What was to be set.
    pub key: String,
    /// To what.
    pub value: String,
    /// How it ended.
    pub ending: Ending,
    /// Datagrams that were sent.
    pub attempts: u32,
    /// Time from the first of them to the end, in nanoseconds.
    pub took_ns: u64,
}

/// Prints `module 7: hv = 1200 applied (1 attempt, 0.3 ms)`.
impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { module, key, value, ending, attempts, took_ns, .. } = self;
        write!(f, "module {module}: {key} = {value} ")?;
        match ending {
            Ending::NotSent => return f.write_str("not sent: a command before it failed"),
            Ending::Applied => f.write_str("applied")?,
            Ending::Refused(reason) => write!(f, "refused: {reason}")?,
            Ending::UnknownKey => f.write_str("not applied: the module has no such key")?,
            Ending::NotAcknowledged => {
                f.write_str("not acknowledged: it may or may not be applied")?;
            }
        }
        let plural = if *attempts == 1 { "" } else { "s" };
        write!(f, " ({attempts} attempt{plural}, {:.1} ms)", *took_ns as f64 * 1e-6)
    }
}

/// What came and what went, in datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Counts {
    /// Attempts after the first of a command.
    pub repeated: u64,
    /// Acknowledgements that ended a command.
    pub acknowledged: u64,
    /// Acknowledgements of commands that were acknowledged before.
    pub doubled: u64,
    /// Acknowledgements of commands that had been given up.
    pub late: u64,
    /// Acknowledgements of another session, module or address, or of a command that was not sent.
    pub foreign: u64,
    /// Datagrams that are no acknowledgement.
    pub damaged: u64,
}

/// The queue of a module is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{QUEUE_MAX} commands wait for module {0} already")]
pub struct QueueFull(pub u32);

/// A command that waits or is under way.
#[derive(Debug)]
struct Command {
    number: u32,
    /// Number of the first command of its batch.
    batch: u32,
    key: String,
    value: String,
}

/// The command of a module that is under way.
#[derive(Debug)]
struct UnderWay {
    command: Command,
    first_ns: u64,
    sent_ns: u64,
    attempts: u32,
}

/// Commands to one module.
#[derive(Debug)]
struct Line {
    module: Module,
    under_way: Option<UnderWay>,
    queue: VecDeque<Command>,
    /// The last command that ended, and whether it was given up.
    last: Option<(u32, bool)>,
    next_number: u32,
}

/// Sends commands to modules: of each module one at a time, in their order, again until it is
/// acknowledged or given up.
///
/// Whoever owns it tells the time, sends what [`due`](Self::due) gives, hands over what comes by
/// [`take`](Self::take), and collects what [`ended`](Self::ended) gives.
#[derive(Debug)]
pub struct Commander {
    session: u64,
    timing: Timing,
    lines: Vec<Line>,
    /// Where the line of a module is.
    places: HashMap<u32, usize>,
    ended: Vec<Outcome>,
    counts: Counts,
}

impl Commander {
    /// A sender to `modules`, each of another identifier, in the session `session`.
    pub fn new(session: u64, modules: &[Module], timing: Timing) -> Self {
        let line = |module: &Module| Line {
            module: module.clone(),
            under_way: None,
            queue: VecDeque::new(),
            last: None,
            next_number: 1,
        };
        let places = modules.iter().enumerate().map(|(place, module)| (module.id, place));
        Self {
            session,
            timing,
            lines: modules.iter().map(line).collect(),
            places: places.collect(),
            ended: Vec::new(),
            counts: Counts::default(),
        }
    }

    /// Identifier of the module in `place`.
    pub fn module(&self, place: usize) -> u32 {
        self.lines[place].module.id
    }

    /// Tests whether so many more commands to the module in `place` can wait.
    ///
    /// # Errors
    /// When they cannot.
    pub fn has_room(&self, place: usize, commands: usize) -> Result<(), QueueFull> {
        let line = &self.lines[place];
        let fits = line.queue.len() + commands <= QUEUE_MAX;
        if fits { Ok(()) } else { Err(QueueFull(line.module.id)) }
    }

    /// Lets the keys of the module in `place` be set, in this order and after what waits for it, and
    /// gives the numbers of the commands. If one of them fails, those behind it are not sent.
    ///
    /// # Errors
    /// When too many would wait; none of them is taken then.
    pub fn submit<'a>(
        &mut self,
        place: usize,
        set: impl ExactSizeIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Range<u32>, QueueFull> {
        self.has_room(place, set.len())?;
        let line = &mut self.lines[place];
        let batch = line.next_number;
        for (key, value) in set {
            let (key, value, number) = (key.into(), value.into(), line.next_number);
            line.next_number += 1;
            line.queue.push_back(Command { number, batch, key, value });
        }
        Ok(batch..line.next_number)
    }

    /// Gives up what is over its deadline, and hands every datagram that is due to `send`.
    pub fn due(&mut self, now_ns: u64, mut send: impl FnMut(SocketAddr, &[u8])) {
        let Self { session, timing, lines, ended, counts, .. } = self;
        let mut buffer = [0; gannet_wire::slow_control::LEN_MAX];
        for line in lines {
            line.give_up(timing.deadline_ns, now_ns, ended);
            if line.under_way.is_none() {
                line.under_way = line.queue.pop_front().map(|command| UnderWay {
                    command,
                    first_ns: now_ns,
                    sent_ns: now_ns,
                    attempts: 0,
                });
            }
            let Some(under_way) = &mut line.under_way else { continue };
            if under_way.attempts > 0 && now_ns < under_way.sent_ns + timing.retry_ns {
                continue;
            }
            counts.repeated += u64::from(under_way.attempts > 0);
            under_way.attempts += 1;
            under_way.sent_ns = now_ns;
            let Command { number, key, value, .. } = &under_way.command;
            let address = Address { session: *session, number: *number, module: line.module.id };
            let command = Repr::Command { address, key, value };
            command.emit(&mut buffer);
            send(line.module.address, &buffer[..command.buffer_len()]);
        }
    }

    /// When [`due`](Self::due) has something to do; absent: when a command is submitted.
    pub fn wake_ns(&self) -> Option<u64> {
        let Timing { retry_ns, deadline_ns } = self.timing;
        let due = |line: &Line| match &line.under_way {
            Some(UnderWay { sent_ns, first_ns, .. }) => {
                Some((sent_ns + retry_ns).min(first_ns + deadline_ns))
            }
            None => (!line.queue.is_empty()).then_some(0),
        };
        self.lines.iter().filter_map(due).min()
    }

    /// Takes a datagram that came from `sender`.
    pub fn take(&mut self, sender: SocketAddr, bytes: &[u8], now_ns: u64) {
        let Ok(Repr::Acknowledgement { address, answer }) = Repr::parse(bytes) else {
            self.counts.damaged += 1;
            return;
        };
        let place = self.places.get(&address.module);
        let line = place.map(|&place| &mut self.lines[place]);
        let Some(line) = line
            .filter(|line| address.session == self.session && is_same(line.module.address, sender))
        else {
            self.counts.foreign += 1;
            return;
        };
        let is_under_way = |under_way: &mut UnderWay| {
            under_way.command.number == address.number && under_way.attempts > 0
        };
        match line.under_way.take_if(is_under_way) {
            Some(under_way) => {
                self.counts.acknowledged += 1;
                line.last = Some((address.number, false));
                line.end(under_way, ending(answer), now_ns, &mut self.ended);
            }
            None => match line.last {
                Some((last, true)) if last == address.number => {
                    line.last = Some((last, false));
                    self.counts.late += 1;
                }
                Some((last, _)) if (1..=last).contains(&address.number) => self.counts.doubled += 1,
                _ => self.counts.foreign += 1,
            },
        }
    }

    /// What has ended since the last call.
    pub fn ended(&mut self) -> Vec<Outcome> {
        std::mem::take(&mut self.ended)
    }

    /// What came and went so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }
}

impl Line {
    /// Ends the command under way if it is over its deadline.
    fn give_up(&mut self, deadline_ns: u64, now_ns: u64, ended: &mut Vec<Outcome>) {
        let is_over = |under_way: &mut UnderWay| now_ns >= under_way.first_ns + deadline_ns;
        if let Some(under_way) = self.under_way.take_if(is_over) {
            self.last = Some((under_way.command.number, true));
            self.end(under_way, Ending::NotAcknowledged, now_ns, ended);
        }
    }

    /// Tells the end of a command, and that of its batch if it failed.
    fn end(&mut self, of: UnderWay, ending: Ending, now_ns: u64, ended: &mut Vec<Outcome>) {
        let (module, batch, failed) = (self.module.id, of.command.batch, ending.failure());
        let took_ns = now_ns.saturating_sub(of.first_ns);
        ended.push(of.command.ended(module, ending, of.attempts, took_ns));
        while failed.is_some() && self.queue.front().is_some_and(|next| next.batch == batch) {
            let unsent = self.queue.pop_front();
            ended.extend(unsent.map(|unsent| unsent.ended(module, Ending::NotSent, 0, 0)));
        }
    }
}

impl Command {
    fn ended(self, module: u32, ending: Ending, attempts: u32, took_ns: u64) -> Outcome {
        let Self { number, key, value, .. } = self;
        Outcome { number, module, key, value, ending, attempts, took_ns }
    }
}

fn ending(answer: Answer<'_>) -> Ending {
    match answer {
        Answer::Applied => Ending::Applied,
        Answer::Refused(reason) => Ending::Refused(reason.into()),
        Answer::UnknownKey => Ending::UnknownKey,
    }
}

/// Whether two addresses are one; flow and scope of IPv6 do not count.
fn is_same(a: SocketAddr, b: SocketAddr) -> bool {
    (a.ip(), a.port()) == (b.ip(), b.port())
}
