//! The table of channels as a file: comma-separated values with a line of names, one line a
//! channel. What is not known is empty.

use std::io::{self, BufWriter, Read, Write};
use std::num::{ParseFloatError, ParseIntError};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use gannet_log::files::{self, Existing, NewFile};

use super::{ChannelFigures, Condition};

/// What the name of the file ends with; before it stand the words of the run's log files.
pub const ENDING: &str = files::CHANNELS_ENDING;

/// Names of the columns.
const COLUMNS: [&str; 9] = [
    "channel",
    "stream",
    "plane",
    "pedestal",
    "rms",
    "tps",
    "tp_rate_hz",
    "recent_tp_rate_hz",
    "condition",
];

/// Longest file that is read, in bytes: more than a hundred for each of 65,536 channels.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Why a file is no table of channels.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// It cannot be read.
    #[error("cannot read {}: {cause}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// What went wrong.
        #[source]
        cause: io::Error,
    },
    /// It does not begin as one.
    #[error(
        "{} is no table of channels: its first line should be `{}`; a run writes one, named \
         *{ENDING}, beside its log",
        file.display(),
        COLUMNS.join(",")
    )]
    Columns {
        /// The file.
        file: PathBuf,
    },
    /// A line is not one of a channel.
    #[error("{}:{line}: {cause}", file.display())]
    Line {
        /// The file.
        file: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// What is wrong with it.
        cause: String,
    },
}

/// Name of the table of channels of the run whose first log file is `log`.
pub fn beside(log: &Path) -> Option<PathBuf> {
    let (stem, _) = log.file_name()?.to_str()?.rsplit_once("_f")?;
    Some(log.with_file_name(format!("{stem}{ENDING}")))
}

/// Writes the table to `path` in one step: whoever opens it finds the old or the new one, whole.
///
/// # Errors
/// When the file cannot be written.
pub fn write(path: &Path, channels: &[ChannelFigures]) -> Result<(), files::Error> {
    let new = NewFile::begin(path, ".new", Existing::Replace)?;
    write_table(&mut BufWriter::new(new.file()), channels).map_err(|source| files::Error {
        doing: "write",
        path: path.into(),
        source,
    })?;
    // The thread that watches the channels does not wait for the disk.
    new.publish_unflushed()
}

fn write_table(out: &mut impl Write, channels: &[ChannelFigures]) -> io::Result<()> {
    writeln!(out, "{}", COLUMNS.join(","))?;
    channels.iter().try_for_each(|channel| write_line(out, channel))?;
    out.flush()
}

fn write_line(out: &mut impl Write, channel: &ChannelFigures) -> io::Result<()> {
    let pedestal = channel.pedestal.map_or_else(String::new, |pedestal| pedestal.to_string());
    let rms = channel.rms.map_or_else(String::new, |rms| format!("{rms:.3}"));
    writeln!(
        out,
        "{},{},{},{pedestal},{rms},{},{:.3},{:.3},{}",
        channel.channel,
        channel.stream,
        channel.plane,
        channel.tps,
        channel.tp_rate_hz,
        channel.recent_tp_rate_hz,
        channel.condition.name()
    )
}

/// Reads a table of channels.
///
/// # Errors
/// When it cannot be read, or is none.
pub fn read(path: &Path) -> Result<Vec<ChannelFigures>, FileError> {
    let text = read_text(path).map_err(|cause| FileError::Read { file: path.into(), cause })?;
    // Spreadsheets put a byte-order mark before what they write.
    let mut lines = text.trim_start_matches('\u{feff}').lines();
    if lines.next() != Some(&COLUMNS.join(",")) {
        return Err(FileError::Columns { file: path.into() });
    }
    let channel = |(line, text): (usize, &str)| {
        parse(text).map_err(|cause| FileError::Line { file: path.into(), line, cause })
    };
    (2..).zip(lines).map(channel).collect()
}

fn read_text(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    files::open_input(path)?.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(io::Error::other(format!("it is longer than {FILE_BYTES_MAX} bytes")));
    }
    // What is no text is no table either, which its first line shows.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// A channel from its line.
fn parse(line: &str) -> Result<ChannelFigures, String> {
    let fields: Vec<&str> = line.split(',').collect();
    let [channel, stream, plane, pedestal, rms, tps, rate, recent, condition] = fields[..] else {
        return Err(format!("{} values where {} are expected", fields.len(), COLUMNS.len()));
    };
    let condition = Condition::ALL.into_iter().find(|known| known.name() == condition);
    Ok(ChannelFigures {
        channel: integer(channel, "channel")?,
        stream: stream.to_owned(),
        plane: integer(plane, "plane")?,
        pedestal: known(pedestal).map(|text| integer(text, "pedestal")).transpose()?,
        rms: known(rms).map(|text| float(text, "rms")).transpose()?,
        tps: integer(tps, "tps")?,
        tp_rate_hz: float(rate, "tp_rate_hz")?,
        recent_tp_rate_hz: float(recent, "recent_tp_rate_hz")?,
        condition: condition.ok_or("condition: expected good, noisy, dead or masked")?,
    })
}

fn known(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

fn integer<T: FromStr<Err = ParseIntError>>(text: &str, column: &str) -> Result<T, String> {
    text.parse().map_err(|error| format!("{column}: {error}"))
}

/// A noise or a rate, which is finite and not negative.
fn float(text: &str, column: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|error: ParseFloatError| format!("{column}: {error}"))?;
    let is_sound = value.is_finite() && value >= 0.0;
    if is_sound { Ok(value) } else { Err(format!("{column}: {text} is not 0 or more and finite")) }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn channels() -> Vec<ChannelFigures> {
        let quiet = ChannelFigures { channel: 3, stream: "3/0/0/0".into(), ..Default::default() };
        let noisy = ChannelFigures {
            channel: 2_500,
            stream: "3/1/2/65".into(),
            plane: 2,
            pedestal: Some(843),
            rms: Some(3.125),
            tps: 123_456,
            tp_rate_hz: 1234.5,
            recent_tp_rate_hz: 0.125,
            condition: Condition::Noisy,
        };
        vec![quiet, noisy]
    }

    #[test]
    fn what_is_written_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a_channels.csv");
        write(&path, &[]).unwrap();
        write(&path, &channels()).unwrap();
        assert_eq!(read(&path).unwrap(), channels());
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().nth(1).unwrap(), "3,3/0/0/0,0,,,0,0.000,0.000,good");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "nothing else is left");
        fs::write(&path, format!("\u{feff}{text}")).unwrap();
        assert_eq!(read(&path).unwrap(), channels(), "a byte-order mark is no column");
    }

    #[test]
    fn it_lies_beside_the_log_of_its_run() {
        let log = Path::new("/data/my_first_run000001_20261121T021000Z_f0000.glog.part");
        let table = Path::new("/data/my_first_run000001_20261121T021000Z_channels.csv");
        assert_eq!(beside(log).as_deref(), Some(table));
        assert_eq!(beside(Path::new("/data/other")), None);
    }

    #[test]
    fn other_files_are_refused_by_line_and_column() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.csv");
        let good = "3,3/0/0/0,0,,,0,0.000,0.000,good";
        let told = |text: &[u8]| {
            fs::write(&path, text).unwrap();
            read(&path).unwrap_err().to_string()
        };
        assert!(told(b"\xff\xfe\0").contains("is no table of channels"));
        assert!(told(b"").contains("beside its log"));
        let line = |line: &str| told(format!("{}\n{good}\n{line}\n", COLUMNS.join(",")).as_bytes());
        assert!(line("1,2").ends_with("a.csv:3: 2 values where 9 are expected"), "{}", line("1,2"));
        assert!(line(&good.replacen('3', "x", 1)).contains("channel: invalid digit"));
        assert!(line(&good.replace("0.000,good", "zero,good")).contains("recent_tp_rate_hz: "));
        assert!(line(&good.replace("good", "bad")).contains("expected good, noisy"));
        for figure in ["nan", "inf", "-0.1"] {
            let told = line(&good.replace("0.000,good", &format!("{figure},good")));
            assert!(told.contains(&format!("recent_tp_rate_hz: {figure} is not 0")), "{told}");
        }
        assert!(read(Path::new("/no/such/file")).unwrap_err().to_string().contains("cannot read"));
    }
}
