//! What those who look on cost a run: frames, processor time of the receiving threads, memory.

use std::fs;
use std::hint::black_box;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use gannet_measure::testing::free_address;
use serde_json::Value;

use crate::readout::pages::Demo;
use crate::readout::process::{alone, gannet, resident_kib, scale};

/// Browsers that look on, as a page does: all snapshots, five waveforms a second, decisions once a second.
const VIEWERS: usize = 10;
/// Memory that they may cost, in KiB.
const MEMORY_KIB: u64 = 64 << 10;

/// The front end of a run, in a process of its own.
struct FrontEnd(Child);

impl FrontEnd {
    fn start(run: &Demo) -> Self {
        let mut command = Command::new(gannet());
        command.arg("emulate").arg(run.directory().join("run.toml"));
        Self(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for FrontEnd {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _ended = self.0.wait();
    }
}

/// Everybody who looks on, until dropped.
struct Viewers {
    gone: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    seen: Arc<AtomicU64>,
    /// Asked for events, and reads none.
    _stalled: std::net::TcpStream,
}

impl Viewers {
    fn arrive(run: &Arc<Demo>, cookie: &str, channels: &[u64]) -> Self {
        let (gone, seen) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let mut threads = Vec::new();
        for viewer in 0..VIEWERS {
            let (run, cookie) = (Arc::clone(run), cookie.to_owned());
            let channel = channels[viewer * channels.len() / VIEWERS];
            let (left, events) = (Arc::clone(&gone), Arc::clone(&seen));
            let (asker, header) = (Arc::clone(&run), cookie.clone());
            threads.push(thread::spawn(move || {
                let lines =
                    BufReader::new(asker.ask("GET /api/v1/events?rate=10", &header)).lines();
                let of_events =
                    lines.map_while(Result::ok).filter(|line| line.starts_with("data:"));
                for _ in of_events.take_while(|_| !left.load(Ordering::Relaxed)) {
                    events.fetch_add(1, Ordering::Relaxed);
                }
            }));
            let left = Arc::clone(&gone);
            threads.push(thread::spawn(move || {
                let mut turn = 0u64;
                while !left.load(Ordering::Relaxed) {
                    let _waveform =
                        run.json(&format!("waveform?channel={channel}&columns=1024"), &cookie);
                    if turn.is_multiple_of(5) {
                        let _decisions = run.json("decisions?last=500", &cookie);
                    }
                    turn += 1;
                    thread::sleep(Duration::from_millis(200));
                }
            }));
        }
        let stalled = run.ask("GET /api/v1/events?rate=10", cookie);
        Self { gone, threads, seen, _stalled: stalled }
    }

    /// Snapshots that they have seen.
    fn leave(self) -> u64 {
        self.gone.store(true, Ordering::Relaxed);
        self.threads.into_iter().for_each(|thread| thread.join().unwrap());
        self.seen.load(Ordering::Relaxed)
    }
}

/// Work that has nothing to do with the run, on a part of a processor, until dropped: what a
/// machine that is shared costs by itself.
struct Neighbour {
    gone: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Neighbour {
    /// Takes `share` of the processor, and walks through memory as large as a cache meanwhile.
    fn arrive(share: f64) -> Self {
        let gone = Arc::<AtomicBool>::default();
        let left = Arc::clone(&gone);
        let slice = Duration::from_millis(10);
        let thread = thread::spawn(move || {
            let mut memory = vec![0u64; 512 << 10];
            let mut lines = (0..memory.len()).step_by(8).cycle();
            while !left.load(Ordering::Relaxed) {
                let begin = Instant::now();
                while begin.elapsed() < slice.mul_f64(share.min(1.0)) {
                    lines.by_ref().take(1024).for_each(|at| memory[at] += 1);
                }
                black_box(&mut memory);
                thread::sleep(slice.saturating_sub(begin.elapsed()));
            }
        });
        Self { gone, thread: Some(thread) }
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        self.gone.store(true, Ordering::Relaxed);
        self.thread.take().map(JoinHandle::join);
    }
}

/// Processor time of a process, in seconds.
fn processor_s(id: u32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap();
    let (_, fields) = stat.rsplit_once(')').unwrap();
    let spent = fields.split_whitespace().skip(11).take(2);
    // Linux counts it in hundredths of a second.
    spent.map(|ticks| ticks.parse::<f64>().unwrap()).sum::<f64>() / 100.0
}

/// Processor time of the receiving threads of a process, in nanoseconds.
fn receiving_ns(id: u32) -> u64 {
    let tasks = fs::read_dir(format!("/proc/{id}/task")).unwrap();
    let mut sum = 0;
    for task in tasks.map(|task| task.unwrap().path()) {
        if fs::read_to_string(task.join("comm")).unwrap().trim() == "gannet-receive" {
            let spent = fs::read_to_string(task.join("schedstat")).unwrap();
            sum += spent.split_whitespace().next().unwrap().parse::<u64>().unwrap();
        }
    }
    sum
}

/// What a stretch of time came to.
#[derive(Clone, Copy, Debug)]
struct Turn {
    frames: u64,
    lost: u64,
    receiving_ns: u64,
    /// Of the run and of those who look on.
    processor_s: f64,
}

impl Turn {
    fn now(run: &Demo, cookie: &str) -> Self {
        let (_, now) = run.json("snapshot", cookie);
        let number = |value: &Value| value.as_u64().unwrap();
        let lost = number(&now["frames_lost"]) + number(&now["sources"][0]["kernel_drops"]);
        let frames = number(&now["sources"][0]["frames"]);
        let processor_s = processor_s(run.id()) + processor_s(std::process::id());
        Self { frames, lost, receiving_ns: receiving_ns(run.id()), processor_s }
    }

    fn since(self, before: Self) -> Self {
        Self {
            frames: self.frames - before.frames,
            lost: self.lost - before.lost,
            receiving_ns: self.receiving_ns - before.receiving_ns,
            processor_s: self.processor_s - before.processor_s,
        }
    }

    fn ns_per_frame(&self) -> f64 {
        self.receiving_ns as f64 / self.frames.max(1) as f64
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn load() -> String {
    let load = fs::read_to_string("/proc/loadavg").unwrap();
    load.split_whitespace().take(3).collect::<Vec<_>>().join(" ")
}

#[test]
fn those_who_look_on_cost_no_frame_and_little_memory() {
    let _alone = alone();
    let (address, rate_scale) = (free_address(), if scale(2) == 2 { 0.1 } else { 0.02 });
    let run = Arc::new(Demo::with(&format!(
        "[[source]]\nstreams = {{ count = 4 }}\ndepth = \"100 ms\"\nudp = {{ listen = [\"{address}\"] }}\n\
         [emulate]\nstreams = {{ count = 4 }}\npace = {{ rate_scale = {rate_scale} }}\n[recorder]\n"
    )));
    let cookie = run.cookie();
    run.wait_for("snapshot", &cookie, |now| now["state"] == "running");
    let front_end = FrontEnd::start(&run);
    run.wait_for("snapshot", &cookie, |now| now["sources"][0]["frames"].as_u64() > Some(2000));
    let (_, streams) = run.json("channels", &cookie);
    let all = streams.as_array().unwrap().iter().flat_map(|it| it["channels"].as_array().unwrap());
    let channels: Vec<_> = all.map(|channel| channel["channel"].as_u64().unwrap()).collect();

    let time = Duration::from_secs(scale(5));
    let conditions = ["alone", "watched", "beside a neighbour"];
    let mut turns = [Vec::<Turn>::new(), Vec::new(), Vec::new()];
    eprintln!("load {}", load());
    for turn in 0..scale(9) {
        // The neighbour takes as much of the processors as those who look on just did.
        let (mut share, mut spent_before) = (0.0, 0.0);
        for (condition, turns) in conditions.iter().zip(&mut turns) {
            let watched = *condition == "watched";
            let viewers = watched.then(|| Viewers::arrive(&run, &cookie, &channels));
            let neighbour = (*condition == "beside a neighbour").then(|| Neighbour::arrive(share));
            thread::sleep(Duration::from_millis(300));
            let before = Turn::now(&run, &cookie);
            thread::sleep(time);
            let come_to = Turn::now(&run, &cookie).since(before);
            let seen = viewers.map_or(0, Viewers::leave);
            drop(neighbour);
            let spent = come_to.processor_s / time.as_secs_f64();
            eprintln!(
                "turn {turn}, {condition}: {} frames, {} lost, {:.0} ns of the receiving thread a frame, \
                 {:.2} of a processor, {seen} snapshots seen",
                come_to.frames,
                come_to.lost,
                come_to.ns_per_frame(),
                spent
            );
            assert!(!watched || seen > VIEWERS as u64, "nobody saw anything: {seen}");
            (share, spent_before) = (spent - spent_before, spent);
            turns.push(come_to);
        }
    }
    let medians =
        turns.each_ref().map(|turns| median(turns.iter().map(Turn::ns_per_frame).collect()));
    let lost = turns.each_ref().map(|turns| turns.iter().map(|turn| turn.lost).sum::<u64>());
    eprintln!("load {}", load());
    for ((condition, median), lost) in conditions.iter().zip(medians).zip(lost) {
        let more = 100.0 * (median / medians[0] - 1.0);
        eprintln!("{condition}: {median:.0} ns a frame, {more:+.1} %, {lost} lost");
    }

    let viewers = Viewers::arrive(&run, &cookie, &channels);
    let begin = Instant::now();
    thread::sleep(Duration::from_millis(500));
    let first = resident_kib(run.id());
    let mut most = first;
    while begin.elapsed() < Duration::from_secs(scale(600)) {
        thread::sleep(Duration::from_millis(200));
        let now = resident_kib(run.id());
        if now > most {
            eprintln!("{:.0} s: {now} KiB resident", begin.elapsed().as_secs_f64());
        }
        most = most.max(now);
    }
    viewers.leave();
    eprintln!("{:.0} s watched: {first} to {most} KiB resident", begin.elapsed().as_secs_f64());
    drop(front_end);
    run.interrupt();
    assert!(most - first < MEMORY_KIB, "{first} to {most} KiB");
    if lost[0] == 0 {
        assert_eq!(lost[1], 0, "frames are lost where somebody looks on");
    }
}
