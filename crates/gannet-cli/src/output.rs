//! Numbers and documents as text, both ways.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, IsTerminal, StdoutLock, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::time::Duration;

use anyhow::Context;
use gannet_control::snapshot::{Estimate, Figure, FigureValue, Share, Times};
use gannet_measure::histogram::Summary;
use serde::Serialize;
use serde::ser::{SerializeSeq, Serializer};

/// Error of a terminal that is gone (`asm-generic/errno-base.h`).
const EIO: i32 = 5;

/// Standard output, which remembers why it could not be written.
pub struct Output {
    out: BufWriter<StdoutLock<'static>>,
    failure: Option<io::Error>,
}

impl Output {
    fn note<T>(&mut self, result: io::Result<T>) -> io::Result<T> {
        result.map_err(|error| {
            let kind = error.kind();
            self.failure.get_or_insert(error);
            kind.into()
        })
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes);
        self.note(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.out.flush();
        self.note(flushed)
    }
}

/// Prints what `write` writes on standard output; with [`offer`] the only way there.
///
/// A reader that closed the pipe or the terminal has seen enough: `write` ends early then, and that
/// is no error.
///
/// # Errors
/// When standard output cannot be written for another cause, or the error of `write`.
pub fn print<E>(write: impl FnOnce(&mut Output) -> Result<(), E>) -> anyhow::Result<()>
where
    anyhow::Error: From<E>,
{
    offer(write).map(|_| ())
}

/// As [`print()`], and tells whether there is still a reader.
///
/// # Errors
/// As [`print()`].
pub fn offer<E>(write: impl FnOnce(&mut Output) -> Result<(), E>) -> anyhow::Result<bool>
where
    anyhow::Error: From<E>,
{
    #[expect(clippy::disallowed_methods, reason = "all others come here")]
    let mut out = Output { out: BufWriter::new(io::stdout().lock()), failure: None };
    let result = write(&mut out).map_err(anyhow::Error::from).and_then(|()| Ok(out.flush()?));
    match out.failure {
        None => result.map(|()| true),
        Some(error) if error.kind() == ErrorKind::BrokenPipe || is_hung_up(&error) => Ok(false),
        Some(error) => Err(error).context("cannot write standard output"),
    }
}

/// Whether standard output was a terminal that is gone, which is told as `EIO`.
fn is_hung_up(error: &io::Error) -> bool {
    #[expect(clippy::disallowed_methods, reason = "nothing is written")]
    let own = io::stdout().as_fd().try_clone_to_owned();
    let file = own.and_then(|own| File::from(own).metadata());
    let is_device = file.is_ok_and(|file| file.file_type().is_char_device());
    is_device && error.raw_os_error() == Some(EIO)
}

/// Whether standard output is a terminal.
pub fn is_terminal() -> bool {
    #[expect(clippy::disallowed_methods, reason = "nothing is written")]
    io::stdout().is_terminal()
}

/// Whether `stream` is a terminal that takes control codes; `TERM=dumb` says that it does not.
pub fn takes_control_codes(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && std::env::var_os("TERM").is_none_or(|terminal| terminal != "dumb")
}

/// Prints `value` as one JSON document on standard output.
///
/// # Errors
/// When standard output cannot be written.
pub fn json(value: &impl Serialize) -> anyhow::Result<()> {
    print(|out| -> anyhow::Result<()> {
        serde_json::to_writer_pretty(&mut *out, value)?;
        Ok(writeln!(out)?)
    })
}

/// Prints `text` on standard output.
///
/// # Errors
/// When standard output cannot be written.
pub fn text(text: &str) -> anyhow::Result<()> {
    print(|out| out.write_all(text.as_bytes()))
}

/// Prints values as one JSON array on standard output, each as it comes.
///
/// # Errors
/// The first error of the values, or when standard output cannot be written.
pub fn json_array<T: Serialize, E>(values: impl Iterator<Item = Result<T, E>>) -> anyhow::Result<()>
where
    anyhow::Error: From<E>,
{
    print::<anyhow::Error>(|out| {
        let mut serializer = serde_json::Serializer::pretty(&mut *out);
        let mut array = serializer.serialize_seq(None)?;
        for value in values {
            array.serialize_element(&value?)?;
        }
        array.end()?;
        Ok(writeln!(out)?)
    })
}

/// Reads a time in seconds, for arguments.
///
/// # Errors
/// When the text is no such number.
pub fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 =
        text.parse().map_err(|_| format!("\"{text}\" is not a number of seconds"))?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

/// A figure of a detector as a line of text, its name and its count as wide as told.
pub fn figure(figure: &Figure, name_width: usize, value_width: usize) -> String {
    let name = &figure.name;
    match &figure.value {
        FigureValue::Count(count) => {
            format!("{name:<name_width$} {:>value_width$}", grouped(*count))
        }
        FigureValue::Share(Share { part, of }) => {
            let percent = 100.0 * *part as f64 / (*of).max(1) as f64;
            let (part, of) = (grouped(*part), grouped(*of));
            format!("{name:<name_width$} {part:>value_width$}  of {of}, {percent:.1} %")
        }
        FigureValue::Estimate(Estimate { value, assumes }) => {
            format!("{name:<name_width$} {value:>value_width$.1}  {assumes}")
        }
        FigureValue::Ns(Times { summary: Summary { p50, p99, p999, max, .. }, .. }) => {
            let [p50, p99, p999, max] = [p50, p99, p999, max].map(|ns| *ns as f64 * 1e-3);
            format!(
                "{name:<name_width$} p50 {p50:.1} us, p99 {p99:.1} us, p99.9 {p999:.1} us, max {max:.1} us"
            )
        }
    }
}

/// A histogram of times, a line an octave with a bar as long as the octave has its share, and one line for all
/// below a microsecond; none of the lines begins or ends with a space.
pub fn bars(times: &Times) -> impl Iterator<Item = String> {
    const WIDTH: u64 = 40;
    /// End of the octave of a microsecond, ns.
    const SHORT: u64 = 1023;
    let (short, long): (Vec<_>, Vec<_>) =
        times.octaves.iter().copied().partition(|(upper, _)| *upper <= SHORT);
    let short = (!short.is_empty()).then(|| (SHORT, short.iter().map(|(_, count)| count).sum()));
    let lines: Vec<(u64, u64)> = short.into_iter().chain(long).collect();
    let most = lines.iter().map(|(_, count)| *count).max().unwrap_or(0).max(1);
    lines.into_iter().map(move |(upper, count)| {
        // Whatever has a value shows.
        let len = (count * WIDTH).div_ceil(most) as usize;
        let bar = "#".repeat(len);
        let line = format!("up to {:>10.1} us {:>15} {bar}", upper as f64 * 1e-3, grouped(count));
        line.trim_end().to_owned()
    })
}

/// How many there are of each kind: `muon 12, shower 3`.
pub fn kinds(events: &BTreeMap<String, u64>) -> String {
    let kinds = events.iter().map(|(kind, count)| format!("{kind} {}", grouped(*count)));
    kinds.collect::<Vec<_>>().join(", ")
}

/// A number with its digits in groups of three: `1 234 567`.
pub fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::with_capacity(digits.len() * 4 / 3);
    for (place, digit) in digits.char_indices() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(' ');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use gannet_control::snapshot::Times;

    use super::{bars, grouped};

    #[test]
    fn a_bar_is_as_long_as_its_share_and_never_empty() {
        let octaves = vec![(511, 1), (1023, 2), (2047, 0), (4095, 400)];
        let lines: Vec<_> = bars(&Times { octaves, ..Times::default() }).collect();
        let lens = lines.iter().map(|line| line.chars().filter(|c| *c == '#').count());
        assert_eq!(lens.collect::<Vec<_>>(), [1, 0, 40]);
        assert_eq!(lines[0], "up to        1.0 us               3 #");
        assert_eq!(lines[1], "up to        2.0 us               0");
    }

    #[test]
    fn digits_are_grouped_from_the_right() {
        let cases = [(0, "0"), (999, "999"), (1000, "1 000"), (12_345_678, "12 345 678")];
        cases.iter().for_each(|(value, text)| assert_eq!(grouped(*value), *text));
    }
}
