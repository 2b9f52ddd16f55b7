//! What happens in a drill, in words.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::ledger::Totals;
use crate::status::Packets;

/// What is done to a cable or a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Harm {
    /// A cable carries nothing.
    Cut,
    /// A host is gone, as after SIGKILL.
    Killed,
    /// A cable carries nothing in one direction.
    OneWay,
    /// A host does nothing for a while, as after SIGSTOP, and goes on later.
    Halted,
    /// A cable loses a twentieth of all frames.
    Lossy,
}

impl Harm {
    /// All, in the order in which a drill goes through them.
    pub(super) const ALL: [Self; 5] =
        [Self::Cut, Self::Killed, Self::OneWay, Self::Halted, Self::Lossy];

    /// What is said of whatever it is done to.
    fn words(self) -> &'static str {
        match self {
            Self::Cut => "is cut",
            Self::Killed => "is killed",
            Self::OneWay => "carries nothing in that direction",
            Self::Halted => "is halted",
            Self::Lossy => "loses one of twenty frames",
        }
    }

    fn mended(self) -> &'static str {
        match self {
            Self::Killed => "is started again",
            Self::Halted => "goes on",
            Self::Cut | Self::OneWay | Self::Lossy => "is mended",
        }
    }

    fn of_many(self) -> &'static str {
        match self {
            Self::Cut => "cables cut",
            Self::Killed => "hosts killed",
            Self::OneWay => "cables dead in one direction",
            Self::Halted => "hosts halted",
            Self::Lossy => "cables lossy",
        }
    }
}

/// What has happened in a drill. What was harmed is named in words.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The hosts have made the machine, so long after their start, and each reaches each.
    Whole(Duration),
    /// This was harmed.
    Broken(String, Harm),
    /// All others knew of it so long after it broke, and after that time a PUT posted since had passed from each to each.
    Survived(String, Duration, Duration),
    /// This was mended.
    Mended(String, Harm),
    /// So long after that no host knew of any fault, and a PUT posted since had passed from each to each.
    Restored(String, Duration),
    /// Hosts take for dead what nobody has broken.
    Alarm(String),
    /// All is over.
    Over(Summary),
}

/// Mean and greatest of times, ms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spread {
    /// Their mean.
    pub mean: f64,
    /// The greatest of them.
    pub max: f64,
}

/// How faults of a kind were survived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Times {
    /// How many there were.
    pub faults: usize,
    /// Until all hosts knew of one, ms.
    pub known_ms: Spread,
    /// From then until PUTs passed from each host to each other one again, ms.
    pub flowing_after_ms: Spread,
}

impl Times {
    pub(super) fn add(&mut self, known: Duration, flowing: Duration) {
        self.faults += 1;
        let after = flowing.saturating_sub(known);
        for (spread, time) in [(&mut self.known_ms, known), (&mut self.flowing_after_ms, after)] {
            spread.max = spread.max.max(ms(&time));
            spread.mean += (ms(&time) - spread.mean) / self.faults as f64;
        }
    }
}

/// What a drill has shown.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    /// What became of the PUTs.
    pub puts: Totals,
    /// What became of packets at all nodes.
    pub packets: Packets,
    /// Faults that all hosts came to know, and which all traffic survived, by what was done.
    pub faults: BTreeMap<Harm, Times>,
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
            Self::Broken(what, harm) => write!(f, "{what} {}", harm.words()),
            Self::Survived(what, known, flowing) => {
                let (known, flowing) = (ms(known), ms(flowing));
                write!(
                    f,
                    "{what}: known to all after {known:.0} ms, all flows after {flowing:.0} ms"
                )
            }
            Self::Mended(what, harm) => write!(f, "{what} {}", harm.mended()),
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

impl Summary {
    /// Whether all is as it should be.
    pub fn is_clean(&self) -> bool {
        self.puts.is_clean() && self.packets.is_balanced()
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { puts, packets, faults, false_alarms } = self;
        write!(f, "{puts}; ")?;
        match false_alarms {
            0 => write!(f, "no false alarm"),
            1 => write!(f, "1 false alarm"),
            alarms => write!(f, "{alarms} false alarms"),
        }?;
        write!(f, "\n{packets}")?;
        for (harm, Times { faults, known_ms, flowing_after_ms }) in faults {
            write!(
                f,
                "\n  {:<28} {faults:>5}, known to all after {:.0} ms, {:.0} at most; all flows {:.0} ms later, {:.0} at most",
                harm.of_many(),
                known_ms.mean,
                known_ms.max,
                flowing_after_ms.mean,
                flowing_after_ms.max
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_their_mean_and_greatest() {
        let mut times = Times::default();
        for (known, flowing) in [(100, 130), (200, 210), (300, 300)] {
            times.add(Duration::from_millis(known), Duration::from_millis(flowing));
        }
        assert_eq!((times.faults, times.known_ms), (3, Spread { mean: 200.0, max: 300.0 }));
        let Spread { mean, max } = times.flowing_after_ms;
        assert!((mean - 40.0 / 3.0).abs() < 1e-9 && max == 30.0);
    }
}
