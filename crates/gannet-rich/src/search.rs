//! The search for rings, as the configuration asks for it.

use gannet_kernels::rings::{Found, Method, MultiRing, Positions, Ring, SingleRing};
use gannet_kernels::{Isa, IsaError};
use gannet_wire::na62::{PmMap, Time, m2egp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::primitive::{PrimitiveId, RadiusClasses};

/// How many rings an event may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FinderChoice {
    /// One, fitted to all its hits.
    Single,
    /// Up to five.
    #[default]
    Multi,
}

/// How rings are found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SearchConfig {
    /// `single`: a ring is fitted to all hits of an event, which takes least time. `multi`: up to five
    /// rings are looked for.
    pub finder: FinderChoice,
}

/// Finds the rings of events, and says what is told of them.
#[derive(Debug)]
pub struct Search {
    finder: Finder,
    classes: RadiusClasses,
    found: Found,
}

#[derive(Debug)]
enum Finder {
    Single(SingleRing),
    Multi(MultiRing),
}

impl Search {
    /// A search as configured, where channels look as `map` says.
    ///
    /// # Errors
    /// When the instruction set that was asked for is not there.
    pub fn new(
        config: &SearchConfig,
        classes: RadiusClasses,
        map: &PmMap,
        isa: Isa,
    ) -> Result<Self, IsaError> {
        let positions = Positions::new(|channel| {
            map.position(channel).map(|position| position.map(|mm| mm as f32))
        });
        let finder = match config.finder {
            FinderChoice::Single => {
                SingleRing::new(&positions, Method::default(), isa).map(Finder::Single)
            }
            FinderChoice::Multi => MultiRing::new(&positions, isa).map(Finder::Multi),
        };
        Ok(Self { finder: finder?, classes, found: Found::default() })
    }

    /// The rings of the first event in `m2egp`, which are those that it has among others, and what is told of it.
    pub fn event(&mut self, m2egp: &[u8]) -> (&[Ring], PrimitiveId) {
        self.find(m2egp);
        let rings = self.found.events.first().map_or(&[][..], |event| self.found.rings_of(event));
        let header = m2egp.first_chunk().unwrap_or(&[0; m2egp::WORD_LEN]);
        let missing = m2egp::Header::new_unchecked(header).missing();
        (rings, PrimitiveId::of(rings, missing, &self.classes))
    }

    fn find(&mut self, m2egp: &[u8]) {
        self.found.clear();
        match &mut self.finder {
            Finder::Single(finder) => finder.find(m2egp, &mut self.found),
            Finder::Multi(finder) => finder.find(m2egp, &mut self.found),
        }
    }

    /// Appends the times of the events in `m2egp` and what is told of them. `near` is a time near that of the first, from
    /// which the bits are taken that events do not tell. What is no event ends the buffer.
    pub fn events(&mut self, m2egp: &[u8], near: u64, out: &mut Vec<(u64, PrimitiveId)>) {
        self.find(m2egp);
        let mut rest = m2egp;
        let mut time = near;
        for event in &self.found.events {
            let header: &[u8; m2egp::WORD_LEN] = rest.first_chunk().unwrap_or(&[0; _]);
            let missing = m2egp::Header::new_unchecked(header).missing();
            rest = rest.get(m2egp::event_len(header)..).unwrap_or_default();
            let since = Time::from_fine_units(event.time).since(Time::from_fine_units(time));
            time = time.saturating_add_signed(since);
            let rings = self.found.rings_of(event);
            out.push((time, PrimitiveId::of(rings, missing, &self.classes)));
        }
    }
}
