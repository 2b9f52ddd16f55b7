//! The readout's end.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use gannet_fabric::messenger::Messenger;
use gannet_measure::ledger::Account;
use gannet_trigger::Item;
use gannet_wire::readout_link::{
    self as link, Ask, FRAGMENT_HEADER_LEN, Fragment, Greeting, Message, Span,
};
use gannet_wire::record::Record;

use super::LinkError;
use crate::items::{ItemReceiver, NoBatch, Segment};
use crate::latency::Window;
use crate::receiver::StreamStatus;
use crate::request::DataRequest;
use crate::windows::{BufferWindows, StreamAnswer, Windows};

/// Time between two messages with the figures of a stream, in nanoseconds.
const FIGURES_NS: u64 = 10_000_000;

gannet_measure::drop_reasons! {
    /// Why something did not reach the builder.
    pub enum LinkDrop {
        /// No builder was there, or it went away before it took it.
        NoBuilder => "no_builder",
    }
}

/// Ledgers of what is sent to the builder.
#[derive(Clone, Debug, Default)]
pub struct Accounts {
    /// Items.
    pub items: Arc<Account<LinkDrop>>,
    /// Answers to requests for a window of one stream.
    pub fragments: Arc<Account<LinkDrop>>,
}

/// What a message on its way brings to the builder.
#[derive(Clone, Copy, Debug)]
enum Cargo {
    Items(u64),
    Fragment,
}

/// Where the exchange with a builder stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// No builder has welcomed this readout.
    Strange,
    /// It says hello, and waits.
    Greeting,
    /// It is part of a run.
    Joined,
    /// The builder needs it no more.
    Done,
}

/// Sends items and figures to the builder, and answers its requests.
pub struct ReadoutEnd<I> {
    greeting: Greeting,
    /// Numbers of its streams in the run, growing.
    numbers: Vec<u32>,
    items: ItemReceiver<I>,
    statuses: Vec<Arc<StreamStatus>>,
    windows: BufferWindows,
    accounts: Accounts,
    state: State,
    /// Number of the run of the last builder.
    run: Option<u32>,
    /// Answers on their way, and how much of the first was sent.
    answers: VecDeque<StreamAnswer>,
    answered: usize,
    /// A message, what it brings, and whether it waits for room.
    message: Vec<u8>,
    cargo: Option<Cargo>,
    waits: bool,
    /// What messages bring that the builder has not taken, by their numbers.
    under_way: VecDeque<(u64, Cargo)>,
    figures_ns: u64,
    figures_next: usize,
    items_ended: bool,
    /// Figures to be sent after the last item, before the last word.
    last_figures: usize,
    told_end: bool,
}

impl<I: Item + Record> ReadoutEnd<I> {
    /// The end of a readout whose configuration has this digest. It has drawn the number `epoch` when it was started;
    /// `numbers` are those of its streams in the run, growing, in whose order statuses and buffers are.
    ///
    /// # Panics
    /// When there are not as many numbers as statuses and buffers.
    pub fn new(
        (digest, epoch): (u64, u64),
        numbers: Vec<u32>,
        items: ItemReceiver<I>,
        statuses: Vec<Arc<StreamStatus>>,
        windows: BufferWindows,
    ) -> Self {
        let lens = [statuses.len(), windows.streams()];
        assert_eq!(lens, [numbers.len(); 2], "a status and a buffer for each stream");
        Self {
            greeting: Greeting { digest, epoch, item_len: I::LEN as u32 },
            numbers,
            items,
            statuses,
            windows,
            accounts: Accounts::default(),
            state: State::Strange,
            run: None,
            answers: VecDeque::new(),
            answered: 0,
            message: Vec::new(),
            cargo: None,
            waits: false,
            under_way: VecDeque::new(),
            figures_ns: 0,
            figures_next: 0,
            items_ended: false,
            last_figures: 0,
            told_end: false,
        }
    }

    /// Ledgers of what is sent.
    pub fn accounts(&self) -> Accounts {
        self.accounts.clone()
    }

    /// Whether a builder has welcomed this readout.
    pub fn is_joined(&self) -> bool {
        matches!(self.state, State::Joined | State::Done)
    }

    /// Number of the builder's run, of the last builder that welcomed this readout.
    pub fn run(&self) -> Option<u32> {
        self.run
    }

    /// Whether the builder has said that it needs this readout no more, and has taken all that was sent.
    pub fn is_done(&self) -> bool {
        self.state == State::Done && self.under_way.is_empty()
    }

    /// Whether no items will come any more, and all that came are sent or lost.
    pub fn has_ended(&self) -> bool {
        self.items_ended
    }

    /// Exchanges messages with the builder; waits for items at most `wait`.
    ///
    /// # Errors
    /// When the builder is gone, does not keep to the rules or refuses this readout; then it is to be
    /// [`left`](Self::leave).
    pub fn step(
        &mut self,
        now_ns: u64,
        messenger: &mut Messenger,
        wait: Duration,
    ) -> Result<(), LinkError> {
        let alive = messenger.step(now_ns);
        self.settle(messenger.taken_there());
        let mut message = Vec::new();
        while messenger.receive(&mut message) {
            self.hear(now_ns, &message)?;
        }
        alive?;
        if self.state == State::Strange {
            link::write_hello(&mut self.message, &self.greeting, spans(&self.numbers).into_iter());
            (self.cargo, self.waits, self.state) = (None, true, State::Greeting);
        }
        if self.state == State::Greeting {
            if self.waits {
                self.send(messenger);
            }
            self.lose(wait);
            return Ok(());
        }
        if self.waits && !self.send(messenger) {
            std::thread::sleep(wait);
            return Ok(());
        }
        if self.state == State::Joined {
            if self.items_ended {
                // Nor does any frame come.
                self.windows.close();
            }
            self.windows.poll(now_ns, &mut |answer| {
                self.accounts.fragments.offer(1);
                self.answers.push_back(answer);
            });
            let is_busy = self.send_fragment(messenger) | self.send_figures(now_ns, messenger);
            let wait = if is_busy { Duration::ZERO } else { wait };
            self.send_items(now_ns, messenger, wait);
        } else {
            std::thread::sleep(wait);
        }
        Ok(())
    }

    /// Counts what the builder has not taken as lost, and forgets what it asked for.
    pub fn leave(&mut self) {
        let waiting = self.waits.then_some(self.cargo).flatten();
        let lost = self.under_way.drain(..).map(|(_, cargo)| cargo).chain(waiting);
        for cargo in lost.collect::<Vec<_>>() {
            match cargo {
                Cargo::Items(count) => self.accounts.items.discard(LinkDrop::NoBuilder, count),
                Cargo::Fragment => self.accounts.fragments.discard(LinkDrop::NoBuilder, 1),
            }
        }
        let answers = self.answers.drain(..).count() as u64;
        self.accounts.fragments.discard(LinkDrop::NoBuilder, answers);
        self.windows.forget();
        (self.answered, self.waits, self.cargo, self.told_end) = (0, false, None, false);
        (self.figures_next, self.last_figures) = (0, self.statuses.len());
        self.state = State::Strange;
    }

    /// Loses the items that are found while no builder is there; waits for some at most `wait`.
    pub fn lose(&mut self, wait: Duration) {
        if self.items_ended {
            return std::thread::sleep(wait);
        }
        let items = &self.accounts.items;
        let lost = self.items.receive(wait, |batch| {
            let count = batch.parts().1.len() as u64;
            items.offer(count);
            items.discard(LinkDrop::NoBuilder, count);
        });
        self.items_ended |= lost == Err(NoBatch::Finished);
    }

    fn hear(&mut self, now_ns: u64, message: &[u8]) -> Result<(), LinkError> {
        let place = |stream| self.numbers.binary_search(&stream).ok();
        match (Message::parse(message), self.state) {
            (Ok(Message::Welcome { run }), State::Greeting) => {
                (self.run, self.state) = (Some(run), State::Joined);
            }
            (Ok(Message::Refused(refusal)), State::Greeting) => {
                return Err(LinkError::Refused(refusal));
            }
            (Ok(Message::Ask(Ask { number, begin, end, wait_ns })), State::Joined) => {
                let deadline_ns = now_ns.saturating_add(wait_ns);
                self.windows.ask(number, DataRequest::new(Window { begin, end }, deadline_ns));
            }
            (Ok(Message::Awaited { stream, awaited }), State::Joined) => {
                let stream = place(stream).ok_or(LinkError::Message("a stream of another"))?;
                self.windows.set_awaited(stream, awaited);
            }
            (Ok(Message::Close), State::Joined) => self.windows.close(),
            (Ok(Message::Done), State::Joined) => self.state = State::Done,
            (Ok(_), _) => return Err(LinkError::Message("a message out of turn")),
            (Err(_), _) => return Err(LinkError::Message("bytes that are no message")),
        }
        Ok(())
    }

    /// Notes what the builder has taken.
    fn settle(&mut self, taken: u64) {
        while let Some((_, cargo)) = self.under_way.pop_front_if(|(number, _)| *number < taken) {
            match cargo {
                Cargo::Items(count) => self.accounts.items.deliver(count),
                Cargo::Fragment => self.accounts.fragments.deliver(1),
            }
        }
    }

    /// Sends the message in hand, or lets it wait.
    fn send(&mut self, messenger: &mut Messenger) -> bool {
        let number = messenger.sent();
        self.waits = !messenger.send(&self.message);
        if !self.waits
            && let Some(cargo) = self.cargo.take()
        {
            self.under_way.push_back((number, cargo));
        }
        !self.waits
    }

    /// Sends as much of the first answer as a message holds; gives whether there was one.
    fn send_fragment(&mut self, messenger: &mut Messenger) -> bool {
        let Some(answer) = self.answers.front() else { return false };
        if self.waits || !messenger.has_room() {
            return true;
        }
        let room = messenger.message_len_max() - FRAGMENT_HEADER_LEN;
        let end = answer.frames.len().min(self.answered + room);
        Message::Fragment(Fragment {
            number: answer.number,
            stream: self.numbers[answer.stream],
            error_bits: answer.error_bits,
            whole: answer.frames.len() as u64,
            place: self.answered as u64,
            bytes: &answer.frames[self.answered..end],
        })
        .write(&mut self.message);
        let is_last = end == answer.frames.len();
        self.cargo = is_last.then_some(Cargo::Fragment);
        self.answered = end;
        if is_last {
            self.answers.pop_front();
            self.answered = 0;
        }
        self.send(messenger);
        true
    }

    /// Sends the figures of a stream when they are due; gives whether it did.
    fn send_figures(&mut self, now_ns: u64, messenger: &mut Messenger) -> bool {
        let is_last = self.items_ended && self.last_figures > 0;
        let is_due = now_ns >= self.figures_ns && !self.items_ended;
        if !(is_last || is_due || self.figures_next > 0) || self.waits || !messenger.has_room() {
            return false;
        }
        let stream = self.figures_next;
        let words = self.statuses[stream].words();
        link::write_figures(&mut self.message, self.numbers[stream], words.into_iter());
        self.figures_next = (stream + 1) % self.statuses.len();
        if self.figures_next == 0 {
            self.figures_ns = now_ns + FIGURES_NS;
        }
        self.last_figures -= usize::from(is_last);
        self.send(messenger);
        true
    }

    /// Sends the next items, or that none will come; waits for some at most `wait`.
    fn send_items(&mut self, now_ns: u64, messenger: &mut Messenger, wait: Duration) {
        if self.waits || !messenger.has_room() || self.told_end {
            return std::thread::sleep(wait);
        }
        if self.items_ended {
            if self.last_figures == 0 {
                Message::Ended.write(&mut self.message);
                self.told_end = true;
                self.send(messenger);
            }
            return;
        }
        let message = &mut self.message;
        let mut count = 0;
        let received = self.items.receive(wait, |batch| {
            let (segments, items) = batch.parts();
            count = items.len() as u64;
            let segments =
                segments.iter().map(|&Segment { stream, items, searched_to, arrival_ns }| {
                    let age_ns = now_ns.saturating_sub(arrival_ns);
                    link::Segment { stream, items, searched_to, age_ns }
                });
            link::write_items(message, segments, items.iter());
        });
        match received {
            Ok(()) => {
                self.accounts.items.offer(count);
                self.cargo = Some(Cargo::Items(count));
                self.send(messenger);
            }
            Err(NoBatch::TimedOut) => {}
            Err(NoBatch::Finished) => {
                self.items_ended = true;
                (self.figures_next, self.last_figures) = (0, self.statuses.len());
            }
        }
    }
}

/// Streams of these numbers, which grow.
fn spans(numbers: &[u32]) -> Vec<Span> {
    let runs = numbers.chunk_by(|number, next| number + 1 == *next);
    runs.map(|run| Span { first: run[0], streams: run.len() as u32 }).collect()
}
