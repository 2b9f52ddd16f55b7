//! A value that a thread of its own works with, for calls from which a thread may never come back.

use std::fmt;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::sys::Halt;

/// Processor time that an abandoned thread may still use, to find out that nobody waits for it.
const REST: Duration = Duration::from_millis(50);

/// What a thread is asked to do with its value.
enum Order<T, W> {
    Work(Box<W>),
    Question(Box<dyn FnOnce(&mut T) + Send>),
}

/// Where the work is.
enum Place<W> {
    Here(Box<W>),
    /// With the thread, until it is given up.
    There {
        until: Instant,
    },
    Lost,
}

/// A thread that has a `T` and works with it, on one `W` that goes there and back.
///
/// Only who asks a question waits, and nobody for longer than the deadline: a thread that has not answered by then is
/// abandoned. Its value and its stack are leaked, on purpose, since it may go on using them; when it only spins it is put to
/// sleep, and when it comes back after all, it drops its value and ends.
pub(super) struct Apart<T, W> {
    /// None when the thread is to end.
    orders: Option<SyncSender<Order<T, W>>>,
    done: Receiver<Box<W>>,
    place: Place<W>,
    thread: Option<(JoinHandle<()>, Halt)>,
    deadline: Duration,
}

impl<T: Send + 'static, W: Send + 'static> Apart<T, W> {
    /// Starts a thread that has `value`, and does `act` when it is given the work.
    ///
    /// # Errors
    /// When the system has no more threads, timers or signals.
    pub fn new(
        mut value: T,
        work: W,
        act: impl Fn(&mut T, &mut W) + Send + 'static,
        deadline: Duration,
    ) -> io::Result<Self> {
        let (orders, ordered) = sync_channel(1);
        let (finish, done) = sync_channel(1);
        let (tell, told) = sync_channel(1);
        let run = move || {
            // That the channel is closed says that the value is gone.
            let finish = finish;
            let _ = tell.send(Halt::of_this_thread());
            while let Ok(order) = ordered.recv() {
                match order {
                    Order::Question(question) => question(&mut value),
                    Order::Work(mut work) => {
                        act(&mut value, &mut work);
                        if finish.send(work).is_err() {
                            break;
                        }
                    }
                }
            }
            drop(value);
            drop(finish);
        };
        let thread = thread::Builder::new().name("gannet-ofi".to_owned()).spawn(run)?;
        let halt = told.recv().map_err(io::Error::other)??;
        Ok(Self {
            orders: Some(orders),
            done,
            place: Place::Here(Box::new(work)),
            thread: Some((thread, halt)),
            deadline,
        })
    }

    /// Whether the thread was abandoned.
    pub fn is_lost(&self) -> bool {
        matches!(self.place, Place::Lost)
    }

    /// The work, when the thread does not have it.
    pub fn here(&mut self) -> Option<&mut W> {
        match &mut self.place {
            Place::Here(work) => Some(work),
            _ => None,
        }
    }

    /// Gives the work to the thread, if it is here; the thread may take `more` than the deadline for it.
    pub fn give(&mut self, more: Duration) {
        let until = Instant::now() + self.deadline + more;
        match std::mem::replace(&mut self.place, Place::There { until }) {
            Place::Here(work) => self.order(Order::Work(work)),
            other => self.place = other,
        }
    }

    /// Takes the work back when the thread is done; gives whether it is.
    pub fn take(&mut self) -> bool {
        let Place::There { until } = self.place else { return false };
        match self.done.try_recv() {
            Ok(work) => {
                self.place = Place::Here(work);
                return true;
            }
            Err(TryRecvError::Empty) if Instant::now() <= until => {}
            Err(_) => self.abandon(),
        }
        false
    }

    /// Asks the thread, and waits for its answer; none comes when it is abandoned.
    pub fn ask<R: Send + 'static>(
        &mut self,
        question: impl FnOnce(&mut T) -> R + Send + 'static,
    ) -> Option<R> {
        self.wait();
        let (tell, told) = sync_channel(1);
        self.order(Order::Question(Box::new(move |value| {
            // Who has given up listens no more.
            let _ = tell.send(question(value));
        })));
        let answer = told.recv_timeout(self.deadline).ok();
        if answer.is_none() {
            self.abandon();
        }
        answer
    }

    fn order(&self, order: Order<T, W>) {
        if let Some(orders) = &self.orders {
            // A thread that has ended is found out by who waits for its answer.
            let _ = orders.send(order);
        }
    }

    /// Waits until the thread has nothing to do.
    fn wait(&mut self) {
        if let Place::There { until } = self.place {
            match self.done.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(work) => self.place = Place::Here(work),
                Err(_) => self.abandon(),
            }
        }
    }

    /// Has the thread drop its value and end; gives whether it did.
    pub fn close(&mut self) -> bool {
        self.wait();
        if self.is_lost() {
            return false;
        }
        self.orders = None;
        let ended = self.done.recv_timeout(self.deadline).err();
        if ended == Some(RecvTimeoutError::Disconnected)
            && let Some((thread, _)) = self.thread.take()
        {
            let _ = thread.join();
            return true;
        }
        self.abandon();
        false
    }

    #[cold]
    fn abandon(&mut self) {
        self.place = Place::Lost;
        self.orders = None;
        if let Some((_, halt)) = self.thread.take() {
            halt.after(REST);
        }
    }
}

impl<T, W> fmt::Debug for Apart<T, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Apart").field("deadline", &self.deadline).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    /// For what is to be answered, on a loaded machine.
    const PATIENCE: Duration = Duration::from_secs(60);

    /// What a lock does that nobody gives back.
    fn spin() -> ! {
        loop {
            std::hint::spin_loop();
        }
    }

    /// Tells when it is dropped.
    struct Value(Arc<AtomicBool>);

    impl Drop for Value {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Release);
        }
    }

    /// A thread that counts, and never comes back from a number of 13; and whether its value was dropped.
    fn counting(deadline: Duration) -> (Apart<Value, u32>, Arc<AtomicBool>) {
        let is_dropped = Arc::new(AtomicBool::new(false));
        let act = |_: &mut Value, number: &mut u32| {
            if *number == 13 {
                spin();
            }
            *number += 1;
        };
        (Apart::new(Value(is_dropped.clone()), 0, act, deadline).unwrap(), is_dropped)
    }

    fn come<W: Send + 'static, T: Send + 'static>(apart: &mut Apart<T, W>) {
        while !apart.take() && !apart.is_lost() {
            thread::sleep(Duration::from_micros(100));
        }
    }

    #[test]
    fn work_goes_there_and_back_and_questions_wait_for_it() {
        let (mut apart, is_dropped) = counting(PATIENCE);
        for number in 0..10 {
            assert_eq!(apart.here().copied(), Some(number));
            apart.give(Duration::ZERO);
            assert_eq!(apart.here(), None);
            if number % 2 == 0 {
                come(&mut apart);
            } else {
                assert_eq!(apart.ask(|value| value.0.load(Ordering::Acquire)), Some(false));
            }
        }
        apart.give(Duration::ZERO);
        assert!(apart.close(), "with work there");
        assert!(is_dropped.load(Ordering::Acquire));
    }

    #[test]
    fn who_never_comes_back_is_abandoned_and_waited_for_no_more() {
        let (mut apart, is_dropped) = counting(Duration::from_millis(50));
        *apart.here().unwrap() = 13;
        apart.give(Duration::ZERO);
        come(&mut apart);
        assert!(apart.is_lost() && apart.here().is_none());
        apart.give(Duration::ZERO);
        assert_eq!((apart.take(), apart.ask(|_| ()), apart.close()), (false, None, false));
        assert!(!is_dropped.load(Ordering::Acquire), "its value may still be used");
    }

    #[test]
    fn neither_a_question_nor_the_end_waits_for_ever() {
        let hung = |deadline| {
            let (mut apart, _) = counting(deadline);
            *apart.here().unwrap() = 13;
            apart.give(Duration::ZERO);
            apart
        };
        let mut apart = hung(Duration::from_millis(50));
        assert_eq!(apart.ask(|_| ()), None);
        assert!(apart.is_lost());
        let mut apart = hung(Duration::from_millis(50));
        assert!(!apart.close() && apart.is_lost());
        let (mut apart, _) = counting(Duration::from_millis(50));
        assert_eq!(apart.ask::<()>(|_| spin()), None);
        assert!(apart.is_lost());
    }

    #[test]
    fn who_comes_back_too_late_drops_its_value() {
        let (mut apart, is_dropped) = counting(Duration::from_millis(50));
        let (answer, question) = sync_channel(1);
        assert_eq!(apart.ask(move |_| question.recv().unwrap()), None);
        assert!(apart.is_lost() && !is_dropped.load(Ordering::Acquire));
        answer.send(1).unwrap();
        let until = Instant::now() + PATIENCE;
        while !is_dropped.load(Ordering::Acquire) {
            assert!(Instant::now() < until, "it is kept");
            thread::sleep(Duration::from_millis(1));
        }
    }
}
