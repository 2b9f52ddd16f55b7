//! What clients read, made once for all of them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::body::Bytes;
use gannet_control::metrics::{TextFormat, render};
use gannet_control::snapshot::{Snapshot, SnapshotSource};

use crate::limits::{PAGES_BYTES_MAX, SNAPSHOT_INTERVAL, SNAPSHOT_SHARE};

/// One form of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Page {
    /// Metrics in a text format.
    Metrics(TextFormat),
    /// The whole snapshot as JSON.
    Json,
}

impl Page {
    const COUNT: usize = 3;

    fn place(self) -> usize {
        match self {
            Self::Metrics(TextFormat::Prometheus) => 0,
            Self::Metrics(TextFormat::OpenMetrics) => 1,
            Self::Json => 2,
        }
    }

    fn render(self, snapshot: &Arc<Snapshot>) -> Option<String> {
        match self {
            Self::Metrics(format) => render(Arc::clone(snapshot), format).ok(),
            Self::Json => serde_json::to_string(&**snapshot).ok(),
        }
    }
}

/// Why there is no page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unserved {
    /// Slow clients keep too many old pages alive.
    Busy,
    /// Making it failed by an internal error.
    Defect,
}

/// The pages of the newest snapshot.
pub(crate) struct Pages {
    source: SnapshotSource,
    latest: Mutex<Latest>,
    /// Bytes of all pages that are alive.
    held: Arc<AtomicUsize>,
}

#[derive(Default)]
struct Latest {
    snapshot: Option<(Instant, Arc<Snapshot>)>,
    /// Time that the snapshot and its pages took.
    cost: Duration,
    pages: [Option<Bytes>; Page::COUNT],
    /// Length of the longest page so far, in bytes.
    longest: usize,
}

impl Pages {
    pub fn new(source: SnapshotSource) -> Self {
        Self { source, latest: Mutex::default(), held: Arc::default() }
    }

    /// The page, of a snapshot that is as new as [`SNAPSHOT_INTERVAL`] and [`SNAPSHOT_SHARE`]
    /// allow.
    pub fn get(&self, page: Page) -> Result<Bytes, Unserved> {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        let snapshot = self.snapshot(&mut latest)?;
        if let Some(page) = &latest.pages[page.place()] {
            return Ok(page.clone());
        }
        let begin = Instant::now();
        let text = guarded(|| page.render(&snapshot))?.ok_or(Unserved::Defect)?;
        latest.cost += begin.elapsed();
        latest.longest = latest.longest.max(text.len());
        let bytes = Bytes::from_owner(Counted::new(text, &self.held));
        latest.pages[page.place()] = Some(bytes.clone());
        Ok(bytes)
    }

    /// The newest snapshot, made anew if it is time.
    fn snapshot(&self, latest: &mut Latest) -> Result<Arc<Snapshot>, Unserved> {
        let keep = SNAPSHOT_INTERVAL.max(latest.cost * SNAPSHOT_SHARE);
        if let Some((made, snapshot)) = &latest.snapshot
            && made.elapsed() < keep
        {
            return Ok(Arc::clone(snapshot));
        }
        // Those that nobody reads any more are gone with this.
        (latest.snapshot, latest.pages) = Default::default();
        if self.held.load(Ordering::Relaxed) > PAGES_BYTES_MAX.max(4 * latest.longest) {
            return Err(Unserved::Busy);
        }
        let begin = Instant::now();
        let snapshot = Arc::new(guarded(|| (self.source)())?);
        latest.cost = begin.elapsed();
        latest.snapshot = Some((begin, Arc::clone(&snapshot)));
        Ok(snapshot)
    }
}

/// What `work` gives, unless it panics.
fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, Unserved> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|_panic| {
        tracing::error!("HTTP: a page could not be made: internal error; please report it");
        Unserved::Defect
    })
}

/// A page whose bytes are counted as long as anybody reads it.
struct Counted {
    text: String,
    held: Arc<AtomicUsize>,
}

impl Counted {
    fn new(text: String, held: &Arc<AtomicUsize>) -> Self {
        held.fetch_add(text.len(), Ordering::Relaxed);
        Self { text, held: Arc::clone(held) }
    }
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        self.text.as_bytes()
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.held.fetch_sub(self.text.len(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::thread::sleep;

    use super::*;

    /// Pages of a run that counts how often it was looked at.
    fn pages() -> (Pages, Arc<AtomicUsize>) {
        let looks = Arc::<AtomicUsize>::default();
        let seen = Arc::clone(&looks);
        let source: SnapshotSource = Arc::new(move || {
            let run = seen.fetch_add(1, Ordering::Relaxed) as u32;
            let failure = Some("x".repeat(PAGES_BYTES_MAX / 3));
            Snapshot { run, failure, ..Snapshot::default() }
        });
        (Pages::new(source), looks)
    }

    #[test]
    fn any_number_of_requests_look_at_the_run_ten_times_a_second_at_most() {
        let (pages, looks) = pages();
        let begin = Instant::now();
        let first = pages.get(Page::Json).unwrap();
        for _ in 0..10_000 {
            assert_eq!(pages.get(Page::Json).unwrap().len(), first.len());
            pages.get(Page::Metrics(TextFormat::Prometheus)).unwrap();
        }
        let most = 1 + begin.elapsed().as_millis() / SNAPSHOT_INTERVAL.as_millis();
        assert!(looks.load(Ordering::Relaxed) as u128 <= most, "{looks:?} of {most}");
        let shown = |text: Bytes| text.starts_with(b"{\"run\":0,");
        assert!(shown(first) && !shown(wait_for_new(&pages)));
    }

    /// The next version.
    fn wait_for_new(pages: &Pages) -> Bytes {
        let first = pages.get(Page::Json).unwrap();
        loop {
            sleep(SNAPSHOT_INTERVAL);
            let next = pages.get(Page::Json).unwrap();
            if next != first {
                return next;
            }
        }
    }

    #[test]
    fn readers_that_keep_old_pages_get_no_new_ones_until_they_let_go() {
        let (pages, _) = pages();
        let mut kept = Vec::new();
        let refused = loop {
            match pages.get(Page::Json) {
                Ok(page) => kept.push(page),
                Err(refused) => break refused,
            }
            assert!(kept.len() < 1000, "no end");
            sleep(SNAPSHOT_INTERVAL);
        };
        assert_eq!(refused, Unserved::Busy);
        assert!(pages.held.load(Ordering::Relaxed) <= PAGES_BYTES_MAX * 2);
        kept.clear();
        assert!(pages.get(Page::Json).is_ok());
        drop(pages.latest.lock().unwrap().pages[Page::Json.place()].take());
        assert_eq!(pages.held.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_panic_while_looking_is_an_answer() {
        let pages = Pages::new(Arc::new(|| panic!("on purpose")));
        assert_eq!(pages.get(Page::Json), Err(Unserved::Defect));
        assert_eq!(pages.get(Page::Json), Err(Unserved::Defect));
    }
}
