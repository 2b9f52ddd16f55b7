//! Exit codes, and how an error becomes one.

use std::process::ExitCode;

use gannet_control::config::Problem;

/// How a verb ended that did what it was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All is well.
    Ok,
    /// A file is not what it should be.
    NotVerified,
}

/// Exit code of a verb; an error is printed with its causes.
pub fn code(result: anyhow::Result<Outcome>) -> ExitCode {
    let error = match result {
        Ok(Outcome::Ok) => return ExitCode::SUCCESS,
        Ok(Outcome::NotVerified) => return ExitCode::from(6),
        Err(error) => error,
    };
    // A reader that closed the pipe has seen enough; that is no error of ours.
    let broken_pipe = |io: &std::io::Error| io.kind() == std::io::ErrorKind::BrokenPipe;
    if error.downcast_ref::<std::io::Error>().is_some_and(broken_pipe) {
        return ExitCode::SUCCESS;
    }
    eprintln!("error: {error:#}");
    if error.is::<Problem>() { ExitCode::from(4) } else { ExitCode::FAILURE }
}
