//! A station that makes runs on command: pauses, ends by themselves, and any order of commands from several at once.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use gannet_control::config::{self, Plan};
use gannet_control::run_control;
use gannet_control::snapshot::Snapshot;
use gannet_control::station::{
    Command, Crew, Ending, Outcome, Refused, RunSummary, State, Station, Verified,
};
use gannet_dune::detector::DUNE_TPC;
use gannet_log::Kind;
use gannet_measure::random::Random;

/// How long anything may take on a machine that does much else.
const PATIENCE: Duration = Duration::from_secs(60);

/// Two streams with tracks, made in this process.
const CONFIG: &str = r#"
[[source]]
streams = { count = 2 }
emulated = true
depth = "100 ms"

[pipeline.tpg]
threshold = [60, 60, 60]

[pipeline.trigger]
[[pipeline.trigger.activity]]
algorithm = "horizontal-muon"

[emulate]
seed = 7
streams = { count = 2 }
pace = { rate_scale = 0.1 }
tracks = { rate_hz = 200.0 }
"#;

/// Reads logs back.
struct Reader;

impl Crew for Reader {
    fn end(&mut self, snapshot: &Snapshot, _: Ending) -> Vec<Verified> {
        let verify = |file: &std::path::PathBuf| {
            let report = gannet_log::verify(file).unwrap();
            let problem = (!report.is_sound()).then(|| report.to_string());
            let (items, missing) = (report.data_chunks, report.chunks_missing);
            Verified { file: file.clone(), items, missing, problem }
        };
        snapshot.recorder.files.iter().map(verify).collect()
    }
}

fn plan(directory: &Path) -> Plan {
    let mut plan = config::parse("test.toml", CONFIG, Path::new("."), &[&DUNE_TPC]).unwrap();
    plan.settings.recorder.directory = directory.into();
    plan
}

fn latest(station: &Station) -> Arc<Snapshot> {
    station.present().views().figures.latest()
}

/// Waits until `what` gives something.
fn wait_for<T>(station: &Station, mut what: impl FnMut(&Snapshot) -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = what(&latest(station)) {
            return found;
        }
        assert!(begin.elapsed() < PATIENCE, "{:?}: {:?}", station.status(), latest(station).state);
        thread::sleep(Duration::from_millis(10));
    }
}

fn wait_until(station: &Station, state: State) {
    wait_for(station, |_| (station.status().state == state).then_some(()));
}

/// Starts a run, and waits until it takes frames.
fn start(station: &Station) {
    assert_eq!(station.command(Command::Start, None), Ok(State::Starting));
    wait_until(station, State::Running);
}

/// Stops the run, waits until it has ended, and gives what it came to.
fn stop(station: &Station) -> RunSummary {
    assert_eq!(station.command(Command::Stop, None), Ok(State::Stopping));
    wait_until(station, State::Idle);
    station.runs().pop().unwrap()
}

#[test]
fn a_paused_run_takes_frames_and_decides_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let station = Station::new(plan(directory.path()), Reader).unwrap();
    start(&station);
    wait_for(&station, |snapshot| (snapshot.trigger.decisions > 5).then_some(()));
    assert_eq!(station.command(Command::Pause, Some(State::Running)), Ok(State::Paused));
    let is_paused = |it: &Snapshot| it.state == run_control::State::Paused;
    let paused = wait_for(&station, |snapshot| is_paused(snapshot).then(|| snapshot.clone()));
    let later = wait_for(&station, |snapshot| {
        let is_later = snapshot.frames() > paused.frames() + 2000;
        is_later.then(|| snapshot.clone())
    });
    assert_eq!(later.trigger.decisions, paused.trigger.decisions);
    assert!(later.trigger.primitives > paused.trigger.primitives, "frames are searched");
    assert!(station.command(Command::Pause, None).is_err());
    assert_eq!(station.command(Command::Resume, Some(State::Paused)), Ok(State::Running));
    wait_for(&station, |snapshot| {
        (snapshot.trigger.decisions > paused.trigger.decisions).then_some(())
    });
    let run = stop(&station);
    assert_eq!((run.outcome, run.ending), (Outcome::Good, Some(Ending::Command)), "{run:?}");
    let last = latest(&station);
    assert!(last.ledger.iter().all(|statement| statement.closes()), "{:#?}", last.ledger);
    let decided = last.ledger.iter().find(|statement| statement.stage == "module_level").unwrap();
    assert!(decided.count("paused") > 0, "{decided}");
    assert!(last.trigger.dead_ticks > 0);
    let mut reader = gannet_log::Reader::open(&run.files[0]).unwrap();
    let mut busy = String::new();
    while let Some(chunk) = reader.next_chunk().unwrap() {
        if chunk.header.label.kind == Kind::BUSY {
            busy += std::str::from_utf8(chunk.payload).unwrap();
        }
    }
    assert!(busy.contains("\"paused\""), "the log tells of the pause: {busy}");
}

#[test]
fn a_run_that_ends_by_itself_leaves_the_station_ready_for_the_next() {
    let directory = tempfile::tempdir().unwrap();
    let mut plan = plan(directory.path());
    plan.settings.run.number = Some(41);
    plan.settings.run.duration = Some("200 ms".parse().unwrap());
    let station = Station::new(plan, Reader).unwrap();
    for number in 41..44 {
        start(&station);
        wait_until(&station, State::Idle);
        let run = station.runs().pop().unwrap();
        assert_eq!((run.number, run.ending), (Some(number), Some(Ending::Over)), "{run:?}");
    }
}

#[test]
fn runs_that_nobody_records_have_numbers_of_their_own() {
    let mut plan = plan(Path::new("."));
    plan.settings.recorder.enabled = false;
    let station = Station::new(plan, Reader).unwrap();
    let numbers = [0; 3].map(|_| {
        start(&station);
        stop(&station).number
    });
    assert_eq!(numbers, [Some(0), Some(1), Some(2)]);
}

#[test]
fn a_run_that_cannot_start_says_why_and_the_next_may() {
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("missing");
    let station = Station::new(plan(&missing), Reader).unwrap();
    assert_eq!(station.command(Command::Start, None), Ok(State::Starting));
    wait_until(&station, State::Failed);
    let failure = station.status().failure.unwrap();
    assert!(failure.contains("missing"), "{failure}");
    assert!(station.take_error().is_some());
    let refused = station.runs().pop().unwrap();
    assert_eq!((refused.number, refused.outcome), (None, Outcome::Failed));
    std::fs::create_dir(&missing).unwrap();
    start(&station);
    assert_eq!(stop(&station).number, Some(1));
    assert_eq!(station.worst(), Some(Outcome::Failed));
}

#[test]
fn any_order_of_commands_leaves_no_stuck_state_and_no_two_runs_with_one_number() {
    let directory = tempfile::tempdir().unwrap();
    let station = Arc::new(Station::new(plan(directory.path()), Reader).unwrap());
    let is_long = std::env::var_os("GANNET_LONG").is_some();
    let each = if is_long { 334 } else { 40 };
    let client = |seed| {
        let station = Arc::clone(&station);
        thread::spawn(move || {
            let mut random = Random::new(seed);
            for _ in 0..each {
                let command = Command::ALL[random.below(4) as usize];
                let believed = (random.below(2) == 0).then(|| station.status().state);
                let state = match station.command(command, believed) {
                    Ok(state) => state,
                    Err(Refused::Believed { believed, now }) if believed == now => {
                        panic!("{believed} is {now}")
                    }
                    Err(refused) => refused.now(),
                };
                assert!(State::ALL.contains(&state));
                thread::sleep(Duration::from_millis(random.below(60)));
            }
        })
    };
    let clients: Vec<_> = (1..=3).map(client).collect();
    clients.into_iter().for_each(|client| client.join().unwrap());
    let _at_rest = station.command(Command::Stop, None);
    wait_for(&station, |_| station.status().state.is_at_rest().then_some(()));
    // It works on.
    start(&station);
    stop(&station);
    let runs = station.runs();
    let numbers: Vec<_> = runs.iter().map(|run| run.number.unwrap()).collect();
    let distinct: BTreeSet<_> = numbers.iter().collect();
    assert_eq!(distinct.len(), numbers.len(), "{numbers:?}");
    for run in &runs {
        assert!(run.outcome <= Outcome::Degraded && run.end_unix_s.is_some(), "{run:?}");
        assert!(!run.verified.is_empty() && run.verified.len() == run.files.len(), "{run:?}");
    }
    let files = std::fs::read_dir(directory.path()).unwrap();
    let paths = files.map(|file| file.unwrap().path());
    let logs: Vec<_> =
        paths.filter(|path| path.extension().is_some_and(|it| it == "glog")).collect();
    assert_eq!(logs.len(), runs.iter().map(|run| run.files.len()).sum::<usize>());
    for log in &logs {
        assert!(gannet_log::verify(log).unwrap().is_complete(), "{}", log.display());
    }
}
