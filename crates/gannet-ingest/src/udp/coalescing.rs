//! When to let the kernel coalesce datagrams into messages.
//!
//! Coalesced, 9 frames of 7200 bytes cost one trip through the kernel instead of nine, about 30 %
//! less time. There are three reasons against it:
//!
//! * datagrams may not come together (many senders, a card that does not merge them); then a call
//!   for each message is slower than one call for 64 of them;
//! * datagrams of streams that belong to different sockets may be put together; the message comes by
//!   the socket of the first. Once that has happened, coalescing has ended for good;
//! * a coalesced message that is dropped counts as one drop, so the loss would be known too low,
//!   unless datagrams are counted before the queue. Where they are not, coalescing ends when the
//!   queue fills, before it is full, and every drop is one datagram again. It begins again when
//!   all is calm, or when something is lost but not so much that it would not help: what can be
//!   kept comes before what can be counted. Drops of unknown size are left to two cases, a pause of the receiving thread longer
//!   than the queue lasts, and the first moments after a new beginning.
//!
//! The kernel does not tell how long the datagrams are of messages that it coalesced before it was told
//! not to. Where all have one length that is known anyway. Where lengths vary the kernel goes on coalescing
//! in all cases but the second, and only the calls change; drops may then stand for several datagrams.

/// Messages over which the number of datagrams in each is judged.
const WINDOW_MESSAGES: u64 = 64;
/// Messages after which it ends although the queue is not empty. Of what is queued then nobody
/// knows any more how it was put together.
const PATIENCE_MESSAGES: u64 = 64 * WINDOW_MESSAGES;
/// Fill of the queue, in 1/16, from which drops are near. The kernel returns memory late, so the
/// true fill may be less by a quarter of the queue.
const STORM_SIXTEENTHS: u64 = 12;
/// Fill of the queue, in 1/16, at which a queue that was full counts as emptied.
const RELIEF_SIXTEENTHS: u64 = 8;
/// How long to go without coalescing before judging the loss.
const TRIAL_NS: u64 = 20_000_000;
/// How long a new beginning has to empty the queue.
const RELIEF_NS: u64 = 10_000_000;
/// First pause after a try in which datagrams did not come together; doubled each time.
const PAUSE_NS_MIN: u64 = 100_000_000;
/// Longest such pause.
const PAUSE_NS_MAX: u64 = 10_000_000_000;

/// What was seen in one poll.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    pub(super) now_ns: u64,
    /// Messages taken.
    pub(super) messages: u64,
    /// Datagrams in them.
    pub(super) datagrams: u64,
    /// Messages that the kernel dropped.
    pub(super) drops: u64,
    /// Fill of the queue in 1/16.
    pub(super) fill_sixteenths: u64,
    /// Whether the queue was found empty.
    pub(super) is_empty: bool,
}

/// Decides whether messages are coalesced.
#[derive(Clone, Copy, Debug)]
pub(super) struct Coalescing {
    on: bool,
    /// Whether the size of every drop is known anyway.
    sized: bool,
    /// Whether datagrams of several lengths are taken.
    varied: bool,
    /// Time of the last change, or of the last judgement of the loss.
    since_ns: u64,
    /// Sums of what was seen since the last judgement of whatever kind.
    messages: u64,
    datagrams: u64,
    drops: u64,
    /// Whether the queue has been emptied since coalescing began.
    relieved: bool,
    pause_ns: u64,
    not_before_ns: u64,
    /// Not to begin again.
    ended: bool,
}

impl Coalescing {
    /// Begins with coalescing.
    pub(super) fn new(sized: bool, varied: bool) -> Self {
        Self {
            on: true,
            sized,
            varied,
            since_ns: 0,
            messages: 0,
            datagrams: 0,
            drops: 0,
            relieved: true,
            pause_ns: PAUSE_NS_MIN,
            not_before_ns: 0,
            ended: false,
        }
    }

    /// Whether to expect coalesced messages and take them one by one.
    pub(super) fn is_on(&self) -> bool {
        self.on
    }

    /// Whether the kernel is to join datagrams into messages.
    pub(super) fn joins(&self) -> bool {
        if self.varied { !self.ended } else { self.on }
    }

    /// Whether it was given up lately because datagrams did not come together.
    pub(super) fn has_given_up(&self, now_ns: u64) -> bool {
        now_ns < self.not_before_ns
    }

    /// Lets datagrams come one by one for good.
    pub(super) fn end(&mut self) {
        self.ended = true;
    }

    /// Takes in what a poll has seen; says whether the decision has changed.
    pub(super) fn observe(&mut self, seen: Seen) -> bool {
        self.messages += seen.messages;
        self.datagrams += seen.datagrams;
        self.drops += seen.drops;
        let changes = match self.on {
            true => {
                self.ended
                    || (!self.sized && !self.varied && self.fears_drops(seen))
                    || self.does_not_pay(seen)
            }
            false => !self.ended && self.may_begin(seen),
        };
        if changes {
            self.on = !self.on;
            self.relieved = false;
            self.judge_anew(seen.now_ns);
        }
        changes
    }

    fn judge_anew(&mut self, now_ns: u64) {
        self.since_ns = now_ns;
        (self.messages, self.datagrams, self.drops) = (0, 0, 0);
    }

    /// Whether drops of unknown size are near, or here.
    fn fears_drops(&mut self, seen: Seen) -> bool {
        let waited = seen.now_ns.saturating_sub(self.since_ns) >= RELIEF_NS;
        self.relieved |= waited || seen.fill_sixteenths < RELIEF_SIXTEENTHS;
        self.relieved && (seen.drops > 0 || seen.fill_sixteenths >= STORM_SIXTEENTHS)
    }

    /// Whether datagrams do not come together.
    fn does_not_pay(&mut self, seen: Seen) -> bool {
        if self.messages < WINDOW_MESSAGES {
            return false;
        }
        if 2 * self.datagrams >= 3 * self.messages {
            self.pause_ns = PAUSE_NS_MIN;
            (self.messages, self.datagrams) = (0, 0);
            return false;
        }
        if !seen.is_empty && self.messages < PATIENCE_MESSAGES {
            return false;
        }
        self.not_before_ns = seen.now_ns + self.pause_ns;
        self.pause_ns = (2 * self.pause_ns).min(PAUSE_NS_MAX);
        true
    }

    fn may_begin(&mut self, seen: Seen) -> bool {
        if self.sized || self.varied || seen.now_ns < self.not_before_ns {
            return seen.now_ns >= self.not_before_ns;
        }
        if seen.now_ns.saturating_sub(self.since_ns) < TRIAL_NS {
            return false;
        }
        let is_calm = self.drops == 0 && seen.fill_sixteenths < RELIEF_SIXTEENTHS;
        // Coalescing makes the receiver faster by less than half, so a quarter lost in addition
        // to what was taken is about what it can save. A loss of a few is over already.
        let helps = 4 * self.drops <= self.datagrams && 64 * self.drops >= self.datagrams;
        let begins = is_calm || (self.drops > 0 && helps);
        if !begins {
            self.judge_anew(seen.now_ns);
        }
        begins
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn seen(ms: u64, messages: u64, datagrams: u64) -> Seen {
        Seen { now_ns: ms * MS, messages, datagrams, is_empty: true, ..Seen::default() }
    }

    #[test]
    fn stays_on_in_any_storm_when_every_drop_has_its_size() {
        let mut coalescing = Coalescing::new(true, false);
        let storm = Seen { drops: 5, fill_sixteenths: 16, ..seen(1, 7, 63) };
        (0..100).for_each(|_| assert!(!coalescing.observe(storm)));
        assert!(coalescing.is_on());
    }

    #[test]
    fn without_sizes_it_ends_before_the_queue_is_full_and_begins_when_no_more_is_lost() {
        let mut coalescing = Coalescing::new(false, false);
        assert!(!coalescing.observe(Seen { fill_sixteenths: 11, ..seen(5, 7, 63) }));
        assert!(coalescing.observe(Seen { fill_sixteenths: 12, ..seen(6, 7, 63) }));
        assert!(!coalescing.is_on());
        assert!(!coalescing.observe(seen(25, 64, 64)));
        assert!(coalescing.observe(seen(26, 64, 64)) && coalescing.is_on());
        // The queue may still be full from before.
        let full = Seen { drops: 1, fill_sixteenths: 16, ..seen(27, 7, 63) };
        assert!(!coalescing.observe(full));
        assert!(!coalescing.observe(Seen { fill_sixteenths: 7, ..seen(28, 7, 63) }));
        assert!(coalescing.observe(full) && !coalescing.is_on());
    }

    #[test]
    fn without_sizes_it_stays_off_while_it_would_not_help() {
        let mut coalescing = Coalescing::new(false, false);
        let mut storm = |ms, drops, is_on| {
            coalescing.observe(Seen { drops, fill_sixteenths: 16, ..seen(ms, 7, 63) });
            assert_eq!(coalescing.is_on(), is_on, "{ms} ms");
        };
        (1..100).for_each(|ms| storm(ms, 17, false));
        (100..119).for_each(|ms| storm(ms, 10, false));
        (119..131).for_each(|ms| storm(ms, 10, ms >= 121));
        storm(131, 10, false);
    }

    #[test]
    fn without_sizes_a_full_queue_without_loss_is_left_to_itself() {
        let mut coalescing = Coalescing::new(false, false);
        let full = |ms| Seen { fill_sixteenths: 13, ..seen(ms, 64, 64) };
        (1..100).for_each(|ms| assert_eq!(coalescing.observe(full(ms)), ms == 1));
        assert!(!coalescing.is_on());
        assert!((100..122).any(|ms| coalescing.observe(seen(ms, 7, 63))) && coalescing.is_on());
    }

    #[test]
    fn gives_up_when_datagrams_do_not_come_together_and_tries_again_ever_more_rarely() {
        for sized in [true, false] {
            let mut coalescing = Coalescing::new(sized, false);
            let mut switched_on = Vec::new();
            for ms in 0..3000 {
                if coalescing.observe(seen(ms, 64, 70)) && coalescing.is_on() {
                    switched_on.push(ms);
                }
            }
            assert_eq!(switched_on, [100, 301, 702, 1503]);
            (3000..20_000).for_each(|ms| _ = coalescing.observe(seen(ms, 64, 576)));
            assert!(coalescing.is_on(), "stays on when it pays");
        }
    }

    #[test]
    fn it_is_given_up_when_the_queue_is_empty_unless_that_never_comes() {
        let mut coalescing = Coalescing::new(true, false);
        let busy = |ms| Seen { is_empty: false, ..seen(ms, 64, 64) };
        (0..30).for_each(|ms| assert!(!coalescing.observe(busy(ms))));
        assert!(coalescing.observe(seen(30, 1, 1)) && !coalescing.is_on());
        let mut coalescing = Coalescing::new(true, false);
        let given_up = (0..200).find(|&ms| coalescing.observe(busy(ms)));
        assert_eq!(given_up, Some(63), "after 64 * 64 messages");
    }
}
