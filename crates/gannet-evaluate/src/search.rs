//! The search for the highest rate without loss, as a state machine without clock or socket.
//!
//! A trial at some rate loses frames or loses none. Both can be chance: a pause of the machine
//! makes a low rate lose, and a short trial lets a rate pass that is too high. So a rate *holds*
//! when [`PASSES`] of its trials lose nothing, and *fails* when [`LOSSES`] lose something,
//! whichever comes first; and the rate found has to hold once more in longer trials.
//!
//! ```text
//!   climb: up by a factor until a rate fails ──▶ bisect, until the ends are near ──▶ confirm ──▶ found
//!          (down until one holds, if the first fails)                                 │    ▲
//!                                                                 fails: lower, again └────┘
//! ```

use serde::Serialize;

/// Trials without loss by which a rate holds.
pub const PASSES: u32 = 2;
/// Trials with loss by which a rate fails.
pub const LOSSES: u32 = 3;
/// Most trials of one rate.
pub const TRIALS_MAX: u32 = PASSES + LOSSES - 1;

/// Factor from one rate of the climb to the next.
const GROWTH: f64 = 1.5;
/// The bisection ends when the ends differ by this share of the lower one.
const RESOLUTION: f64 = 0.02;
/// Most rates of the climb.
const CLIMBS_MAX: u32 = 12;
/// Most rates of the bisection; a few suffice unless the sender falls short.
const BISECTIONS_MAX: u32 = 10;
/// Most rates that are tried for confirmation.
const CONFIRMS_MAX: u32 = 5;
/// Share of the rate asked for that the sender has to reach, else it fell short.
pub(crate) const REACHED_MIN: f64 = 0.97;

/// What a trial is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// As fast as the sender can; not asked for by the search.
    Saturate,
    /// Looking for two rates of which the lower holds and the higher fails.
    Climb,
    /// Narrowing these two.
    Bisect,
    /// Trying the rate found for longer.
    Confirm,
}

/// The trial that is wanted next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ask {
    /// What it is for.
    pub stage: Stage,
    /// Frames per second to send.
    pub rate_hz: f64,
}

/// What a trial showed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seen {
    /// Frames per second that were sent.
    pub reached_hz: f64,
    /// Frames that did not arrive.
    pub lost: u64,
}

/// Why no higher rate was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// At higher rates frames were lost.
    Receiver,
    /// Asked for more, the sender sent no faster, and nothing was lost.
    Sender,
    /// The search came to the end of the rates that it tries.
    Search,
}

/// The search; see the module.
#[derive(Clone, Debug)]
pub struct Search {
    least_hz: f64,
    ask: Option<Ask>,
    /// Outcome of the trials at the present rate.
    passes: u32,
    losses: u32,
    /// Highest rate reached in a trial without loss at the present rate.
    reached_hz: f64,
    /// Highest rate that held.
    good_hz: Option<f64>,
    /// Lowest rate that failed.
    bad_hz: Option<f64>,
    climbs: u32,
    bisections: u32,
    confirms: u32,
    limit: Limit,
    found_hz: Option<f64>,
}

impl Search {
    /// A search that begins at `first_hz` and tries nothing below `least_hz`, both in frames per
    /// second.
    pub fn new(first_hz: f64, least_hz: f64) -> Self {
        Self {
            least_hz,
            ask: Some(Ask { stage: Stage::Climb, rate_hz: first_hz }),
            passes: 0,
            losses: 0,
            reached_hz: 0.0,
            good_hz: None,
            bad_hz: None,
            climbs: 1,
            bisections: 0,
            confirms: 0,
            limit: Limit::Receiver,
            found_hz: None,
        }
    }

    /// The next trial; none at the end.
    pub fn next(&self) -> Option<Ask> {
        self.ask
    }

    /// Takes in what the trial of [`Search::next`] showed. After the end it changes nothing.
    pub fn observe(&mut self, seen: Seen) {
        let Some(ask) = self.ask else { return };
        // A trial in which nothing was sent shows nothing.
        if seen.lost == 0 && seen.reached_hz > 0.0 {
            self.passes += 1;
            self.reached_hz = self.reached_hz.max(seen.reached_hz);
        } else {
            self.losses += 1;
        }
        let decided = match (self.passes, self.losses) {
            (PASSES, _) => self.hold(ask),
            (_, LOSSES) => self.fail(ask),
            _ => return,
        };
        self.ask = decided;
        (self.passes, self.losses, self.reached_hz) = (0, 0, 0.0);
    }

    /// The rate that was found and confirmed, in frames per second; none before the end, and none
    /// when every rate lost.
    pub fn found_hz(&self) -> Option<f64> {
        self.found_hz
    }

    /// Why there is no higher rate; of meaning at the end.
    pub fn limit(&self) -> Limit {
        self.limit
    }

    /// The rate holds: what to try then.
    fn hold(&mut self, ask: Ask) -> Option<Ask> {
        if ask.stage == Stage::Confirm {
            self.found_hz = Some(ask.rate_hz);
            return None;
        }
        let known_hz = self.good_hz.unwrap_or(0.0);
        let is_short = self.reached_hz < REACHED_MIN * ask.rate_hz;
        let held_hz = if is_short { self.reached_hz } else { ask.rate_hz };
        self.good_hz = Some(held_hz.max(known_hz));
        // A pause of the machine may make the sender fall short once.
        if is_short && held_hz < known_hz * (1.0 + RESOLUTION) {
            self.limit = Limit::Sender;
            return self.confirm(known_hz.max(held_hz));
        }
        self.advance(ask)
    }

    /// The rate fails: what to try then.
    fn fail(&mut self, ask: Ask) -> Option<Ask> {
        if ask.stage != Stage::Confirm {
            self.bad_hz = Some(ask.rate_hz);
            return self.advance(ask);
        }
        self.limit = Limit::Receiver;
        let step = RESOLUTION * f64::from(1u32 << self.confirms);
        self.confirm(ask.rate_hz * (1.0 - step.min(0.5)))
    }

    /// Goes on between, above or below the rates that are known.
    fn advance(&mut self, ask: Ask) -> Option<Ask> {
        match (self.good_hz, self.bad_hz) {
            (Some(good_hz), Some(bad_hz)) => self.bisect(good_hz, bad_hz),
            (Some(good_hz), None) if self.climbs == CLIMBS_MAX => {
                self.limit = Limit::Search;
                self.confirm(good_hz)
            }
            (Some(_), None) => self.climb(ask.rate_hz * GROWTH),
            (None, _) if self.climbs < CLIMBS_MAX => self.climb(ask.rate_hz / GROWTH),
            (None, _) => None,
        }
    }

    fn bisect(&mut self, good_hz: f64, bad_hz: f64) -> Option<Ask> {
        let is_near = bad_hz <= good_hz * (1.0 + RESOLUTION);
        let rate_hz = (good_hz * bad_hz).sqrt();
        // A sender that falls short may hold at less than was ever asked of it.
        if is_near || self.bisections == BISECTIONS_MAX || rate_hz < self.least_hz {
            return self.confirm(good_hz);
        }
        self.bisections += 1;
        Some(Ask { stage: Stage::Bisect, rate_hz })
    }

    fn climb(&mut self, rate_hz: f64) -> Option<Ask> {
        self.climbs += 1;
        (rate_hz >= self.least_hz).then_some(Ask { stage: Stage::Climb, rate_hz })
    }

    fn confirm(&mut self, rate_hz: f64) -> Option<Ask> {
        self.confirms += 1;
        let is_worth_it = self.confirms <= CONFIRMS_MAX && rate_hz >= self.least_hz;
        is_worth_it.then_some(Ask { stage: Stage::Confirm, rate_hz })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gannet_measure::random::Random;
    use proptest::prelude::*;

    const FIRST_HZ: f64 = 1e5;
    const LEAST_HZ: f64 = 1e3;
    const TRIALS_OF_ALL: u32 = TRIALS_MAX * (CLIMBS_MAX + BISECTIONS_MAX + CONFIRMS_MAX);

    /// Searches where `trial` tells what a trial at a rate shows; returns the trials made.
    fn search(mut trial: impl FnMut(Ask) -> Seen) -> (Search, Vec<Ask>) {
        let (mut search, mut asked) = (Search::new(FIRST_HZ, LEAST_HZ), Vec::new());
        while let Some(ask) = search.next() {
            asked.push(ask);
            search.observe(trial(ask));
        }
        (search, asked)
    }

    /// A receiver that loses what is above `capacity_hz`.
    fn step(capacity_hz: f64) -> impl Fn(Ask) -> Seen {
        move |Ask { rate_hz, .. }| Seen {
            reached_hz: rate_hz,
            lost: (rate_hz - capacity_hz).max(0.0).ceil() as u64,
        }
    }

    #[test]
    fn a_sharp_limit_is_found_to_the_resolution_from_below_and_from_above() {
        for capacity_hz in [1_500.0, 9e4, 1e5, 123_456.0, 5e5, 5e6] {
            let (search, asked) = search(step(capacity_hz));
            let found_hz = search.found_hz().unwrap();
            assert!(found_hz <= capacity_hz && capacity_hz <= 1.021 * found_hz, "{found_hz}");
            assert_eq!(search.limit(), Limit::Receiver);
            let stages: Vec<Stage> = asked.iter().map(|ask| ask.stage).collect();
            assert!(stages.is_sorted_by_key(|stage| *stage as u8), "{stages:?}");
            assert_eq!(stages.iter().filter(|stage| **stage == Stage::Confirm).count(), 2);
        }
    }

    #[test]
    fn a_rate_that_the_sender_does_not_reach_ends_the_climb() {
        let cap = |ask: Ask| Seen { reached_hz: ask.rate_hz.min(4e5), lost: 0 };
        let (search, asked) = search(cap);
        assert_eq!((search.found_hz(), search.limit()), (Some(4e5), Limit::Sender));
        assert!(asked.iter().all(|ask| ask.stage != Stage::Bisect));
        assert!(asked.iter().all(|ask| ask.rate_hz < 1e6), "it is asked for more only once");
    }

    #[test]
    fn a_sender_that_is_short_through_a_whole_rate_is_asked_for_more() {
        // The third rate of the climb is 225 kHz.
        let (search, asked) = search(|ask| {
            let share = if (2e5..2.5e5).contains(&ask.rate_hz) { 0.8 } else { 1.0 };
            Seen { reached_hz: share * ask.rate_hz, ..step(5e5)(ask) }
        });
        assert_eq!(search.limit(), Limit::Receiver);
        assert!((4.9e5..=5e5).contains(&search.found_hz().unwrap()), "{asked:?}");
    }

    #[test]
    fn a_sender_that_is_short_now_and_then_is_not_the_limit() {
        let mut random = Random::new(3);
        let (search, _) = search(|ask| {
            let share = if random.chance(0.1) { 0.7 } else { 1.0 };
            Seen { reached_hz: share * ask.rate_hz, ..step(5e5)(ask) }
        });
        assert_eq!(search.limit(), Limit::Receiver);
        assert!((4.9e5..=5e5).contains(&search.found_hz().unwrap()));
    }

    #[test]
    fn without_any_loss_the_search_ends_and_says_that_it_did() {
        let (search, asked) = search(step(f64::INFINITY));
        assert_eq!(search.limit(), Limit::Search);
        assert!((search.found_hz().unwrap() / 1e5 - 1.5f64.powi(11)).abs() < 1e-6);
        assert_eq!(asked.len() as u32, PASSES * (CLIMBS_MAX + 1));
    }

    #[test]
    fn when_every_trial_loses_there_is_no_rate() {
        let (search, asked) = search(|ask| Seen { reached_hz: ask.rate_hz, lost: 1 });
        assert_eq!(search.found_hz(), None);
        assert_eq!(asked.len() as u32, LOSSES * CLIMBS_MAX);
        assert!(asked.iter().all(|ask| ask.rate_hz >= LEAST_HZ));
    }

    #[test]
    fn a_trial_in_which_nothing_was_sent_shows_nothing() {
        let (search, _) = search(|_| Seen { reached_hz: 0.0, lost: 0 });
        assert_eq!(search.found_hz(), None);
    }

    #[test]
    fn two_noisy_trials_do_not_decide() {
        let mut trials = 0;
        let (search, _) = search(|ask| {
            trials += 1;
            let noise = u64::from(trials <= 2);
            let seen = step(5e5)(ask);
            Seen { lost: seen.lost + noise, ..seen }
        });
        assert!(search.found_hz().unwrap() > 4.9e5);
    }

    #[test]
    fn chance_losses_in_one_trial_of_ten_leave_the_limit_where_it_is() {
        let near = (0..500u64).filter(|&seed| {
            let mut random = Random::new(seed);
            let (search, _) = search(|ask| {
                let seen = step(5e5)(ask);
                Seen { lost: seen.lost + u64::from(random.chance(0.1)), ..seen }
            });
            let found_hz = search.found_hz().unwrap();
            assert!(found_hz <= 5e5, "seed {seed}: {found_hz}");
            found_hz >= 4.5e5
        });
        assert!(near.count() >= 470);
    }

    #[test]
    fn a_rate_that_passes_by_chance_does_not_survive_the_confirmation() {
        // The chance to lose grows from nothing at 400 k to certainty at 600 k; trials for
        // confirmation last twice as long.
        let loses = |ask: Ask| {
            let once = ((ask.rate_hz - 4e5) / 2e5).clamp(0.0, 1.0);
            let time = if ask.stage == Stage::Confirm { 2 } else { 1 };
            1.0 - (1.0 - once).powi(time)
        };
        let mut sum_hz = 0.0;
        for seed in 0..500 {
            let mut random = Random::stream(7, seed);
            let (search, asked) = search(|ask| Seen {
                reached_hz: ask.rate_hz,
                lost: u64::from(random.chance(loses(ask))),
            });
            let found_hz = search.found_hz().unwrap();
            sum_hz += found_hz;
            assert!((3.5e5..6e5).contains(&found_hz), "seed {seed}: {found_hz}");
            let last = asked.last().unwrap();
            assert_eq!((last.stage, last.rate_hz), (Stage::Confirm, found_hz));
        }
        let mean_hz = sum_hz / 500.0;
        assert!((4.2e5..5.2e5).contains(&mean_hz), "{mean_hz}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn the_search_ends_whatever_the_trials_show(seed: u64, loss in 0.0..1.0f64) {
            let mut random = Random::new(seed);
            let (search, asked) = search(|ask| Seen {
                reached_hz: ask.rate_hz * random.unit(),
                lost: u64::from(random.chance(loss)),
            });
            prop_assert!(asked.len() as u32 <= TRIALS_OF_ALL, "{} trials", asked.len());
            prop_assert!(asked.iter().all(|ask| ask.rate_hz.is_finite() && ask.rate_hz >= 1e3));
            let held = |rate| asked.iter().any(|ask| ask.rate_hz == rate);
            prop_assert!(search.found_hz().is_none_or(held));
        }
    }
}
