//! Numbers and documents as text, both ways.

use std::io::{self, Write};
use std::time::Duration;

use serde::Serialize;
use serde::ser::{SerializeSeq, Serializer};

/// Prints `value` as one JSON document on standard output.
///
/// # Errors
/// When standard output cannot be written.
pub fn json(value: &impl Serialize) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, value)?;
    writeln!(out)?;
    Ok(())
}

/// Prints `text` on standard output.
///
/// # Errors
/// When standard output cannot be written.
pub fn text(text: &str) -> anyhow::Result<()> {
    io::stdout().write_all(text.as_bytes())?;
    Ok(())
}

/// Prints values as one JSON array on standard output, each as it comes.
///
/// # Errors
/// The first error of the values, or when standard output cannot be written.
pub fn json_array<T: Serialize, E>(values: impl Iterator<Item = Result<T, E>>) -> anyhow::Result<()>
where
    anyhow::Error: From<E>,
{
    let mut out = io::BufWriter::new(io::stdout().lock());
    let mut serializer = serde_json::Serializer::pretty(&mut out);
    let mut array = serializer.serialize_seq(None)?;
    for value in values {
        array.serialize_element(&value?)?;
    }
    array.end()?;
    writeln!(out)?;
    Ok(out.flush()?)
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
    use super::grouped;

    #[test]
    fn digits_are_grouped_from_the_right() {
        let cases = [(0, "0"), (999, "999"), (1000, "1 000"), (12_345_678, "12 345 678")];
        cases.iter().for_each(|(value, text)| assert_eq!(grouped(*value), *text));
    }
}
