//! Valid bytes of every format, damaged in many ways, shown to every decoder.
//!
//! A stand-in for the fuzzer that runs wherever the tests run: seeded, so that a failure is
//! repeated by its number. 10^5 inputs, or 10^6 with `GANNET_LONG=1`.

mod mutation;
mod samples;

use std::fs;
use std::path::Path;

use gannet_wire::inspect::{Format, describe, identify};

use mutation::{Random, mutate};

/// Longest description of an input: a header of a page, and [`ITEMS_SHOWN`] items of inputs.
///
/// [`ITEMS_SHOWN`]: gannet_wire::inspect::ITEMS_SHOWN
const TEXT_LEN_MAX: usize = 64 << 10;

/// An input is described as its own format, and as every sixth of all formats, another sixth each time.
const STRANGERS: usize = 6;

/// Names the input that made a decoder panic.
struct Culprit {
    input: u64,
    format: Format,
}

impl Drop for Culprit {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("input {} described as {}", self.input, self.format);
        }
    }
}

/// What a decoder made of mutations of its own format.
#[derive(Default)]
struct Verdicts {
    accepted: u64,
    refused: u64,
}

impl Verdicts {
    fn count(&mut self, accepted: bool) {
        *if accepted { &mut self.accepted } else { &mut self.refused } += 1;
    }
}

/// Whether `bytes` are described as `format`; nothing else may happen than yes or no.
fn is_described(input: u64, format: Format, bytes: &[u8], text: &mut String) -> bool {
    let _culprit = Culprit { input, format };
    text.clear();
    let result = describe(format, bytes, text);
    assert!(text.len() <= TEXT_LEN_MAX, "{} bytes of text", text.len());
    result.is_ok()
}

fn inputs() -> u64 {
    if std::env::var_os("GANNET_LONG").is_some_and(|long| long == "1") {
        1_000_000
    } else {
        100_000
    }
}

#[test]
fn every_format_has_a_valid_sample() {
    for &format in Format::ALL {
        let sample = samples::sample(format);
        assert_eq!(describe(format, &sample, &mut String::new()), Ok(()), "{format}");
        // Some have nothing to know them by.
        let is_nameless = matches!(format, Format::Udp | Format::RoCe);
        assert!(is_nameless || identify(&sample) == Some(format), "{format}");
    }
}

#[test]
fn every_format_has_a_fuzz_target() {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    let manifest = fs::read_to_string(fuzz.join("Cargo.toml")).unwrap();
    let targets = fs::read_to_string(fuzz.join("src/lib.rs")).unwrap();
    for format in Format::ALL {
        assert!(manifest.contains(&format!("name = \"{format}\"")), "{format}");
        let target = format!("    {}: |bytes| print", format.to_string().replace('-', "_"));
        let line = targets.lines().find(|line| line.starts_with(&target)).unwrap();
        assert!(line.contains(&format!("Format::{format:?}, bytes")), "{format}");
    }
}

#[test]
fn mutated_bytes_are_described_or_refused() {
    let samples: Vec<Vec<u8>> = Format::ALL.iter().map(|&format| samples::sample(format)).collect();
    let mut own: Vec<Verdicts> = Format::ALL.iter().map(|_| Verdicts::default()).collect();
    let (mut bytes, mut text) = (Vec::new(), String::new());
    for input in 0..inputs() {
        let mut random = Random::new(input);
        let kind = random.below(samples.len());
        bytes.clone_from(&samples[kind]);
        mutate(&mut bytes, &samples[random.below(samples.len())], &mut random);
        own[kind].count(is_described(input, Format::ALL[kind], &bytes, &mut text));
        for index in (input as usize % STRANGERS..Format::ALL.len()).step_by(STRANGERS) {
            is_described(input, Format::ALL[index], &bytes, &mut text);
        }
        identify(&bytes);
    }
    // Mutations that a decoder always or never accepts would test only its first line.
    for (format, Verdicts { accepted, refused }) in Format::ALL.iter().zip(own) {
        let all = accepted + refused;
        assert!(accepted > all / 50 && refused > all / 50, "{format}: {accepted} of {all}");
    }
}
