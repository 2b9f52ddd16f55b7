//! What a provider of libfabric gives to two threads that only write, read and look at completions.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use gannet_fabric::ofi::provider::{ChooseError, Wanted, choose};
use gannet_fabric::ofi::{Cable, CallError, Event, Info, Library, Mapped, Piece, Reach};
use gannet_memory::{Access, SharedRegion};

use super::driver::span;
use super::{Error, FabricPlan, Operation};
use crate::cores::Cores;

/// Transfers under way, as many as the fabric has.
const TRANSFERS: usize = 256;
/// Notifications that may wait.
const NOTIFICATIONS: usize = 4096;
/// Time within which an answer has to come.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// What a write asks for: to be counted, a short answer, one of as many bytes, the end.
const COUNT: u64 = 0;
const ANSWER: u64 = 1;
const ECHO: u64 = 2;
const END: u64 = 3;
/// Bytes of a short answer.
const SHORT: usize = 8;

/// Figures of transfers of one length.
struct Figures {
    bytes: u64,
    /// Half a round trip, ns: of which half take less.
    half_trip_ns: f64,
    writes_per_s: f64,
    reads_per_s: f64,
}

/// Figures over one provider, for transfers as long as the operations that are measured.
pub(super) struct Writes(Vec<Figures>);

impl Writes {
    /// Measures between the first two processors.
    pub fn measure(plan: &FabricPlan<'_>, cores: &Cores) -> Result<Self, Error> {
        let library = Library::open().map_err(ChooseError::from)?;
        let address = Some(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let choice = choose(&library, &Wanted { provider: plan.provider.clone(), address })?;
        let longest = plan.sizes.iter().copied().max().unwrap_or(1).max(SHORT as u64);
        let bytes = span(longest, plan.streaming) as usize;
        let (mut here, mut there) =
            (End::new(&choice.info, bytes)?, End::new(&choice.info, bytes)?);
        here.cable.reach(&there.cable.name()?)?;
        there.cable.reach(&here.cable.name()?)?;
        (here.far, there.far) = (there.near, here.near);
        let asked = AtomicU64::new(0);
        thread::scope(|scope| {
            let answering = scope.spawn(|| {
                cores.pin(1);
                there.answer(&asked)
            });
            let mut asking = Asking { end: here, plan, span: bytes, asked: &asked };
            let figures: Result<Vec<_>, _> =
                plan.sizes.iter().map(|&bytes| asking.figures(bytes)).collect();
            asked.store(u64::MAX, Ordering::Release);
            let answered = answering.join().expect("a thread that measures does not panic");
            figures.and_then(|figures| answered.map(|()| Self(figures)))
        })
    }

    /// The limit of an operation, ns of half a round trip or operations a second, and what it is.
    pub fn limit(&self, operation: Operation, bytes: u64) -> (f64, &'static str) {
        let figures = self.0.iter().find(|figures| figures.bytes == bytes);
        let Some(figures) = figures else { return (f64::NAN, "") };
        match operation {
            Operation::RoundTrip => (
                figures.half_trip_ns,
                "a bare loop of writes there and back over the same provider",
            ),
            Operation::OneWay | Operation::Flush => {
                (figures.writes_per_s, "a bare loop of writes over the same provider")
            }
            Operation::Get => (figures.reads_per_s, "a bare loop of reads over the same provider"),
        }
    }
}

/// One end of the loop.
struct End {
    cable: Cable,
    /// How the memory of this end is reached, and that of the other one: from the begin on what others write.
    near: Reach,
    far: Reach,
    /// Transfers under way, and what was told last.
    under_way: usize,
    told: Option<u64>,
    failed: Option<i32>,
}

impl End {
    fn new(info: &Info, bytes: usize) -> Result<Self, Error> {
        let transfers = info.operations().min(TRANSFERS);
        let mut cable = Cable::open(info, transfers, NOTIFICATIONS)?;
        let region = SharedRegion::new(2 * bytes)?;
        cable
            .add_memory(Arc::new(Mapped::new(&region).map_err(gannet_fabric::JoinError::from)?))?;
        let (_, near) = cable.lend(0, (0, bytes), Access::Write)?;
        Ok(Self { cable, near, far: near, under_way: 0, told: None, failed: None })
    }

    #[inline]
    fn poll(&mut self) -> Result<(), Error> {
        let Self { cable, under_way, told, failed, .. } = self;
        cable.poll(|event| match event {
            Event::Done { .. } => *under_way -= 1,
            Event::Told { data: COUNT } => {}
            Event::Told { data } => *told = Some(data),
            Event::Failed { code, .. } => *failed = Some(code),
        });
        match self.failed {
            Some(code) => Err(self.cable.describe(code).into()),
            None => Ok(()),
        }
    }

    /// Posts a transfer as soon as there is room for it.
    #[inline]
    fn post(
        &mut self,
        post: impl Fn(&mut Cable, Reach) -> Result<bool, CallError>,
    ) -> Result<(), Error> {
        let begin = Instant::now();
        while !post(&mut self.cable, self.far)? {
            self.poll()?;
            if begin.elapsed() > ANSWER_WITHIN {
                return Err(Error::Silent(ANSWER_WITHIN));
            }
        }
        self.under_way += 1;
        Ok(())
    }

    #[inline]
    fn write(&mut self, from: usize, to: u64, bytes: usize, data: u64) -> Result<(), Error> {
        self.post(|cable, reach| {
            let piece = Piece { memory: 0, offset: from, reach, remote_offset: to, bytes };
            cable.write(&[piece], Some(data), false, 0)
        })
    }

    /// Answers until no more is asked, with as many bytes as are `asked` for.
    fn answer(mut self, asked: &AtomicU64) -> Result<(), Error> {
        loop {
            self.poll()?;
            let bytes = match self.told.take() {
                Some(ECHO) => asked.load(Ordering::Acquire) as usize,
                Some(ANSWER) => SHORT,
                None if asked.load(Ordering::Relaxed) != u64::MAX => continue,
                _ => return Ok(()),
            };
            self.write(0, 0, bytes, END)?;
        }
    }
}

/// The end that measures.
struct Asking<'a> {
    end: End,
    plan: &'a FabricPlan<'a>,
    span: usize,
    asked: &'a AtomicU64,
}

impl Asking<'_> {
    fn figures(&mut self, bytes: u64) -> Result<Figures, Error> {
        self.asked.store(bytes, Ordering::Release);
        let mut trips = Vec::new();
        let begin = Instant::now();
        while trips.len() < 120 || begin.elapsed() < self.plan.time {
            let sent = Instant::now();
            self.write(bytes, trips.len(), ECHO)?;
            self.answered()?;
            trips.push(sent.elapsed().as_nanos() as f64 / 2.0);
        }
        // The first ones are for the other thread to come to its processor.
        trips.drain(..100);
        trips.sort_by(f64::total_cmp);
        let half_trip_ns = trips[trips.len() / 2];
        let writes_per_s = self.rate(half_trip_ns * 1e-9, |this, count| {
            for number in 0..count {
                this.write(bytes, number, if number + 1 == count { ANSWER } else { COUNT })?;
            }
            this.answered()
        })?;
        let reads_per_s = self.rate(0.0, |this, count| {
            for number in 0..count {
                let (from, to) = this.places(bytes, number);
                this.end.post(|cable, reach| {
                    let (remote_offset, bytes) = (to, bytes as usize);
                    let piece = Piece { memory: 0, offset: from, reach, remote_offset, bytes };
                    cable.read(&piece, 0)
                })?;
            }
            this.all_done()
        })?;
        Ok(Figures { bytes, half_trip_ns, writes_per_s, reads_per_s })
    }

    /// Transfers a second, of enough for the time; `less_s` is no part of it.
    fn rate(
        &mut self,
        less_s: f64,
        run: impl Fn(&mut Self, usize) -> Result<(), Error>,
    ) -> Result<f64, Error> {
        let mut count = 16;
        loop {
            let begin = Instant::now();
            run(self, count)?;
            let seconds = begin.elapsed().as_secs_f64() - less_s;
            if seconds >= self.plan.time.as_secs_f64() && seconds > 0.0 {
                return Ok(count as f64 / seconds);
            }
            count *= 2;
        }
    }

    /// Where transfer `number` is here and there.
    fn places(&self, bytes: u64, number: usize) -> (usize, u64) {
        let bytes = bytes as usize;
        let place = if self.plan.streaming { number % (self.span / bytes) * bytes } else { 0 };
        (self.span + place, place as u64)
    }

    #[inline]
    fn write(&mut self, bytes: u64, number: usize, data: u64) -> Result<(), Error> {
        let (from, to) = self.places(bytes, number);
        self.end.write(from, to, bytes as usize, data)
    }

    #[inline]
    fn answered(&mut self) -> Result<(), Error> {
        self.wait(|end| end.told.take().is_some())?;
        self.all_done()
    }

    fn all_done(&mut self) -> Result<(), Error> {
        self.wait(|end| end.under_way == 0)
    }

    #[inline]
    fn wait(&mut self, is_over: impl Fn(&mut End) -> bool) -> Result<(), Error> {
        let (mut begin, mut looks) = (None, 0u32);
        while !is_over(&mut self.end) {
            self.end.poll()?;
            looks += 1;
            if looks.is_multiple_of(1 << 16)
                && begin.get_or_insert_with(Instant::now).elapsed() > ANSWER_WITHIN
            {
                return Err(Error::Silent(ANSWER_WITHIN));
            }
        }
        Ok(())
    }
}
