//! What the trigger itself adds to a record: candidates, primitives and activities.

use std::sync::Arc;

use crate::activity::Activity;
use crate::recent::{Recent, Timed};
use gannet_measure::ledger::Account;
use gannet_record::Origin;
use gannet_trigger::candidate::Candidate;
use gannet_trigger::module_level::Decision;
use gannet_wire::fragment_type::FragmentType;
use gannet_wire::geo_id::DAQ_DETECTOR;
use gannet_wire::record::Record;
use gannet_wire::source_id::{SourceId, Subsystem};
use gannet_wire::{TriggerPrimitive, overlay};

use gannet_readout::latency::Window;
use gannet_readout::record::{BuildConfig, Part};
use gannet_readout::request::Finding;

gannet_measure::drop_reasons! {
    /// Why a fragment of primitives or activities is not whole.
    pub enum FragmentCut {
        /// What starts when the window begins was no longer remembered.
        Forgotten => "forgotten",
        /// The trigger had not come to the end of the window in time.
        TimedOut => "timed_out",
        /// The data ended, or went on from a point in the past, before the window did.
        Ended => "ended",
        /// The window was empty, reversed or longer than allowed.
        InvalidWindow => "invalid_window",
    }
}

/// A decision that is still to be answered.
#[derive(Debug)]
struct Open {
    trigger_number: u64,
    window: Window,
    deadline_ns: u64,
    candidates: Vec<Candidate>,
}

/// Cuts the windows of decisions out of the primitives and activities of the last moments.
///
/// A state machine without clock or thread: [`remember`](Self::remember) what the trigger gives out,
/// [`ask`](Self::ask) for each decision, and [`answer`](Self::answer) those that are due.
#[derive(Debug)]
pub struct TriggerFragments {
    config: BuildConfig,
    /// How long things are remembered, in ticks of data time.
    reach_ticks: u64,
    primitives: Recent<TriggerPrimitive>,
    activities: Recent<Activity>,
    open: Vec<Open>,
    account: Arc<Account<FragmentCut>>,
}

impl TriggerFragments {
    /// Source of the primitives.
    pub const PRIMITIVES: SourceId = SourceId::new(Subsystem::Trigger, 0);
    /// Source of the candidates.
    pub const CANDIDATES: SourceId = SourceId::new(Subsystem::Trigger, 1);
    /// Source of the activities.
    pub const ACTIVITIES: SourceId = SourceId::new(Subsystem::Trigger, 2);

    /// Remembers `room` primitives, and activities that take as much memory. Windows and waiting
    /// are bounded as for the requests to streams.
    pub fn new(config: BuildConfig, room: usize) -> Self {
        Self {
            config,
            reach_ticks: u64::MAX,
            primitives: Recent::new(room),
            activities: Recent::new(room),
            open: Vec::new(),
            account: Arc::default(),
        }
    }

    /// Forgets what starts so many ticks before everything is complete, even where there is room
    /// for more: so memory does not grow for hours where little is found.
    #[must_use]
    pub fn reaching_back(self, reach_ticks: u64) -> Self {
        Self { reach_ticks, ..self }
    }

    /// Ledger of fragments of primitives and of activities: asked for, whole, and not whole.
    pub fn account(&self) -> Arc<Account<FragmentCut>> {
        Arc::clone(&self.account)
    }

    /// Remembers what the trigger gave out: primitives in their order, activities in any.
    pub fn remember(
        &mut self,
        primitives: &[TriggerPrimitive],
        activities: impl Iterator<Item = Activity>,
    ) {
        self.primitives.extend(primitives);
        activities.for_each(|activity| self.activities.push(activity));
    }

    /// Takes a decision, taken at `decided_ns`, to be answered.
    pub fn ask(&mut self, decision: Decision, decided_ns: u64) {
        self.account.offer(2);
        self.open.push(Open {
            trigger_number: decision.trigger_number,
            window: Window { begin: decision.window_begin, end: decision.window_end },
            deadline_ns: decided_ns.saturating_add(self.config.request_timeout.ns()),
            candidates: decision.candidates,
        });
    }

    /// Passes the number of each decision that can be answered, and the answer, to `give`.
    ///
    /// Everything that starts before `complete_to` has been remembered. A decision whose window
    /// ends later waits until its time is up.
    pub fn answer(
        &mut self,
        complete_to: u64,
        now_ns: u64,
        mut give: impl FnMut(u64, Vec<Part<Origin>>),
    ) {
        let mut open = std::mem::take(&mut self.open);
        open.retain_mut(|open| {
            let waits = complete_to < open.window.end && now_ns < open.deadline_ns;
            if waits && self.is_valid(open.window) {
                return true;
            }
            give(open.trigger_number, self.cut(open, complete_to, FragmentCut::TimedOut));
            false
        });
        self.open = open;
        let reached = complete_to.saturating_sub(self.reach_ticks);
        self.primitives.forget_before(reached);
        self.activities.forget_before(reached);
    }

    /// Answers every decision with what is there and forgets all: nothing more comes, or it comes
    /// from a point in the past.
    pub fn end(&mut self, complete_to: u64, mut give: impl FnMut(u64, Vec<Part<Origin>>)) {
        for mut open in std::mem::take(&mut self.open) {
            give(open.trigger_number, self.cut(&mut open, complete_to, FragmentCut::Ended));
        }
        self.primitives.clear();
        self.activities.clear();
    }

    fn is_valid(&self, window: Window) -> bool {
        window.is_valid(self.config.window_ticks_max)
    }

    /// The answer to a decision; `early` is why the end of its window may be missing.
    fn cut(&self, open: &mut Open, complete_to: u64, early: FragmentCut) -> Vec<Part<Origin>> {
        let window = open.window;
        let mut candidates = Vec::new();
        for candidate in std::mem::take(&mut open.candidates) {
            append(&candidate.data, &candidate.inputs, &mut candidates);
        }
        let (mut primitives, mut activities) = (Vec::new(), Vec::new());
        if self.is_valid(window) {
            let found = self.primitives.between(window.begin, window.end);
            primitives.reserve_exact(found.len() * TriggerPrimitive::LEN);
            found.for_each(|tp| primitives.extend(tp.to_le_bytes()));
            for activity in self.activities.between(window.begin, window.end) {
                append(&activity.data, &activity.inputs, &mut activities);
            }
        }
        let of_primitives = self.finding(&self.primitives, window, complete_to);
        let of_activities = self.finding(&self.activities, window, complete_to);
        self.count(of_primitives, early);
        self.count(of_activities, early);
        let part = |source_id, fragment_type, finding: Finding, payload| Part {
            origin: Origin { source_id, fragment_type, detector_id: DAQ_DETECTOR },
            error_bits: finding.error_bits(),
            payload,
        };
        use FragmentType::{TriggerActivity, TriggerCandidate, TriggerPrimitive as Primitive};
        vec![
            part(Self::PRIMITIVES, Primitive, of_primitives, primitives),
            part(Self::CANDIDATES, TriggerCandidate, Finding::Found, candidates),
            part(Self::ACTIVITIES, TriggerActivity, of_activities, activities),
        ]
    }

    /// How a window lies to what is remembered.
    fn finding<T: Timed>(&self, recent: &Recent<T>, window: Window, complete_to: u64) -> Finding {
        if !self.is_valid(window) {
            Finding::Invalid
        } else if !recent.reaches_back_to(window.begin) {
            Finding::PartiallyOld
        } else if complete_to < window.end {
            Finding::Partial
        } else {
            Finding::Found
        }
    }

    fn count(&self, finding: Finding, early: FragmentCut) {
        let cut = match finding {
            Finding::Invalid => FragmentCut::InvalidWindow,
            Finding::PartiallyOld => FragmentCut::Forgotten,
            Finding::Found => return self.account.deliver(1),
            _ => early,
        };
        self.account.discard(cut, 1);
    }
}

/// Appends a trigger object and what it was made of, as fragments store it.
fn append<D: Record, I: Record>(data: &D, inputs: &[I], bytes: &mut Vec<u8>) {
    let begin = bytes.len();
    bytes.resize(begin + overlay::buffer_len::<D, I>(inputs.len()), 0);
    overlay::emit(data, inputs, &mut bytes[begin..]);
}

#[cfg(test)]
mod tests {
    use crate::activity::{ActivityConfig, ActivityStage, Bundle};
    use crate::sampling::Sampling;
    use gannet_measure::quantity::Span;
    use gannet_wire::fragment::error_bits::{DATA_NOT_FOUND, INCOMPLETE, INVALID_WINDOW};
    use gannet_wire::trigger_activity::TriggerActivities;
    use gannet_wire::trigger_primitive;
    use proptest::prelude::*;

    use super::*;

    fn primitive(time_start: u64, channel: u32) -> TriggerPrimitive {
        TriggerPrimitive { words: [2 | u64::from(channel) << 24, time_start, 0] }
    }

    /// One of so many primitives that start at the same time.
    fn activity(time_start: u64, inputs: u32) -> Activity {
        let bundle = Bundle { bundle_size: inputs, ..Bundle::default() };
        let config = ActivityConfig::Bundle(bundle);
        let mut stage = ActivityStage::new(&config, Sampling::default()).unwrap();
        let mut made = Vec::new();
        (0..inputs).for_each(|channel| stage.push(&primitive(time_start, channel), &mut made));
        made.remove(0)
    }

    fn decision(trigger_number: u64, window_begin: u64, window_end: u64) -> Decision {
        Decision {
            trigger_number,
            run: 7,
            timestamp: window_begin,
            trigger_type: 1,
            window_begin,
            window_end,
            candidates: Vec::new(),
        }
    }

    /// Windows of 1000 ticks at most, and requests that wait for 100 ns.
    fn fragments(room: usize) -> TriggerFragments {
        let config = BuildConfig { request_timeout: Span(100), window_ticks_max: 1000 };
        TriggerFragments::new(config, room)
    }

    /// Numbers and answers of the decisions that are due.
    fn due(fragments: &mut TriggerFragments, complete_to: u64, now_ns: u64) -> Vec<Answered> {
        let mut answers = Vec::new();
        fragments.answer(complete_to, now_ns, |number, added| answers.push((number, added)));
        answers
    }

    type Answered = (u64, Vec<Part<Origin>>);

    /// Error bits and starts of the primitives, and of the activities.
    fn content((_, added): &Answered) -> ((u32, Vec<u64>), (u32, Vec<u64>)) {
        let [primitives, candidates, activities] = &added[..] else { panic!("{added:?}") };
        assert_eq!(candidates.error_bits, 0);
        let tps = trigger_primitive::primitives(&primitives.payload).unwrap();
        let starts = tps.map(|tp| tp.time_start()).collect();
        let tas = TriggerActivities::new(&activities.payload);
        let ta_starts = tas.map(|ta| ta.unwrap().data().time_start).collect();
        ((primitives.error_bits, starts), (activities.error_bits, ta_starts))
    }

    fn count(fragments: &TriggerFragments, cut: FragmentCut) -> u64 {
        fragments.account().dropped(cut)
    }

    #[test]
    fn a_decision_is_answered_when_all_of_its_window_is_there() {
        let mut fragments = fragments(100);
        let tps: Vec<_> = [90, 100, 100, 199, 200].map(|start| primitive(start, 5)).into();
        fragments.remember(&tps, [activity(100, 2), activity(200, 2)].into_iter());
        fragments.ask(decision(1, 100, 200), 0);
        assert_eq!(due(&mut fragments, 199, 99), []);
        fragments.remember(&[], [activity(150, 3)].into_iter());
        let answers = due(&mut fragments, 200, 0);
        assert_eq!(answers.len(), 1);
        assert_eq!(content(&answers[0]), ((0, vec![100, 100, 199]), (0, vec![100, 150])));
        let (number, added) = &answers[0];
        assert_eq!(*number, 1);
        let place = |a: &Part<Origin>| {
            format!("{} {} {}", a.origin.source_id, a.origin.fragment_type, a.origin.detector_id)
        };
        assert_eq!(
            added.iter().map(place).collect::<Vec<_>>(),
            [
                "Trigger_0x00000000 Trigger_Primitive 1",
                "Trigger_0x00000001 Trigger_Candidate 1",
                "Trigger_0x00000002 Trigger_Activity 1",
            ]
        );
        assert_eq!(due(&mut fragments, 200, 0), [], "once");
        assert_eq!(fragments.account().delivered(), 2);
        assert!(fragments.account().statement("fragments").closes());
    }

    #[test]
    fn out_of_time_a_decision_is_answered_with_what_is_there() {
        let mut fragments = fragments(100);
        fragments.remember(&[primitive(150, 1)], [].into_iter());
        fragments.ask(decision(1, 100, 200), 50);
        fragments.ask(decision(2, 100, 200), 60);
        assert_eq!(due(&mut fragments, 160, 149), []);
        let answers = due(&mut fragments, 160, 150);
        assert_eq!(answers.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [1]);
        assert_eq!(content(&answers[0]), ((INCOMPLETE, vec![150]), (INCOMPLETE, vec![])));
        assert_eq!(count(&fragments, FragmentCut::TimedOut), 2);
        assert_eq!(due(&mut fragments, 200, 150).len(), 1, "the other is whole");
    }

    #[test]
    fn at_the_end_every_decision_is_answered() {
        let mut fragments = fragments(100);
        fragments.remember(&[primitive(150, 1)], [].into_iter());
        fragments.ask(decision(1, 100, 200), 0);
        fragments.ask(decision(2, 100, 160), 0);
        let mut answers = Vec::new();
        fragments.end(160, |number, added| answers.push((number, added)));
        assert_eq!(content(&answers[0]).0, (INCOMPLETE, vec![150]));
        assert_eq!(content(&answers[1]).0, (0, vec![150]));
        assert_eq!(count(&fragments, FragmentCut::Ended), 2);
        fragments.ask(decision(3, 100, 160), 0);
        let answers = due(&mut fragments, 160, 0);
        assert_eq!(content(&answers[0]).0, (0, vec![]), "what was before is forgotten");
    }

    #[test]
    fn what_is_no_longer_remembered_is_named() {
        let mut fragments = fragments(10);
        let tps: Vec<_> = (0..12).map(|i| primitive(100 + 10 * i, 1)).collect();
        fragments.remember(&tps, [].into_iter());
        fragments.ask(decision(1, 110, 140), 0);
        fragments.ask(decision(2, 111, 140), 0);
        let answers = due(&mut fragments, 140, 0);
        let old = INCOMPLETE | DATA_NOT_FOUND;
        assert_eq!(content(&answers[0]), ((old, vec![120, 130]), (0, vec![])));
        assert_eq!(content(&answers[1]), ((0, vec![120, 130]), (0, vec![])));
        assert_eq!(count(&fragments, FragmentCut::Forgotten), 1);
    }

    #[test]
    fn what_is_further_back_than_windows_reach_is_forgotten_once_all_is_answered() {
        let mut fragments = fragments(100).reaching_back(50);
        let tps: Vec<_> = (0..12).map(|i| primitive(100 + 10 * i, 1)).collect();
        fragments.remember(&tps, [activity(100, 2)].into_iter());
        fragments.ask(decision(1, 110, 140), 0);
        let answers = due(&mut fragments, 200, 0);
        assert_eq!(content(&answers[0]), ((0, vec![110, 120, 130]), (0, vec![])));
        fragments.ask(decision(2, 150, 170), 0);
        fragments.ask(decision(3, 140, 160), 0);
        let answers = due(&mut fragments, 200, 0);
        assert_eq!(content(&answers[0]), ((0, vec![150, 160]), (0, vec![])));
        let old = INCOMPLETE | DATA_NOT_FOUND;
        assert_eq!(content(&answers[1]), ((old, vec![150]), (0, vec![])));
        assert_eq!(count(&fragments, FragmentCut::Forgotten), 1);
    }

    #[test]
    fn a_window_that_is_too_long_is_not_waited_for_and_not_cut() {
        let mut fragments = fragments(100);
        fragments.remember(&[primitive(150, 1)], [].into_iter());
        fragments.ask(decision(1, 100, 1101), 0);
        let answers = due(&mut fragments, 0, 0);
        assert_eq!(content(&answers[0]), ((INVALID_WINDOW, vec![]), (INVALID_WINDOW, vec![])));
        assert_eq!(count(&fragments, FragmentCut::InvalidWindow), 2);
    }

    /// Something that happens to the fragments.
    #[derive(Clone, Debug)]
    enum Step {
        Primitives(Vec<u64>),
        Activity(u64),
        Decision(u64, u64),
        Answer(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => prop::collection::vec(0..20u64, 0..8).prop_map(Step::Primitives),
            2 => (0..80u64).prop_map(Step::Activity),
            1 => (0..120u64, 0..80u64).prop_map(|(back, length)| Step::Decision(back, length)),
            2 => (0..40u64).prop_map(Step::Answer),
        ]
    }

    proptest! {
        #[test]
        fn whole_answers_are_what_a_search_of_everything_finds(
            steps in prop::collection::vec(step(), 1..80),
            room in 20..200usize,
        ) {
            let mut fragments = fragments(room);
            let (mut tps, mut tas, mut asked) = (Vec::new(), Vec::new(), Vec::new());
            let (mut tick, mut now_ns, mut answers) = (1000u64, 0, Vec::new());
            for step in steps {
                now_ns += 5;
                match step {
                    Step::Primitives(steps) => {
                        let new: Vec<_> = steps.into_iter().map(|step| { tick += step; primitive(tick, 1) }).collect();
                        fragments.remember(&new, [].into_iter());
                        tps.extend(new.iter().map(TriggerPrimitive::time_start));
                    }
                    Step::Activity(back) => {
                        fragments.remember(&[], [activity(tick - back, 1)].into_iter());
                        tas.push(tick - back);
                    }
                    Step::Decision(back, length) => {
                        let begin = tick - back;
                        asked.push((begin, begin + length));
                        fragments.ask(decision(asked.len() as u64, begin, begin + length), now_ns);
                    }
                    // All activities come within 80 ticks.
                    Step::Answer(behind) => {
                        let complete_to = tick.saturating_sub(80 + behind);
                        answers.extend(due(&mut fragments, complete_to, now_ns));
                    }
                }
            }
            fragments.end(tick - 80, |number, added| answers.push((number, added)));
            tas.sort_unstable();
            let mut numbers: Vec<_> = answers.iter().map(|(number, _)| *number).collect();
            numbers.sort_unstable();
            prop_assert_eq!(numbers, Vec::from_iter(1..=asked.len() as u64));
            for answer in &answers {
                let (begin, end) = asked[answer.0 as usize - 1];
                let inside = |starts: &[u64]| -> Vec<u64> {
                    starts.iter().copied().filter(|start| (begin..end).contains(start)).collect()
                };
                let (of_primitives, of_activities) = content(answer);
                for ((bits, found), all) in [(of_primitives, inside(&tps)), (of_activities, inside(&tas))] {
                    prop_assert!(bits != 0 || found == all, "{:?} {:?}", found, all);
                    prop_assert!(found.iter().all(|start| all.contains(start)));
                }
            }
            prop_assert!(fragments.account().statement("fragments").closes());
        }
    }
}
