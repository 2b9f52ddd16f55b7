//! Readouts and builder of a run in processes of their own: the threads that join them.

mod builder;
mod readout;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use gannet_fabric::clop::Backend;
use gannet_fabric::meet::{Address, OverOfi, OverTorus};
use gannet_fabric::messenger::{Messenger, Ring};
use gannet_fabric::{Endpoint, Limits, Peer, Trust};
use gannet_measure::clock::Clock;
use gannet_readout::remote::{self, Welcoming};
use gannet_trigger::Item;
use gannet_wire::record::Record;
use rustix::rand::{GetRandomFlags, getrandom};

use super::RunError;
use super::drain::DrainState;
use super::life::Life;
use super::receive::Gate;
use crate::config::{BuilderConfig, Plan};

pub(super) use builder::{BuilderLink, Listening, SourceNames};
pub(super) use readout::ReadoutLink;

/// How long either side waits for more when nothing came.
const REST: Duration = Duration::from_micros(200);
/// Time within which a connection tells that the host at its other end is silent, beyond the deadline.
const SILENT_HOST: Duration = Duration::from_secs(5);

/// Digest by which readouts and builder know that they have the same configuration.
pub(super) fn digest(plan: &Plan) -> u64 {
    // Of the whole text; FNV-1a, which is no secret and need be none.
    plan.text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// A number by which the builder tells a readout that was started again from one that comes back.
pub(super) fn epoch() -> u64 {
    let mut bytes = [0; 8];
    getrandom(&mut bytes, GetRandomFlags::empty()).expect("random numbers");
    u64::from_le_bytes(bytes)
}

/// What both sides need to meet.
pub(super) struct Meeting {
    config: BuilderConfig,
    trust: Trust,
    limits: Limits,
    ring: Ring,
}

impl Meeting {
    /// Where readouts and builder of `plan` meet; no frame gives more than `frame_items_max` items.
    pub fn new<I: Item + Record>(plan: &Plan, frame_items_max: usize) -> Result<Self, RunError> {
        let config = plan.settings.builder.clone();
        let trust = config.place().trust().map_err(|error| RunError::Builder(error.to_string()))?;
        let limits = Limits { deadline: config.deadline.duration(), ..Limits::default() };
        Ok(Self { config, trust, limits, ring: remote::ring::<I>(frame_items_max) })
    }

    /// What can only be had by one who connects is looked for now, so that its want is no reason to try for ever.
    pub fn prepared(self) -> Result<Self, RunError> {
        let prepared = match self.config.backend {
            Backend::Ofi => over_ofi(&self.config).prepare(),
            Backend::Torus => over_torus(&self.config).prepare(),
            Backend::Shm | Backend::Udp => Ok(()),
        };
        prepared.map_err(|error| RunError::Builder(error.to_string()))?;
        Ok(self)
    }

    /// Time after which either side gives the other one up.
    pub fn deadline(&self) -> Duration {
        self.limits.deadline
    }

    /// What the builder of `plan` wants of readouts.
    pub fn welcoming(&self, plan: &Plan) -> Welcoming {
        Welcoming {
            digest: digest(plan),
            run: plan.run_number(),
            gather_ns: self.config.gather.ns(),
            patience_ns: (self.deadline() + SILENT_HOST).as_nanos() as u64,
        }
    }

    fn messenger<E: Endpoint + Send + 'static>(
        &self,
        (endpoint, peer): (E, Peer),
    ) -> Option<Messenger> {
        let messenger = Messenger::new(Box::new(endpoint), peer, self.ring, self.deadline());
        messenger.inspect_err(|error| tracing::warn!(%error, "no link can be had")).ok()
    }
}

fn over_ofi(config: &BuilderConfig) -> OverOfi {
    OverOfi { place: config.listen.clone(), provider: config.provider.clone() }
}

fn over_torus(config: &BuilderConfig) -> OverTorus {
    OverTorus { place: config.listen.clone(), node: None }
}

/// What a thread of the link shares with the run.
pub(super) struct Shared {
    pub clock: Arc<dyn Clock>,
    pub gate: Arc<Gate>,
    pub life: Arc<Life>,
    pub drain: Arc<DrainState>,
    /// Whether the other side is there: all of it.
    pub joined: Arc<AtomicBool>,
}
