//! What is said of a run while it goes on.

use std::collections::HashSet;

use gannet_control::config::{Plan, Role};
use gannet_control::snapshot::Snapshot;
use gannet_control::station::Underway;
use gannet_measure::quantity::Bytes;

use crate::display::LiveDisplay;

/// What was said of a run so far.
#[derive(Default)]
pub struct Notes {
    is_set_up: bool,
    is_running: bool,
    has_primitives: bool,
    is_joined: bool,
    /// Sources that a readout takes, at the moment.
    read_out: HashSet<String>,
}

impl Notes {
    /// Says what there is to say of a run that is set up.
    pub fn set_up(
        &mut self,
        plan: &Plan,
        run: &Underway,
        snapshot: &Snapshot,
        display: &mut LiveDisplay,
    ) {
        let is_apart = run.joined().is_some();
        if !std::mem::replace(&mut self.is_set_up, true) && plan.role == Role::Readout {
            let others = plan.others().map(|others| format!(", and for readouts of {others}"));
            let (builder, others) = (&plan.settings.builder.listen, others.unwrap_or_default());
            display.note(&format!("waiting for the builder at {builder}{others}"));
        }
        if is_apart && run.joined() == Some(true) && !std::mem::replace(&mut self.is_joined, true) {
            display.note("readouts and builder are joined");
        }
        for source in &snapshot.sources {
            match source.has_readout {
                Some(true) if self.read_out.insert(source.name.clone()) => {
                    display.note(&format!("{}: its readout has joined", source.name));
                }
                Some(false) => _ = self.read_out.remove(&source.name),
                _ => {}
            }
        }
        let has_primitives = snapshot.trigger.latest_primitive.is_some();
        if has_primitives && !std::mem::replace(&mut self.has_primitives, true) {
            display.note(&first_primitive(snapshot));
        }
    }

    /// Says what was set up, and what it falls short of, once the run takes frames; whether that is now.
    pub fn running(
        &mut self,
        plan: &Plan,
        run: &Underway,
        snapshot: &Snapshot,
        display: &mut LiveDisplay,
    ) -> bool {
        if std::mem::replace(&mut self.is_running, true) {
            return false;
        }
        for source in &snapshot.sources {
            let cpu = source.cpu.map(|cpu| format!(", on CPU {cpu}")).unwrap_or_default();
            display.note(&format!("{}: {}{cpu}", source.name, source.engine));
        }
        if let Some(socket) = &run.control_socket {
            display.note(&format!("socket for `gannet ctl`: {}", socket.display()));
        }
        display.note(&running(plan, snapshot));
        true
    }
}

/// Says that memory is asked for, which may take seconds to be had.
pub fn memory(plan: &Plan, display: &mut LiveDisplay) {
    if plan.role != Role::Builder {
        let memory = Bytes(plan.forecast.memory_bytes >> 20 << 20);
        display.note(&format!("allocating {memory} for the last {:.2} s", plan.forecast.depth_s));
    }
}

/// That the run takes frames, in one line.
pub fn running(plan: &Plan, snapshot: &Snapshot) -> String {
    let (number, streams) = (snapshot.run, snapshot.streams.len());
    let directory = plan.settings.recorder.directory.display();
    let files = match (plan.records(), plan.role) {
        (true, Role::Readout) => format!("raw files in {directory}"),
        (true, _) => format!("files in {directory}"),
        (false, Role::Readout) => "its builder records".into(),
        (false, _) => "nothing is recorded".into(),
    };
    let part = match plan.role {
        Role::All => "",
        Role::Readout => "readout of ",
        Role::Builder => "builder of ",
    };
    format!("{part}run {number} is running: {streams} streams, {files}")
}

fn first_primitive(snapshot: &Snapshot) -> String {
    let Some(tp) = snapshot.trigger.latest_primitive else { return String::new() };
    format!(
        "first trigger primitives after {:.2} s: channel {} at tick {}, {} samples over threshold, \
         peak {} counts",
        snapshot.elapsed_s, tp.channel, tp.time_start, tp.samples_over_threshold, tp.adc_peak
    )
}
