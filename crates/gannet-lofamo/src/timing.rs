//! The two ways to watch, their times, and a watch over something that beats.

use gannet_wire::lofamo::Status;
use serde::Serialize;

/// How one half of a node notices that the other is silent, and how hosts learn of neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// As published: beats, checks and readings of registers each with a period of their own, in no
    /// step with each other.
    Poll,
    /// A deadline re-armed by every beat; neighbours' hosts are interrupted at once.
    Push,
}

impl Mode {
    /// Both modes.
    pub const ALL: [Self; 2] = [Self::Poll, Self::Push];

    /// The name used in tables and arguments.
    pub fn name(self) -> &'static str {
        match self {
            Self::Poll => "poll",
            Self::Push => "push",
        }
    }
}

/// Periods and waits in nanoseconds.
///
/// The watchdog period T is a promise in both modes: nothing that is watched is silent for longer,
/// and nothing that watches looks less often. So nominal periods are shorter than T by what jitter
/// may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Timing {
    /// Way to watch.
    pub mode: Mode,
    /// From one beat of the host to the next.
    pub beat_ns: u64,
    /// From one beat of the NIC to the next; in poll mode it checks the host's register then.
    pub tick_ns: u64,
    /// Poll mode: from one reading of the NIC's registers by the host to the next.
    pub poll_ns: u64,
    /// Poll mode: checks without a new beat after which the host is failed.
    pub host_misses: u8,
    /// Poll mode: readings without a new beat after which the NIC is failed.
    pub nic_misses: u8,
    /// Push mode: silence after which the other half of the node is failed.
    pub deadline_ns: u64,
    /// Silence of a link, without any credit word, after which it is failed.
    pub link_silence_ns: u64,
    /// How long an interrupted host may take until the master has acknowledged its report.
    pub confirm_ns: u64,
    /// How long the master waits for the answer to a probe after it was last sent.
    pub probe_ns: u64,
    /// From one sending of a probe that is not answered to the next.
    pub probe_again_ns: u64,
    /// How often a probe is sent at most. Of a service network that loses a fifth of all messages,
    /// five in a million hosts that live do not answer twelve.
    pub probe_tries: u8,
}

/// Ten credit intervals of a microsecond: a few words that fail their check do not fail a link.
const LINK_SILENCE_NS: u64 = 10_000;
const CONFIRM_NS: u64 = 500_000;
const PROBE_NS: u64 = 350_000;
const PROBE_TRIES: u8 = 12;

impl Timing {
    /// Shortest watchdog period: below it a service network is no longer fast.
    pub const PERIOD_MIN_NS: u64 = 1_000_000;
    /// Longest watchdog period: a minute.
    pub const PERIOD_MAX_NS: u64 = 60_000_000_000;

    /// Timing of `mode` with watchdog period `period_ns`.
    pub fn new(mode: Mode, period_ns: u64) -> Self {
        match mode {
            Mode::Poll => Self::poll(period_ns),
            Mode::Push => Self::push(period_ns),
        }
    }

    /// Poll mode: beats every 0.85 T, checks and readings every 0.97 T.
    ///
    /// Equal periods, as the publication has them, cannot work: a checker that is faster than the
    /// beats by any drift at all sees, sooner or later, two checks without a beat between them. The
    /// distance of the two periods is what a beat may be late. The NIC beats no faster than the host
    /// reads, so there two readings may see the same beat.
    pub fn poll(period_ns: u64) -> Self {
        Self {
            mode: Mode::Poll,
            beat_ns: percent(period_ns, 85),
            tick_ns: percent(period_ns, 97),
            poll_ns: percent(period_ns, 97),
            host_misses: 1,
            nic_misses: 2,
            deadline_ns: 0,
            link_silence_ns: LINK_SILENCE_NS,
            confirm_ns: CONFIRM_NS,
            probe_ns: PROBE_NS,
            probe_again_ns: (period_ns / 1000).min(PROBE_NS),
            probe_tries: PROBE_TRIES,
        }
    }

    /// Push mode: two beats in T, and failed after 0.75 T of silence.
    ///
    /// With a fault at a random moment after the last beat, awareness takes 0.5 T in the mean, and a
    /// beat may be late by a quarter of T. One beat in T with a deadline of T and a twentieth would
    /// take longer and bear a fifth of the lateness.
    pub fn push(period_ns: u64) -> Self {
        Self {
            mode: Mode::Push,
            beat_ns: percent(period_ns, 50),
            tick_ns: percent(period_ns, 50),
            deadline_ns: percent(period_ns, 75),
            ..Self::poll(period_ns)
        }
    }

    /// How long what was sent to the master so often before may take to be acknowledged: twice as
    /// long each time, up to one period of readings.
    pub fn repeat_ns(&self, tries: u8) -> u64 {
        (self.confirm_ns << tries.min(20)).min(self.poll_ns.max(self.confirm_ns))
    }

    /// How long a NIC may be silent until its host has noticed, with an eighth for lateness.
    pub fn nic_silence_ns(&self) -> u64 {
        let silence_ns = match self.mode {
            Mode::Poll => self.poll_ns * (u64::from(self.nic_misses) + 1),
            Mode::Push => self.deadline_ns + self.tick_ns,
        };
        silence_ns + silence_ns / 8
    }

    /// How long a NIC waits until a host that was not interrupted has told the master: one period
    /// of its readings, and the way to the master.
    pub fn confirm_polled_ns(&self) -> u64 {
        match self.mode {
            Mode::Poll => self.poll_ns + self.poll_ns / 32 + self.confirm_ns,
            Mode::Push => self.confirm_ns,
        }
    }
}

fn percent(period_ns: u64, percent: u64) -> u64 {
    (u128::from(period_ns) * u128::from(percent) / 100) as u64
}

/// Watches the beats of the other half of a node, in either mode.
///
/// Nothing heard yet is unknown, however long it lasts: silence means failure only after a beat.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Watch {
    /// Beats counted when last looked at.
    seen: Option<u32>,
    misses: u8,
    expires_ns: Option<u64>,
    status: Status,
}

impl Watch {
    /// What is known of the other half.
    #[inline]
    pub fn status(&self) -> Status {
        self.status
    }

    /// Poll mode: compares the count of beats with the one seen before; failed after `misses_max`
    /// looks in a row without a new beat.
    #[inline]
    pub fn check(&mut self, beats: u32, misses_max: u8) -> Status {
        if self.seen == Some(beats) {
            self.misses = self.misses.saturating_add(1);
            if self.misses >= misses_max && self.status != Status::Unknown {
                self.status = Status::Failed;
            }
        } else {
            // A register that was never written holds no beat.
            let is_first = self.seen.is_none();
            self.status = if is_first && beats == 0 { Status::Unknown } else { Status::Normal };
            self.misses = 0;
            self.seen = Some(beats);
        }
        self.status
    }

    /// Push mode: takes a beat, which re-arms the deadline.
    #[inline]
    pub fn beat(&mut self, now_ns: u64, deadline_ns: u64) -> Status {
        self.status = Status::Normal;
        self.expires_ns = Some(now_ns + deadline_ns);
        self.status
    }

    /// Push mode: time of the deadline, while it is armed.
    #[inline]
    pub fn deadline_ns(&self) -> Option<u64> {
        self.expires_ns
    }

    /// Push mode: fails the other half once the deadline has come.
    #[inline]
    pub fn expire(&mut self, now_ns: u64) -> Status {
        if self.expires_ns.is_some_and(|deadline| deadline <= now_ns) {
            self.expires_ns = None;
            self.status = Status::Failed;
        }
        self.status
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_watches_is_slower_than_who_beats() {
        for period_ns in [Timing::PERIOD_MIN_NS, 500_000_000, Timing::PERIOD_MAX_NS] {
            let poll = Timing::new(Mode::Poll, period_ns);
            assert!(poll.tick_ns * 99 > poll.beat_ns * 101 && poll.tick_ns < period_ns);
            assert!(poll.poll_ns * u64::from(poll.nic_misses) > poll.tick_ns);
            let push = Timing::new(Mode::Push, period_ns);
            assert!(push.deadline_ns > push.beat_ns * 5 / 4 && push.deadline_ns < period_ns);
            assert_eq!(push.confirm_polled_ns(), push.confirm_ns);
            assert_eq!((push.repeat_ns(0), push.repeat_ns(u8::MAX)), (CONFIRM_NS, push.poll_ns));
        }
    }

    #[test]
    fn a_register_never_written_stays_unknown() {
        let mut watch = Watch::default();
        assert!((0..10).all(|_| watch.check(0, 1) == Status::Unknown));
        assert_eq!(watch.check(1, 1), Status::Normal);
        assert_eq!(watch.expire(u64::MAX), Status::Normal, "no deadline was armed");
        assert_eq!(Watch::default().expire(u64::MAX), Status::Unknown);
    }

    #[test]
    fn silence_fails_after_the_misses_allowed_and_a_beat_mends() {
        let mut watch = Watch::default();
        let seen = [5, 6, 6, 6, 7].map(|beats| watch.check(beats, 2));
        let expected =
            [Status::Normal, Status::Normal, Status::Normal, Status::Failed, Status::Normal];
        assert_eq!(seen, expected);
    }

    #[test]
    fn every_beat_moves_the_deadline() {
        let mut watch = Watch::default();
        watch.beat(100, 50);
        watch.beat(140, 50);
        assert_eq!(watch.expire(189), Status::Normal);
        assert_eq!(watch.deadline_ns(), Some(190));
        assert_eq!(watch.expire(190), Status::Failed);
        assert_eq!(watch.deadline_ns(), None);
        assert_eq!(watch.beat(200, 50), Status::Normal);
    }
}
