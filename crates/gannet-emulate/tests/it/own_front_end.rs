//! A front end of one's own, with short frames of varying length, through every kind of fault.

use std::ops::RangeInclusive;

use gannet_emulate::config::{Faults, Outage, WrongClock};
use gannet_emulate::replay::{MemoryRecording, Next, ReplayPace};
use gannet_emulate::{Body, Burst, Emulator, FrontEnd, Replay, Settings, StreamTruth};
use gannet_measure::quantity::Span;
use gannet_measure::ticks::TickRate;
use gannet_wire::{Error, FrameFormat, Heading, Result, Rhythm, Step, StreamKey};

const HEADER_LEN: usize = 12;
const WORDS_MAX: usize = 7;
const STREAMS: [StreamKey; 4] = [StreamKey(3), StreamKey(4), StreamKey(7), StreamKey(9)];
const START: u64 = 1_000_000;
const STEP: u64 = 250;
const FRAMES: usize = 9 * 300;

/// Time (64 bits), number (16), stream (8), and the number (8) of words of 32 bits that follow.
#[derive(Clone, Copy, Debug)]
struct Hodoscope;

impl FrameFormat for Hodoscope {
    fn lengths(&self) -> RangeInclusive<usize> {
        HEADER_LEN..=HEADER_LEN + 4 * WORDS_MAX
    }

    fn rhythm(&self) -> Rhythm {
        Rhythm {
            clock: TickRate::hz(1_000_000),
            step: Step::Fixed(STEP),
            sequence_modulus: 1 << 16,
        }
    }

    fn heading(&self, frame: &[u8]) -> Result<Heading> {
        let need = HEADER_LEN + 4 * usize::from(frame.get(11).copied().unwrap_or(0));
        if frame.len() != need {
            return Err(Error::Truncated { format: "hodoscope", expected: need, got: frame.len() });
        }
        Ok(Heading {
            stream: StreamKey(frame[10].into()),
            begin: u64::from_le_bytes(frame[..8].try_into().unwrap()),
            sequence: u16::from_le_bytes([frame[8], frame[9]]).into(),
        })
    }

    fn set_heading(&self, frame: &mut [u8], heading: &Heading) {
        frame[..8].copy_from_slice(&heading.begin.to_le_bytes());
        frame[8..10].copy_from_slice(&(heading.sequence as u16).to_le_bytes());
        frame[10] = heading.stream.0 as u8;
    }

    fn stream_name(&self, stream: StreamKey) -> String {
        format!("bar {}", stream.0)
    }
}

/// Frames of the first two streams share their bodies, those of the others have their own.
struct Bars {
    shared: Vec<Vec<u8>>,
}

impl Bars {
    fn new() -> Self {
        Self { shared: (0..=WORDS_MAX).map(|words| vec![words as u8; 4 * words]).collect() }
    }
}

impl FrontEnd for Bars {
    type Format = Hodoscope;

    fn format(&self) -> &Hodoscope {
        &Hodoscope
    }

    fn streams(&self) -> &[StreamKey] {
        &STREAMS
    }

    fn start(&self) -> u64 {
        START
    }

    fn make(&mut self, stream: usize, index: u64, frame: &mut Vec<u8>) -> Body {
        let words = (index % (WORDS_MAX as u64 + 1)) as usize;
        frame.resize(HEADER_LEN, words as u8);
        Hodoscope.set_heading(frame, &self.heading(stream, index));
        if stream < 2 {
            return Body::Shared(words);
        }
        frame.extend((0..words).flat_map(|word| (index as u32 + word as u32).to_le_bytes()));
        Body::Own(HEADER_LEN)
    }

    fn body(&self, number: usize) -> &[u8] {
        &self.shared[number]
    }
}

/// The frames of a stream without faults.
fn pristine(stream: usize) -> Vec<Vec<u8>> {
    (0..FRAMES as u64).map(|index| Bars::new().frame(stream, index)).collect()
}

type Frames = Vec<Vec<u8>>;

/// What is sent of each stream under `faults`, with the frames as they were made and the truth.
fn run(faults: Faults) -> Vec<(Frames, Frames, StreamTruth)> {
    let drawn = faults != Faults::default() && faults.outages.is_empty();
    let settings = Settings { seed: 5, faults, ..Settings::default() };
    let mut emulator = Emulator::new(Bars::new(), &settings).unwrap();
    let mut sent = vec![Vec::new(); STREAMS.len()];
    let collect = |sent: &mut Vec<Vec<u8>>, burst: Burst<'_>| {
        sent.extend(burst.datagrams().iter().map(|part| [part.head, part.body].concat()));
    };
    for _ in 0..FRAMES / 9 {
        for (stream, sent) in sent.iter_mut().enumerate() {
            collect(sent, emulator.next_burst(stream, 9));
        }
    }
    for (stream, sent) in sent.iter_mut().enumerate() {
        collect(sent, emulator.flush(stream));
    }
    let truth = emulator.truth();
    assert!(truth.total().statement().closes());
    let streams = sent.into_iter().zip(truth.streams).enumerate();
    streams
        .map(|(stream, (sent, truth))| {
            assert_eq!(truth.stream, format!("bar {}", STREAMS[stream].0));
            assert_eq!(
                (truth.frames_made, truth.datagrams_sent),
                (FRAMES as u64, sent.len() as u64)
            );
            assert!(!drawn || truth.faults.total() > 100, "nothing to see");
            (sent, pristine(stream), truth)
        })
        .collect()
}

/// Pairs of which the second differs from the first.
fn changed<'a>(
    made: &'a [Vec<u8>],
    sent: &'a [Vec<u8>],
) -> impl Iterator<Item = (&'a Vec<u8>, &'a Vec<u8>)> {
    assert_eq!(made.len(), sent.len());
    made.iter().zip(sent).filter(|(made, sent)| made != sent)
}

#[test]
fn frames_are_sent_as_they_are_made() {
    for (sent, made, truth) in run(Faults::default()) {
        assert!(sent == made && sent.iter().any(|frame| frame.len() == 40));
        assert_eq!(truth.last_timestamp, Some(START + STEP * (FRAMES as u64 - 1)));
    }
}

#[test]
fn frames_are_lost_doubled_and_late() {
    for (sent, made, truth) in run(Faults { loss: 0.1, ..Faults::default() }) {
        let mut rest = made.iter();
        assert!(sent.iter().all(|frame| rest.any(|other| other == frame)));
        assert_eq!((made.len() - sent.len()) as u64, truth.faults.lost);
    }
    for (mut sent, made, truth) in run(Faults { duplicate: 0.1, ..Faults::default() }) {
        assert_eq!((sent.len() - made.len()) as u64, truth.faults.duplicated);
        sent.dedup();
        assert!(sent == made);
    }
    let late = Faults { reorder: 0.1, reorder_distance: 2, ..Faults::default() };
    for (mut sent, made, truth) in run(late) {
        let steps = sent.windows(2).filter(|pair| time(&pair[0]) > time(&pair[1])).count() as u64;
        assert!(steps > 0 && steps <= truth.faults.reordered);
        sent.sort_by_key(|frame| time(frame));
        assert!(sent == made);
    }
}

#[test]
fn frames_are_cut_and_bits_flipped_within_their_true_length() {
    for (sent, made, truth) in run(Faults { truncation: 0.1, ..Faults::default() }) {
        let mut cut = 0;
        for (made, sent) in changed(&made, &sent) {
            assert!(!sent.is_empty() && made.starts_with(sent));
            cut += 1;
        }
        assert_eq!(cut, truth.faults.truncated);
    }
    for (sent, made, truth) in run(Faults { bit_flip: 0.1, ..Faults::default() }) {
        let (mut header, mut body) = (0, 0);
        for (made, sent) in changed(&made, &sent) {
            assert_eq!(made.len(), sent.len());
            let flips = made.iter().zip(sent).map(|(a, b)| (a ^ b).count_ones());
            assert_eq!(flips.sum::<u32>(), 1);
            match made[..HEADER_LEN] == sent[..HEADER_LEN] {
                true => body += 1,
                false => header += 1,
            }
        }
        assert_eq!((header, body), (truth.faults.flipped_header, truth.faults.flipped_body));
    }
}

#[test]
fn headings_are_wrong_as_the_truth_tells() {
    for (sent, made, truth) in run(Faults { wrong_id: 0.1, ..Faults::default() }) {
        let mut wrong = 0;
        for (made, sent) in changed(&made, &sent) {
            let mut sent = sent.clone();
            assert_eq!(Hodoscope.heading(&sent).unwrap().stream, StreamKey(10));
            Hodoscope.set_heading(&mut sent, &Hodoscope.heading(made).unwrap());
            assert_eq!(*made, sent);
            wrong += 1;
        }
        assert_eq!(wrong, truth.faults.wrong_id);
    }
    let jumps = Faults {
        sequence_jump: 0.05,
        sequence_jump_size: 40_000,
        timestamp_jump: 0.05,
        timestamp_jump_ticks: 7,
        ..Faults::default()
    };
    for (sent, made, truth) in run(jumps) {
        let (mut jumped, mut ticks) = (0, 0);
        for (made, sent) in made.iter().zip(&sent) {
            let [made, sent] = [made, sent].map(|frame| Hodoscope.heading(frame).unwrap());
            assert_eq!(sent.stream, made.stream);
            let ahead = (sent.sequence + (1 << 16) - made.sequence) % (1 << 16);
            jumped += u64::from(ahead != (jumped * 40_000 % (1 << 16)) as u32);
            assert_eq!(ahead, (jumped * 40_000 % (1 << 16)) as u32);
            assert!(sent.begin - made.begin == ticks || sent.begin - made.begin == ticks + 7);
            ticks = sent.begin - made.begin;
        }
        assert_eq!(jumped, truth.faults.sequence_jumped);
        assert_eq!(ticks, 7 * truth.faults.timestamp_jumped);
        assert_eq!(ticks, truth.ticks_jumped);
    }
}

#[test]
fn outages_and_wrong_clocks_are_in_the_time_of_the_detector() {
    let outage = Outage { stream: 1, stop: Span::ms(25), restart: Some(Span::ms(75)) };
    let clock = WrongClock {
        stream: 3,
        from: Span::ms(25),
        until: Some(Span::ms(75)),
        ahead: Span(0),
        behind: Span::ms(1),
    };
    let mut streams =
        run(Faults { outages: vec![outage], clocks: vec![clock], ..Faults::default() }).into_iter();
    let (sent, made, _) = streams.next().unwrap();
    assert!(sent == made);
    let (sent, made, truth) = streams.next().unwrap();
    assert!(sent == [&made[..100], &made[300..]].concat());
    assert_eq!(truth.faults.stopped, 200);
    let (sent, made, truth) = streams.nth(1).unwrap();
    let wrong = changed(&made, &sent).map(|(made, sent)| time(made) - time(sent));
    assert_eq!(wrong.collect::<Vec<_>>(), vec![1000; 200]);
    assert_eq!(truth.faults.wrong_clock, 200);
}

fn time(frame: &[u8]) -> u64 {
    Hodoscope.heading(frame).unwrap().begin
}

#[test]
fn a_jump_that_cannot_be_seen_is_refused() {
    let check = |sequence_jump_size, sequence_jump| {
        let faults = Faults { sequence_jump, sequence_jump_size, ..Faults::default() };
        Settings { faults, ..Settings::default() }
            .check(4, &Rhythm { sequence_modulus: 256, ..Hodoscope.rhythm() })
    };
    assert_eq!(check(256, 0.1).unwrap_err().key, "faults.sequence_jump_size");
    assert_eq!((check(255, 0.1), check(256, 0.0)), (Ok(()), Ok(())));
}

#[test]
fn a_recording_of_it_is_replayed_as_one_long_run() {
    let mut bars = Bars::new();
    let frames = (0..300).map(|index| (index * 250_000, bars.frame(3, index))).collect();
    let pace = ReplayPace { unpaced: true, passes: 500, ..ReplayPace::default() };
    let mut replay = Replay::new(MemoryRecording::new(frames), |_| Hodoscope, pace, 0);
    let mut index = 0;
    while let Next::Send { bytes, stream } = replay.next(0) {
        let heading = Hodoscope.heading(bytes).unwrap();
        assert_eq!(heading, bars.heading(3, index));
        assert_eq!(stream, Some(STREAMS[3]));
        assert_eq!(bytes[HEADER_LEN..], bars.frame(3, index % 300)[HEADER_LEN..]);
        index += 1;
    }
    assert_eq!(index, 500 * 300);
    assert_eq!((replay.counts().rewritten, replay.counts().no_frames), (499 * 300, 0));
}
