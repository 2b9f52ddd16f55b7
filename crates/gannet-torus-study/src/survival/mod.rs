//! Does a torus survive its faults? Random faults against [`routes`](gannet_torus::routes) and
//! [`simulator`](gannet_torus::simulator).
//!
//! [`RoutingCampaign`] draws sets of dead nodes and cables, plans routes round each, proves them
//! anew by other means than the planner, and lets an overload on them drain. [`RerouteCampaign`]
//! breaks something of a machine under load: packets are lost until the fault is known and other
//! routes are in use, and then sent again. Trial `i` of a campaign depends on its seed and `i`
//! alone, so that a trial can be told again, and on any number of threads the report is the same.

mod draw;
mod limit;
mod proof;
mod reroute;
mod reroute_report;
mod reroute_trial;
mod routing;
mod routing_report;
mod routing_trial;
mod series;
mod story;
mod warning;

pub use draw::FaultCounts;
pub use limit::Error;
pub use reroute::{RerouteCampaign, RerouteTrials};
pub use reroute_report::{RerouteReport, RerouteTally};
pub use reroute_trial::RerouteResult;
pub use routing::{RoutingCampaign, RoutingTrials};
pub use routing_report::{Figures, Refusal, RoutingReport, RoutingTally, Row};
pub use routing_trial::{Routed, RoutingResult};
pub use series::{Instant, Series};
pub use warning::Warning;
