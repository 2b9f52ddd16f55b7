//! Queues between threads under arbitrary orders of steps, beside plain models. Each step is atomic in
//! the queues too, so one thread that takes them in turn stands for several.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use gannet_memory::{Cell, Geometry, Overwritten};
use gannet_readout::items::{FLUSH_NS, ItemBatch, ItemDrop, ItemSender, channel};
use gannet_readout::latency::{Window, index};
use gannet_readout::record::{BuildConfig, Record, RecordBuilder, RecordDrop, RecordRequest};
use gannet_readout::windows::BufferWindows;
use gannet_wire::fragment::error_bits;
use gannet_wire::{Step, TriggerPrimitive};

/// Lands, reserves, commits and moves cells of a small ring. After each step a reader sees the frames
/// that a list of all cells says are whole, and no other.
pub fn clop(bytes: &[u8]) {
    let Some((&[cells, cell_bytes], steps)) = bytes.split_first_chunk() else { return };
    let (cells, cell_bytes) = (1 + usize::from(cells) % 7, 1 + usize::from(cell_bytes) % 40);
    let geometry = Geometry { cell_bytes, cells };
    let (mut producer, reader) = gannet_memory::clop(geometry).expect("a page");
    let (mut reserved, mut committed) = (0u64, 0u64);
    let mut memory = vec![vec![0; cell_bytes]; cells];
    let place = |cell: u64| (cell % cells as u64) as usize;
    for (number, &[kind, a, b]) in steps.as_chunks().0.iter().enumerate() {
        let open = reserved - committed;
        match kind % 4 {
            0 => {
                let frame = vec![number as u8 ^ b; usize::from(a) % (cell_bytes + 1)];
                assert_eq!(producer.land(&frame), Cell(committed));
                memory[place(committed)][..frame.len()].copy_from_slice(&frame);
                committed += 1;
            }
            1 => {
                let end = committed + u64::from(a) % (cells as u64 + 1);
                producer.reserve_to(Cell(end));
                reserved = reserved.max(end);
            }
            2 => {
                committed += u64::from(a) % (open + 1);
                producer.commit_to(Cell(committed));
            }
            _ if open > 0 => {
                let [from, to] = [a, b].map(|at| committed + u64::from(at) % open);
                producer.move_open(Cell(from), Cell(to));
                memory[place(to)] = memory[place(from)].clone();
            }
            _ => {}
        }
        reserved = reserved.max(committed);
        let oldest = reserved.saturating_sub(cells as u64).min(committed);
        assert_eq!(reader.extent(), (Cell(oldest), Cell(committed)));
        assert_eq!(producer.head(), Cell(committed));
        for cell in oldest.saturating_sub(2)..reserved + 2 {
            let mut copy = vec![0; 1 + usize::from(b) % cell_bytes];
            let whole = (oldest..committed).contains(&cell);
            assert_eq!(reader.is_intact(Cell(cell)), whole);
            assert_eq!(reader.copy(Cell(cell), &mut copy), whole.then_some(()).ok_or(Overwritten));
            if whole {
                assert_eq!(copy, memory[place(cell)][..copy.len()]);
                assert_eq!(producer.bytes(Cell(cell), cell_bytes), memory[place(cell)]);
            }
        }
    }
}

/// Two receiving ends append and flush, and the trigger's end takes. Each primitive arrives once, in the
/// order of its stream, or is counted; how far a stream was searched is never lost.
pub fn primitives(bytes: &[u8]) {
    const STREAMS: u32 = 3;
    const FRAME_ITEMS_MAX: usize = 255 << 3;
    let (mut senders, receiver) = channel(2, FRAME_ITEMS_MAX, FLUSH_NS);
    let accounts = [senders[0].account(), senders[1].account()];
    let (mut tick, mut offered, mut searched) = (1u64, 0, BTreeMap::new());
    let mut taken = Taken::default();
    for &[kind, size] in bytes.as_chunks().0 {
        let own = usize::from(kind >> 2) % 2;
        let stream = own as u32 * STREAMS + u32::from(kind >> 3) % STREAMS;
        // Runs of frames without a primitive fill the segments; one frame of many fills a batch.
        let (frames, found) = match kind % 4 {
            0 => (1 << (size % 13), 0),
            1 => (1, u64::from(size) << (kind >> 6)),
            2 => {
                tick += 1 << (size % 24);
                senders[own].flush_due(tick);
                continue;
            }
            _ => {
                let _empty = receiver.receive(Duration::ZERO, |batch| taken.take(batch));
                continue;
            }
        };
        for frame in 0..frames {
            let stream =
                if size & 128 == 0 { stream } else { own as u32 * STREAMS + frame % STREAMS };
            tick += found + 1;
            let start = tick - found;
            searched.insert(stream, tick);
            offered += found;
            senders[own].append(stream, tick, |out| {
                out.extend((start..tick).map(|start| TriggerPrimitive { words: [2, start, 0] }));
                tick
            });
        }
    }
    senders.into_iter().for_each(ItemSender::finish);
    while receiver.receive(Duration::ZERO, |batch| taken.take(batch)).is_ok() {}
    let dropped: u64 = accounts.iter().map(|own| own.dropped(ItemDrop::TriggerBusy)).sum();
    let delivered: u64 = accounts.iter().map(|own| own.delivered()).sum();
    assert_eq!((taken.primitives, taken.primitives + dropped), (delivered, offered));
    assert_eq!(taken.searched, searched);
}

/// What came out of the queue of primitives.
#[derive(Default)]
struct Taken {
    primitives: u64,
    newest: BTreeMap<u32, u64>,
    searched: BTreeMap<u32, u64>,
}

impl Taken {
    fn take(&mut self, batch: &ItemBatch<TriggerPrimitive>) {
        for (segment, primitives) in batch.segments() {
            let before = self.searched.insert(segment.stream, segment.searched_to);
            assert!(before.is_none_or(|before| before <= segment.searched_to));
            for start in primitives.iter().map(TriggerPrimitive::time_start) {
                let newest = self.newest.insert(segment.stream, start);
                assert!(newest.is_none_or(|newest| newest < start) && start < segment.searched_to);
            }
            self.primitives += primitives.len() as u64;
        }
    }
}

const FRAME_BYTES: usize = 8;
const FRAME_TICKS: u64 = 64;
const CELLS: u64 = 16;
/// Frames that an index holds; time goes on by less in one step.
const INDEXED: u64 = 64;
const IN_FLIGHT_MAX: usize = 4;
const TIMEOUT_NS: u64 = 1000;
const WINDOW_TICKS_MAX: u64 = 40 * FRAME_TICKS;

/// Frames of two streams, decisions and time in any order. Each decision becomes a record in its turn,
/// with the frames and error bits that a list of all frames gives, or is refused because too many wait.
pub fn records(bytes: &[u8]) {
    let (mut producer, cells) =
        gannet_memory::clop(Geometry { cell_bytes: FRAME_BYTES, cells: CELLS as usize })
            .expect("a page");
    let (mut writers, buffers): (Vec<_>, Vec<_>) = (0..2)
        .map(|_| {
            let (mut writer, [buffer]) = index(INDEXED as usize, Step::Fixed(FRAME_TICKS));
            writer.attach(cells.clone());
            (writer, buffer)
        })
        .unzip();
    let request_timeout = gannet_measure::quantity::Span(TIMEOUT_NS);
    let config = BuildConfig { request_timeout, window_ticks_max: WINDOW_TICKS_MAX };
    let windows = Box::new(BufferWindows::new(WINDOW_TICKS_MAX, buffers));
    let mut builder = RecordBuilder::new(config, IN_FLIGHT_MAX, vec![0, 1], windows);
    let mut model = Model { awaited: [true; 2], ..Model::default() };
    let mut refused = 0;
    for (number, &[kind, a, b]) in (0..).zip(bytes.as_chunks().0) {
        let stream = usize::from(kind >> 3) % 2;
        match kind % 8 {
            0..4 => {
                let start = model.next_start(stream, a);
                let cell = producer.land(&start.to_le_bytes());
                writers[stream].insert(start, cell, FRAME_BYTES, false);
                model.frames[stream].push((start, cell.0));
                model.landed += 1;
            }
            4 => {
                let begin = model.start_near(stream, a);
                let request = request(number, begin, u64::from(b), model.now_ns);
                let taken = builder.submit(request.clone());
                assert_eq!(taken, model.waiting.len() < IN_FLIGHT_MAX);
                refused += u64::from(!taken);
                let attached = kind & 64 == 0;
                if attached {
                    builder.attach(number, Vec::new());
                }
                let answers = [None, None];
                model.waiting.extend(taken.then_some(Waiting { request, answers, attached }));
            }
            5 => model.now_ns += u64::from(a) * 8,
            6 if a & 2 == 0 => {
                model.awaited[stream] = a & 1 == 0;
                builder.set_awaited(stream, model.awaited[stream]);
            }
            6 => {
                let number = number.saturating_sub(u64::from(b));
                builder.attach(number, Vec::new());
                let mut waiting = model.waiting.iter_mut();
                if let Some(it) = waiting.find(|it| it.request.trigger_number == number) {
                    it.attached = true;
                }
            }
            _ => model.check(builder.poll(model.now_ns).as_ref()),
        }
        assert_eq!(builder.in_flight(), model.waiting.len());
    }
    builder.close();
    (model.awaited, model.closed) = ([false; 2], true);
    while !model.waiting.is_empty() {
        model.check(builder.poll(model.now_ns).as_ref());
    }
    assert_eq!(builder.poll(u64::MAX), None);
    let account = builder.account();
    assert_eq!(account.dropped(RecordDrop::Busy), refused);
    assert!(account.statement("records").closes());
}

fn request(number: u64, begin: u64, length: u64, decided_ns: u64) -> RecordRequest {
    RecordRequest {
        trigger_number: number,
        run_number: 1,
        trigger_timestamp: begin,
        trigger_type: 1,
        window: Window { begin, end: begin + length * 12 },
        decided_ns,
    }
}

/// Error bits and starts of the frames of an answer.
type Answer = (u32, Vec<u64>);

/// A request without its record, and what it waits for.
struct Waiting {
    request: RecordRequest,
    answers: [Option<Answer>; 2],
    /// What the trigger adds has come.
    attached: bool,
}

/// The builder of records as a list of frames and one of requests.
#[derive(Default)]
struct Model {
    now_ns: u64,
    landed: u64,
    awaited: [bool; 2],
    closed: bool,
    /// Start and cell of each frame.
    frames: [Vec<(u64, u64)>; 2],
    waiting: VecDeque<Waiting>,
}

impl Model {
    /// The start of the next frame of a stream, which leaves out some now and then.
    fn next_start(&self, stream: usize, step: u8) -> u64 {
        let skipped = if step < 192 { 0 } else { u64::from(step) % (INDEXED - 2) };
        let after =
            |&(last, _): &(u64, u64)| last + FRAME_TICKS * (1 + skipped) + u64::from(step % 3);
        self.frames[stream].last().map_or(1 << 20, after)
    }

    /// A time near the newest frame.
    fn start_near(&self, stream: usize, step: u8) -> u64 {
        let newest = self.frames[stream].last().map_or(1 << 20, |last| last.0);
        newest + 16 * FRAME_TICKS - u64::from(step) * 20
    }

    /// Compares what the builder gave with what it should.
    fn check(&mut self, record: Option<&Record<u16>>) {
        let mut waiting = std::mem::take(&mut self.waiting);
        for Waiting { request, answers, .. } in &mut waiting {
            for (stream, answer) in answers.iter_mut().enumerate() {
                *answer = answer.take().or_else(|| self.answer(request, stream));
            }
        }
        let ready = waiting.pop_front_if(|it| {
            (it.attached || self.closed) && it.answers.iter().all(Option::is_some)
        });
        self.waiting = waiting;
        assert_eq!(record.is_some(), ready.is_some());
        let (Some(record), Some(Waiting { request, answers, .. })) = (record, ready) else {
            return;
        };
        assert_eq!(record.request.trigger_number, request.trigger_number);
        for (part, answer) in record.streams.iter().zip(answers) {
            let starts = part.payload.as_chunks().0.iter().map(|&start| u64::from_le_bytes(start));
            assert_eq!(Some((part.error_bits, starts.collect())), answer);
        }
    }

    /// The answer of a stream, if it is not worth waiting any longer.
    fn answer(&self, request: &RecordRequest, stream: usize) -> Option<Answer> {
        const NONE: u32 = error_bits::DATA_NOT_FOUND;
        let Window { begin, end } = request.window;
        if begin >= end || end - begin > WINDOW_TICKS_MAX {
            return Some((error_bits::INVALID_WINDOW, Vec::new()));
        }
        let in_time = self.now_ns < request.decided_ns + TIMEOUT_NS && self.awaited[stream];
        let Some(&(newest, _)) = self.frames[stream].last() else {
            return (!in_time).then_some((NONE, Vec::new()));
        };
        let is_held = |&&(start, cell): &&(u64, u64)| {
            cell + CELLS >= self.landed && start / FRAME_TICKS + INDEXED > newest / FRAME_TICKS
        };
        let held: Vec<u64> =
            self.frames[stream].iter().filter(is_held).map(|frame| frame.0).collect();
        let Some(&oldest) = held.first() else {
            return (!in_time).then_some((NONE, Vec::new()));
        };
        if end > newest && in_time {
            return None;
        }
        let overlaps = |start: &&u64| **start < end && **start + FRAME_TICKS > begin;
        let found: Vec<u64> = held.iter().filter(overlaps).copied().collect();
        if end < oldest || found.is_empty() {
            return Some((NONE, Vec::new()));
        }
        let late = if end > newest { error_bits::INCOMPLETE } else { 0 };
        let early = if begin < oldest { error_bits::INCOMPLETE | NONE } else { 0 };
        Some((late | early, found))
    }
}
