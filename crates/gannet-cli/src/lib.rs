//! The command line of Gannet as a library, for binaries that add what is their own: one verb a task;
//! argument parsing and printing only.

// These panic where the stream cannot be written: `log::say` and `output::print` do not.
#![deny(clippy::print_stderr, clippy::print_stdout)]

mod background;
mod channel_table;
mod destination;
mod display;
mod exit;
mod live;
mod log;
mod output;
mod progress;
mod ready;
mod report;
mod sending;
mod serving;
mod signals;
mod sys;
mod verb;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use gannet_control::detector::Detector;
pub use sys::Memory;

/// Detectors that a program knows.
pub type Detectors = &'static [&'static dyn Detector];

/// The detector of this name, or the one with a word in its name that begins so; without a name, the first that the
/// program knows.
fn detector(
    name: Option<&str>,
    detectors: Detectors,
) -> Result<&'static dyn Detector, exit::Usage> {
    let called = |name: &str| detectors.iter().find(|detector| detector.name() == name);
    let with_word = |begin: &str| {
        let has_word = |detector: &&&dyn Detector| {
            !begin.is_empty() && detector.name().split('-').any(|word| word.starts_with(begin))
        };
        let mut meant = detectors.iter().filter(has_word);
        meant.next().filter(|_| meant.next().is_none())
    };
    let meant = match name {
        Some(name) => called(name).or_else(|| with_word(name)),
        None => detectors.first(),
    };
    meant.copied().ok_or_else(|| {
        let names: Vec<_> = detectors.iter().map(|detector| detector.name()).collect();
        exit::Usage(format!("no such detector is in this program, which has {}", names.join(", ")))
    })
}

/// Version of the program, and the commit it was built from.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("GANNET_COMMIT"), ")");

/// Takes detector data off the network, finds trigger primitives, decides what to keep, and writes
/// files that other tools open. Start with `gannet demo`.
///
/// Results are written to standard output, messages to standard error. Exit codes: 0 success; 1 error;
/// 2 usage; 3 data were lost; 4 configuration invalid; 5 resource missing; 6 verification failed;
/// 129, 130 and 143 after a clean stop by SIGHUP, Ctrl-C and SIGTERM.
#[derive(Debug, Parser)]
#[command(name = "gannet", version = VERSION, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
    /// More messages on standard error; twice for details.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    verbose: u8,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Demo(verb::demo::Arguments),
    Run(verb::run::Arguments),
    Check(verb::check::Arguments),
    Doctor(verb::doctor::Arguments),
    Predict(verb::predict::Arguments),
    Bench(verb::bench::Arguments),
    Emulate(verb::emulate::Arguments),
    Replay(verb::replay::Arguments),
    Inspect(verb::inspect::Arguments),
    Channels(verb::channels::Arguments),
    Verify(verb::verify::Arguments),
    Recover(verb::recover::Arguments),
    Export(verb::export::Arguments),
    Find(verb::find::Arguments),
    Trigger(verb::trigger::Arguments),
    Torus(verb::torus::Arguments),
    Ctl(verb::ctl::Arguments),
    Completions(verb::completions::Arguments),
    Man(verb::man::Arguments),
}

/// Runs the verb that the arguments of the process name, and gives the code to end with.
///
/// Prints what is wrong with the arguments, or the help that they ask for, and ends the process then.
///
/// The program knows `detectors`; the first is that of configurations that name none.
pub fn main(detectors: Detectors) -> ExitCode {
    let arguments = Arguments::parse();
    log::install(arguments.verbose, matches!(arguments.verb, Verb::Doctor(_)));
    if let Err(error) = signals::outlive_file_limit() {
        tracing::warn!(%error, "a file beyond `ulimit -f` will end the program");
    }
    exit::code(match arguments.verb {
        Verb::Demo(arguments) => verb::demo::run(&arguments, detectors),
        Verb::Run(arguments) => verb::run::run(&arguments, detectors),
        Verb::Check(arguments) => verb::check::run(&arguments, detectors),
        Verb::Doctor(arguments) => verb::doctor::run(&arguments, detectors),
        Verb::Predict(arguments) => verb::predict::run(&arguments),
        Verb::Bench(arguments) => verb::bench::run(&arguments),
        Verb::Emulate(arguments) => verb::emulate::run(&arguments, detectors),
        Verb::Replay(arguments) => verb::replay::run(&arguments, detectors),
        Verb::Inspect(arguments) => verb::inspect::run(&arguments, detectors),
        Verb::Channels(arguments) => verb::channels::run(&arguments),
        Verb::Verify(arguments) => verb::verify::run(&arguments),
        Verb::Recover(arguments) => verb::recover::run(&arguments),
        Verb::Export(arguments) => verb::export::run(&arguments, detectors),
        Verb::Find(arguments) => verb::find::run(&arguments),
        Verb::Trigger(arguments) => verb::trigger::run(&arguments, detectors),
        Verb::Torus(arguments) => verb::torus::run(&arguments),
        Verb::Ctl(arguments) => verb::ctl::run(&arguments),
        Verb::Completions(arguments) => verb::completions::run(&arguments, Arguments::command()),
        Verb::Man(arguments) => verb::man::run(&arguments, Arguments::command()),
    })
}
