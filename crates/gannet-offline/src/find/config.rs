//! What is to be searched, and how.

use std::fmt;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::str::FromStr;

use gannet_dune::tpg::{Chain, InitialPedestal, IsaChoice, TpgConfig};
use gannet_wire::channel_map::PLANES;
use serde::{Serialize, Serializer};

/// What is to be searched, and how.
#[derive(Clone, Debug, Default)]
pub struct FindConfig {
    /// Files of one run, all of one kind, in any order.
    pub files: Vec<PathBuf>,
    /// Configuration of the run; absent: the one that the files tell.
    pub config: Option<PathBuf>,
    /// Channel map; absent: that of the run.
    pub channel_map: Option<PathBuf>,
    /// What is to differ from the run.
    pub changes: Changes,
    /// Pedestals at the start; absent: see [`PedestalStart`].
    pub pedestals: Option<PedestalStart>,
    /// Which frames of logs are searched; absent: raw frames, where there are any.
    pub frames: Option<FrameSource>,
    /// Threads that search; absent: one a core.
    pub threads: Option<usize>,
    /// Files for the primitives, by their endings: Parquet, or time slices in DUNE's layout.
    pub outputs: Vec<PathBuf>,
    /// Whether files that are there already are replaced.
    pub overwrite: bool,
    /// Thresholds of all planes to be tried in one pass; empty: that of the chain.
    pub thresholds: Vec<u16>,
}

/// Is told now and then the bytes read so far and those to be read in total, and says whether the
/// search is to go on.
pub type Progress<'a> = dyn FnMut(u64, u64) -> ControlFlow<()> + 'a;

/// What is to differ from the chain of the run; what is absent stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Steps between the samples and the threshold.
    pub chain: Option<Chain>,
    /// Thresholds by plane, ADC counts.
    pub threshold: Option<[u16; PLANES]>,
    /// Fewest samples of a hit, by plane.
    pub sot_minimum: Option<[u16; PLANES]>,
    /// Memory of the running sum by plane, tenths.
    pub memory_factor: Option<[u8; PLANES]>,
    /// Weight of a sample in the running sum by plane, tenths.
    pub scale_factor: Option<[u8; PLANES]>,
    /// Limit of the accumulator of the pedestal.
    pub accum_limit: Option<u16>,
    /// Masked channels, instead of those of the run.
    pub mask: Option<Vec<u32>>,
    /// Instruction set; absent: the fastest of this machine, whatever the run used.
    pub isa: IsaChoice,
}

impl Changes {
    /// The chain of the run with the changes.
    pub(super) fn apply(&self, mut tpg: TpgConfig) -> TpgConfig {
        fn change<T: Clone>(value: &mut T, change: &Option<T>) {
            change.iter().for_each(|change| *value = change.clone());
        }
        change(&mut tpg.chain, &self.chain);
        change(&mut tpg.threshold, &self.threshold);
        change(&mut tpg.sot_minimum, &self.sot_minimum);
        change(&mut tpg.memory_factor, &self.memory_factor);
        change(&mut tpg.scale_factor, &self.scale_factor);
        change(&mut tpg.accum_limit, &self.accum_limit);
        change(&mut tpg.mask, &self.mask);
        tpg.isa = self.isa;
        tpg
    }
}

/// Pedestals before the first sample of a stream.
///
/// When nothing is asked for, raw frames from the start of the run begin as the run did, so that
/// they give what it found. Everything else begins within the data, where the pedestal of the run
/// was long found: there it is the median of the first frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PedestalStart {
    /// As the configuration of the run says.
    Run,
    /// The median of the samples of the first frame, by channel; see [`InitialPedestal::Data`].
    Data,
    /// A number of ADC counts, 0 to 16384.
    Counts(u16),
}

/// Prints what [`FromStr`] reads.
impl fmt::Display for PedestalStart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Run => f.pad("run"),
            Self::Data => InitialPedestal::Data.fmt(f),
            Self::Counts(counts) => write!(f, "{counts}"),
        }
    }
}

impl FromStr for PedestalStart {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text, text.parse()) {
            ("run", _) => Ok(Self::Run),
            ("data", _) => Ok(Self::Data),
            (_, Ok(counts)) if counts <= 16384 => Ok(Self::Counts(counts)),
            _ => Err(format!("{text:?} is none of run, data and 0 to 16384")),
        }
    }
}

/// As text.
impl Serialize for PedestalStart {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Which frames are searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FrameSource {
    /// Raw frames of a log, in the order in which they were recorded.
    Raw,
    /// Windows of trigger records of a log or raw file, in the order of time.
    Records,
    /// Packets of a capture, in the order in which they came.
    Capture,
}

impl fmt::Display for FrameSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Raw => "raw frames",
            Self::Records => "trigger records",
            Self::Capture => "captured packets",
        })
    }
}
