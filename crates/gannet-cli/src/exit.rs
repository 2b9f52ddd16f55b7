//! Exit codes, and how an error becomes one.

use std::path::PathBuf;
use std::process::ExitCode;
use std::{fmt, io};

use gannet_control::config::Problem;
use gannet_control::emulation::EmulationError;
use gannet_control::run::RunError;
use gannet_evaluate::{cable, coincidences, rings, tpg};
use gannet_fabric::SecretError;
use gannet_kernels::tpg::Error as KernelError;
use gannet_offline::find::FindError;
use gannet_offline::replay::ReplayError;
use gannet_offline::retrigger::RetriggerError;
use gannet_torus::routes::Refused;
use gannet_torus_study as torus;

use crate::log;

/// Exit code of a configuration that is not right.
const CONFIGURATION_INVALID: u8 = 4;
/// Exit code of arguments that cannot be used.
const USAGE: u8 = 2;

/// Arguments that can only be judged together, or not before they are used.
#[derive(Debug)]
pub struct Usage(pub String);

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// A file to be written at the end of long work cannot be begun.
#[derive(Debug)]
pub struct Unwritable {
    /// The file.
    pub file: PathBuf,
    /// What the system said.
    pub cause: io::Error,
}

impl fmt::Display for Unwritable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot write {}: {}", self.file.display(), self.cause)
    }
}

impl std::error::Error for Unwritable {}

/// What this machine lacks of what was asked for, in words.
#[derive(Debug)]
pub struct Lacking(pub String);

impl fmt::Display for Lacking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Lacking {}

/// Nobody answers at a socket or an address.
#[derive(Debug)]
pub struct Unreachable {
    /// The socket or the address.
    pub place: String,
    /// What the system said.
    pub cause: io::Error,
}

impl fmt::Display for Unreachable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let advice = match self.cause.kind() {
            _ if self.place.contains("://") => {
                "; a run says at its start at which address it can be seen, if it can"
            }
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                "; a run with modules in [slow_control] says at its start where its socket is"
            }
            io::ErrorKind::PermissionDenied => "; it is for the user of the run only",
            _ => "",
        };
        write!(f, "no run answers at {}: {}{advice}", self.place, self.cause)
    }
}

impl std::error::Error for Unreachable {}

/// How a verb ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All is well.
    Ok,
    /// Data were lost on the way, and counted.
    Degraded,
    /// The machine lacks something that was asked for.
    ResourceMissing,
    /// A file, or a figure, is not what it should be.
    NotVerified,
    /// This signal asked to stop, and all that was in hand was brought to its end.
    Interrupted(i32),
}

impl Outcome {
    /// Code that the process ends with.
    pub fn code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Degraded => 3,
            Self::ResourceMissing => 5,
            Self::NotVerified => 6,
            Self::Interrupted(signal) => 128u8.saturating_add(signal as u8),
        }
    }
}

/// Exit code of a verb; an error is printed with its causes.
pub fn code(result: anyhow::Result<Outcome>) -> ExitCode {
    let error = match result {
        Ok(outcome) => return ExitCode::from(outcome.code()),
        Err(error) => error,
    };
    log::say(format_args!("error: {}", message(&error)));
    if error.is::<Problem>() || error.is::<SecretError>() {
        return ExitCode::from(CONFIGURATION_INVALID);
    }
    if error.is::<RunError>() || error.is::<gannet_web::Error>() {
        return ExitCode::from(Outcome::ResourceMissing.code());
    }
    if let Some(error) = error.downcast_ref::<tpg::Error>() {
        return ExitCode::from(bench_code(error));
    }
    if let Some(error) = error.downcast_ref::<coincidences::Error>() {
        return ExitCode::from(coincidences_code(error));
    }
    if let Some(error) = error.downcast_ref::<rings::Error>() {
        return ExitCode::from(rings_code(error));
    }
    if let Some(error) = error.downcast_ref::<FindError>() {
        return ExitCode::from(find_code(error));
    }
    if let Some(error) = error.downcast_ref::<RetriggerError>() {
        return ExitCode::from(retrigger_code(error));
    }
    if error.is::<Unwritable>() || error.is::<Unreachable>() || error.is::<Lacking>() {
        return ExitCode::from(Outcome::ResourceMissing.code());
    }
    if error.is::<Usage>() {
        return ExitCode::from(USAGE);
    }
    if let Some(error) = error.downcast_ref::<torus::Error>() {
        return ExitCode::from(torus_code(error));
    }
    if let Some(cable::Error::Path(_)) = error.downcast_ref::<cable::Error>() {
        return ExitCode::from(Outcome::ResourceMissing.code());
    }
    match error.downcast_ref::<ReplayError>() {
        Some(ReplayError::Pace(_)) => return ExitCode::from(USAGE),
        Some(ReplayError::Sending(error)) => return ExitCode::from(sending_code(error)),
        _ => {}
    }
    error
        .downcast_ref::<EmulationError>()
        .map_or(ExitCode::FAILURE, |error| ExitCode::from(sending_code(error)))
}

/// Exit code of frames that could not be sent.
fn sending_code(error: &EmulationError) -> u8 {
    match error {
        EmulationError::Config(_) | EmulationError::NoReceiver(_) | EmulationError::NoPort(_) => {
            CONFIGURATION_INVALID
        }
        // What a socket needs, an address or a right, is lacking on this machine.
        EmulationError::Sink(_) | EmulationError::Module { .. } => Outcome::ResourceMissing.code(),
        _ => 1,
    }
}

/// Exit code of a search in files that did not come to its end.
fn find_code(error: &FindError) -> u8 {
    match error {
        FindError::Option { option, .. } if option == "isa" => Outcome::ResourceMissing.code(),
        FindError::Option { .. }
        | FindError::Thresholds { .. }
        | FindError::Output(_)
        | FindError::Directory(_)
        | FindError::Twice(_)
        | FindError::OwnInput(_) => USAGE,
        FindError::Config(_)
        | FindError::Tpg(_)
        | FindError::NoChannelMap { .. }
        | FindError::ChannelMap { .. } => CONFIGURATION_INVALID,
        _ => 1,
    }
}

/// Exit code of a trigger on recorded primitives that did not come to its end.
fn retrigger_code(error: &RetriggerError) -> u8 {
    match error {
        RetriggerError::Output(_) | RetriggerError::OwnInput(_) => USAGE,
        RetriggerError::Config(_) | RetriggerError::Trigger(_) => CONFIGURATION_INVALID,
        _ => 1,
    }
}

/// Exit code of a search for primitives that was not measured.
fn bench_code(error: &tpg::Error) -> u8 {
    match error {
        tpg::Error::Kernels(KernelError::Isa(_))
        | tpg::Error::Memory(_)
        | tpg::Error::Full { .. }
        | tpg::Error::Threads { .. } => Outcome::ResourceMissing.code(),
        tpg::Error::OutOfRange { .. } | tpg::Error::Kernels(_) => USAGE,
        tpg::Error::Differs { .. } | tpg::Error::Uneven { .. } => Outcome::NotVerified.code(),
        _ => 1,
    }
}

/// Exit code of a search for rings that was not measured.
fn rings_code(error: &rings::Error) -> u8 {
    match error {
        rings::Error::Isa(_) => Outcome::ResourceMissing.code(),
        rings::Error::NoTimes => USAGE,
        _ => 1,
    }
}

/// Exit code of a search for coincidences that was not measured.
fn coincidences_code(error: &coincidences::Error) -> u8 {
    match error {
        coincidences::Error::Isa(_) => Outcome::ResourceMissing.code(),
        coincidences::Error::Content(_) => USAGE,
        _ => 1,
    }
}

/// Exit code of a torus that was not measured.
fn torus_code(error: &torus::Error) -> u8 {
    match error {
        torus::Error::Memory { .. } => Outcome::ResourceMissing.code(),
        torus::Error::Refused(Refused::Unfit(_)) => 1,
        _ => USAGE,
    }
}

/// The error and its causes, but those that the message before them tells already.
fn message(error: &anyhow::Error) -> String {
    let mut message = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if message.is_empty() {
            message = cause;
        } else if !message.contains(&cause) {
            message += &format!(": {cause}");
        }
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;
    use gannet_kernels::{Isa, IsaError};
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

    #[test]
    fn a_stop_by_signal_has_the_code_of_shells() {
        assert_eq!(Outcome::Interrupted(SIGHUP).code(), 129);
        assert_eq!(Outcome::Interrupted(SIGINT).code(), 130);
        assert_eq!(Outcome::Interrupted(SIGTERM).code(), 143);
    }

    #[test]
    fn a_benchmark_that_the_machine_cannot_run_lacks_a_resource() {
        let isa = Isa::Avx512;
        let best = Isa::Scalar;
        let error = KernelError::Isa(IsaError::Unavailable { isa, best });
        assert_eq!(bench_code(&error.into()), 5);
        assert_eq!(bench_code(&tpg::Error::Threads { asked: 2, available: 1 }), 5);
        assert_eq!(bench_code(&tpg::Error::Uneven { first: 1, second: 2 }), 6);
    }

    #[test]
    fn a_cause_is_told_once() {
        let error = anyhow::anyhow!("no such file").context("cannot read a: no such file");
        assert_eq!(message(&error), "cannot read a: no such file");
        let error = anyhow::anyhow!("no such file").context("cannot read a");
        assert_eq!(message(&error), "cannot read a: no such file");
    }
}
