//! `gannet torus demo`: a torus at work on this machine, which is broken and mended.

use std::collections::VecDeque;
use std::io::Write;
use std::num::NonZeroU64;
use std::thread;
use std::time::{Duration, Instant};

use gannet_lattice::Lattice;
use gannet_measure::quantity::Span;
use gannet_torus_live::drill::{Drill, Error, Event, HOSTS_MAX, Setup, Summary};
use serde::Serialize;

use super::page;
use crate::exit::{Lacking, Outcome, Usage};
use crate::log;
use crate::output;
use crate::signals::Signals;

/// How often the drill is asked what has happened.
const LOOK: Duration = Duration::from_millis(2);
/// How often the picture changes.
const REDRAW: Duration = Duration::from_millis(200);
/// Lines below the picture, where the terminal has room for them.
const LINES: usize = 12;
/// Columns before what has happened, for the time.
const INDENT: usize = 12;
/// Times that may be asked for.
const WATCHDOG_MIN: Span = Span::ms(20);
const WATCHDOG_MAX: Span = Span::s(10);
const EVERY_MIN: Span = Span::ms(100);

/// Shows a live torus on this machine: hosts that find each other over UDP sockets, all of which send to all others by PUT,
/// while in turn a cable is cut, a host killed, a cable cut in one direction, a host halted, and a cable made to lose
/// one of twenty frames, and each of them mended again. Needs no rights, no network card and no set-up.
///
/// Each byte that arrives is compared with what was sent. The last lines tell how many PUTs arrived, each once, and for each
/// kind of fault how soon it was known to all, and how much later packets went round it. A terminal shows the lattice: `--` and `|` for cables, an
/// `x` before hosts that cannot be reached.
///
/// The hosts are threads of one process. The default watchdog stands on two cores that others use too; where it is so short
/// that a host which did not run for a while is taken for dead, a false alarm is told.
///
/// A cable that has lost frames is watched for forty to eighty watchdogs before it carries packets again, so the demo may take that much longer.
///
/// Ctrl-C, or without --json a reader that closes the pipe, mends what is broken, lets all PUTs arrive, and ends; a second Ctrl-C ends at once. Exit code 6 when anything was
/// lost, came twice or came wrong.
///
/// Example: gannet torus demo --lattice 2x2x2 --duration '30 s'
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Lattice of the hosts.
    #[arg(long, default_value = "2x2x2", value_name = "SIZES")]
    lattice: Lattice,
    /// After this time nothing more is broken.
    #[arg(long, default_value = "30 s", value_name = "TIME")]
    duration: Span,
    /// From one fault to the next, if it was survived by then.
    #[arg(long, default_value = "4 s", value_name = "TIME")]
    every: Span,
    /// Within this time every host is to know of a fault.
    #[arg(long, default_value = "500 ms", value_name = "TIME")]
    watchdog: Span,
    /// PUTs of 12 000 bytes a second that all hosts post together, each of which waits for the last one to the same host. With a
    /// million they send as fast as the processors can; the watchdog may have to be longer then.
    #[arg(long, default_value = "10000", value_name = "N", value_parser = rate)]
    rate: NonZeroU64,
    /// Draws what is broken.
    #[arg(long, default_value = "1", value_name = "N")]
    seed: u64,
    /// Print what was shown as JSON, and what happens on standard error.
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    check(arguments)?;
    let signals = Signals::install()?;
    let setup = Setup {
        lattice: arguments.lattice,
        watchdog_ns: arguments.watchdog.ns(),
        every: Duration::from_nanos(arguments.every.ns()),
        rate: arguments.rate,
        seed: arguments.seed,
    };
    let mut screen = Screen::new(arguments)?;
    let mut drill = Drill::start(setup).map_err(lacking)?;
    let begin = Instant::now();
    loop {
        match drill.step().map_err(lacking)? {
            Some(Event::Over(summary)) => return end(arguments, screen, &summary, &signals),
            Some(event) => screen.tell(&event)?,
            None => thread::sleep(LOOK),
        }
        match signals.requests() {
            0 if screen.has_reader
                && begin.elapsed() < Duration::from_nanos(arguments.duration.ns()) => {}
            0 | 1 => drill.end(),
            _ => return Ok(signals.received().map_or(Outcome::Ok, Outcome::Interrupted)),
        }
        screen.draw(&drill)?;
    }
}

/// PUTs a second, from the command line.
fn rate(text: &str) -> Result<NonZeroU64, String> {
    text.parse().map_err(|_| format!("write a number of PUTs a second, 1 to {}", u64::MAX))
}

fn check(arguments: &Arguments) -> Result<(), Usage> {
    let hosts = arguments.lattice.nodes();
    if !(2..=HOSTS_MAX).contains(&hosts) {
        let s = if hosts == 1 { "" } else { "s" };
        return Err(Usage(format!("--lattice has {hosts} host{s}; choose 2 to {HOSTS_MAX}")));
    }
    if !(WATCHDOG_MIN.ns()..=WATCHDOG_MAX.ns()).contains(&arguments.watchdog.ns()) {
        return Err(Usage(format!("--watchdog must be {WATCHDOG_MIN} to {WATCHDOG_MAX}")));
    }
    if arguments.every.ns() < EVERY_MIN.ns() {
        return Err(Usage(format!("--every must be at least {EVERY_MIN}")));
    }
    Ok(())
}

/// What a drill lacks is lacking here; what it does not do is an error.
fn lacking(error: Error) -> anyhow::Error {
    match error {
        Error::System(_) => Lacking(error.to_string()).into(),
        Error::Stuck(_) => error.into(),
    }
}

fn end(
    arguments: &Arguments,
    screen: Screen,
    summary: &Summary,
    signals: &Signals,
) -> anyhow::Result<Outcome> {
    if arguments.json {
        output::json(&Document {
            lattice: arguments.lattice.to_string(),
            every_ms: arguments.every.ns() as f64 * 1e-6,
            watchdog_ms: arguments.watchdog.ns() as f64 * 1e-6,
            rate: arguments.rate,
            seed: arguments.seed,
            summary,
        })?;
    } else {
        screen.close(summary)?;
    }
    Ok(match signals.received() {
        _ if !summary.is_clean() => Outcome::NotVerified,
        Some(signal) => Outcome::Interrupted(signal),
        None => Outcome::Ok,
    })
}

/// What was shown, and under which conditions.
#[derive(Serialize)]
struct Document<'a> {
    lattice: String,
    every_ms: f64,
    watchdog_ms: f64,
    rate: NonZeroU64,
    seed: u64,
    #[serde(flatten)]
    summary: &'a Summary,
}

/// Where it is shown: as a picture on a terminal, or line by line.
struct Screen {
    begin: Instant,
    is_picture: bool,
    is_json: bool,
    /// Nobody has closed the pipe yet.
    has_reader: bool,
    head: [String; 2],
    drawn: Option<Instant>,
    lines: VecDeque<String>,
}

impl Screen {
    fn new(arguments: &Arguments) -> anyhow::Result<Self> {
        let Arguments { lattice, every, watchdog, .. } = arguments;
        let (hosts, cables) = (lattice.nodes(), lattice.cables().count());
        let head = [
            format!("{hosts} hosts make a {lattice} torus of {cables} cables"),
            format!("a fault each {every}, watchdog {watchdog}; Ctrl-C ends it"),
        ];
        let is_picture = output::is_terminal() && !arguments.json;
        let mut screen = Self {
            begin: Instant::now(),
            is_picture,
            is_json: arguments.json,
            has_reader: true,
            head,
            drawn: None,
            lines: VecDeque::new(),
        };
        if !is_picture {
            screen.line(&screen.head.join("; "))?;
        }
        Ok(screen)
    }

    fn line(&mut self, line: &str) -> anyhow::Result<()> {
        if self.is_json {
            log::say(line);
        } else {
            self.has_reader &= output::offer(|out| writeln!(out, "{line}"))?;
        }
        Ok(())
    }

    fn tell(&mut self, event: &Event) -> anyhow::Result<()> {
        let line = format!("{:>8.3} s  {event}", self.begin.elapsed().as_secs_f64());
        if !self.is_picture {
            return self.line(&line);
        }
        if self.lines.len() >= LINES {
            self.lines.pop_front();
        }
        self.lines.push_back(line);
        Ok(())
    }

    fn draw(&mut self, drill: &Drill) -> anyhow::Result<()> {
        if !self.is_picture || self.drawn.is_some_and(|drawn| drawn.elapsed() < REDRAW) {
            return Ok(());
        }
        let is_first = self.drawn.replace(Instant::now()).is_none();
        let totals = drill.totals();
        let fixed = format!(
            "{}\n{}\n{} PUTs have arrived, {} bytes compared\n",
            self.head.join("\n"),
            drill.status().picture(),
            totals.arrived,
            totals.bytes
        );
        let (columns, room) = page::room();
        page::show(&fit(&fixed, &self.lines, columns, room), columns, is_first)
    }

    fn close(self, summary: &Summary) -> anyhow::Result<()> {
        output::text(&format!("{summary}\n"))
    }
}

/// The fixed lines and the last of what has happened, which is wrapped since what matters may be at the end of a line.
fn fit(fixed: &str, happened: &VecDeque<String>, columns: usize, room: usize) -> Vec<String> {
    let mut rows: Vec<String> = fixed.lines().chain([""]).take(room).map(str::to_owned).collect();
    let mut happened: Vec<String> =
        happened.iter().flat_map(|line| page::wrapped(line, columns, INDENT)).collect();
    let left = room - rows.len();
    rows.extend(happened.split_off(happened.len().saturating_sub(left)));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_fits_its_terminal() {
        let happened = ["first", "second", "thïrd"].map(str::to_owned).into();
        let whole = ["head", "o--o", "", "first", "second", "thïrd"];
        assert_eq!(fit("head\no--o\n", &happened, 80, 23), whole);
        assert_eq!(fit("head\no--o\n", &happened, 80, 5), ["head", "o--o", "", "second", "thïrd"]);
        assert_eq!(fit("head\no--o\n", &happened, 80, 1), ["head"]);
    }

    #[test]
    fn the_end_of_a_long_line_is_shown() {
        let line = "   2.328 s  the cable from n6 port p3 to n4 port p5: known to all after 281 ms, all flows after 306 ms";
        let rows = fit("", &[line.to_owned()].into(), 80, 23);
        assert!(rows.iter().all(|row| row.len() <= 80), "{rows:?}");
        assert_eq!(
            rows[1..].join(" ").split_whitespace().collect::<Vec<_>>().join(" "),
            line.split_whitespace().collect::<Vec<_>>().join(" ")
        );
    }

    #[test]
    fn a_rate_is_a_number_from_one_on() {
        assert_eq!(rate("10000").map(NonZeroU64::get), Ok(10_000));
        for text in ["0", "-1", "fast", ""] {
            assert!(rate(text).unwrap_err().contains("1 to 18446744073709551615"), "{text}");
        }
    }
}
