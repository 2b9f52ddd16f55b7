//! The receiving thread: what a frame costs it on this machine, measured.

use std::net::Ipv4Addr;
use std::thread::sleep;
use std::time::{Duration, Instant};

use gannet_ingest::udp::UdpConfig;
use gannet_measure::quantity::Span;

use super::{Check, Needs, Verdict};
use crate::config::{Plan, Settings, SlowControlPlan, SourceInput};
use crate::emulation::Target;
use crate::run::Run;
use crate::snapshot::Snapshot;

/// Streams that are received for the measurement, at most.
const STREAMS: usize = 16;
/// How much of the past they keep: more than caches hold, so that a frame lands in memory.
const DEPTH: Span = Span::ms(50);
/// Until the pedestals stand and the memory has been used once.
const WARM_UP: Duration = Duration::from_millis(150);
/// How long the cost is measured; threads tell what they used every 10 ms.
const MEASURED: Duration = Duration::from_secs(1);
/// Part of a core beyond which a thread has hardly any time left.
const BUSY: f64 = 0.9;

/// What receiving was measured to cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReceiveCost {
    /// Time of a core for each frame, from the socket to its primitives, in seconds.
    pub s_per_frame: f64,
}

impl ReceiveCost {
    /// Takes emulated frames over loopback for a second and searches them as `plan` says; nothing is
    /// recorded. They come at the rate of the busiest thread of `needs`, or as fast as they can be
    /// received, since what a frame costs depends on how many come together.
    ///
    /// # Errors
    /// Why no frames could be taken, in a sentence.
    pub fn measure(plan: &Plan, needs: &Needs) -> Result<Self, String> {
        let plan = trial(plan, needs.busiest_frames_per_s)?;
        let run = Run::configure(&plan).map_err(|error| error.to_string())?;
        run.start().map_err(|error| error.to_string())?;
        let to = *run.addresses().first().ok_or("there is no socket")?;
        let target = Target {
            receivers: vec![to.into(); plan.streams().count()],
            frames: None,
            flow_control: Some(run.flow_control()),
            faults: None,
        };
        let emulation =
            plan.detector.front_end().and_then(|front_end| front_end.start(&target, None));
        let emulation = emulation.map_err(|error| error.to_string())?;
        sleep(WARM_UP);
        let before = used(&run);
        let start = Instant::now();
        while start.elapsed() < MEASURED || used(&run).0 == before.0 {
            if start.elapsed() > 2 * MEASURED {
                return Err("no frame came over loopback".into());
            }
            sleep(MEASURED / 20);
        }
        let after = used(&run);
        emulation.stop();
        emulation.join().map_err(|error| error.to_string())?;
        run.drain();
        Ok(Self { s_per_frame: (after.1 - before.1) / (after.0 - before.0) as f64 })
    }
}

/// Frames taken so far, and the time of a core that they took in seconds.
fn used(run: &Run) -> (u64, f64) {
    let snapshot = run.snapshot();
    (snapshot.frames(), snapshot.sources.iter().map(|source| source.receive_cpu_s).sum())
}

/// The first source of `plan` on loopback, with frames at a rate.
fn trial(plan: &Plan, frames_per_s: f64) -> Result<Plan, String> {
    let mut plan = plan.clone();
    plan.sources.truncate(1);
    let source = plan.sources.first_mut().ok_or("there is no source")?;
    source.streams.truncate(STREAMS);
    let listen = vec![(Ipv4Addr::LOCALHOST, 0).into()];
    let udp = match source.udp() {
        Some(udp) => UdpConfig { listen, sockets: 1, allow: Vec::new(), ..udp.clone() },
        None => UdpConfig { listen, ..UdpConfig::default() },
    };
    source.input = SourceInput::Udp(udp);
    source.keep(DEPTH);
    let true_rate = source.frames_per_s();
    let rate = if frames_per_s > 0.0 { frames_per_s } else { true_rate };
    plan.detector = plan.detector.trial(source.streams.len(), rate / true_rate);
    plan.settings = Settings { record: plan.settings.record, ..Settings::default() };
    plan.settings.recorder.enabled = false;
    plan.slow_control = SlowControlPlan::default();
    Ok(plan)
}

/// What is checked, why, and what to do about it.
const NAME: &str = "busiest receiving thread";
const REASON: &str = "a socket is received by one thread; what it cannot take in time is lost";
const REMEDY: &str = "# spread the streams over more addresses or `sockets` in the configuration";

/// How busy the receiving thread with most to do has been in a run so far. One that never sleeps takes a whole core
/// and is fine: only where the kernel had to drop datagrams too is it not.
pub(super) fn check_running(needs: &Needs, snapshot: &Snapshot) -> Check {
    let came = snapshot.sources.iter().filter(|source| source.frames > 0);
    let busiest = came.max_by(|a, b| a.receive_cpu_s.total_cmp(&b.receive_cpu_s));
    let Some(source) = busiest.filter(|_| snapshot.elapsed_s > 0.0) else {
        return Check::new(NAME, "no frame has come yet", Verdict::Unknown, REASON);
    };
    let part = source.receive_cpu_s / snapshot.elapsed_s;
    let also = if needs.emulated { ", with which it makes its frames too" } else { "" };
    let value = format!("{:.0} % of a core so far{also}", part * 100.0);
    let is_short = part > BUSY && source.kernel_drops > 0;
    let verdict = if is_short { Verdict::Slow } else { Verdict::Ok };
    Check::new(NAME, value, verdict, REASON).fixed_by(REMEDY)
}

/// How busy the receiving thread with most to do will be.
pub(super) fn check(needs: &Needs, cost: &Result<ReceiveCost, String>) -> Check {
    let (name, reason) = (NAME, REASON);
    match cost {
        Ok(ReceiveCost { s_per_frame }) => {
            let part = needs.busiest_frames_per_s * s_per_frame;
            let (percent, ns) = (part * 100.0, s_per_frame * 1e9);
            let value = format!("{percent:.0} % of a core, at {ns:.0} ns a frame measured here");
            let verdict = if part <= 1.0 { Verdict::Ok } else { Verdict::Slow };
            Check::new(name, value, verdict, reason).fixed_by(REMEDY)
        }
        Err(cause) => Check::new(name, format!("not measured: {cause}"), Verdict::Unknown, reason),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::parse;
    use crate::snapshot::SourceSnapshot;

    #[test]
    fn a_thread_is_slow_when_its_frames_cost_more_than_a_core() {
        let needs = Needs { busiest_frames_per_s: 400_000.0, ..Needs::default() };
        let judged = |s_per_frame| check(&needs, &Ok(ReceiveCost { s_per_frame }));
        assert_eq!(judged(2.5e-6).verdict, Verdict::Ok);
        let slow = judged(3e-6);
        assert_eq!(slow.verdict, Verdict::Slow);
        assert_eq!(slow.value, "120 % of a core, at 3000 ns a frame measured here");
        let unknown = check(&needs, &Err("no socket".into()));
        assert_eq!(
            (unknown.verdict, &*unknown.value),
            (Verdict::Unknown, "not measured: no socket")
        );
    }

    #[test]
    fn a_thread_of_a_run_is_judged_by_what_it_took_and_what_was_dropped() {
        let judged = |receive_cpu_s, frames, kernel_drops| {
            let source =
                SourceSnapshot { receive_cpu_s, frames, kernel_drops, ..Default::default() };
            let sources = vec![SourceSnapshot::default(), source];
            let snapshot = Snapshot { elapsed_s: 10.0, sources, ..Snapshot::default() };
            let check = check_running(&Needs::default(), &snapshot);
            (check.value, check.verdict)
        };
        assert_eq!(judged(3.0, 9, 0), ("30 % of a core so far".into(), Verdict::Ok));
        // It may spin.
        assert_eq!(judged(9.9, 9, 0).1, Verdict::Ok);
        assert_eq!(judged(9.9, 9, 1), ("99 % of a core so far".into(), Verdict::Slow));
        assert_eq!(judged(9.9, 0, 1), ("no frame has come yet".into(), Verdict::Unknown));
        let emulated = Needs { emulated: true, ..Needs::default() };
        let source = SourceSnapshot { receive_cpu_s: 1.0, frames: 1, ..Default::default() };
        let snapshot = Snapshot { elapsed_s: 2.0, sources: vec![source], ..Snapshot::default() };
        let value = check_running(&emulated, &snapshot).value;
        assert_eq!(value, "50 % of a core so far, with which it makes its frames too");
    }

    #[test]
    fn the_trial_is_the_first_source_on_loopback_and_writes_nothing() {
        let text = r#"
            recorder = { raw_streams = "all" }
            metrics = { listen = "127.0.0.1:9099" }
            [[source]]
            streams = { count = 40 }
            udp = { listen = ["192.0.2.1:80"], sockets = 4 }
            depth = "100 ms"
            [[source]]
            streams = { count = 4, crate = 1 }
            capture = "a.pcap"
        "#;
        let plan = parse(text).unwrap();
        let trial = trial(&plan, 62_500.0).unwrap();
        assert_eq!(trial.sources.len(), 1);
        assert_eq!(trial.streams().count(), STREAMS);
        assert_eq!(trial.detector.emulated().len(), STREAMS);
        assert!(!trial.settings.recorder.enabled && trial.settings.metrics.listen.is_none());
        let udp = trial.sources[0].udp().unwrap();
        assert_eq!((udp.listen[0].to_string(), udp.sockets), ("127.0.0.1:0".to_owned(), 1));
    }

    #[test]
    fn nothing_is_tried_without_a_source() {
        let error = trial(&parse("").unwrap(), 1.0).unwrap_err();
        assert_eq!(error, "there is no source");
    }
}
