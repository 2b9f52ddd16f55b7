//! Channels as lines of a table.

use std::io::{self, Write};

use gannet_control::channels::ChannelFigures;

/// Writes a line of names and a line for each channel; rates are in primitives a second, pedestal
/// and noise in ADC counts.
///
/// # Errors
/// When `out` cannot be written.
pub fn write(out: &mut impl Write, channels: &[&ChannelFigures]) -> io::Result<()> {
    writeln!(
        out,
        "  {:>8}  {:<12} {:>5} {:>8} {:>8} {:>13} {:>13}  condition",
        "channel", "stream", "plane", "pedestal", "noise", "TP/s in run", "recent TP/s"
    )?;
    channels.iter().try_for_each(|channel| {
        let pedestal = channel.pedestal.map_or_else(String::new, |pedestal| pedestal.to_string());
        let noise = channel.rms.map_or_else(String::new, |rms| format!("{rms:.1}"));
        writeln!(
            out,
            "  {:>8}  {:<12} {:>5} {pedestal:>8} {noise:>8} {:>13.1} {:>13.1}  {}",
            channel.channel,
            channel.stream,
            channel.plane,
            channel.tp_rate_hz,
            channel.recent_tp_rate_hz,
            channel.condition.name()
        )
    })
}
