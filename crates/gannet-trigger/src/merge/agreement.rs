//! The time that most streams agree on.
//!
//! What a stream tells of its time is a claim. The agreed time is one that more than half of the
//! live streams support: the median of their claims, if more than half lie near it. Without such
//! a majority the time that was agreed before goes on, as long as any stream supports it.
//!
//! Another time is agreed at once when more than half of *all* streams support it, or when the
//! host's clock does. A smaller group, such as the first stream of many or the one that is left,
//! has to go on for a while: nobody can outvote it, so a lone frame must not be enough.
//!
//! A stream far from the agreed time is doubted: its primitives are held back for the time that an
//! agreement may take. After that it is set apart, until it agrees again.

use super::leader::Leader;

/// A stream counts as live for so long after it has moved, in nanoseconds.
const LIVE_NS: u64 = 100_000_000;
/// How long fewer than half of all streams have to go on at another time before it is agreed.
const CONFIRM_NS: u64 = 100_000_000;
/// How long a stream is doubted before it is set apart: an agreement that needs the others to
/// fall silent and a small group to be confirmed takes less.
const DOUBT_NS: u64 = 300_000_000;
/// Time between two looks at all streams while none of them asks for one, in nanoseconds.
const LOOK_NS: u64 = 3_000_000;

/// How a stream stands to the agreed time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It is near.
    Agrees,
    /// Not heard yet, or not near for less than the time that an agreement may take.
    Doubted,
    /// Not near for longer: what it brings does not take part.
    Apart,
}

/// What a look at all streams came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// There was no need for one.
    Skipped,
    /// Each stream stands as it stands now.
    Taken,
    /// As `Taken`, and time goes on from a point in the past.
    Anew,
}

/// One stream.
#[derive(Clone, Debug)]
struct Stream {
    /// Up to where it says to have been processed.
    claim: Option<u64>,
    /// The last claim that agreed; what it brought before takes part.
    settled: u64,
    /// Whether the claim has moved since the last look.
    moved: bool,
    moved_ns: Option<u64>,
    standing: Standing,
    doubted_ns: Option<u64>,
}

impl Stream {
    fn is_live(&self, now_ns: u64) -> bool {
        self.moved_ns.is_some_and(|moved_ns| now_ns.saturating_sub(moved_ns) <= LIVE_NS)
    }
}

/// A time other than the agreed one, and since when it is supported.
#[derive(Debug)]
struct Proposal {
    tick: u64,
    since_ns: u64,
    leader: Leader,
}

/// The claims of all streams and the time that they agree on.
#[derive(Debug)]
pub(super) struct Agreement {
    /// How far two claims may be apart to support each other, in ticks.
    within: u64,
    patience_ns: u64,
    /// Ticks by which a stream may be behind most others.
    behind_max: u64,
    streams: Vec<Stream>,
    agreed: Option<u64>,
    leader: Leader,
    proposal: Option<Proposal>,
    looked_ns: Option<u64>,
    /// A stream did what cannot wait for the next regular look.
    restless: bool,
    /// Claims of the live streams, at a look.
    claims: Vec<u64>,
}

impl Agreement {
    /// Of `streams` streams, whose claims support each other within `within` ticks. A stream may
    /// be behind by `patience_ns` before the others go on without it.
    pub(super) fn new(streams: usize, within: u64, patience_ns: u64) -> Self {
        let stream = Stream {
            claim: None,
            settled: 0,
            moved: false,
            moved_ns: None,
            standing: Standing::Doubted,
            doubted_ns: None,
        };
        Self {
            within,
            patience_ns,
            behind_max: u64::MAX,
            streams: vec![stream; streams],
            agreed: None,
            leader: Leader::new(patience_ns),
            proposal: None,
            looked_ns: None,
            restless: false,
            claims: Vec::with_capacity(streams),
        }
    }

    /// Lets the others go on without a stream that is behind most of them by more than `ticks`.
    pub(super) fn go_on_after(&mut self, ticks: u64) {
        self.behind_max = ticks;
    }

    /// Takes the claim of `stream` that it has been processed up to `tick`; says how it stands.
    pub(super) fn claim(&mut self, stream: usize, tick: u64) -> Standing {
        let agrees = self.is_near_agreed(tick);
        let stream = &mut self.streams[stream];
        match stream.claim {
            // A small step back is one frame out of order.
            Some(claim) if tick <= claim && claim - tick <= self.within => {}
            _ => (stream.claim, stream.moved) = (Some(tick), true),
        }
        match (agrees, stream.standing) {
            (true, Standing::Agrees) => stream.settled = stream.settled.max(tick),
            (false, Standing::Apart) => {}
            (true, _) => {
                (stream.standing, stream.doubted_ns) = (Standing::Agrees, None);
                stream.settled = stream.settled.max(tick);
                self.restless = true;
            }
            (false, _) => {
                stream.standing = Standing::Doubted;
                self.restless = true;
            }
        }
        stream.standing
    }

    /// Looks at all streams, if it is time or some stream asks for it, at wall time `now_ns`.
    ///
    /// `reference` is the time of the host, in ticks, where the streams have to agree with it.
    pub(super) fn look(&mut self, now_ns: u64, reference: Option<u64>) -> Look {
        let due =
            self.looked_ns.is_none_or(|looked_ns| now_ns >= looked_ns.saturating_add(LOOK_NS));
        if !due && !self.restless {
            return Look::Skipped;
        }
        (self.looked_ns, self.restless) = (Some(now_ns), false);
        for stream in self.streams.iter_mut().filter(|stream| stream.moved) {
            (stream.moved, stream.moved_ns) = (false, Some(now_ns));
        }
        let supported = self.most_supported(now_ns, reference);
        let anew = supported
            .is_some_and(|(tick, support)| self.adopt(tick, support, reference.is_some(), now_ns));
        self.judge(now_ns);
        if anew { Look::Anew } else { Look::Taken }
    }

    /// The tick up to which no stream holds the others up at wall time `now_ns`.
    pub(super) fn complete_to(&self, now_ns: u64) -> u64 {
        if self.agreed.is_none() {
            return 0;
        }
        let holding = self.streams.iter().filter(|stream| stream.standing != Standing::Apart);
        let slowest = holding.map(|stream| stream.settled).min().unwrap_or(0);
        slowest.max(self.due(now_ns))
    }

    /// The tick that every stream should have reached at wall time `now_ns`.
    fn due(&self, now_ns: u64) -> u64 {
        self.leader.due(now_ns).max(self.reached_by_most().saturating_sub(self.behind_max))
    }

    /// The tick that more than half of all streams have reached, or the later of two.
    fn reached_by_most(&self) -> u64 {
        if self.behind_max == u64::MAX {
            return 0;
        }
        let reached = |stream: &&Stream| {
            let beside = |other: &&Stream| other.settled >= stream.settled;
            2 * self.streams.iter().filter(beside).count() >= self.streams.len()
        };
        self.streams.iter().filter(reached).map(|stream| stream.settled).max().unwrap_or(0)
    }

    /// Whether the others go on without `stream` at wall time `now_ns`.
    pub(super) fn is_late(&self, stream: usize, now_ns: u64) -> bool {
        let stream = &self.streams[stream];
        stream.standing == Standing::Apart || stream.settled < self.due(now_ns)
    }

    /// How `stream` stands.
    pub(super) fn standing(&self, stream: usize) -> Standing {
        self.streams[stream].standing
    }

    /// What `stream` told last; 0 before.
    pub(super) fn claimed(&self, stream: usize) -> u64 {
        self.streams[stream].claim.unwrap_or(0)
    }

    /// The last claim of `stream` that agreed; 0 before.
    pub(super) fn settled(&self, stream: usize) -> u64 {
        self.streams[stream].settled
    }

    /// Ticks from the agreed time to what `stream` tells; 0 before either is known.
    pub(super) fn offset(&self, stream: usize) -> i64 {
        let claim = self.streams[stream].claim;
        claim.zip(self.agreed).map_or(0, |(claim, agreed)| claim.wrapping_sub(agreed) as i64)
    }

    /// Whether any time was agreed.
    pub(super) fn is_reached(&self) -> bool {
        self.agreed.is_some()
    }

    fn is_near_agreed(&self, tick: u64) -> bool {
        self.agreed.is_some_and(|agreed| agreed.abs_diff(tick) <= self.within)
    }

    /// The time that most live streams support, and how many do.
    fn most_supported(&mut self, now_ns: u64, reference: Option<u64>) -> Option<(u64, usize)> {
        let within = self.within;
        let fits = |claim: &u64| reference.is_none_or(|host| host.abs_diff(*claim) <= within);
        let live = self.streams.iter().filter(|stream| stream.is_live(now_ns));
        self.claims.clear();
        self.claims.extend(live.filter_map(|stream| stream.claim).filter(fits));
        let median = upper_median(&mut self.claims)?;
        let support = self.support(median);
        if 2 * support > self.claims.len() {
            return Some((median, support));
        }
        match self.agreed {
            Some(agreed) if self.support(agreed) > 0 => {
                self.claims.retain(|claim| claim.abs_diff(agreed) <= within);
                Some((upper_median(&mut self.claims)?, self.claims.len()))
            }
            _ => densest(&mut self.claims, within),
        }
    }

    fn support(&self, tick: u64) -> usize {
        self.claims.iter().filter(|claim| claim.abs_diff(tick) <= self.within).count()
    }

    /// Goes on to `tick`, if that needs no confirmation or has it. Says whether time began anew
    /// in the past.
    fn adopt(&mut self, tick: u64, support: usize, referred: bool, now_ns: u64) -> bool {
        if self.is_near_agreed(tick) {
            self.agreed = Some(tick);
            self.leader.observe(tick, now_ns);
            self.proposal = None;
            return false;
        }
        let known = self.proposal.take().filter(|it| it.tick.abs_diff(tick) <= self.within);
        let mut proposal = known.unwrap_or_else(|| Proposal {
            tick,
            since_ns: now_ns,
            leader: Leader::new(self.patience_ns),
        });
        proposal.tick = tick;
        proposal.leader.observe(tick, now_ns);
        let near = |stream: &&Stream| {
            stream.claim.is_some_and(|claim| claim.abs_diff(tick) <= self.within)
        };
        let newest_ns = self.streams.iter().filter(near).filter_map(|stream| stream.moved_ns).max();
        let lasted_ns = newest_ns.unwrap_or(0).saturating_sub(proposal.since_ns);
        let outright = referred || 2 * support > self.streams.len();
        if !outright && lasted_ns < CONFIRM_NS {
            self.proposal = Some(proposal);
            return false;
        }
        let anew = self.agreed.is_some_and(|agreed| tick < agreed);
        if anew {
            self.streams.iter_mut().for_each(|stream| stream.settled = 0);
        }
        (self.agreed, self.leader) = (Some(tick), proposal.leader);
        anew
    }

    /// Judges how each stream stands.
    fn judge(&mut self, now_ns: u64) {
        let Some(agreed) = self.agreed else { return };
        for stream in &mut self.streams {
            let Some(claim) = stream.claim else { continue };
            if claim.abs_diff(agreed) <= self.within {
                (stream.standing, stream.doubted_ns) = (Standing::Agrees, None);
                stream.settled = stream.settled.max(claim);
            } else if stream.standing != Standing::Apart {
                let since_ns = *stream.doubted_ns.get_or_insert(now_ns);
                let over = now_ns.saturating_sub(since_ns) >= DOUBT_NS;
                stream.standing = if over { Standing::Apart } else { Standing::Doubted };
            }
        }
    }
}

/// The claim that at least half of the streams have reached, and that fewer than half going ahead
/// cannot move; `None` of none.
fn upper_median(claims: &mut [u64]) -> Option<u64> {
    let middle = claims.len() / 2;
    (!claims.is_empty()).then(|| *claims.select_nth_unstable(middle).1)
}

/// The median of the most claims that lie within `within` ticks, the latest such if there are
/// several, and their number.
fn densest(claims: &mut [u64], within: u64) -> Option<(u64, usize)> {
    claims.sort_unstable();
    let group = |first: usize| {
        let end = claims[first].saturating_add(within);
        &claims[first..claims.partition_point(|claim| *claim <= end)]
    };
    let densest = (0..claims.len()).map(group).max_by_key(|group| group.len())?;
    Some((densest[densest.len() / 2], densest.len()))
}
