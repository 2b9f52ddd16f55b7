//! What modules are expected to send, and what is made of it.

use std::collections::BTreeMap;

use gannet_control::config::{Config, Document, Load, Problem};
use gannet_emulate::Traffic;
use gannet_emulate::km3::config::{Datagrams, Noise};
use gannet_wire::km3net::{CHANNELS, SLICE_NS};

use super::config::Km3Tables;
use crate::levels::Level;

/// Time of a core that a datagram takes, from the socket to confirmed hits, in seconds, as measured on the
/// machine of `results/km3-live.md`.
const RECEIVE_S_PER_FRAME: f64 = 2.1e-6;
/// Slices in a second.
const SLICES_PER_S: f64 = 1e9 / SLICE_NS as f64;
/// Rate of a photomultiplier in the sea, where nothing else is configured.
const USUAL_HZ: f64 = 7000.0;

/// What modules are expected to send.
#[derive(Clone, Debug)]
pub(super) struct Expected {
    /// Datagrams of a module.
    pub traffic: Traffic,
    noise: Noise,
    /// Whether `[emulate]` says so.
    is_emulated: bool,
}

impl Expected {
    /// What the front end of `[emulate]` sends; without one, photomultipliers of 7 kHz.
    pub fn of(config: &Config<Km3Tables>, document: &Document<'_>) -> Result<Self, Problem> {
        let is_emulated = document.has("emulate");
        let mut emulate = config.emulate.clone();
        if !is_emulated {
            (emulate.noise.rate_min_hz, emulate.noise.rate_max_hz) = (USUAL_HZ, USUAL_HZ);
            let streams = config.sources.first().map(|source| &source.streams);
            emulate.datagrams = streams.map_or_else(Default::default, |streams| Datagrams {
                bytes_max: streams.longest.bytes() as usize,
                status_words: streams.status_words,
                ..Default::default()
            });
        }
        let traffic = emulate.traffic().map_err(|error| {
            let cause = format!("{} is not allowed", error.value);
            document.problem(&format!("emulate.{}", error.key), cause, error.expected)
        })?;
        Ok(Self { traffic, noise: emulate.noise, is_emulated })
    }

    /// What so many modules bring, and what is recorded of it: a summary of 55 bytes a slice, and of each
    /// level that is written the hits that there are of it in the dark.
    pub fn load(&self, levels: &[Level], modules: usize) -> Load {
        let confirmed = 2.6 * self.noise.twofold_hz;
        let all = modules as f64 * self.noise.hits_per_s();
        let hits_per_s = |level: &Level| match level {
            Level::L0 => self.noise.hits_per_s(),
            Level::L1 => 2.0 * confirmed,
            Level::L2 => confirmed,
            Level::Sn => 10.0,
        };
        let of_levels: f64 =
            levels.iter().map(|level| 60.0 * SLICES_PER_S + 6.0 * hits_per_s(level)).sum();
        Load {
            front_end: self.words(modules, all),
            per_s: BTreeMap::from([("hits", all)]),
            receive_s_per_frame: RECEIVE_S_PER_FRAME,
            written: "summary slices and time slices of the dark; events come on top".into(),
            product_bytes_per_s: modules as f64 * (55.0 * SLICES_PER_S + of_levels),
            ..Load::default()
        }
    }

    fn words(&self, modules: usize, hits_per_s: f64) -> String {
        let who = match self.is_emulated {
            true => "as [emulate] says",
            false => "there is no [emulate]; expected in the sea",
        };
        let (least, most) = (self.noise.rate_min_hz * 1e-3, self.noise.rate_max_hz * 1e-3);
        let rate = if least == most { format!("{most}") } else { format!("{least} to {most}") };
        let Traffic { frames_per_s, frame_bytes } = self.traffic;
        format!(
            "{who}: {modules} modules x {CHANNELS} photomultipliers x {rate} kHz are {:.1} million hits/s \
             with those of potassium; {:.0} datagrams of {frame_bytes:.0} B for each slice of a module",
            hits_per_s * 1e-6,
            frames_per_s / SLICES_PER_S,
        )
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use gannet_control::config::{Forecast, parse};
    use gannet_emulate::FrontEnd;
    use gannet_emulate::km3::{Config, Km3FrontEnd};
    use gannet_wire::km3net::DetectorFile;
    use gannet_wire::km3net::detector_file::Lattice;

    use crate::detector::KM3NET;

    const MODULES: usize = 14;

    fn forecast(text: &str) -> Forecast {
        let text = format!(
            "{text}\n[pipeline]\ndetector = \"km3net\"\nlattice = {{ strings = 7, modules = 2 }}\n\
             [[source]]\ndepth = \"300 ms\"\nudp = {{ listen = [\"127.0.0.1:7570\"] }}\n"
        );
        parse("test.toml", &text, Path::new("."), &[&KM3NET]).unwrap().forecast
    }

    #[test]
    fn what_emulate_sends_is_forecast() {
        let told = forecast("emulate = { light = { muons_hz = 0.0, showers_hz = 0.0 } }");
        let lattice = Lattice { strings: 7, modules: 2, ..Lattice::default() };
        let mut config = Config::default();
        (config.light.muons_hz, config.light.showers_hz) = (0.0, 0.0);
        let mut made = Km3FrontEnd::new(&config, &DetectorFile::lattice(&lattice), 0).unwrap();
        assert!((told.frames_per_s - MODULES as f64 * made.frames_per_s()).abs() < 1e-6);
        let hits: u32 = (0..MODULES).flat_map(|module| made.counts(module, 0)).sum();
        let hits_per_s = f64::from(hits) * 10.0;
        assert!((told.per_s["hits"] / hits_per_s - 1.0).abs() < 0.03, "{told:?}, {hits_per_s}");
        let windows = made.datagrams_per_slice() as u64;
        let slice = (0..MODULES).flat_map(|module| (0..windows).map(move |at| (module, at)));
        let bytes: usize = slice.map(|(module, at)| made.frame(module, at).len()).sum();
        let gbit_per_s = bytes as f64 * 10.0 * 8e-9;
        assert!((told.gbit_per_s / gbit_per_s - 1.0).abs() < 0.03, "{told:?}, {gbit_per_s}");
        assert!((told.depth_s - 0.3).abs() < 0.01, "{}", told.depth_s);
        assert!(
            told.front_end
                .starts_with("as [emulate] says: 14 modules x 31 photomultipliers x 5 to 8 kHz")
        );
    }

    #[test]
    fn without_a_front_end_the_sea_is_expected() {
        let told = forecast("");
        let hits = MODULES as f64 * (31.0 * 7000.0 + 2.6 * 500.0);
        assert!((told.per_s["hits"] - hits).abs() < 1.0, "{told:?}");
        assert!(
            told.front_end.contains("expected in the sea") && told.front_end.contains(" x 7 kHz")
        );
        assert_eq!(told.record_bytes, 0);
        assert!(told.written.starts_with("summary slices"));
    }
}
