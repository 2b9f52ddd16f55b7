//! Snapshots pushed to whoever looks on, as server-sent events.

use std::convert::Infallible;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use axum::body::Bytes;
use hyper::body::{Body, Frame};
use tokio::time::{Interval, MissedTickBehavior, interval};

use crate::forms::{Form, Name};
use crate::site::Shared;
use crate::station::Told;

/// The topic of snapshots.
pub(crate) const SNAPSHOT: &str = "snapshot";
/// The topic of what the station is about, told when that changes.
pub(crate) const STATION: &str = "station";

/// Time after which a client is sent something, whatever there is.
const SILENT_MAX: Duration = Duration::from_secs(2);

/// How many look on at the moment.
#[derive(Debug, Default)]
pub(crate) struct Onlookers(AtomicUsize);

impl Onlookers {
    pub fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// The events of one client: each snapshot that is new when its turn comes, and before it the state of the station if
/// that has changed. One that stops reading misses those in between, and costs nobody memory.
pub(crate) struct Events {
    shared: Arc<Shared>,
    turns: Interval,
    /// Whether snapshots are wanted.
    snapshots: bool,
    last: Option<Name>,
    station: Option<Following>,
    /// Whether the client may command the station.
    control: bool,
    /// When it was told something.
    told: Instant,
}

/// How far a client follows the station.
#[derive(Default)]
struct Following {
    told: String,
    /// Whether it was told in this turn, so that the snapshot is due at once.
    just_now: bool,
}

impl Events {
    /// Events of these topics, at most every `period`, for a client that may command or not.
    pub fn new(shared: Arc<Shared>, topics: &str, period: Duration, control: bool) -> Self {
        let wants = |topic| topics.split(',').any(|wanted| wanted == topic);
        let (snapshots, station) = (wants(SNAPSHOT), wants(STATION).then(Following::default));
        shared.onlookers.0.fetch_add(1, Ordering::Relaxed);
        let mut turns = interval(period);
        turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { shared, turns, snapshots, last: None, station, control, told: Instant::now() }
    }

    /// What is new of the station.
    fn of_station(&mut self) -> Option<Bytes> {
        let following = self.station.as_mut()?;
        let told = serde_json::to_string(&Told::of(&self.shared, self.control)?).ok()?;
        (told != following.told).then(|| {
            let event = format!("event: station\ndata: {told}\n\n");
            *following = Following { told, just_now: true };
            event.into()
        })
    }

    /// The snapshot, if it is new.
    fn snapshot(&mut self) -> Option<Bytes> {
        if !self.snapshots {
            return None;
        }
        // Where none can be made now there will be one at a later turn.
        let (name, event) = self.shared.forms.named(Form::Event).ok()?;
        (self.last.replace(name) != Some(name)).then_some(event)
    }

    /// A comment, if there was nothing to tell for a while: only what is sent shows that a client has gone.
    fn nothing_new(&self) -> Option<Bytes> {
        (self.told.elapsed() >= SILENT_MAX).then(|| Bytes::from_static(b":\n\n"))
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.shared.onlookers.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        loop {
            let is_due = self.station.as_mut().is_some_and(|it| mem::take(&mut it.just_now));
            if !is_due {
                ready!(self.turns.poll_tick(context));
                if let Some(event) = self.of_station() {
                    self.told = Instant::now();
                    return Poll::Ready(Some(Ok(Frame::data(event))));
                }
            }
            if let Some(event) = self.snapshot().or_else(|| self.nothing_new()) {
                self.told = Instant::now();
                return Poll::Ready(Some(Ok(Frame::data(event))));
            }
        }
    }
}
