//! What happens in a drill, in words.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::ledger::Totals;

/// What has happened in a drill. What broke is named in words.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The hosts have made the machine, so long after their start, and each reaches each.
    Whole(Duration),
    /// This was broken.
    Broken(String),
    /// All others knew of it so long after it broke, and after that time a PUT posted since had passed from each to each.
    Survived(String, Duration, Duration),
    /// This was mended.
    Mended(String),
    /// So long after that no host knew of any fault, and a PUT posted since had passed from each to each.
    Restored(String, Duration),
    /// Hosts take for dead what nobody has broken.
    Alarm(String),
    /// All is over.
    Over(Summary),
}

/// What a drill has shown.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    /// What became of the PUTs.
    pub puts: Totals,
    /// Faults that all hosts came to know, and which all traffic survived.
    pub faults: usize,
    /// The longest time until all knew of one, ms.
    pub known_ms: f64,
    /// The longest time until PUTs passed from each to each again, ms.
    pub flowing_ms: f64,
    /// Faults that were told and were none.
    pub false_alarms: usize,
}

pub(super) fn ms(time: &Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(after) => write!(f, "the machine is whole after {:.0} ms", ms(after)),
            Self::Broken(what) if what.starts_with("the cable") => write!(f, "{what} is cut"),
            Self::Broken(what) => write!(f, "{what} is killed"),
            Self::Survived(what, known, flowing) => {
                let (known, flowing) = (ms(known), ms(flowing));
                write!(
                    f,
                    "{what}: known to all after {known:.0} ms, all flows after {flowing:.0} ms"
                )
            }
            Self::Mended(what) if what.starts_with("the cable") => write!(f, "{what} is mended"),
            Self::Mended(what) => write!(f, "{what} is started again"),
            Self::Restored(what, after) => {
                write!(f, "{what} is in use again after {:.0} ms", ms(after))
            }
            Self::Alarm(what) => write!(
                f,
                "a false alarm, for which the watchdog may be too short: nobody has broken {what}"
            ),
            Self::Over(summary) => summary.fmt(f),
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { puts, faults, known_ms, flowing_ms, false_alarms } = self;
        write!(f, "{puts}; {faults} faults")?;
        if *faults > 0 {
            write!(
                f,
                ", each known to all within {known_ms:.0} ms, all flows again within {flowing_ms:.0} ms"
            )?;
        }
        match false_alarms {
            0 => Ok(()),
            1 => write!(f, "; 1 false alarm"),
            alarms => write!(f, "; {alarms} false alarms"),
        }
    }
}
