//! The channels of a run one by one: pedestal, noise, rate of primitives, and which of them are
//! noisy or dead.
//!
//! [`TpcSurvey`] makes the figures from the counters of the streams, [`mask`] makes a list for the
//! configuration of them. Rates are per second of detector time: the frames that were searched tell
//! it, so a slow front end or a file that is read at once makes no difference.
//!
//! [`TpcSamples`] shows the samples themselves.
//!
//! The rule: a channel is *noisy* when it makes more than [`NOISY_FACTOR`] times as many primitives
//! as the median channel of its plane, and at least [`NOISY_PRIMITIVES_MIN`], in the whole run or
//! of late. It is *dead* when its samples do not change at all. Channels that are masked have no
//! part in the median.

mod condition;
pub mod mask;
mod samples;
mod survey;

pub use condition::{NOISY_FACTOR, NOISY_PRIMITIVES_MIN};
pub use samples::TpcSamples;
pub use survey::{RECENT, StreamSurvey, TpcSurvey};
