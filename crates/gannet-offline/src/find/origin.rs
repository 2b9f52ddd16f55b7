//! How the run that a file is from found its primitives, and which channels its streams read.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use gannet_dune::channels::mask;
use gannet_dune::detector::{SLICE_TICKS, TpcPlan};
use gannet_dune::export::ChannelPlaces;
use gannet_dune::run_start::RunStart;
use gannet_dune::tpg::TpgConfig;
use gannet_wire::TpcFormat;
use gannet_wire::channel_map::StreamChannels;
use gannet_wire::{ChannelMap, GeoId};

use super::config::FindConfig;
use super::error::FindError;

/// Detector of the front ends that send TDEEth frames: VD top TPC.
const TDE_DETECTOR: u16 = 11;

/// How primitives are to be found, and in which channels.
#[derive(Debug)]
pub(super) struct Origin {
    /// The chain of the run.
    pub tpg: TpgConfig,
    /// Length of a slice of primitives, in ticks.
    pub slice_ticks: u64,
    streams: HashMap<GeoId, (TpcFormat, StreamChannels)>,
    /// Takes the place of the channels of the run.
    map: Option<ChannelMap>,
}

/// What the files to be searched tell.
pub(super) struct Told<'a> {
    /// The first file named.
    pub first_file: &'a Path,
    /// Whether the files are logs.
    pub is_log: bool,
    /// The start of the run, and the file that tells it.
    pub start: Option<(&'a Path, &'a RunStart)>,
}

impl Origin {
    /// What `config` gives, and the recording tells.
    pub fn of(config: &FindConfig, told: &Told<'_>) -> Result<Self, FindError> {
        let map = config.channel_map.as_deref().map(read_map).transpose()?;
        let given = config.config.as_deref().map(TpcPlan::load).transpose()?;
        let mut origin = match given.as_ref().map(Self::of_plan) {
            Some(given) if map.is_some() || !given.streams.is_empty() => given,
            // A configuration without sources tells how to search, the recording where.
            Some(given) => Self { tpg: given.tpg, ..Self::recorded(told, false)? },
            None => Self::recorded(told, map.is_some())?,
        };
        origin.map = map;
        Ok(origin)
    }

    /// What the recording tells.
    fn recorded(told: &Told<'_>, has_map: bool) -> Result<Self, FindError> {
        match told.start {
            Some((path, start)) => Self::of_start(path, start, has_map),
            None => Self::unknown(told, has_map),
        }
    }

    /// TpcFormat and channels of a stream, if it is known.
    pub fn stream(&self, geo_id: GeoId) -> Option<(TpcFormat, StreamChannels)> {
        let of_run = self.streams.get(&geo_id).copied();
        let Some(map) = &self.map else { return of_run };
        let by_detector = match geo_id.detector {
            TDE_DETECTOR => TpcFormat::TdeEth,
            _ => TpcFormat::WibEth,
        };
        let format = of_run.map_or(by_detector, |(format, _)| format);
        map.stream(geo_id).map(|channels| (format, *channels))
    }

    /// Stream and plane of every channel that is known.
    pub fn places(&self) -> ChannelPlaces {
        let mut places = ChannelPlaces::default();
        let mut add = |stream, channels: &StreamChannels| {
            places.add(stream, &channels.offline, &channels.plane);
        };
        match &self.map {
            Some(map) => map.iter().for_each(|(stream, channels)| add(stream, channels)),
            None => self.streams.iter().for_each(|(stream, (_, channels))| add(*stream, channels)),
        }
        places
    }

    fn of_plan(plan: &TpcPlan) -> Self {
        let streams = plan.streams.iter().map(|s| (s.geo_id, (plan.format(s.source), s.channels)));
        Self {
            tpg: plan.config.pipeline.tpg.clone(),
            slice_ticks: plan.config.pipeline.slice_ticks,
            streams: streams.collect(),
            map: None,
        }
    }

    /// What the start of a run tells in the log `path`.
    fn of_start(path: &Path, start: &RunStart, has_map: bool) -> Result<Self, FindError> {
        let streams: Option<HashMap<_, _>> = start
            .streams
            .iter()
            .map(|stream| stream.channels().map(|(geo_id, format, c)| (geo_id, (format, c))))
            .collect();
        let Some(tpg) = start.tpg.clone() else {
            return Err(FindError::OtherDetector(path.to_owned(), start.detector.clone()));
        };
        match streams {
            Some(streams) if has_map || !streams.is_empty() => {
                Ok(Self { tpg, slice_ticks: start.slice_ticks, streams, map: None })
            }
            _ => Err(FindError::NoChannels(path.to_owned())),
        }
    }

    /// The published chain, where a channel map is given that takes the place of the run's.
    fn unknown(told: &Told<'_>, has_map: bool) -> Result<Self, FindError> {
        if told.is_log {
            return Err(FindError::NoStart(told.first_file.to_owned()));
        }
        if !has_map {
            return Err(FindError::NoChannels(told.first_file.to_owned()));
        }
        Ok(Self {
            tpg: TpgConfig::default(),
            slice_ticks: SLICE_TICKS,
            streams: HashMap::new(),
            map: None,
        })
    }

    /// Masked channels that no stream of the run, or of the channel map given, reads.
    pub fn unread(&self, mask: &[u32]) -> Vec<u32> {
        let of_run = || self.streams.values().flat_map(|(_, channels)| channels.offline);
        match &self.map {
            Some(map) => mask::unread(mask, map.iter().flat_map(|(_, channels)| channels.offline)),
            None => mask::unread(mask, of_run()),
        }
    }
}

fn read_map(path: &Path) -> Result<ChannelMap, FindError> {
    let text = fs::read_to_string(path)
        .map_err(|cause| FindError::NoChannelMap { path: path.to_owned(), cause })?;
    let refused = |cause| FindError::ChannelMap { path: path.to_owned(), cause };
    ChannelMap::parse(&text).map_err(refused)
}
