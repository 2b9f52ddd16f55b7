//! What can be seen of a run from outside, and of whichever run is the present one.

use std::sync::{Arc, Mutex, PoisonError};

use super::Basis;
use crate::emulation::Faults;
use crate::figures::Figures;
use crate::finds::Finds;
use crate::watch::Watched;
use crate::waveform::Waveforms;

/// What can be seen of a run from outside. None of it makes the run wait.
#[derive(Clone)]
pub struct Views {
    /// Its figures.
    pub figures: Arc<Figures>,
    /// The samples of its channels; absent where frames have none, or are in another process.
    pub waveforms: Option<Arc<Waveforms>>,
    /// Its primitives and decisions; absent where they cannot be shown, or another process decides.
    pub finds: Option<Arc<Finds>>,
    /// What puts faults into its front end, if that is emulated in this process.
    pub faults: Option<Arc<Faults>>,
    /// The history and alarms of the process, if somebody looks at it again and again.
    pub watched: Option<Arc<Watched>>,
    /// What it rests on, or will; absent where nobody says it.
    pub basis: Option<Arc<Basis>>,
}

impl From<Arc<Figures>> for Views {
    fn from(figures: Arc<Figures>) -> Self {
        Self { figures, waveforms: None, finds: None, faults: None, watched: None, basis: None }
    }
}

/// The views of whichever run is the present one, for those who go on looking when the next begins.
#[derive(Clone)]
pub struct Present(Arc<Mutex<Views>>);

impl Present {
    /// The views of the present run, or of the last where there is none.
    pub fn views(&self) -> Views {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Shows another run from now on.
    pub fn turn_to(&self, views: Views) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = views;
    }

    /// Shows nothing of the run but its figures, its alarms and what it rested on any more, so that its memory is free for the next.
    pub fn let_go(&self) {
        let Views { figures, watched, basis, .. } = self.views();
        self.turn_to(Views { watched, basis, ..figures.into() });
    }
}

impl From<Views> for Present {
    fn from(views: Views) -> Self {
        Self(Arc::new(Mutex::new(views)))
    }
}

impl From<Arc<Figures>> for Present {
    fn from(figures: Arc<Figures>) -> Self {
        Views::from(figures).into()
    }
}
