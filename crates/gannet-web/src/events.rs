//! Snapshots pushed to whoever looks on, as server-sent events.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Bytes;
use hyper::body::{Body, Frame};
use tokio::time::{Interval, MissedTickBehavior, interval};

use crate::forms::{Form, Forms};

/// How many look on at the moment.
#[derive(Debug, Default)]
pub(crate) struct Onlookers(AtomicUsize);

impl Onlookers {
    pub fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// The events of one client: each snapshot that is new when its turn comes. One that stops reading misses those
/// in between, and costs nobody memory.
pub(crate) struct Events {
    forms: Arc<Forms>,
    onlookers: Arc<Onlookers>,
    turns: Interval,
    last: Option<u64>,
}

impl Events {
    /// Events at most every `period`.
    pub fn new(forms: Arc<Forms>, onlookers: Arc<Onlookers>, period: Duration) -> Self {
        onlookers.0.fetch_add(1, Ordering::Relaxed);
        let mut turns = interval(period);
        turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { forms, onlookers, turns, last: None }
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.onlookers.0.fetch_sub(1, Ordering::Relaxed);
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
            ready!(self.turns.poll_tick(context));
            // Where none can be made now there will be one at a later turn.
            if let Ok((number, event)) = self.forms.numbered(Form::Event)
                && self.last.replace(number) != Some(number)
            {
                return Poll::Ready(Some(Ok(Frame::data(event))));
            }
        }
    }
}
