//! Events on their way through the search: persistent buffers of M2EGP events, and who searches them.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use gannet_control::detector::Worker;
use gannet_measure::ledger::Account;
use gannet_memory::receive_list::{
    Completion, Consumer, ListWriter, Rules, Taken, UnitDrop, receive_list,
};

use crate::primitive::PrimitiveId;
use crate::search::Search;

/// How long a worker waits for a buffer before it looks whether there will be one.
const WAIT: Duration = Duration::from_millis(2);

/// How events are buffered and who searches them.
#[derive(Clone, Copy, Debug)]
pub struct Buffering {
    /// Buffers.
    pub count: usize,
    /// Bytes of each.
    pub bytes: usize,
    /// When a buffer is closed.
    pub rules: Rules,
    /// Threads that search them; without any, whoever fills them does.
    pub workers: usize,
}

/// A buffer that was searched: the events in it, each with its time.
#[derive(Debug)]
struct Searched {
    completion: Completion,
    events: Vec<(u64, PrimitiveId)>,
}

/// Searches events in the buffers that they were laid into, and gives out in order what is told of them.
pub struct Buffers {
    list: ListWriter<Box<[u8]>>,
    account: Arc<Account<UnitDrop>>,
    way: Way,
    /// Searched buffers that wait for one before them; the first is number `next`.
    waiting: VecDeque<Option<Searched>>,
    next: u64,
    /// Events whose rings were not given out yet.
    in_flight: u64,
    spare: Spare,
}

/// Memory of results, on its way back.
type Spare = Arc<Mutex<Vec<Vec<(u64, PrimitiveId)>>>>;

enum Way {
    Here(Consumer<Box<[u8]>>, Box<Search>),
    Workers(Receiver<Searched>),
}

impl Buffers {
    /// Buffers, and the work of those who search them with `search`.
    pub fn new(buffering: &Buffering, search: impl Fn() -> Search) -> (Self, Vec<Worker>) {
        let buffers = (0..buffering.count).map(|_| vec![0; buffering.bytes].into_boxed_slice());
        let (list, consumer) = receive_list(buffers.collect(), buffering.rules);
        let spare = Spare::default();
        let mut workers = Vec::new();
        let way = if buffering.workers == 0 {
            Way::Here(consumer, Box::new(search()))
        } else {
            let (done, results) = channel();
            for _ in 0..buffering.workers {
                let (consumer, done, spare) = (consumer.clone(), done.clone(), Arc::clone(&spare));
                let search = search();
                let work = move |spins| work(&consumer, search, &done, &spare, spins);
                workers.push(Box::new(work) as Worker);
            }
            Way::Workers(results)
        };
        let account = Arc::clone(list.account());
        let waiting = VecDeque::with_capacity(buffering.count);
        (Self { list, account, way, waiting, next: 0, in_flight: 0, spare }, workers)
    }
}

impl Buffers {
    /// Takes an event, laid out as M2EGP: true if there was room for it.
    #[inline]
    pub fn append(&mut self, event: &[u8], time: u64, now_ns: u64) -> bool {
        let is_taken = self.list.append(event, time, now_ns).is_ok();
        self.in_flight += u64::from(is_taken);
        is_taken
    }

    /// Whether all events were given out.
    pub fn is_empty(&self) -> bool {
        self.in_flight == 0
    }

    /// What became of the events: searched, or dropped.
    pub fn account(&self) -> Arc<Account<UnitDrop>> {
        Arc::clone(&self.account)
    }

    /// Closes a buffer whose time has come, and gives out what is told of all events that were
    /// searched, in their order.
    pub fn advance(&mut self, now_ns: u64, mut give: impl FnMut(u64, PrimitiveId)) {
        self.list.expire(now_ns);
        match &mut self.way {
            Way::Here(consumer, search) => {
                while let Some(taken) = consumer.take() {
                    let searched = searched(taken, search, &self.spare);
                    place(&mut self.waiting, self.next, searched);
                }
            }
            Way::Workers(results) => {
                while let Ok(searched) = results.try_recv() {
                    place(&mut self.waiting, self.next, searched);
                }
            }
        }
        self.give_out(&mut give);
    }

    /// Closes the open buffer and waits until all were searched.
    pub fn drain(&mut self, now_ns: u64, mut give: impl FnMut(u64, PrimitiveId)) {
        self.list.flush(now_ns);
        self.advance(now_ns, &mut give);
        while let (Way::Workers(results), false) = (&self.way, self.is_empty()) {
            // Without workers nothing more will come.
            let Ok(searched) = results.recv() else { return };
            place(&mut self.waiting, self.next, searched);
            self.give_out(&mut give);
        }
    }

    fn give_out(&mut self, give: &mut impl FnMut(u64, PrimitiveId)) {
        while let Some(Some(_)) = self.waiting.front() {
            let Some(Some(Searched { completion, mut events })) = self.waiting.pop_front() else {
                return;
            };
            self.next = self.next.wrapping_add(1);
            self.in_flight -= u64::from(completion.units);
            events.iter().for_each(|(time, id)| give(*time, *id));
            events.clear();
            self.spare.lock().unwrap_or_else(PoisonError::into_inner).push(events);
        }
    }
}

/// Keeps a searched buffer until those before it are there.
fn place(waiting: &mut VecDeque<Option<Searched>>, next: u64, searched: Searched) {
    let place = searched.completion.seq.wrapping_sub(next) as usize;
    while waiting.len() <= place {
        waiting.push_back(None);
    }
    waiting[place] = Some(searched);
}

/// Searches a buffer. Of one that was overwritten before, nothing was found.
fn searched(taken: Taken<Box<[u8]>>, search: &mut Search, spare: &Spare) -> Searched {
    let events = spare.lock().unwrap_or_else(PoisonError::into_inner).pop();
    let mut events = events.unwrap_or_default();
    match taken {
        Taken::Lost(completion) => Searched { completion, events },
        Taken::Buffer(hold) => {
            let completion = *hold.completion();
            search.events(hold.bytes(), completion.first_time, &mut events);
            Searched { completion, events }
        }
    }
}

/// Searches buffers until there will be none.
fn work(
    consumer: &Consumer<Box<[u8]>>,
    mut search: Search,
    done: &Sender<Searched>,
    spare: &Spare,
    spins: bool,
) {
    loop {
        let taken = if spins { consumer.take() } else { consumer.take_within(WAIT) };
        match taken {
            Some(taken) => {
                if done.send(searched(taken, &mut search, spare)).is_err() {
                    return;
                }
            }
            None if consumer.is_finished() => return,
            // The core is lent to whoever has something to do.
            None => thread::yield_now(),
        }
    }
}
