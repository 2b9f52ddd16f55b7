//! The thread of a readout that serves its builder.

use std::io::ErrorKind;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use gannet_fabric::JoinError;
use gannet_fabric::clop::Backend;
use gannet_fabric::meet::{Meet, OverShm, OverUdp};
use gannet_fabric::messenger::Messenger;
use gannet_readout::remote::{LinkError, ReadoutEnd};
use gannet_trigger::Item;
use gannet_wire::record::Record;

use super::{Meeting, REST, Shared, over_ofi, over_torus};

/// Time after which a readout looks for the builder again.
const RETRY: Duration = Duration::from_millis(100);

/// Time after which it is said again that there is no builder.
const AGAIN: Duration = Duration::from_secs(30);

/// When it was said that there is no builder.
#[derive(Default)]
struct Told(Option<Instant>);

impl Told {
    /// Whether to say it: at first, and then now and again.
    fn is_due(&mut self) -> bool {
        let is_due = self.0.is_none_or(|told| told.elapsed() >= AGAIN);
        if is_due {
            self.0 = Some(Instant::now());
        }
        is_due
    }
}

/// Whether a failure to join says that there is no builder, or not yet.
fn nobody_listens(error: &JoinError) -> bool {
    use ErrorKind::{ConnectionRefused, NotFound, TimedOut, WouldBlock};
    matches!(error, JoinError::System(error)
        if matches!(error.kind(), ConnectionRefused | NotFound | TimedOut | WouldBlock))
}

/// The readout's thread.
pub(in crate::run) struct ReadoutLink<I, N> {
    pub meeting: Meeting,
    pub end: ReadoutEnd<I>,
    pub shared: Shared,
    /// Is told the number of each run that it joins.
    pub numbered: N,
}

impl<I: Item + Record, N: Fn(u32)> ReadoutLink<I, N> {
    /// Serves the builder, and looks for it when it is gone, until no items come any more and it needs nothing.
    pub fn run(self) {
        let config = &self.meeting.config;
        let (listen, ofi) = (config.listen.clone(), over_ofi(config));
        let torus = over_torus(config);
        match config.backend {
            Backend::Shm => self.serve_all(&OverShm(listen.into())),
            Backend::Udp => self.serve_all(&OverUdp(listen)),
            Backend::Ofi => self.serve_all(&ofi),
            Backend::Torus => self.serve_all(&torus),
        }
    }

    fn serve_all<M: Meet>(mut self, place: &M) {
        let mut told = Told::default();
        while !self.end.has_ended() && !self.shared.drain.is_cut_short() {
            let Meeting { limits, trust, .. } = &self.meeting;
            match place.connect(limits, trust) {
                Ok(joined) => {
                    if let Some(messenger) = self.meeting.messenger(joined)
                        && !self.serve(messenger, &mut told)
                    {
                        return;
                    }
                }
                Err(error) => {
                    let listen = &self.meeting.config.listen;
                    match nobody_listens(&error) {
                        _ if !told.is_due() => {}
                        true => tracing::warn!(%error, "no builder at {listen}; looking for it"),
                        false => {
                            tracing::warn!(%error, "cannot join the builder at {listen}; trying again")
                        }
                    }
                }
            }
            let begin = Instant::now();
            while begin.elapsed() < RETRY && !self.end.has_ended() {
                self.end.lose(RETRY.saturating_sub(begin.elapsed()));
            }
        }
    }

    /// Gives whether to look for another builder.
    fn serve(&mut self, mut messenger: Messenger, told: &mut Told) -> bool {
        let mut is_known = false;
        let again = loop {
            let step = self.end.step(self.shared.clock.now_ns(), &mut messenger, REST);
            if self.end.is_joined() && !std::mem::replace(&mut is_known, true) {
                self.end.run().into_iter().for_each(&self.numbered);
                self.shared.joined.store(true, Ordering::Release);
                *told = Told::default();
            }
            match step {
                Err(error @ LinkError::Refused(_)) => {
                    self.shared.life.fail(error.to_string());
                    break false;
                }
                Err(error) => {
                    if told.is_due() {
                        tracing::warn!(%error, "the builder is gone");
                    }
                    break true;
                }
                Ok(()) if self.end.is_done() => {
                    if !self.end.has_ended() {
                        tracing::warn!("the builder has ended its run");
                    }
                    break !self.end.has_ended();
                }
                Ok(()) if self.shared.drain.is_cut_short() => break false,
                // It has not come to say anything, and has nothing to say any more.
                Ok(()) if self.end.has_ended() && !self.end.is_joined() => break false,
                Ok(()) => {}
            }
        };
        self.end.leave();
        again
    }
}
