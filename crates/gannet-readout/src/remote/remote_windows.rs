//! Windows of streams of another process.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use super::builder_end::Order;
use crate::request::{DataRequest, error_bits};
use crate::windows::{StreamAnswer, Windows};

/// A request, and which streams have answered.
#[derive(Debug)]
struct Open {
    number: u64,
    /// When a stream that has not answered counts as one that never came.
    until_ns: u64,
    answered: Vec<bool>,
}

/// What a [`BuilderEnd`](super::BuilderEnd) is asked for, and where its answers go.
#[derive(Debug)]
pub struct Orders {
    pub(super) orders: Receiver<Order>,
    pub(super) answers: Sender<StreamAnswer>,
}

/// Asks readouts in other processes for windows. A stream that does not answer in time counts as one that
/// never came.
#[derive(Debug)]
pub struct RemoteWindows {
    orders: Sender<Order>,
    answers: Receiver<StreamAnswer>,
    awaited: Vec<bool>,
    open: VecDeque<Open>,
    /// Time beyond that of a request that its answer may take on its way, in nanoseconds.
    on_its_way_ns: u64,
    closed: bool,
    /// Once nothing more is asked: when the next answer has to be there.
    closed_until_ns: Option<u64>,
}

impl RemoteWindows {
    /// Windows of so many streams, and the way to where they are, which answers may take `on_its_way` for.
    pub fn new(streams: usize, on_its_way: Duration) -> (Self, Orders) {
        let ((orders, ordered), (answered, answers)) = (channel(), channel());
        let windows = Self {
            orders,
            answers,
            awaited: vec![true; streams],
            open: VecDeque::new(),
            on_its_way_ns: u64::try_from(on_its_way.as_nanos()).unwrap_or(u64::MAX),
            closed: false,
            closed_until_ns: None,
        };
        (windows, Orders { orders: ordered, answers: answered })
    }

    /// Whoever is gone answers nothing, which is noticed in time.
    fn order(&self, order: Order) {
        let _gone = self.orders.send(order);
    }
}

impl Windows for RemoteWindows {
    fn ask(&mut self, number: u64, request: DataRequest) {
        let until_ns = request.deadline_ns().saturating_add(self.on_its_way_ns);
        self.open.push_back(Open { number, until_ns, answered: vec![false; self.awaited.len()] });
        self.order(Order::Ask(number, request));
    }

    fn set_awaited(&mut self, stream: usize, awaited: bool) {
        if std::mem::replace(&mut self.awaited[stream], awaited) != awaited {
            self.order(Order::Awaited(stream as u32, awaited));
        }
    }

    fn close(&mut self) {
        self.closed = true;
        self.order(Order::Close);
    }

    fn poll(&mut self, now_ns: u64, give: &mut dyn FnMut(StreamAnswer)) {
        for answer in self.answers.try_iter() {
            let open = self.open.iter_mut().find(|open| open.number == answer.number);
            let answered = open.and_then(|open| open.answered.get_mut(answer.stream));
            if let Some(answered) = answered.filter(|answered| !**answered) {
                *answered = true;
                // Where answers still come, more may be on their way.
                self.closed_until_ns = None;
                give(answer);
            }
        }
        let closed_until_ns = match self.closed {
            true => {
                let until_ns = now_ns.saturating_add(self.on_its_way_ns);
                *self.closed_until_ns.get_or_insert(until_ns)
            }
            false => u64::MAX,
        };
        self.open.retain(|Open { number, until_ns, answered }| {
            if now_ns >= closed_until_ns.min(*until_ns) {
                let missing = answered.iter().enumerate().filter(|(_, answered)| !**answered);
                for (stream, _) in missing {
                    let (number, error_bits) = (*number, error_bits::DATA_NOT_FOUND);
                    let frames = Vec::new();
                    give(StreamAnswer { number, stream, error_bits, frames, unreachable: true });
                }
                return false;
            }
            answered.contains(&false)
        });
    }
}
