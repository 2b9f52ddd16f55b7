//! What a receiver does with the frames of a source, without any network.

use std::sync::Arc;
use std::time::Duration;

use gannet_ingest::udp::{self, Spread, UdpConfig, UdpSink, UdpSinkConfig};
use gannet_ingest::{Datagram, Landing, MemorySource, Sink, Source};
use gannet_measure::clock::{Clock, VirtualClock};
use gannet_readout::items::{self, ItemReceiver, NoBatch};
use gannet_readout::latency::{StreamBuffer, Window, index};
use gannet_readout::receiver::{FrameDrop, Receiver, StreamPool, StreamSetup, StreamStatus};
use gannet_trigger::{Finder, Item};
use gannet_wire::tpc_frame::{BLOCK_LENGTH, CHANNELS, FRAME_LEN, SAMPLES};
use gannet_wire::{FrameFormat, GeoId, Heading, TpcFormat, daq_ethernet, wibeth};

const FORMAT: TpcFormat = TpcFormat::WibEth;
const STEP: u64 = wibeth::TICKS_PER_FRAME;

fn geo_id(stream: u16) -> GeoId {
    GeoId::new(3, 1, 0, stream)
}

/// Frame `number` of a stream, flat but for the sample that the tests ask for.
fn frame(stream: u16, number: u64, pulse: Option<usize>) -> Vec<u8> {
    let mut bytes = vec![0; FRAME_LEN];
    let mut frame = wibeth::Frame::new_unchecked(&mut bytes[..]);
    frame.daq_mut().set_geo_id(geo_id(stream));
    frame.daq_mut().set_block_length(BLOCK_LENGTH);
    frame.daq_mut().set_timestamp(number * STEP);
    frame.daq_mut().set_seq_id((number % 4096) as u16);
    for channel in 0..CHANNELS {
        (0..64).for_each(|sample| frame.set_adc(channel, sample, 1000));
    }
    pulse.into_iter().for_each(|sample| frame.set_adc(0, sample, 3000));
    bytes
}

/// The time of a sample of channel 0 that is high.
#[derive(Clone, Copy, Debug)]
struct Pulse(u64);

impl Item for Pulse {
    type Place = ();

    fn time(&self) -> u64 {
        self.0
    }

    fn place(&self) {}
}

/// Finds pulses. One in the last sample of a frame may go on in the next.
#[derive(Debug, Default)]
struct Pulses {
    searched_to: u64,
    open: Option<Pulse>,
}

impl Finder for Pulses {
    type Item = Pulse;

    const ITEMS_MAX: usize = SAMPLES;

    fn frame(&mut self, heading: &Heading, bytes: &[u8], found: &mut Vec<Pulse>) -> bool {
        let frame = wibeth::Frame::new_unchecked(bytes);
        let high = (0..SAMPLES).filter(|sample| frame.adc(0, *sample) > 2000);
        let time = |sample| heading.begin + sample as u64 * wibeth::TICKS_PER_SAMPLE;
        found.extend(self.open.take());
        found.extend(high.map(time).map(Pulse));
        self.searched_to = heading.begin + STEP;
        self.open = found.pop_if(|last| last.0 == time(SAMPLES - 1));
        true
    }

    fn finish(&mut self, found: &mut Vec<Pulse>) {
        found.extend(self.open.take());
    }

    fn searched_to(&self) -> u64 {
        self.searched_to
    }

    fn begin_anew(&mut self) {}
}

/// Two streams in one pool, and what comes of them.
struct Bench {
    clock: Arc<VirtualClock>,
    pool: Arc<StreamPool<Pulses>>,
    buffers: Vec<StreamBuffer>,
    statuses: Vec<Arc<StreamStatus>>,
}

fn bench() -> Bench {
    let (mut buffers, mut statuses) = (Vec::new(), Vec::new());
    let setup = |stream: u16| {
        let (writer, [buffer]) = index(64, FORMAT.rhythm().step);
        let status = Arc::<StreamStatus>::default();
        buffers.push(buffer);
        statuses.push(Arc::clone(&status));
        StreamSetup {
            key: geo_id(stream).into(),
            number: u32::from(stream),
            rhythm: FORMAT.rhythm(),
            frame_len_max: FRAME_LEN,
            index: writer,
            intake: None,
            finder: Pulses::default(),
            status,
        }
    };
    let pool = Arc::new(StreamPool::new((0..2).map(setup).collect()));
    Bench { clock: Arc::default(), pool, buffers, statuses }
}

impl Bench {
    /// Receivers of the same pool, each with a source of its own.
    fn receivers(
        &self,
        inputs: Vec<Vec<Vec<u8>>>,
    ) -> (Vec<Receiver<TpcFormat, Pulses>>, ItemReceiver<Pulse>) {
        let (senders, found) = items::channel(inputs.len(), Pulses::ITEMS_MAX, items::FLUSH_NS);
        let landing = || Landing { lengths: FRAME_LEN..=FRAME_LEN, cells: 64 };
        let receiver = |(number, (frames, sender)): (usize, (Vec<Vec<u8>>, _))| {
            let clock = self.clock.clone();
            let source = MemorySource::of_frames(landing(), clock.clone(), frames).unwrap();
            let pool = Arc::clone(&self.pool);
            let mut receiver =
                Receiver::new(FORMAT, Box::new(source), pool, number == 0, sender, clock);
            receiver.start().unwrap();
            receiver
        };
        let receivers = inputs.into_iter().zip(senders).enumerate().map(receiver).collect();
        (receivers, found)
    }
}

/// Steps until the source has ended.
fn exhaust(receiver: &mut Receiver<TpcFormat, Pulses>) {
    while !receiver.is_exhausted() {
        receiver.step(Duration::ZERO).unwrap();
    }
}

#[test]
fn frames_are_findable_and_their_items_handed_over() {
    let mut bench = bench();
    let frames = (10..20).map(|number| frame(0, number, (number == 15).then_some(32))).collect();
    let (mut receivers, found) = bench.receivers(vec![frames]);
    exhaust(&mut receivers[0]);
    receivers.pop().unwrap().finish();

    let mut starts = Vec::new();
    let take = |batch: &items::ItemBatch<Pulse>| {
        for (segment, pulses) in batch.segments() {
            assert_eq!((segment.stream, segment.searched_to), (0, 20 * STEP));
            starts.extend(pulses.iter().map(|pulse| pulse.time()));
        }
    };
    assert_eq!(found.receive(Duration::ZERO, take), Ok(()));
    assert_eq!(found.receive(Duration::ZERO, |_| ()), Err(NoBatch::Finished));
    assert_eq!(starts, [15 * STEP + 32 * 32]);

    let mut cut = Vec::new();
    let window = Window { begin: 12 * STEP, end: 14 * STEP };
    assert_eq!(bench.buffers[0].cut(window, &mut cut), 0);
    assert!(cut == [frame(0, 12, None), frame(0, 13, None)].concat());
    let extent = bench.buffers[0].extent().unwrap();
    assert_eq!((extent.oldest, extent.newest), (10 * STEP, 19 * STEP));
    assert_eq!(bench.statuses[0].items.get(), 1);
}

#[test]
fn what_waits_for_a_frame_is_found_when_none_comes() {
    let bench = bench();
    // The stream goes on from an earlier time, and then ends.
    let numbers = [8000, 8001, 10, 11];
    let frames = numbers.iter().map(|&n| frame(0, n, (n % 10 == 1).then_some(SAMPLES - 1)));
    let (mut receivers, found) = bench.receivers(vec![frames.collect()]);
    exhaust(&mut receivers[0]);
    receivers.pop().unwrap().finish();
    let mut starts = Vec::new();
    let take = |batch: &items::ItemBatch<Pulse>| {
        for (_, pulses) in batch.segments() {
            starts.extend(pulses.iter().map(|pulse| pulse.time() / STEP));
        }
    };
    found.receive(Duration::ZERO, take).unwrap();
    assert_eq!(starts, [8001, 11]);
    assert_eq!(bench.statuses[0].items.get(), 2);
}

#[test]
fn frames_that_cannot_be_used_are_dropped_by_name() {
    let bench = bench();
    let mut short = frame(0, 5, None);
    wibeth::Frame::new_unchecked(&mut short[..]).daq_mut().set_block_length(7);
    let frames = vec![
        frame(0, 4, None),
        short,
        frame(9, 5, None),
        frame(0, 5, None),
        frame(0, 5, None),
        frame(0, 5_000_000, None),
        frame(0, 6, None),
    ];
    let (mut receivers, _found) = bench.receivers(vec![frames]);
    exhaust(&mut receivers[0]);
    let account = receivers[0].account();
    receivers.pop().unwrap().finish();
    assert_eq!(account.delivered(), 3);
    for reason in [
        FrameDrop::BadHeader,
        FrameDrop::UnknownStream,
        FrameDrop::Duplicate,
        FrameDrop::BadTimestamp,
    ] {
        assert_eq!(account.dropped(reason), 1, "{reason:?}");
    }
    assert!(account.statement("frames").closes());
    assert_eq!(bench.statuses[0].missing.get(), 0);
}

#[test]
fn gaps_of_any_length_lose_no_frame() {
    let mut bench = bench();
    // Pieces of a stream: of several frames, of one, again of one as the last; the second stream
    // has the last one, too.
    let numbers = [1, 2, 3, 20_000, 20_001, 50_000, 90_000, 90_001, 400_000];
    let mut frames: Vec<_> = numbers.iter().map(|&n| frame(0, n, Some(32))).collect();
    let others = [3, 90_001, 90_002, 400_000].map(|number| frame(1, number, None));
    frames.splice(3..3, others);
    let (mut receivers, found) = bench.receivers(vec![frames]);
    exhaust(&mut receivers[0]);
    let account = receivers[0].account();
    receivers.pop().unwrap().finish();
    let mut starts = Vec::new();
    let take = |batch: &items::ItemBatch<Pulse>| {
        for (_, pulses) in batch.segments() {
            starts.extend(pulses.iter().map(|pulse| pulse.time() / STEP));
        }
    };
    found.receive(Duration::ZERO, take).unwrap();
    assert_eq!(starts, numbers);
    assert_eq!(account.delivered(), 13);
    assert!(account.statement("frames").closes());
    assert_eq!(bench.statuses[0].missing.get(), 400_000 - numbers.len() as u64);
    // Frames from before a gap are found as long as nothing has come in their place.
    for number in [90_000, 90_001, 400_000] {
        let mut cut = Vec::new();
        let window = Window { begin: number * STEP, end: (number + 1) * STEP };
        assert!(bench.buffers[0].extent().is_some());
        bench.buffers[0].cut(window, &mut cut);
        assert!(cut == frame(0, number, Some(32)), "{number}");
    }
}

#[test]
fn one_frame_a_day_ahead_is_dropped_and_the_stream_goes_on() {
    let bench = bench();
    let day = 30_517 * 86_400 / 4096 * 4096;
    let mut frames: Vec<_> = (1..200).map(|number| frame(0, number, None)).collect();
    frames.insert(100, frame(0, day + 101, None));
    let (mut receivers, _found) = bench.receivers(vec![frames]);
    let account = receivers[0].account();
    exhaust(&mut receivers[0]);
    bench.clock.advance_ns(20_000_000);
    receivers[0].step(Duration::ZERO).unwrap();
    assert_eq!((account.delivered(), account.dropped(FrameDrop::BadTimestamp)), (199, 1));
    let status = &bench.statuses[0];
    assert_eq!((status.missing.get(), status.newest_timestamp.get()), (0, 199 * STEP));
}

#[test]
fn a_stream_stays_with_the_receiver_that_saw_it_first() {
    let mut bench = bench();
    let inputs = vec![vec![frame(0, 1, None)], vec![frame(0, 2, None), frame(1, 2, None)]];
    let (mut receivers, _found) = bench.receivers(inputs);
    receivers.iter_mut().for_each(exhaust);
    assert_eq!(receivers[0].account().delivered(), 1);
    assert_eq!(receivers[1].account().delivered(), 1);
    assert_eq!(receivers[1].account().dropped(FrameDrop::OtherSocket), 1);
    assert_eq!(
        bench.buffers.iter().map(StreamBuffer::newest).collect::<Vec<_>>(),
        [Some(STEP), Some(2 * STEP)]
    );
    assert!(bench.buffers.iter_mut().all(|buffer| buffer.extent().is_some()));
}

/// Frames of the streams of two sockets in one message come by one socket: the sources part, and
/// what the kernel could put together comes one by one.
#[test]
fn frames_that_stray_in_a_message_end_the_coalescing_at_every_socket() {
    let bench = bench();
    let clock: Arc<dyn Clock> = bench.clock.clone();
    let config = UdpConfig {
        listen: vec!["127.0.0.1:0".parse().unwrap()],
        sockets: 2,
        ..UdpConfig::default()
    };
    let landing = Landing { lengths: FRAME_LEN..=FRAME_LEN, cells: 64 };
    let keys = [0, 1].map(|stream| daq_ethernet::stream_key(geo_id(stream)));
    let spread = Spread::new(daq_ethernet::STREAM_KEY, keys);
    let mut sources = udp::prepare(&config, landing, Some(&spread), &clock).unwrap();
    sources.iter_mut().for_each(|source| source.bind().unwrap());
    let (address, counters) = (sources[0].address(), sources[1].landed().counters());
    let (senders, _found) = items::channel(2, Pulses::ITEMS_MAX, items::FLUSH_NS);
    let receiver = |(source, sender): (udp::UdpSource, _)| {
        let (pool, clock) = (Arc::clone(&bench.pool), Arc::clone(&clock));
        let mut receiver = Receiver::new(FORMAT, Box::new(source), pool, false, sender, clock);
        receiver.start().unwrap();
        receiver
    };
    let mut receivers: Vec<_> = sources.into_iter().zip(senders).map(receiver).collect();
    let mut sink = UdpSink::connect(address, &UdpSinkConfig::default()).unwrap();
    let mut send = |frames: &[(u16, u64)]| {
        let frames: Vec<_> = frames.iter().map(|(stream, n)| frame(*stream, *n, None)).collect();
        let datagrams: Vec<_> = frames.iter().map(|body| Datagram { header: &[], body }).collect();
        assert_eq!(sink.send(&datagrams).unwrap().datagrams, frames.len() as u64);
        receivers.iter_mut().for_each(|receiver| _ = receiver.step(Duration::ZERO).unwrap());
    };
    send(&[(1, 1)]);
    send(&[(0, 1), (0, 2), (1, 2)]);
    send(&[(1, 3)]);
    let before = counters.messages.get();
    send(&[(1, 4), (1, 5), (1, 6)]);
    let messages = counters.messages.get() - before;
    let accounts = [0, 1].map(|place| receivers[place].account());
    assert_eq!(accounts[0].dropped(FrameDrop::OtherSocket), 1);
    assert_eq!([accounts[0].delivered(), accounts[1].delivered()], [2, 5]);
    assert_eq!(messages, 3, "sent as one");
}

#[test]
fn silence_is_reported_within_three_frame_periods_and_100_ms() {
    let bench = bench();
    bench.pool.begin(0);
    let (mut receivers, _found) = bench.receivers(vec![vec![frame(0, 1, None)]]);
    let stalled = || bench.statuses.iter().map(|status| status.stalled.get()).collect::<Vec<_>>();
    receivers[0].step(Duration::ZERO).unwrap();
    bench.clock.advance_ns(40_000_000);
    receivers[0].step(Duration::ZERO).unwrap();
    assert_eq!(stalled(), [0, 0]);
    bench.clock.advance_ns(60_000_000);
    receivers[0].step(Duration::ZERO).unwrap();
    assert_eq!(stalled(), [1, 1], "one stopped, the other never came");
}
