//! Looks at a process once a second, as long as it lives: keeps the history of its figures, and raises alarms by rules.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::alarm::action::{Call, Caller};
use crate::alarm::board::{Board, Condition, Entry, NotAcknowledged};
use crate::alarm::rule::{Limit, Raised, Rule, Rules};
use crate::alarm::{self, Alarm, AlarmKind};
use crate::config::Plan;
use crate::figures::Figures;
use crate::history::History;
use crate::quantities::{self, Quantity};
use crate::run_control::State;
use crate::snapshot::Snapshot;

/// Time from one look to the next.
const PERIOD: Duration = Duration::from_secs(1);

/// Age of a look at the disk beyond which nobody knows how much is free: it may not answer.
const DISK_AGE_MAX: Duration = Duration::from_secs(5);

/// Time over which the rate of writing is taken, in seconds.
const WRITTEN_S: u64 = 60;

/// What is known of a process by looking at it again and again.
pub struct Watched {
    history: Mutex<History>,
    board: Mutex<Board>,
    rules: Vec<Rule>,
}

impl Watched {
    /// The history of its figures; its seconds are those since 1970.
    pub fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its alarms.
    pub fn board(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The rules by which alarms are raised.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Notes that `by` has seen an alarm.
    ///
    /// # Errors
    /// When there is none, or somebody has before.
    pub fn acknowledge(&self, id: u64, by: &str) -> Result<Entry, NotAcknowledged> {
        self.board().acknowledge(id, by, unix_s())
    }
}

/// A process that is looked at until this is dropped.
pub struct Watch {
    watched: Arc<Watched>,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Looks by the rules of `plan` at the figures that `present` gives, which are those of the present run.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start(
        present: impl Fn() -> Arc<Figures> + Send + 'static,
        plan: &Plan,
    ) -> io::Result<Self> {
        let rules = Rule::all(&plan.settings.alarms, plan.forecast.depth_s);
        let recorder = &plan.settings.recorder;
        let directory = recorder.enabled.then(|| recorder.directory.clone());
        let disk = Disk::watch(directory, recorder.disk_reserve.bytes())?;
        let caller = Caller::new(rules.iter().any(Rule::calls))?;
        let watched = Arc::new(Watched {
            history: Mutex::default(),
            board: Mutex::default(),
            rules: rules.clone(),
        });
        let (stop, stopped) = channel();
        let mut watcher = Watcher {
            watched: Arc::clone(&watched),
            rules: Rules::new(rules),
            present: Box::new(present),
            disk,
            caller,
            began_s: unix_s() as u64,
            begin: Instant::now(),
            before: None,
        };
        let thread = thread::Builder::new()
            .name("gannet-watch".into())
            .spawn(move || watcher.run(&stopped))?;
        Ok(Self { watched, stop: Some(stop), thread: Some(thread) })
    }

    /// What is known of the process.
    pub fn watched(&self) -> Arc<Watched> {
        Arc::clone(&self.watched)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop = None;
        // It has said so if it panicked.
        let _ended = self.thread.take().map(JoinHandle::join);
    }
}

/// What the thread has.
struct Watcher {
    watched: Arc<Watched>,
    rules: Rules,
    present: Box<dyn Fn() -> Arc<Figures> + Send>,
    disk: Disk,
    caller: Caller,
    /// When it began, in seconds since 1970. Later times go by a clock that nobody sets.
    began_s: u64,
    begin: Instant,
    before: Option<Arc<Snapshot>>,
}

impl Watcher {
    fn run(&mut self, stopped: &Receiver<()>) {
        let mut turn = 0;
        loop {
            let next = self.begin + PERIOD * turn;
            let wait = next.saturating_duration_since(Instant::now());
            let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(wait) else { return };
            // Those that were missed are not made up for.
            turn = (self.begin.elapsed().as_millis() / PERIOD.as_millis()) as u32 + 1;
            // A snapshot that cannot be made is somebody else's defect, and told there.
            let figures = (self.present)();
            if let Ok(now) = catch_unwind(AssertUnwindSafe(|| figures.latest())) {
                let alarms = self.look(&now);
                figures.set_alarms(alarms);
                self.before = Some(now);
            }
        }
    }

    /// Takes what is `now`; the alarms that rules raise.
    fn look(&mut self, now: &Snapshot) -> Vec<Alarm> {
        let second = self.began_s + self.begin.elapsed().as_secs();
        let free = self.disk.free();
        let mut all = quantities::of(self.before.as_deref().unwrap_or(now), now, free);
        let rate = self.written(second);
        quantities::add_disk_left(&mut all, free, rate);
        let values = all.iter().map(|quantity| (quantity.name(), quantity.value));
        self.watched.history().add(second, values);
        self.alarms(now, &all)
    }

    /// Bytes a second that were written over the last minute.
    fn written(&self, second: u64) -> f64 {
        let from = second.saturating_sub(WRITTEN_S);
        let course = self.watched.history().course("written", from, second);
        let known: Vec<_> = course.iter().flat_map(|course| &course.mean).flatten().collect();
        known.iter().map(|value| f64::from(**value)).sum::<f64>() / known.len() as f64
    }

    fn alarms(&mut self, now: &Snapshot, quantities: &[Quantity]) -> Vec<Alarm> {
        self.rules.look(self.begin.elapsed().as_secs_f64(), quantities);
        let of_rules: Vec<_> = self.rules.raised().map(|raised| condition(&raised)).collect();
        // Those of rules came with the snapshot from the look before. A run that has ended needs no attention any more:
        // what it came to is told with it.
        let has_ended = matches!(now.state, State::Stopped | State::Error);
        let own = now.alarms.iter().filter(|alarm| alarm.kind != AlarmKind::Rule && !has_ended);
        let conditions: Vec<_> = own.map(Condition::of).chain(of_rules.iter().cloned()).collect();
        let (raised, cleared) = self.watched.board().update(unix_s(), &conditions);
        // What a run raises by itself it has written already.
        let ruled = |entries: &[Entry]| -> Vec<Alarm> {
            entries.iter().filter_map(Entry::alarm_of_rule).collect()
        };
        alarm::log(&ruled(&raised), &ruled(&cleared));
        let calling: Vec<_> = self.rules.all().iter().filter(|rule| rule.calls()).collect();
        for entry in
            raised.into_iter().chain(cleared).filter(|entry| entry.alarm_of_rule().is_some())
        {
            let rule = calling.iter().find(|rule| rule.config.name == entry.rule);
            if let Some(Rule { config, .. }) = rule {
                let (command, webhook) = (config.command.clone(), config.webhook.clone());
                self.caller.call(Call { entry, command, webhook });
            }
        }
        of_rules.into_iter().map(|condition| condition.alarm).collect()
    }
}

/// What a rule that is raised tells.
fn condition(Raised { rule, part, value }: &Raised<'_>) -> Condition {
    let Rule { config, kind, .. } = rule;
    let name = &config.name;
    let subject = if part.is_empty() { name.clone() } else { format!("{name} ({part})") };
    let value = value.map_or_else(|| "not known".into(), |value| text(value, kind.unit));
    let (Limit::Above(limit) | Limit::Below(limit)) = rule.limit;
    let text = format!("{subject}: {} {value}, limit {}", kind.name, text(limit, kind.unit));
    Condition {
        rule: name.clone(),
        alarm: Alarm { kind: AlarmKind::Rule, subject, text },
        meaning: config.meaning.clone(),
        advice: config.advice.clone(),
    }
}

/// A value with three digits and its unit.
fn text(value: f64, unit: &str) -> String {
    let digits = match value.abs() {
        large if large >= 100.0 || value.fract() == 0.0 => 0,
        large if large >= 10.0 => 1,
        large if large >= 0.1 => 2,
        _ => 4,
    };
    let space = if unit.is_empty() { "" } else { " " };
    format!("{value:.digits$}{space}{unit}")
}

/// How much of a disk is free, looked at by a thread of its own: a disk may not answer.
struct Disk {
    seen: Arc<Mutex<Option<(Instant, u64)>>>,
    _stop: Sender<()>,
}

impl Disk {
    fn watch(directory: Option<PathBuf>, reserve: u64) -> io::Result<Self> {
        let (stop, stopped) = channel();
        let seen = Arc::<Mutex<_>>::default();
        if let Some(directory) = directory {
            let seen = Arc::clone(&seen);
            let look = move || loop {
                let free = gannet_log::free_bytes(&directory).ok();
                let free = free.map(|free| (Instant::now(), free.saturating_sub(reserve)));
                *seen.lock().unwrap_or_else(PoisonError::into_inner) = free;
                let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(PERIOD) else { return };
            };
            thread::Builder::new().name("gannet-disk".into()).spawn(look)?;
        }
        Ok(Self { seen, _stop: stop })
    }

    fn free(&self) -> Option<u64> {
        let seen = *self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.filter(|(at, _)| at.elapsed() < DISK_AGE_MAX).map(|(_, free)| free)
    }
}

fn unix_s() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_alarms_of_a_run_end_with_it() {
        let watched = Arc::new(Watched {
            history: Mutex::default(),
            board: Mutex::default(),
            rules: Vec::new(),
        });
        let mut watcher = Watcher {
            watched: Arc::clone(&watched),
            rules: Rules::new(Vec::new()),
            present: Box::new(|| Arc::new(Figures::new(Arc::new(Snapshot::default)))),
            disk: Disk::watch(None, 0).unwrap(),
            caller: Caller::new(false).unwrap(),
            began_s: 1,
            begin: Instant::now(),
            before: None,
        };
        let alarms = vec![Alarm::new(AlarmKind::Recorder, "the recorder", "cannot write")];
        let mut now = Snapshot { alarms, ..Snapshot::default() };
        for (state, active) in
            [(State::Running, 1), (State::Draining, 1), (State::Error, 0), (State::Running, 1)]
        {
            now.state = state;
            watcher.alarms(&now, &[]);
            assert_eq!(watched.board().active.len(), active, "{state:?}");
        }
        assert_eq!(watched.board().past.len(), 1);
    }
}
