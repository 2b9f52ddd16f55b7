//! The live display of a run: a panel that redraws on a terminal, a line a second elsewhere.

mod panel;

use std::fmt::Write;
use std::io;
use std::time::Duration;

use gannet_control::alarm::brief;
use gannet_control::channels::Condition;
use gannet_control::snapshot::{ChannelsSnapshot, LatencySnapshot, Snapshot};
use gannet_measure::histogram::Summary;
use panel::Panel;
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Block, Gauge, Paragraph, Widget};

use crate::log;
use crate::output::{self, grouped};

/// Lines of the panel.
const PANEL_LINES: u16 = 25;
/// Alarms of one kind that are shown; of more, their number.
const ALARMS_SHOWN: usize = 2;
/// Time between two pictures on a terminal.
const REDRAW: Duration = Duration::from_millis(250);
/// Time between two lines elsewhere.
const REPORT: Duration = Duration::from_secs(1);

/// Shows snapshots of a run as they come.
pub enum LiveDisplay {
    /// A panel below the text that is there already.
    Panel(Panel, Rates),
    /// One line per snapshot on standard error.
    Lines(Rates),
    /// Nothing.
    Silent,
}

/// Figures of the last snapshot, from which rates follow.
#[derive(Debug, Default)]
pub struct Rates {
    elapsed_s: f64,
    frames: u64,
    bytes: u64,
    primitives: u64,
}

/// Per-second figures between two snapshots.
struct Rate {
    frames: f64,
    gbit: f64,
    primitives: f64,
}

impl Rates {
    /// The rates since the last call.
    fn advance(&mut self, snapshot: &Snapshot) -> Rate {
        let now = Self {
            elapsed_s: snapshot.elapsed_s,
            frames: snapshot.frames(),
            bytes: snapshot.bytes(),
            primitives: snapshot.trigger.primitives,
        };
        let seconds = (now.elapsed_s - self.elapsed_s).max(1e-9);
        let per_second = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
        let rate = Rate {
            frames: per_second(now.frames, self.frames),
            gbit: per_second(now.bytes, self.bytes) * 8e-9,
            primitives: per_second(now.primitives, self.primitives),
        };
        *self = now;
        rate
    }
}

impl LiveDisplay {
    /// A panel when standard error is a terminal that can be drawn on, lines otherwise; nothing when `quiet`.
    pub fn open(quiet: bool) -> Self {
        if quiet {
            return Self::Silent;
        }
        if !output::takes_control_codes(&io::stderr()) {
            return Self::Lines(Rates::default());
        }
        // Lines that come from anywhere would tear the panel.
        log::keep_back();
        Self::Panel(Panel::new(PANEL_LINES), Rates::default())
    }

    /// Says something once, above the panel or as a line.
    pub fn note(&mut self, text: &str) {
        match self {
            Self::Panel(panel, _) => {
                let noted = panel.note(text);
                self.leave_if_gone(&noted);
            }
            Self::Lines(_) => log::say(text),
            Self::Silent => (),
        }
    }

    /// Shows nothing any more once the terminal is gone.
    fn leave_if_gone(&mut self, outcome: &io::Result<()>) {
        if outcome.is_err() {
            log::release();
            *self = Self::Silent;
        }
    }

    /// Time to wait between two snapshots.
    pub fn interval(&self) -> Duration {
        match self {
            Self::Panel(..) => REDRAW,
            Self::Lines(_) | Self::Silent => REPORT,
        }
    }

    /// Shows a snapshot. A terminal that went away is not an error of the run.
    pub fn show(&mut self, snapshot: &Snapshot) {
        log::take().iter().for_each(|line| self.note(line));
        match self {
            Self::Panel(panel, rates) => {
                let rate = rates.advance(snapshot);
                let drawn = panel.draw(|area, buffer| draw(area, buffer, snapshot, &rate));
                self.leave_if_gone(&drawn);
            }
            Self::Lines(rates) => {
                let rate = rates.advance(snapshot);
                log::say(line(snapshot, &rate));
            }
            Self::Silent => (),
        }
    }

    /// Leaves the last picture standing and frees the terminal.
    pub fn close(self) {
        if let Self::Panel(..) = self {
            log::release();
        }
    }
}

/// One line for logs.
fn line(snapshot: &Snapshot, rate: &Rate) -> String {
    format!(
        "{:7.1} s {} {:.3} Mframe/s {:.2} Gbit/s lost {} primitives {:.0}/s decisions {} records {}{}",
        snapshot.elapsed_s,
        snapshot.state,
        rate.frames * 1e-6,
        rate.gbit,
        lost(snapshot),
        rate.primitives,
        snapshot.trigger.decisions,
        snapshot.recorder.records,
        if snapshot.degraded { " DEGRADED" } else { "" },
    )
}

/// The panel: state and rates, fill of the buffers, ledger and latencies.
fn draw(area: Rect, buffer: &mut Buffer, snapshot: &Snapshot, rate: &Rate) {
    let areas = Layout::vertical([
        Constraint::Length(4),
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Fill(1),
    ])
    .split(area);
    let state = match snapshot.degraded {
        true => format!(" {} degraded ", snapshot.state).fg(Color::Black).bg(Color::Yellow),
        false => format!(" {} ", snapshot.state).fg(Color::Black).bg(Color::Green),
    };
    let title = Line::from(vec![
        format!(" gannet {} ", snapshot.title()).bold(),
        state,
        format!(" {:.0} s ", snapshot.elapsed_s).into(),
    ]);
    let summary = Paragraph::new(vec![figures(snapshot, rate), outcome(snapshot)]);
    summary.block(Block::bordered().title(title)).render(areas[0], buffer);
    let fullest = snapshot.sources.iter().map(|source| source.buffer_fill).fold(0.0, f64::max);
    gauge("latency buffer: not read yet", fullest, Color::Blue).render(areas[1], buffer);
    gauge("recorder queue", snapshot.recorder.queue_fill, Color::Cyan).render(areas[2], buffer);
    Paragraph::new(details(snapshot)).render(areas[3], buffer);
}

fn figures(snapshot: &Snapshot, rate: &Rate) -> Line<'static> {
    let search = snapshot.tpg_share.map(|share| format!("  search {:.0} %", share * 100.0));
    Line::from(format!(
        "{} streams  {:.3} Mframe/s  {:.2} Gbit/s  {:.0} primitives/s{}",
        snapshot.streams.len(),
        rate.frames * 1e-6,
        rate.gbit,
        rate.primitives,
        search.unwrap_or_default()
    ))
}

fn outcome(snapshot: &Snapshot) -> Line<'static> {
    let lost_text = format!("{} lost", lost(snapshot));
    Line::from(vec![
        format!("{} frames  ", grouped(snapshot.frames())).into(),
        if snapshot.frames_lost_max == 0 { lost_text.green() } else { lost_text.red().bold() },
        match snapshot.specific.is_empty() {
            true => format!("  {} activities", grouped(snapshot.trigger.activities)).into(),
            false => "".into(),
        },
        format!(
            "  {} decisions  {} records",
            grouped(snapshot.trigger.decisions),
            grouped(snapshot.recorder.records),
        )
        .into(),
    ])
}

/// Frames lost, or the bounds of their number.
fn lost(snapshot: &Snapshot) -> String {
    let (least, most) = (snapshot.frames_lost, snapshot.frames_lost_max);
    match least == most {
        true => grouped(least),
        false => format!("{} to {}", grouped(least), grouped(most)),
    }
}

fn gauge(label: &'static str, fraction: f64, color: Color) -> Gauge<'static> {
    let fraction = fraction.clamp(0.0, 1.0);
    Gauge::default()
        .ratio(fraction)
        .label(format!("{label} {:.0} %", fraction * 100.0))
        .gauge_style(color)
}

/// What needs attention, latencies, and the stages of the ledger that have seen anything.
fn details(snapshot: &Snapshot) -> Vec<Line<'static>> {
    let alarms = brief(&snapshot.alarms, ALARMS_SHOWN);
    let mut lines: Vec<_> = alarms.into_iter().map(|line| Line::from(line).red()).collect();
    lines.extend(snapshot.specific.iter().map(|own| Line::from(output::figure(own, 22, 15))));
    if snapshot.specific.is_empty() {
        lines.extend(latency_lines(&snapshot.latency));
    }
    let used = snapshot.ledger.iter().filter(|statement| statement.offered > 0);
    lines.extend(used.map(|statement| {
        let text = statement.to_string();
        match (statement.dropped_total(), statement.closes()) {
            (0, true) => Line::from(text),
            _ => Line::from(text).yellow(),
        }
    }));
    lines.extend(unwell(&snapshot.channels));
    lines
}

/// How many channels are noisy or dead, and which are the noisiest.
fn unwell(channels: &ChannelsSnapshot) -> Option<Line<'static>> {
    let ChannelsSnapshot { noisy, dead, loudest, .. } = channels;
    if noisy + dead == 0 {
        return None;
    }
    let mut text = format!("channels: {noisy} noisy, {dead} dead");
    let noisy = loudest.iter().filter(|channel| channel.condition == Condition::Noisy);
    for channel in noisy.take(3) {
        let _infallible =
            write!(text, "; {} makes {:.0} TP/s", channel.channel, channel.highest_rate_hz());
    }
    Some(Line::from(text).yellow())
}

fn latency_lines(latency: &LatencySnapshot) -> Vec<Line<'static>> {
    let row = |name: &str, summary: &Summary| {
        let us = |ns: u64| ns as f64 * 1e-3;
        Line::from(format!(
            "{name:<22} p50 {:>9.1} us  p99 {:>9.1} us  max {:>9.1} us",
            us(summary.p50),
            us(summary.p99),
            us(summary.max)
        ))
    };
    vec![
        row("arrival to primitive", &latency.arrival_to_primitive),
        row("arrival to decision", &latency.arrival_to_decision),
        row("decision to record", &latency.decision_to_record),
    ]
}
