//! Signals that ask the program to stop.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

/// Remembers the latest request to stop; nothing else happens on it, however often it comes.
///
/// A second signal does not end the program the hard way: `timeout` and some shells send each
/// signal twice. SIGQUIT (Ctrl-\) still does.
pub struct Signals {
    received: Arc<AtomicUsize>,
}

impl Signals {
    /// Takes over SIGINT (Ctrl-C) and SIGTERM.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn install() -> io::Result<Self> {
        let received = Arc::new(AtomicUsize::new(0));
        for signal in [SIGINT, SIGTERM] {
            flag::register_usize(signal, Arc::clone(&received), signal as usize)?;
        }
        Ok(Self { received })
    }

    /// The number of the signal that asked to stop.
    pub fn received(&self) -> Option<i32> {
        match self.received.load(Ordering::Relaxed) {
            0 => None,
            signal => Some(signal as i32),
        }
    }
}
