//! Endpoints in virtual time, over paths that are described and not there.
//!
//! The engines, windows and messages are those of [`udp`](crate::udp); what carries their packets is a model. A [`Path`] is
//! a chain of [`Hop`]s, one for each direction, with [`Faults`]. Nothing here has a thread, a clock or a socket: time is what
//! [`progress`](crate::Endpoint::progress) is given, and goes on for all endpoints of a [`Network`] at once. What
//! `progress` gives, and [`Network::due_ns`], is when anything happens next to any of them, so whoever drives them jumps from
//! one event to the next. To post and to take costs no time. The same seed and the same calls give the same completions at
//! the same times.
//!
//! ```
//! use gannet_fabric::sim::{Hop, Network, Path};
//! use gannet_fabric::{Endpoint, Limits};
//!
//! let network = Network::new(7);
//! let [mut near, mut far] = [(), ()].map(|()| network.endpoint(Limits::default()));
//! let path = Path::new(vec![Hop { bytes_per_s: 12_500_000_000, latency_ns: 1000, queue_bytes: 1 << 20 }]);
//! let [here, there] = network.cable(path.clone(), path);
//! let (far_peer, _) = (near.join(here)?, far.join(there)?);
//!
//! let request = near.flush(far_peer)?;
//! let mut now = 0;
//! let mut told = Vec::with_capacity(8);
//! while told.is_empty() {
//!     near.progress(now);
//!     far.progress(now);
//!     near.poll(&mut told);
//!     now = network.due_ns().unwrap_or(now);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod network;
mod path;
mod port;

pub use network::Network;
pub use path::{Fates, Faults, Hop, Path};
pub use port::{Cable, Sim};
