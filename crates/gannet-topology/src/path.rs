//! A path as a list of hops, and the rates that follow.

use serde::Serialize;

use crate::hop::Hop;

/// What one hop allows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Limit {
    /// The hop, and what of it limits.
    pub hop: String,
    /// What it allows, in 10^9 bytes a second.
    pub gbyte_per_s: f64,
    /// The measurement that this figure was fitted to, if it was: it predicts nothing then.
    pub calibrated: Option<String>,
}

/// What is done with data at the far end: put there, worked on, and fetched again, one after the other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Visit {
    /// Bytes that are put and fetched.
    pub bytes: u64,
    /// Rate of the work between, GB/s.
    pub compute_gbyte_per_s: f64,
}

/// A path between two memories.
#[derive(Clone, Debug, PartialEq)]
pub struct Path {
    /// What people call it.
    pub name: String,
    /// Its hops, in the order of a PUT.
    pub hops: Vec<Hop>,
    /// What is done over it, where that is asked for.
    pub visit: Option<Visit>,
}

/// The rate of one operation over a path.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rate {
    /// The hop that limits it.
    pub limit: Limit,
    /// The hop that would limit it next.
    pub runner_up: Option<Limit>,
}

/// Seconds of a visit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct VisitTime {
    /// Bytes that are put and fetched.
    pub bytes: u64,
    /// Seconds of the PUT.
    pub put_s: f64,
    /// Seconds of the work.
    pub compute_s: f64,
    /// Seconds of the GET.
    pub get_s: f64,
    /// Seconds of all three.
    pub total_s: f64,
}

/// What is expected of a path.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Prediction {
    /// The path.
    pub path: String,
    /// The rate of PUTs; absent where no hop has a known rate.
    pub put: Option<Rate>,
    /// The rate of GETs.
    pub get: Option<Rate>,
    /// Hops of which the rate is not known: the true rates may be lower.
    pub unknown: Vec<String>,
    /// How long the visit takes.
    pub visit: Option<VisitTime>,
    /// All of it in a sentence.
    pub sentence: String,
}

impl Path {
    /// The rates that its slowest hops allow.
    pub fn predict(&self) -> Prediction {
        let put = Rate::least_of(self.hops.iter().flat_map(Hop::put_limits));
        let get = Rate::least_of(self.hops.iter().flat_map(Hop::get_limits));
        let is_unknown = |hop: &&Hop| hop.put_limits().next().is_none();
        let unknown: Vec<_> =
            self.hops.iter().filter(is_unknown).map(|hop| hop.name.clone()).collect();
        let visit = self.visit.zip(put.as_ref().zip(get.as_ref()));
        let visit = visit.map(|(visit, (put, get))| visit.time(put, get));
        let sentence = sentence(put.as_ref(), get.as_ref(), &unknown, visit);
        Prediction { path: self.name.clone(), put, get, unknown, visit, sentence }
    }
}

impl Rate {
    /// What it comes to, GB/s.
    pub fn gbyte_per_s(&self) -> f64 {
        self.limit.gbyte_per_s
    }

    fn least_of(limits: impl Iterator<Item = Limit>) -> Option<Self> {
        let mut limits: Vec<_> = limits.collect();
        limits.sort_by(|a, b| a.gbyte_per_s.total_cmp(&b.gbyte_per_s));
        let mut limits = limits.into_iter();
        Some(Self { limit: limits.next()?, runner_up: limits.next() })
    }

    fn told(&self, operation: &str) -> String {
        let Limit { hop, gbyte_per_s, calibrated } = &self.limit;
        let calibrated = match calibrated {
            Some(to) => format!(", calibrated to {to}"),
            None => String::new(),
        };
        let next = match &self.runner_up {
            Some(next) => format!("; next would be {} at {:.2}", next.hop, next.gbyte_per_s),
            None => String::new(),
        };
        format!("{operation} {gbyte_per_s:.2} GB/s, limited by {hop}{calibrated}{next}")
    }
}

impl Visit {
    fn time(&self, put: &Rate, get: &Rate) -> VisitTime {
        let seconds = |gbyte_per_s: f64| self.bytes as f64 * 1e-9 / gbyte_per_s;
        let (put_s, get_s) = (seconds(put.gbyte_per_s()), seconds(get.gbyte_per_s()));
        let compute_s = seconds(self.compute_gbyte_per_s);
        VisitTime { bytes: self.bytes, put_s, compute_s, get_s, total_s: put_s + compute_s + get_s }
    }
}

fn sentence(
    put: Option<&Rate>,
    get: Option<&Rate>,
    unknown: &[String],
    visit: Option<VisitTime>,
) -> String {
    let (Some(put), Some(get)) = (put, get) else {
        return format!("nothing is known of {}, so no rate can be told", unknown.join(", "));
    };
    let mut sentence = format!("{}. {}.", put.told("PUT"), get.told("GET"));
    if !unknown.is_empty() {
        sentence += &format!(" At most: nothing is known of {}.", unknown.join(", "));
    }
    if let Some(VisitTime { bytes, put_s, compute_s, get_s, total_s }) = visit {
        sentence += &format!(
            " {:.2} GB put in {put_s:.2} s, worked on in {compute_s:.2} s and fetched in {get_s:.2} s: {total_s:.2} s.",
            bytes as f64 * 1e-9
        );
    }
    sentence
}
