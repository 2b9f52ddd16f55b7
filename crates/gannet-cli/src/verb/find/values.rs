//! The values of options.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::str::FromStr;

use gannet_dune::tpg::TpgConfig;
use gannet_offline::find::{FrameSource, THRESHOLDS_MAX};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Longest file of channels that is read, in bytes.
const CHANNELS_BYTES_MAX: u64 = 256 << 20;

/// Reads a name as configurations have it.
pub fn named<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_value(Value::String(text.to_owned())).map_err(|error| error.to_string())
}

/// Reads which frames of a log are meant.
pub fn frames(text: &str) -> Result<FrameSource, String> {
    match text {
        "raw" => Ok(FrameSource::Raw),
        "records" => Ok(FrameSource::Records),
        _ => Err("it must be raw or records".to_owned()),
    }
}

/// A value for each plane: one for all, or three.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByPlane<T>(pub [T; 3]);

impl<T: FromStr + Copy> FromStr for ByPlane<T> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let values: Option<Vec<T>> = text.split(',').map(|value| value.parse().ok()).collect();
        match values.as_deref() {
            Some(&[all]) => Ok(Self([all; 3])),
            Some(&[u, v, w]) => Ok(Self([u, v, w])),
            _ => Err("give one number, or three with commas".to_owned()),
        }
    }
}

/// Thresholds to try: `FIRST..LAST:STEP`, both ends included, or a list with commas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thresholds(pub Vec<u16>);

impl FromStr for Thresholds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "give first..last:step, for example 40..120:20, or a list".to_owned();
        let number = |text: &str| text.parse::<u16>().map_err(|_| wrong());
        let Some((first, rest)) = text.split_once("..") else {
            let listed: Vec<u16> = text.split(',').map(number).collect::<Result<_, _>>()?;
            return bounded(listed);
        };
        let (last, step) = rest.split_once(':').ok_or_else(wrong)?;
        let (first, last, step) = (number(first)?, number(last)?, number(step)?);
        if step == 0 || last < first {
            return Err(wrong());
        }
        bounded((first..=last).step_by(step.into()).take(THRESHOLDS_MAX + 1).collect())
    }
}

fn bounded(tried: Vec<u16>) -> Result<Thresholds, String> {
    match tried.len() <= THRESHOLDS_MAX {
        true => Ok(Thresholds(tried)),
        false => Err(format!("these are more than {THRESHOLDS_MAX} thresholds")),
    }
}

/// Offline channel numbers: a list such as `7,100-163`, or a file of such lists, where `#` begins
/// a comment and words, brackets and equals signs are passed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Channels(pub Vec<u32>);

impl FromStr for Channels {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_list = |c: char| c.is_ascii_digit() || c.is_whitespace() || ",-[]".contains(c);
        // A list is no name of a file, unless there is one of that name.
        match text.chars().all(is_list) && !Path::new(text).exists() {
            true => parse_channels(text).map(Self),
            false => read_channels(Path::new(text)).map(Self),
        }
    }
}

/// Reads a file of channels: lists, or the key `mask` of a configuration.
fn read_channels(path: &Path) -> Result<Vec<u32>, String> {
    let cannot = |error: io::Error| format!("{} cannot be read: {error}", path.display());
    let mut text = String::new();
    let file = File::open(path).map_err(cannot)?;
    file.take(CHANNELS_BYTES_MAX + 1).read_to_string(&mut text).map_err(cannot)?;
    if text.len() as u64 > CHANNELS_BYTES_MAX {
        return Err(format!("{} is longer than {CHANNELS_BYTES_MAX} bytes", path.display()));
    }
    let text = text.trim_start_matches('\u{feff}');
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or(""));
    let text = lines.collect::<Vec<_>>().join(" ");
    let text = text.trim();
    let list = text.strip_prefix("mask").unwrap_or(text);
    parse_channels(list).map_err(|problem| format!("{}: {problem}", path.display()))
}

fn parse_channels(text: &str) -> Result<Vec<u32>, String> {
    let separates = |c: char| c.is_whitespace() || ",[]=".contains(c);
    let mut channels = Vec::new();
    for item in text.split(separates).filter(|item| !item.is_empty()) {
        let (first, last) = item.split_once('-').unwrap_or((item, item));
        let number = |text: &str| text.parse::<u32>().ok().filter(|&n| n <= 0xff_ffff);
        match (number(first), number(last)) {
            (Some(first), Some(last)) if first <= last => channels.extend(first..=last),
            _ => return Err(format!("{item:?} is no channel of 0 to 16777215, nor a range")),
        }
        if channels.len() > TpgConfig::MASK_MAX {
            return Err("it names more channels than there are".to_owned());
        }
    }
    Ok(channels)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use gannet_dune::channels::mask;
    use gannet_dune::tpg::Chain;

    #[test]
    fn one_value_is_for_all_planes() {
        assert_eq!("60".parse(), Ok(ByPlane([60u16; 3])));
        assert_eq!("1,2,3".parse(), Ok(ByPlane([1u8, 2, 3])));
        for wrong in ["", "1,2", "1,2,3,4", "300", "x"] {
            assert!(wrong.parse::<ByPlane<u8>>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn thresholds_are_a_range_or_a_list() {
        assert_eq!("40..120:20".parse(), Ok(Thresholds(vec![40, 60, 80, 100, 120])));
        assert_eq!("40..119:40".parse(), Ok(Thresholds(vec![40, 80])));
        assert_eq!("7,5".parse(), Ok(Thresholds(vec![7, 5])));
        for wrong in ["", "40..20:5", "1..9:0", "1..9", "1..60000:1", "a..b:c", &"5,".repeat(65)] {
            assert!(wrong.parse::<Thresholds>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn channels_are_a_list_of_ranges_or_a_file_of_them() {
        assert_eq!("7,10-12".parse(), Ok(Channels(vec![7, 10, 11, 12])));
        for wrong in ["9-7", "x", "16777216", "1-2-3"] {
            assert!(wrong.parse::<Channels>().is_err(), "{wrong}");
        }
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("mask.toml");
        fs::write(&file, "mask = [ # noisy\n  5, 6,\n  8-9 # 7 is good\n]\n").unwrap();
        assert_eq!(file.to_str().unwrap().parse(), Ok(Channels(vec![5, 6, 8, 9])));
        let absent = "gone/mask.toml".parse::<Channels>().unwrap_err();
        assert!(absent.starts_with("gone/mask.toml cannot be read: No such file"), "{absent}");
        fs::write(&file, "4, seven").unwrap();
        let wrong = file.to_str().unwrap().parse::<Channels>().unwrap_err();
        assert!(wrong.contains("mask.toml: \"seven\" is no channel"), "{wrong}");
        for channels in [vec![], vec![3], (0..400).map(|n| 31 * n).collect::<Vec<_>>()] {
            let text = format!("# noisy; belongs under [pipeline.tpg]\n{}", mask::toml(&channels));
            fs::write(&file, text).unwrap();
            assert_eq!(file.to_str().unwrap().parse(), Ok(Channels(channels)));
        }
    }

    #[test]
    fn names_are_those_of_the_configuration() {
        assert_eq!(named("abs-rs"), Ok(Chain::AbsRs));
        let refused = named::<Chain>("absrs").unwrap_err();
        assert!(refused.contains("simple-threshold"), "{refused}");
    }
}
