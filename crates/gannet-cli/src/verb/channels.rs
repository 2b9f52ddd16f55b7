//! `gannet channels`: which channels are noisy or dead, and what to mask?

use std::io::{self, Write};
use std::path::PathBuf;

use gannet_control::channels::{ChannelFigures, Condition, count, file, loudest};
use gannet_dune::channels::mask;

use crate::exit::Outcome;
use crate::{channel_table, output};

/// Channels that are listed for their rate, if no more of them are noisy.
const LOUDEST: usize = 10;

/// Ranks the channels of a run by their rate of trigger primitives, lists those that are noisy,
/// dead or masked, and makes a mask of them for the configuration. The file is the table that a run
/// keeps beside its log.
///
/// Example: gannet channels gannet_run000001_20261121T021000Z_channels.csv --mask
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The table of channels, *_channels.csv.
    file: PathBuf,
    /// Print the key `mask` of the table `tpg` instead: the channels that were masked in the run,
    /// and the noisy ones. `gannet find --mask` reads it, too.
    #[arg(long, conflicts_with = "json")]
    mask: bool,
    /// Take channels as noisy that make more primitives a second than this, whatever the others
    /// do.
    #[arg(long, value_name = "HZ", value_parser = rate)]
    noisy_above: Option<f64>,
    /// Print all channels as JSON.
    #[arg(long)]
    json: bool,
}

/// Reads a rate in Hz.
fn rate(text: &str) -> Result<f64, String> {
    let rate: f64 = text.parse().map_err(|_| format!("\"{text}\" is not a number of Hz"))?;
    let is_rate = rate.is_finite() && rate >= 0.0;
    if is_rate { Ok(rate) } else { Err("a rate is 0 or more, and finite".to_owned()) }
}

pub fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let mut channels = file::read(&arguments.file)?;
    if let Some(limit_hz) = arguments.noisy_above {
        judge(&mut channels, limit_hz);
    }
    if arguments.json {
        output::json(&channels)?;
    } else if arguments.mask {
        output::print(|out| print_mask(out, &channels))?;
    } else {
        output::print(|out| print(out, &channels))?;
    }
    Ok(Outcome::Ok)
}

/// Calls channels noisy by this limit alone.
fn judge(channels: &mut [ChannelFigures], limit_hz: f64) {
    let open = |channel: &&mut ChannelFigures| {
        matches!(channel.condition, Condition::Good | Condition::Noisy)
    };
    for channel in channels.iter_mut().filter(open) {
        let noisy = channel.highest_rate_hz() > limit_hz;
        channel.condition = if noisy { Condition::Noisy } else { Condition::Good };
    }
}

/// One line of words for people, as a comment, then the key.
fn print_mask(out: &mut impl Write, channels: &[ChannelFigures]) -> io::Result<()> {
    let (noisy, masked) = (count(channels, Condition::Noisy), count(channels, Condition::Masked));
    writeln!(
        out,
        "# {noisy} noisy channels, and {masked} masked before; belongs under [pipeline.tpg]"
    )?;
    out.write_all(mask::toml(&mask::channels(channels)).as_bytes())
}

/// The loudest channels, then those that are dead or masked.
fn print(out: &mut impl Write, channels: &[ChannelFigures]) -> io::Result<()> {
    let of = |condition| count(channels, condition);
    let (noisy, dead, masked) = (of(Condition::Noisy), of(Condition::Dead), of(Condition::Masked));
    let total = channels.len();
    writeln!(out, "{total} channels: {noisy} noisy, {dead} dead, {masked} masked")?;
    let silent = |condition| channels.iter().filter(move |c| c.condition == condition);
    let mut listed = loudest(channels, LOUDEST.max(noisy as usize));
    listed.retain(|channel| matches!(channel.condition, Condition::Good | Condition::Noisy));
    listed.extend(silent(Condition::Dead).chain(silent(Condition::Masked)));
    channel_table::write(out, &listed)
}
