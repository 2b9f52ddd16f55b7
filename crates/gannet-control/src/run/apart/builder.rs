//! The threads of a builder: one lets readouts in, one serves all of them.

use std::io;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use gannet_fabric::clop::Backend;
use gannet_fabric::meet::{Meet, OverOfi, OverShm, OverTorus, OverUdp, Reception, Strangers};
use gannet_fabric::messenger::Messenger;
use gannet_readout::remote::{BuilderEnd, Event};
use gannet_trigger::Item;
use gannet_wire::record::Record;

use super::{Meeting, REST, Shared, over_ofi, over_torus};
use crate::config::{BuilderConfig, Plan};
use crate::run::RunError;

/// Time between two looks of the thread that lets readouts in whether the run is over.
const LOOK: Duration = Duration::from_millis(10);

/// The socket at which a builder waits.
pub(in crate::run) enum Listening {
    Shm(OverShm, <OverShm as Meet>::Listener),
    Udp(OverUdp, <OverUdp as Meet>::Listener),
    Ofi(OverOfi, <OverOfi as Meet>::Listener),
    Torus(OverTorus, <OverTorus as Meet>::Listener),
}

impl Listening {
    /// Listens where the plan says.
    pub fn at(config: &BuilderConfig) -> Result<Self, RunError> {
        let refuse = |error: io::Error| {
            let (listen, is_taken) = (&config.listen, error.kind() == io::ErrorKind::AddrInUse);
            let advice = if is_taken { "; is another builder there?" } else { "" };
            RunError::Builder(format!("cannot listen at {listen}: {error}{advice}"))
        };
        Ok(match config.backend {
            Backend::Shm => {
                let place = OverShm(config.listen.clone().into());
                let listener = place.listen().map_err(refuse)?;
                Self::Shm(place, listener)
            }
            Backend::Udp => {
                let place = OverUdp(config.listen.clone());
                let listener = place.listen().map_err(refuse)?;
                Self::Udp(place, listener)
            }
            Backend::Ofi => {
                let place = over_ofi(config);
                let listener = place.listen().map_err(refuse)?;
                Self::Ofi(place, listener)
            }
            Backend::Torus => {
                let place = over_torus(config);
                let listener = place.listen().map_err(refuse)?;
                Self::Torus(place, listener)
            }
        })
    }
}

/// Names of the sources of a run, with the numbers of their streams.
pub(in crate::run) struct SourceNames(Vec<(String, Range<usize>)>);

impl SourceNames {
    /// Those of a plan.
    pub fn of(plan: &Plan) -> Self {
        let mut first = 0;
        let sources = plan.sources.iter().map(|source| {
            let streams = first..first + source.streams.len();
            first = streams.end;
            (source.name.clone(), streams)
        });
        Self(sources.collect())
    }

    /// Each source with its streams.
    pub fn iter(&self) -> impl Iterator<Item = &(String, Range<usize>)> {
        self.0.iter()
    }

    /// The sources with any of these streams, in words.
    fn with(&self, streams: &[u32]) -> String {
        let has = |(_, own): &&(String, Range<usize>)| {
            streams.iter().any(|stream| own.contains(&(*stream as usize)))
        };
        let names: Vec<_> = self.0.iter().filter(has).map(|(name, _)| name.as_str()).collect();
        names.join(", ")
    }
}

/// The builder's thread.
pub(in crate::run) struct BuilderLink<I> {
    pub meeting: Meeting,
    pub end: BuilderEnd<I>,
    pub sources: Arc<SourceNames>,
    pub shared: Shared,
}

impl<I: Item + Record> BuilderLink<I> {
    /// Serves readouts until nobody asks for windows any more.
    pub fn run(self, listening: &Listening) {
        match listening {
            Listening::Shm(place, listener) => self.serve(place, listener),
            Listening::Udp(place, listener) => self.serve(place, listener),
            Listening::Ofi(place, listener) => self.serve(place, listener),
            Listening::Torus(place, listener) => self.serve(place, listener),
        }
    }

    fn serve<M: Meet>(self, place: &M, listener: &M::Listener) {
        let Self { meeting, mut end, sources, shared } = self;
        let reception =
            Reception::new(place.clone(), meeting.limits.clone(), meeting.trust.clone());
        thread::scope(|scope| {
            let (came, guests) = sync_channel(1);
            // The door closes when this is dropped, however this thread ends.
            let open = Arc::new(());
            let (meeting, is_open) = (&meeting, Arc::downgrade(&open));
            let door = move || let_in(reception, listener, meeting, &came, &is_open);
            let named = thread::Builder::new().name("gannet-door".into());
            match named.spawn_scoped(scope, door) {
                Ok(_) => serve_all(&mut end, guests, meeting.deadline(), &sources, &shared),
                Err(error) => shared.life.fail(RunError::Thread(error).to_string()),
            }
            drop(open);
        });
    }
}

/// Lets in who comes, until the run needs nobody any more.
fn let_in<M: Meet>(
    mut reception: Reception<M>,
    listener: &M::Listener,
    meeting: &Meeting,
    came: &SyncSender<Messenger>,
    is_open: &Weak<()>,
) {
    while is_open.strong_count() > 0 {
        if let Some(joined) = reception.next(listener, LOOK)
            && let Some(messenger) = meeting.messenger(joined)
            && came.send(messenger).is_err()
        {
            return;
        }
    }
}

/// Serves all that come, none of which is waited for.
fn serve_all<I: Item + Record>(
    end: &mut BuilderEnd<I>,
    guests: Receiver<Messenger>,
    deadline: Duration,
    sources: &SourceNames,
    shared: &Shared,
) {
    let (mut is_stopped, mut over, mut strangers) = (false, None, Strangers::default());
    let presence = end.presence();
    while !shared.drain.is_cut_short() {
        let now_ns = shared.clock.now_ns();
        if end.has_room()
            && let Ok(messenger) = guests.try_recv()
        {
            end.admit(now_ns, messenger);
        }
        let is_awaited = !end.has_ended() && !end.is_over();
        let has_heard = end.step(now_ns, &mut |event| {
            log(&event, sources, is_awaited, &mut strangers);
        });
        shared.joined.store(presence.is_whole(), Ordering::Release);
        if !is_stopped && (end.has_ended() || shared.gate.stop.load(Ordering::Acquire)) {
            end.stop();
            is_stopped = true;
            shared.gate.at_work.fetch_sub(1, Ordering::AcqRel);
        }
        if end.is_over() {
            let begin = over.get_or_insert_with(Instant::now);
            if end.is_settled() || begin.elapsed() > deadline {
                return;
            }
        }
        if !has_heard {
            thread::sleep(if end.has_guests() { REST } else { LOOK });
        }
    }
}

/// Logs what happened to one that came.
fn log(event: &Event, sources: &SourceNames, is_awaited: bool, strangers: &mut Strangers) {
    match event {
        Event::Joined { streams } => {
            tracing::info!("the readout of {} has joined", sources.with(streams));
        }
        Event::Refused { streams, refusal } if streams.is_empty() => {
            tracing::warn!("a readout was refused: {refusal}");
        }
        Event::Refused { streams, refusal } => {
            tracing::warn!("a readout of {} was refused: {refusal}", sources.with(streams));
        }
        Event::Left { streams, error } if is_awaited => {
            let sources = sources.with(streams);
            tracing::warn!(%error, "the readout of {sources} is gone; the builder waits for it");
        }
        Event::Left { streams, error } => {
            tracing::debug!(%error, "the readout of {} is gone", sources.with(streams));
        }
        Event::Strange(error) => {
            if let Some(count) = strangers.tell(1, Instant::now()) {
                tracing::warn!(%error, count, "who came is no readout of this run");
            }
        }
    }
}
