//! What clients read, made once for all of them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use axum::body::Bytes;
use gannet_control::metrics::{TextFormat, render};
use gannet_control::run::Present;
use gannet_control::snapshot::Snapshot;

use crate::limits::FORMS_BYTES_MAX;

/// One form of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Metrics in a text format.
    Metrics(TextFormat),
    /// The whole snapshot as JSON.
    Json,
    /// The same as a server-sent event.
    Event,
}

impl Form {
    const COUNT: usize = 4;

    fn place(self) -> usize {
        match self {
            Self::Metrics(TextFormat::Prometheus) => 0,
            Self::Metrics(TextFormat::OpenMetrics) => 1,
            Self::Json => 2,
            Self::Event => 3,
        }
    }

    fn render(self, snapshot: &Arc<Snapshot>) -> Option<String> {
        match self {
            Self::Metrics(format) => render(Arc::clone(snapshot), format).ok(),
            Self::Json => serde_json::to_string(&**snapshot).ok(),
            Self::Event => {
                let data = serde_json::to_string(&**snapshot).ok()?;
                Some(format!("event: snapshot\nid: {}\ndata: {data}\n\n", snapshot.number))
            }
        }
    }
}

/// Why there is no form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unserved {
    /// Slow clients keep too many old forms alive.
    Busy,
    /// Making it failed by an internal error.
    Defect,
}

/// Run and number of a snapshot: no other has both.
pub(crate) type Name = (u32, u64);

/// The forms of the newest snapshot.
pub(crate) struct Forms {
    present: Present,
    latest: Mutex<Latest>,
    /// Bytes of all forms that are alive.
    held: Arc<AtomicUsize>,
}

#[derive(Default)]
struct Latest {
    snapshot: Option<Arc<Snapshot>>,
    forms: [Option<Bytes>; Form::COUNT],
    /// Length of the longest form so far, in bytes.
    longest: usize,
}

impl Forms {
    pub fn new(present: Present) -> Self {
        Self { present, latest: Mutex::default(), held: Arc::default() }
    }

    /// The newest snapshot in this form.
    pub fn get(&self, form: Form) -> Result<Bytes, Unserved> {
        self.named(form).map(|(_, bytes)| bytes)
    }

    /// The newest snapshot in this form, and its name.
    pub fn named(&self, form: Form) -> Result<(Name, Bytes), Unserved> {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        let snapshot = self.renew(&mut latest)?;
        let name = (snapshot.run, snapshot.number);
        if let Some(form) = &latest.forms[form.place()] {
            return Ok((name, form.clone()));
        }
        let begin = Instant::now();
        let text = guarded(|| form.render(&snapshot))?.ok_or(Unserved::Defect)?;
        self.present.views().figures.charge(begin.elapsed());
        latest.longest = latest.longest.max(text.len());
        let bytes = Bytes::from_owner(Counted::new(text, &self.held));
        latest.forms[form.place()] = Some(bytes.clone());
        Ok((name, bytes))
    }

    /// The newest snapshot.
    pub fn snapshot(&self) -> Result<Arc<Snapshot>, Unserved> {
        guarded(|| self.present.views().figures.latest())
    }

    /// The newest snapshot; of an older one no form is left.
    fn renew(&self, latest: &mut Latest) -> Result<Arc<Snapshot>, Unserved> {
        let snapshot = self.snapshot()?;
        if latest.snapshot.as_ref().is_none_or(|before| !Arc::ptr_eq(before, &snapshot)) {
            // Those that nobody reads any more are gone with this.
            (latest.snapshot, latest.forms) = Default::default();
            if self.held.load(Ordering::Relaxed) > FORMS_BYTES_MAX.max(4 * latest.longest) {
                return Err(Unserved::Busy);
            }
            latest.snapshot = Some(Arc::clone(&snapshot));
        }
        Ok(snapshot)
    }
}

/// What `work` gives, unless it panics.
fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, Unserved> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|_panic| {
        tracing::error!("HTTP: an answer could not be made: internal error; please report it");
        Unserved::Defect
    })
}

/// A form whose bytes are counted as long as anybody reads it.
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

    use gannet_control::figures::{Figures, INTERVAL};

    use super::*;

    /// Forms of a run whose snapshots are long.
    fn forms() -> Forms {
        let made = AtomicUsize::default();
        let figures = Figures::new(Arc::new(move || {
            let number = made.fetch_add(1, Ordering::Relaxed) as u64;
            let failure = Some("x".repeat(FORMS_BYTES_MAX / 3));
            Snapshot { number, failure, ..Snapshot::default() }
        }));
        Forms::new(Arc::new(figures).into())
    }

    #[test]
    fn a_page_is_of_the_newest_snapshot() {
        let forms = forms();
        let shown = |number: u64| {
            let form = forms.get(Form::Json).unwrap();
            form.starts_with(format!("{{\"number\":{number},").as_bytes())
        };
        assert!(shown(0));
        while !shown(1) {
            sleep(INTERVAL / 10);
        }
    }

    #[test]
    fn readers_that_keep_old_pages_get_no_new_ones_until_they_let_go() {
        let forms = forms();
        let mut kept = Vec::new();
        let refused = loop {
            match forms.get(Form::Json) {
                Ok(form) => kept.push(form),
                Err(refused) => break refused,
            }
            assert!(kept.len() < 1000, "no end");
            sleep(INTERVAL);
        };
        assert_eq!(refused, Unserved::Busy);
        assert!(forms.held.load(Ordering::Relaxed) <= FORMS_BYTES_MAX * 2);
        kept.clear();
        assert!(forms.get(Form::Json).is_ok());
        drop(forms.latest.lock().unwrap().forms[Form::Json.place()].take());
        assert_eq!(forms.held.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_panic_while_looking_is_an_answer() {
        let figures = Figures::new(Arc::new(|| panic!("on purpose")));
        let forms = Forms::new(Arc::new(figures).into());
        assert_eq!(forms.get(Form::Json), Err(Unserved::Defect));
        assert_eq!(forms.get(Form::Json), Err(Unserved::Defect));
    }
}
