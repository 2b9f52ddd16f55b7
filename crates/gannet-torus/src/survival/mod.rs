//! Does a torus survive its faults? Random faults against [`routes`](crate::routes) and
//! [`simulator`](crate::simulator).
//!
//! [`RoutingCampaign`] draws sets of dead nodes and cables, plans routes round each, proves them
//! anew by other means than the planner, and lets an overload on them drain. Trial `i` of a campaign depends on its seed and `i`
//! alone, so that a trial can be told again, and on any number of threads the report is the same.

mod draw;
mod limit;
mod proof;
mod routing;
mod routing_report;
mod routing_trial;
mod story;
mod trials;

pub use draw::FaultCounts;
pub use limit::Error;
pub use routing::{RoutingCampaign, run_routing};
pub use routing_report::{Figures, Refusal, RoutingReport, Row};
pub use routing_trial::{Routed, RoutingResult, run_routing_trial, tell_routing_trial};
pub use trials::{Failure, TRIALS_MAX};
