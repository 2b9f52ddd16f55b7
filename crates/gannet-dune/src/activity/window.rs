//! The sliding window that several activity makers share.
//!
//! The window begins with its first primitive. A primitive inside its length is added. The first
//! one outside closes the window: when the rule fires, the window becomes an activity and a new
//! one begins with that primitive; when not, the window slides on, losing from its front what is
//! too old.
//!
//! The published makers judge a window only when that primitive comes. Here it is judged as soon
//! as data time has passed its end, by the same rule and with the same activities; only earlier.
//!
//! Source: DUNE-DAQ/triggeralgs `TPWindow.cpp`, `TAMakerADCSimpleWindowAlgorithm.cpp`.

use std::collections::VecDeque;
use std::fmt;

use gannet_wire::TriggerPrimitive;

use super::{ActivityMaker, Outlet};

/// Most primitives in one window. A window that is full is judged at once, as if the next
/// primitive lay outside, and if it does not fire its oldest primitive leaves.
pub const WINDOW_TPS_MAX: usize = 1 << 15;

/// Primitives in the order of time, with their charge.
#[derive(Clone, Debug, Default)]
pub(super) struct TpWindow {
    tps: VecDeque<TriggerPrimitive>,
    adc_integral: u64,
}

impl TpWindow {
    /// Start of the earliest primitive, in ticks; 0 for an empty window.
    pub(super) fn time_start(&self) -> u64 {
        self.tps.front().map_or(0, TriggerPrimitive::time_start)
    }

    /// Sum of the integrals, ADC counts.
    pub(super) fn adc_integral(&self) -> u64 {
        self.adc_integral
    }

    /// The primitives in the order of time.
    pub(super) fn tps(&self) -> impl DoubleEndedIterator<Item = &TriggerPrimitive> + Clone {
        self.tps.iter()
    }

    /// Whether `tp` lies outside a window of `length` ticks that begins where this one does.
    fn excludes(&self, tp: &TriggerPrimitive, length: u64) -> bool {
        tp.time_start().saturating_sub(self.time_start()) >= length
    }

    fn push(&mut self, tp: TriggerPrimitive) {
        self.adc_integral += u64::from(tp.adc_integral());
        self.tps.push_back(tp);
    }

    fn pop(&mut self) -> Option<TriggerPrimitive> {
        let tp = self.tps.pop_front()?;
        self.adc_integral -= u64::from(tp.adc_integral());
        Some(tp)
    }
}

/// What a maker asks of a window.
pub(super) trait WindowRule: fmt::Debug + Send {
    /// A primitive enters the window.
    fn enter(&mut self, _tp: &TriggerPrimitive) {}

    /// A primitive leaves the window.
    fn leave(&mut self, _tp: &TriggerPrimitive) {}

    /// Whether the window, which has reached its length, is an activity.
    fn fires(&mut self, window: &TpWindow) -> bool;

    /// Whether the window is an activity because of the primitive after it.
    fn fires_on(&self, _outside: &TriggerPrimitive) -> bool {
        false
    }

    /// Whether a window that was judged may still fire on a primitive after it.
    fn may_fire_late(&self) -> bool {
        false
    }

    /// Makes the activities of a window that fired.
    fn make(&self, window: &TpWindow, outlet: &mut Outlet);
}

/// An activity maker with a sliding window.
#[derive(Debug)]
pub(super) struct WindowMaker<R> {
    rule: R,
    length: u64,
    window: TpWindow,
    /// The window was judged since it last changed, and did not fire.
    judged: bool,
}

impl<R: WindowRule> WindowMaker<R> {
    /// A maker with windows of `length` ticks.
    pub(super) fn new(rule: R, length: u64) -> Self {
        Self { rule, length, window: TpWindow::default(), judged: false }
    }

    fn add(&mut self, tp: &TriggerPrimitive) {
        self.rule.enter(tp);
        self.window.push(*tp);
        self.judged = false;
    }

    fn drop_oldest(&mut self) {
        if let Some(tp) = self.window.pop() {
            self.rule.leave(&tp);
        }
    }

    fn make(&mut self, outlet: &mut Outlet) {
        self.rule.make(&self.window, outlet);
        while !self.window.tps.is_empty() {
            self.drop_oldest();
        }
    }

    fn slide_to(&mut self, tp: &TriggerPrimitive) {
        while !self.window.tps.is_empty() && self.window.excludes(tp, self.length) {
            self.drop_oldest();
        }
    }
}

impl<R: WindowRule> ActivityMaker for WindowMaker<R> {
    fn push(&mut self, tp: &TriggerPrimitive, outlet: &mut Outlet) {
        let full = self.window.tps.len() == WINDOW_TPS_MAX;
        if full || (!self.window.tps.is_empty() && self.window.excludes(tp, self.length)) {
            let fired = !self.judged && self.rule.fires(&self.window);
            if fired || self.rule.fires_on(tp) {
                self.make(outlet);
            } else {
                self.slide_to(tp);
                if self.window.tps.len() == WINDOW_TPS_MAX {
                    self.drop_oldest();
                    outlet.overflows.add(1);
                }
            }
        }
        self.add(tp);
    }

    fn due(&self) -> Option<u64> {
        let open = !self.window.tps.is_empty() && !self.judged;
        open.then(|| self.window.time_start().saturating_add(self.length))
    }

    /// What is in a judged window longer than its length leaves it when the next primitive comes.
    fn open_from(&self, tick: u64) -> u64 {
        let slides_to = tick.saturating_add(1).saturating_sub(self.length);
        match self.window.tps.front().map(TriggerPrimitive::time_start) {
            None => tick,
            Some(start) if self.judged && !self.rule.may_fire_late() => start.max(slides_to),
            Some(start) => start,
        }
    }

    fn close(&mut self, outlet: &mut Outlet) {
        if self.window.tps.is_empty() || self.judged {
            return;
        }
        if self.rule.fires(&self.window) {
            self.make(outlet);
        } else {
            self.judged = true;
        }
    }
}
