//! A list of channels that are to give no primitives, as the configuration takes it.

use std::collections::HashSet;
use std::fmt::Write;

use gannet_control::channels::{ChannelFigures, Condition};

/// Width of a line.
const WIDTH: usize = 100;

/// Numbers of the channels that are masked already and of those that are noisy, in rising order.
pub fn channels(channels: &[ChannelFigures]) -> Vec<u32> {
    let is_unwanted = |channel: &&ChannelFigures| {
        matches!(channel.condition, Condition::Masked | Condition::Noisy)
    };
    let unwanted = channels.iter().filter(is_unwanted);
    let mut numbers: Vec<u32> = unwanted.map(|channel| channel.channel).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

/// Channels of `mask` that are not among those that are read, in rising order.
pub fn unread(mask: &[u32], read: impl Iterator<Item = u32>) -> Vec<u32> {
    let read: HashSet<u32> = read.collect();
    let mut unread: Vec<u32> = mask.iter().copied().filter(|c| !read.contains(c)).collect();
    unread.sort_unstable();
    unread.dedup();
    unread
}

/// What to say of masked channels that are not read; nothing when there are none.
pub fn doubt(unread: &[u32]) -> Option<String> {
    const NAMED: usize = 8;
    let named: Vec<_> = unread.iter().take(NAMED).map(ToString::to_string).collect();
    let more = if unread.len() > NAMED { ", and more" } else { "" };
    (!unread.is_empty()).then(|| {
        let (count, named) = (unread.len(), named.join(", "));
        format!("{count} masked channels are not in the channel map: {named}{more}")
    })
}

/// `channels` as the key `mask` of the table `[pipeline.tpg]`.
pub fn toml(channels: &[u32]) -> String {
    let mut text = String::from("mask = [");
    let mut width = text.len();
    for (place, channel) in channels.iter().enumerate() {
        let number = if place == 0 { channel.to_string() } else { format!(", {channel}") };
        width += number.len();
        if width > WIDTH {
            let number = number.trim_start_matches(", ");
            let _infallible = write!(text, ",\n    {number}");
            width = 4 + number.len();
        } else {
            text += &number;
        }
    }
    text + "]\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tpg::TpgConfig;

    #[test]
    fn noisy_channels_join_those_that_are_masked() {
        let all = [
            (9, Condition::Noisy),
            (4, Condition::Masked),
            (7, Condition::Good),
            (5, Condition::Dead),
            (9, Condition::Noisy),
        ];
        let channel =
            |(channel, condition)| ChannelFigures { channel, condition, ..Default::default() };
        assert_eq!(channels(&all.map(channel)), [4, 9]);
    }

    #[test]
    fn channels_that_nobody_reads_are_named() {
        assert_eq!(unread(&[9, 3, 4, 3], [4, 5].into_iter()), [3, 9]);
        assert_eq!(doubt(&[]), None);
        assert_eq!(doubt(&[3, 9]).unwrap(), "2 masked channels are not in the channel map: 3, 9");
        let many = doubt(&(0..20).collect::<Vec<_>>()).unwrap();
        assert!(many.starts_with("20 ") && many.ends_with("6, 7, and more"), "{many}");
    }

    #[test]
    fn the_text_is_a_table_of_the_configuration() {
        for len in [0, 1, 2, 17, 500] {
            let mask: Vec<u32> = (0..len).map(|i| 37 * i * i).collect();
            let text = toml(&mask);
            let config: TpgConfig = toml::from_str(&text).unwrap();
            assert_eq!(config.mask, mask, "{text}");
            assert!(text.lines().all(|line| line.len() <= WIDTH + 1), "{text}");
        }
        assert_eq!(toml(&[3, 14]), "mask = [3, 14]\n");
    }
}
