//! Telling whoever started the program that a run takes frames.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use sd_notify::NotifyState;

use crate::exit::Usage;
use crate::sys;

/// Who is told when the run takes frames: systemd, and a file descriptor if one was named.
pub struct Readiness {
    descriptor: Option<File>,
}

impl Readiness {
    /// Takes over the descriptor `number`. To be called before anything else opens one.
    ///
    /// # Errors
    /// When it is none that whoever started the program has opened for this.
    pub fn new(number: Option<i32>) -> Result<Self, Usage> {
        let open = |number: i32| {
            let is_open = number > 2 && Path::new(&format!("/proc/self/fd/{number}")).exists();
            let refused = || {
                Usage(format!(
                    "--ready-fd {number}: no such descriptor is open; open it in the shell, for \
                     example by {number}>ready"
                ))
            };
            is_open.then(|| sys::inherited(number)).ok_or_else(refused)
        };
        Ok(Self { descriptor: number.map(open).transpose()? })
    }

    /// Tells that frames are taken: a line `ready` to the descriptor, which is closed then, and
    /// `READY=1` to systemd.
    pub fn announce(self, status: &str) {
        if let Some(mut descriptor) = self.descriptor
            && let Err(error) = descriptor.write_all(b"ready\n")
        {
            tracing::warn!(%error, "nobody reads the descriptor of --ready-fd");
        }
        tell_systemd(&[NotifyState::Ready, NotifyState::Status(status)]);
    }
}

/// Tells systemd that the program is ending.
pub fn announce_stop() {
    tell_systemd(&[NotifyState::Stopping]);
}

/// Does nothing where systemd did not start the program.
fn tell_systemd(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "systemd cannot be told by $NOTIFY_SOCKET");
    }
}
