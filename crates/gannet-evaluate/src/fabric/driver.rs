//! The process that measures.

use std::time::Duration;

use gannet_fabric::{
    Completion, Endpoint, Get, Key, Local, Opening, Peer, PostError, Put, Remote, Request, Window,
};
use gannet_measure::clock::Clock;
use gannet_memory::{Access, SharedRegion};

use super::partner::{ANSWER_ALL, ANSWER_SHORT, ANSWERS, DATA, REGION, TAKE};
use super::{Error, Operation, Sample};

/// Bytes in turn of which each is used when no cache is to hold them.
const STREAMED: u64 = 256 << 20;
/// Time within which the other process has to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// Operations after which completions are taken, and takes after which the clock is read.
const POSTED: u64 = 256;
const TAKES: u32 = 1024;
/// Least number of operations of a measurement of small ones, for its queue to be no matter.
const SMALL_MIN: u64 = 20_000;
/// Round trips before those that count, and the time after which fewer will do.
const WARMING_TRIPS: u64 = 100;
const WARMING_TIME: Duration = Duration::from_millis(200);
/// Most round trips of a measurement.
const TRIPS_MAX: usize = 200_000;

/// Bytes over which operations of `bytes` bytes go.
pub(super) fn span(bytes: u64, streaming: bool) -> u64 {
    if streaming { STREAMED.max(bytes) } else { bytes }
}

/// An endpoint that is joined to the partner.
pub(super) struct Driver<E, C> {
    endpoint: E,
    clock: C,
    peer: Peer,
    /// Window of the partner.
    key: Key,
    streaming: bool,
    /// Bytes of the source, from the begin of the region; as many for answers, and for what is read back.
    span: u64,
    told: Vec<Completion>,
    /// Operations that are not done, and answers that have come.
    under_way: u64,
    answers: u64,
    takes: u32,
}

impl<E: Endpoint, C: Clock> Driver<E, C> {
    /// Lets the partner answer, and waits until it does.
    pub fn new(
        (mut endpoint, peer): (E, Peer),
        clock: C,
        longest: u64,
        streaming: bool,
    ) -> Result<Self, Error> {
        let span = span(longest, streaming);
        let region = SharedRegion::new(3 * span as usize)?;
        assert!(endpoint.add_region(region).is_ok(), "the first region finds room");
        let start = Local { region: REGION, offset: span };
        endpoint.open_window(&Opening {
            start,
            bytes: span,
            access: Access::Write,
            label: ANSWERS,
        })?;
        let mut driver = Self {
            endpoint,
            clock,
            peer,
            key: Key(0),
            streaming,
            span,
            told: Vec::with_capacity(POSTED as usize),
            under_way: 0,
            answers: 0,
            takes: 0,
        };
        driver.key = driver.window()?;
        Ok(driver)
    }

    /// What was measured with.
    pub fn endpoint(&mut self) -> &mut E {
        &mut self.endpoint
    }

    /// Time since `begin`.
    #[inline]
    fn since(&self, begin: u64) -> Duration {
        Duration::from_nanos(self.clock.now_ns() - begin)
    }

    /// Waits for the window of the partner.
    fn window(&mut self) -> Result<Key, Error> {
        let begin = self.clock.now_ns();
        while self.since(begin) < ANSWER_WITHIN {
            self.endpoint.progress(self.clock.now_ns());
            self.told.clear();
            self.endpoint.poll(&mut self.told);
            for completion in &self.told {
                match *completion {
                    Completion::WindowOpened {
                        window: Window { key, bytes, label: DATA, .. },
                        ..
                    } => {
                        if bytes < self.span {
                            return Err(Error::Short { here: self.span, there: bytes });
                        }
                        return Ok(key);
                    }
                    Completion::Left { failure, .. } => return Err(failure.into()),
                    _ => {}
                }
            }
        }
        Err(Error::Silent(ANSWER_WITHIN))
    }

    /// One repeat of one measurement; the limit is not known here.
    pub fn measure(
        &mut self,
        operation: Operation,
        bytes: u64,
        time: Duration,
        half_trip_s: f64,
    ) -> Result<Sample, Error> {
        self.fill(operation as u8 ^ bytes.trailing_zeros() as u8);
        let (per_s, latency_ns) = match operation {
            Operation::RoundTrip => {
                let latency = self.round_trips(bytes, time)?;
                (0.5e9 / latency[0], Some(latency))
            }
            Operation::OneWay => (self.rate(bytes, time, half_trip_s, Self::one_way)?, None),
            Operation::Flush => (self.rate(bytes, time, 0.0, Self::flush)?, None),
            Operation::Get => {
                // There has to be what can be told from anything else.
                self.one_way(bytes, self.span / bytes)?;
                (self.rate(bytes, time, 0.0, Self::gets)?, None)
            }
        };
        self.verify(operation, bytes)?;
        Ok(Sample { per_s, latency_ns, limit: f64::NAN, limit_is: "" })
    }

    /// Operations a second, of enough for the time; `less_s` is no part of it.
    fn rate(
        &mut self,
        bytes: u64,
        time: Duration,
        less_s: f64,
        run: impl Fn(&mut Self, u64, u64) -> Result<f64, Error>,
    ) -> Result<f64, Error> {
        let mut count = if bytes < 65536 { SMALL_MIN } else { 4 };
        run(self, bytes, count.min(1000))?;
        loop {
            let seconds = run(self, bytes, count)? - less_s;
            if seconds >= time.as_secs_f64() {
                return Ok(count as f64 / seconds);
            }
            count *= 2;
        }
    }

    /// Seconds until the partner has been told of so many PUTs.
    fn one_way(&mut self, bytes: u64, count: u64) -> Result<f64, Error> {
        let begin = self.clock.now_ns();
        for number in 0..count {
            let immediate = if number + 1 == count { ANSWER_SHORT } else { TAKE };
            self.put(bytes, number, immediate)?;
        }
        self.answered()?;
        Ok(self.since(begin).as_secs_f64())
    }

    /// Seconds until so many PUTs are done here.
    fn flush(&mut self, bytes: u64, count: u64) -> Result<f64, Error> {
        let begin = self.clock.now_ns();
        for number in 0..count {
            self.put(bytes, number, TAKE)?;
        }
        self.all_done()?;
        Ok(self.since(begin).as_secs_f64())
    }

    /// Seconds until so many GETs are done.
    fn gets(&mut self, bytes: u64, count: u64) -> Result<f64, Error> {
        let begin = self.clock.now_ns();
        for number in 0..count {
            self.get(bytes, number)?;
        }
        self.all_done()?;
        Ok(self.since(begin).as_secs_f64())
    }

    /// Half of a round trip, ns: of which half take less, and of which 99 % do.
    pub fn round_trips(&mut self, bytes: u64, time: Duration) -> Result<[f64; 2], Error> {
        let begin = self.clock.now_ns();
        for number in 0..WARMING_TRIPS {
            self.put(bytes, number, ANSWER_ALL)?;
            self.answered()?;
            if self.since(begin) > WARMING_TIME {
                break;
            }
        }
        let mut trips = Vec::with_capacity(TRIPS_MAX);
        let begin = self.clock.now_ns();
        while trips.len() < TRIPS_MAX && (self.since(begin) < time || trips.len() < 20) {
            let posted = self.clock.now_ns();
            self.put(bytes, trips.len() as u64, ANSWER_ALL)?;
            self.answered()?;
            trips.push((self.clock.now_ns() - posted) as f64 / 2.0);
        }
        trips.sort_by(f64::total_cmp);
        Ok([trips[trips.len() / 2], trips[trips.len() * 99 / 100]])
    }

    /// Where operation `number` begins.
    #[inline]
    fn place(&self, bytes: u64, number: u64) -> u64 {
        if self.streaming { number % (self.span / bytes) * bytes } else { 0 }
    }

    #[inline]
    fn put(&mut self, bytes: u64, number: u64, immediate: u32) -> Result<(), Error> {
        let offset = self.place(bytes, number);
        let source = Local { region: REGION, offset };
        let put = Put { source, target: Remote { peer: self.peer, key: self.key, offset }, bytes };
        self.post(number, |endpoint| endpoint.put_notify(&put, immediate))
    }

    #[inline]
    fn get(&mut self, bytes: u64, number: u64) -> Result<(), Error> {
        let offset = self.place(bytes, number);
        let target = Local { region: REGION, offset: 2 * self.span + offset };
        let get = Get { source: Remote { peer: self.peer, key: self.key, offset }, target, bytes };
        self.post(number, |endpoint| endpoint.get(&get))
    }

    #[inline]
    fn post(
        &mut self,
        number: u64,
        post: impl Fn(&mut E) -> Result<Request, PostError>,
    ) -> Result<(), Error> {
        loop {
            match post(&mut self.endpoint) {
                Ok(_) => break,
                Err(PostError::Full { .. }) => self.take()?,
                Err(error) => return Err(error.into()),
            }
        }
        self.under_way += 1;
        if number % POSTED == POSTED - 1 {
            self.take()?;
        }
        Ok(())
    }

    /// Takes what has happened.
    #[inline]
    fn take(&mut self) -> Result<(), Error> {
        self.takes += 1;
        if self.takes.is_multiple_of(TAKES) {
            self.endpoint.progress(self.clock.now_ns());
        }
        self.told.clear();
        self.endpoint.poll(&mut self.told);
        for completion in &self.told {
            match *completion {
                Completion::Done { outcome, .. } => {
                    outcome?;
                    self.under_way -= 1;
                }
                Completion::Notified { .. } => self.answers += 1,
                Completion::Left { failure, .. } => return Err(failure.into()),
                _ => {}
            }
        }
        Ok(())
    }

    fn all_done(&mut self) -> Result<(), Error> {
        while self.under_way > 0 {
            self.take()?;
        }
        Ok(())
    }

    /// Waits for the answer that was asked for.
    #[inline]
    fn answered(&mut self) -> Result<(), Error> {
        let (mut begin, mut takes) = (None, 0u32);
        while self.answers == 0 {
            self.take()?;
            takes += 1;
            if takes.is_multiple_of(1 << 20) {
                let begin = *begin.get_or_insert_with(|| self.clock.now_ns());
                if self.since(begin) > ANSWER_WITHIN {
                    return Err(Error::Silent(ANSWER_WITHIN));
                }
            }
        }
        self.answers = 0;
        self.all_done()
    }

    /// Fills the source with bytes of a seed.
    fn fill(&mut self, seed: u8) {
        let mut bytes = vec![0; 1 << 16];
        let region = self.endpoint.region(REGION);
        for (number, at) in (0..self.span as usize).step_by(bytes.len()).enumerate() {
            let word = |at: usize| ((at >> 3) * 31) as u8 ^ seed ^ number as u8;
            bytes.iter_mut().enumerate().for_each(|(at, byte)| *byte = word(at));
            region.write(at, &bytes[..bytes.len().min(self.span as usize - at)]);
        }
    }

    /// Compares what was moved with the source.
    fn verify(&mut self, operation: Operation, bytes: u64) -> Result<(), Error> {
        if operation != Operation::Get {
            let target = Local { region: REGION, offset: 2 * self.span };
            let source = Remote { peer: self.peer, key: self.key, offset: 0 };
            self.endpoint.get(&Get { source, target, bytes })?;
            self.under_way += 1;
            self.all_done()?;
        }
        let (mut sent, mut got) = (vec![0; 1 << 16], vec![0; 1 << 16]);
        let region = self.endpoint.region(REGION);
        for at in (0..bytes as usize).step_by(sent.len()) {
            let len = sent.len().min(bytes as usize - at);
            region.read(at, &mut sent[..len]);
            region.read(2 * self.span as usize + at, &mut got[..len]);
            if sent[..len] != got[..len] {
                return Err(Error::Corrupt { operation, bytes });
            }
        }
        Ok(())
    }
}
