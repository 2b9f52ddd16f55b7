//! Meeting several at a time, of whom some may be strangers that say nothing.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::{Shutdown, shutdown};

use super::Meet;
use crate::endpoint::Peer;
use crate::exchange::JoinError;
use crate::own::Limits;
use crate::trust::Trust;

/// Most meetings at a time; who comes then takes the place of the one that has lasted longest.
const MEETINGS_MAX: usize = 16;
/// Time that each meeting has all the same: who knows the secret needs some round trips.
const UNDISTURBED: Duration = Duration::from_millis(250);
/// Time between two looks at meetings that are under way.
const LOOK: Duration = Duration::from_millis(1);
/// Time between two messages about those who did not join.
const QUIET: Duration = Duration::from_secs(10);

type Joined<M> = Result<(<M as Meet>::Endpoint, Peer), JoinError>;

/// A meeting in its thread.
struct Meeting {
    begin: Instant,
    /// The socket, by which it is ended; held by the thread, however that ends.
    caller: Weak<Option<OwnedFd>>,
}

/// Lets others join at one place, each in a thread of its own: who says nothing holds up nobody else, and when all
/// places are taken, has to go first.
pub struct Reception<M: Meet> {
    meet: M,
    limits: Limits,
    trust: Trust,
    /// Meetings, those that began first in front; some may be over.
    meetings: VecDeque<Meeting>,
    met: Receiver<Joined<M>>,
    tell: Sender<Joined<M>>,
    strangers: Strangers,
}

impl<M: Meet> Reception<M> {
    /// A reception at a place, for endpoints of these limits.
    pub fn new(meet: M, limits: Limits, trust: Trust) -> Self {
        let (tell, met) = channel();
        Self {
            meet,
            limits,
            trust,
            meetings: VecDeque::new(),
            met,
            tell,
            strangers: Strangers::default(),
        }
    }

    /// The next that has joined, if one has within `wait`. Of those who may not join the first is
    /// logged, then their number every ten seconds.
    pub fn next(&mut self, listener: &M::Listener, wait: Duration) -> Option<(M::Endpoint, Peer)> {
        let begin = Instant::now();
        loop {
            let left = wait.saturating_sub(begin.elapsed());
            // Counted before it is asked what came of them: what is over by now has told.
            let under_way = self.under_way();
            if let Ok(met) = self.met.try_recv() {
                match met {
                    Ok(joined) => return Some(joined),
                    Err(error) => self.refused(listener, &error),
                }
                continue;
            }
            self.strangers.tell(0, Instant::now()).into_iter().for_each(|count| {
                let place = self.meet.place(listener);
                tracing::warn!(%place, count, "more came that did not join");
            });
            if left.is_zero() {
                return None;
            }
            let pause = if under_way > 0 { left.min(LOOK) } else { left };
            if under_way >= MEETINGS_MAX && !self.is_any_overdue() {
                thread::sleep(pause);
                continue;
            }
            // No time at all would be for ever to some sockets.
            match self.meet.come(listener, pause.max(LOOK)) {
                Ok(caller) => {
                    if self.under_way() >= MEETINGS_MAX {
                        self.end_first(listener);
                    }
                    self.begin(caller);
                }
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(error) => {
                    self.refused(listener, &error.into());
                    thread::sleep(pause);
                }
            }
        }
    }

    /// Meetings that are not over.
    fn under_way(&mut self) -> usize {
        self.meetings.retain(|meeting| meeting.caller.strong_count() > 0);
        self.meetings.len()
    }

    /// Whether the meeting that began first has lasted for so long that another may take its place.
    fn is_any_overdue(&self) -> bool {
        self.meetings.front().is_some_and(|meeting| meeting.begin.elapsed() > UNDISTURBED)
    }

    /// Ends the meeting that began first; its thread finds the connection closed.
    fn end_first(&mut self, listener: &M::Listener) {
        let first = self.meetings.pop_front();
        let Some(caller) = first.and_then(|meeting| meeting.caller.upgrade()) else { return };
        let _gone = (*caller).as_ref().map(|socket| shutdown(socket, Shutdown::Both));
        if let Some(count) = self.strangers.tell(1, Instant::now()) {
            let place = self.meet.place(listener);
            tracing::warn!(%place, count, "who came and did not join had to go for the next");
        }
    }

    /// Meets who has come, in a thread that ends within the deadline.
    fn begin(&mut self, caller: M::Caller) {
        let socket = self.meet.socket(&caller).map(|socket| socket.try_clone_to_owned());
        let socket = match socket.transpose() {
            Ok(socket) => Arc::new(socket),
            Err(error) => return tracing::warn!(%error, "no file for who has come"),
        };
        self.meetings.push_back(Meeting { begin: Instant::now(), caller: Arc::downgrade(&socket) });
        let (meet, limits, trust) = (self.meet.clone(), self.limits.clone(), self.trust.clone());
        let tell = self.tell.clone();
        let meeting = move || {
            // Nobody hears it when the reception is closed.
            let _ = tell.send(meet.join(caller, &limits, &trust));
            drop(socket);
        };
        // Without a thread for it the caller is let go, and may come again.
        match thread::Builder::new().name("fabric meeting".into()).spawn(meeting) {
            Ok(_) => {}
            Err(error) => tracing::warn!(%error, "no thread for who has come"),
        }
    }

    fn refused(&mut self, listener: &M::Listener, error: &JoinError) {
        let place = self.meet.place(listener);
        // Who asks whether anybody listens goes away again, and may do so while it is spoken to.
        let is_gone = match error {
            JoinError::Closed => true,
            JoinError::System(error) => {
                matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset)
            }
            _ => false,
        };
        if is_gone {
            return tracing::debug!(%place, %error, "who came went away");
        }
        if let Some(count) = self.strangers.tell(1, Instant::now()) {
            tracing::warn!(%place, %error, count, "who came did not join");
        }
    }
}

/// Those who did not join, and when that was logged: so that it is not for each of many.
#[derive(Debug, Default)]
pub struct Strangers {
    untold: u64,
    told: Option<Instant>,
}

impl Strangers {
    /// Counts `more`, and gives how many are to be logged now: the first at once, the others every ten seconds.
    pub fn tell(&mut self, more: u64, now: Instant) -> Option<u64> {
        self.untold += more;
        let is_quiet = self.told.is_none_or(|told| now.saturating_duration_since(told) >= QUIET);
        (self.untold > 0 && is_quiet).then(|| {
            self.told = Some(now);
            std::mem::take(&mut self.untold)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_stranger_is_told_and_then_their_number() {
        let (mut strangers, begin) = (Strangers::default(), Instant::now());
        assert_eq!(strangers.tell(0, begin), None);
        assert_eq!(strangers.tell(1, begin), Some(1));
        for second in 1..10 {
            assert_eq!(strangers.tell(100, begin + Duration::from_secs(second)), None);
        }
        let then = begin + QUIET;
        assert_eq!(strangers.tell(0, then), Some(900));
        assert_eq!(strangers.tell(0, then + 2 * QUIET), None, "there were no more");
        assert_eq!(strangers.tell(1, then + 2 * QUIET), Some(1));
    }
}
