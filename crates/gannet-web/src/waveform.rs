//! Channels, and the samples of one of them or of a whole stream.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, UInt16Array, UInt64Array};
use axum::http::StatusCode;
use axum::http::header::{HeaderValue, VARY};
use gannet_control::channels::ChannelFigures;
use gannet_control::waveform::{
    Area, FRAMES_MAX, Look, NoWaveform, SampledChannel, Spectrum, Waterfall, Waveform, Waveforms,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::arrow;
use crate::calls::{Ask, Nothing, Reply};
use crate::limits::FRAMES_PER_TURN;
use crate::negotiation::wants_arrow;
use crate::problem::Problem;
use crate::site::Shared;

/// What is to be shown.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wanted {
    /// Number of the channel.
    channel: u32,
    /// So many frames: 1 to 256.
    #[serde(default = "frames")]
    frames: usize,
    /// So many columns of the picture at most: 1 to 4096.
    #[serde(default = "columns")]
    columns: usize,
    /// First tick after the frames; the newest where it is absent.
    end: Option<u64>,
}

fn frames() -> usize {
    8
}

fn columns() -> usize {
    1024
}

/// What is to be shown of a stream.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WantedArea {
    /// Name of the stream; the first where it is absent.
    stream: Option<String>,
    /// So many frames: 1 to 256.
    #[serde(default = "frames")]
    frames: usize,
    /// So many columns of the picture at most.
    #[serde(default = "area_columns")]
    columns: usize,
    /// So many rows of the picture at most.
    #[serde(default = "rows")]
    rows: usize,
    /// First tick after the frames; the newest where it is absent.
    end: Option<u64>,
}

fn area_columns() -> usize {
    512
}

fn rows() -> usize {
    256
}

/// Of what the spectrum is to be shown.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WantedSpectrum {
    /// Number of the channel.
    channel: u32,
    /// So many frames: 1 to 256.
    #[serde(default = "spectrum_frames")]
    frames: usize,
    /// First tick after the frames; the newest where it is absent.
    end: Option<u64>,
}

fn spectrum_frames() -> usize {
    64
}

/// A stream and its channels.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "StreamChannels")]
pub(crate) struct Stream<'a> {
    /// Name of the stream.
    stream: &'a str,
    /// Its channels.
    channels: Vec<Channel<'a>>,
}

/// A channel, and what the last look at all of them came to.
#[derive(Serialize, JsonSchema)]
struct Channel<'a> {
    #[serde(flatten)]
    channel: &'a SampledChannel,
    /// What the last look at it came to.
    figures: Option<&'a ChannelFigures>,
}

/// The channels whose samples can be seen, by stream.
pub(crate) async fn channels(ask: Ask<Nothing>) -> Result<Reply<Vec<Stream<'static>>>, Problem> {
    let waveforms = waveforms(&ask.shared)?;
    let snapshot = ask.shared.snapshot()?;
    let looked: HashMap<_, _> =
        snapshot.channels.all.iter().map(|figures| (figures.channel, figures)).collect();
    let streams = waveforms.channels().into_iter().map(|(stream, channels)| {
        let looked = |channel: &SampledChannel| looked.get(&channel.channel).copied();
        let channels = channels.into_iter();
        let channels = channels.map(|channel| Channel { channel, figures: looked(channel) });
        Stream { stream, channels: channels.collect() }
    });
    Ok(Reply::json(streams.collect::<Vec<_>>()))
}

/// The samples of a channel.
pub(crate) async fn waveform(ask: Ask<Wanted>) -> Result<Reply<Waveform>, Problem> {
    let Wanted { channel, frames, columns, end } = ask.wanted;
    let waveforms = waveforms(&ask.shared)?;
    ask.shared.pace.take(frames.min(FRAMES_MAX) / FRAMES_PER_TURN).await;
    let seen = waveforms.look(&Look { channel, frames, end, columns }).map_err(refusal)?;
    match wants_arrow(&ask.headers) {
        true => table(&seen),
        false => Ok(Reply::json(seen).with(VARY, HeaderValue::from_static("accept"))),
    }
}

/// Time against channel of a stream.
pub(crate) async fn waterfall(ask: Ask<WantedArea>) -> Result<Reply<Waterfall>, Problem> {
    let WantedArea { stream, frames, columns, rows, end } = ask.wanted;
    let waveforms = waveforms(&ask.shared)?;
    // All channels of each frame are unpacked.
    ask.shared.pace.take(frames.min(FRAMES_MAX)).await;
    let area = Area { stream, frames, end, columns, rows };
    Ok(Reply::json(waveforms.waterfall(&area).map_err(refusal)?))
}

/// The spectrum of a channel.
pub(crate) async fn spectrum(ask: Ask<WantedSpectrum>) -> Result<Reply<Spectrum>, Problem> {
    let WantedSpectrum { channel, frames, end } = ask.wanted;
    let waveforms = waveforms(&ask.shared)?;
    ask.shared.pace.take(frames.min(FRAMES_MAX) / FRAMES_PER_TURN).await;
    Ok(Reply::json(waveforms.spectrum(channel, frames, end).map_err(refusal)?))
}

/// The columns of a waveform with the tick at which each begins.
fn table(seen: &Waveform) -> Result<Reply<Waveform>, Problem> {
    let (count, ticks) = (seen.least.len() as u64, seen.end - seen.begin);
    let tick = |column: u64| {
        seen.begin + (u128::from(ticks) * u128::from(column) / u128::from(count)) as u64
    };
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("tick", Arc::new(UInt64Array::from_iter_values((0..count).map(tick)))),
        ("least", Arc::new(UInt16Array::from(seen.least.clone()))),
        ("greatest", Arc::new(UInt16Array::from(seen.greatest.clone()))),
    ];
    let known = [
        ("channel", seen.channel.to_string()),
        ("stream", seen.stream.clone()),
        ("end", seen.end.to_string()),
        ("ticks_per_s", seen.ticks_per_s.to_string()),
        ("frames", seen.frames.to_string()),
        ("found", seen.found.to_string()),
    ];
    let levels = [("pedestal", seen.pedestal), ("threshold", seen.threshold)];
    let levels = levels.into_iter().filter_map(|(name, level)| Some((name, level?.to_string())));
    arrow::table(columns, known.into_iter().chain(levels))
}

fn refusal(no: NoWaveform) -> Problem {
    let (status, code) = match no {
        NoWaveform::UnknownChannel { .. } => (StatusCode::NOT_FOUND, "unknown-channel"),
        NoWaveform::UnknownStream { .. } => (StatusCode::NOT_FOUND, "unknown-stream"),
        NoWaveform::TooMuch { asked: 0, .. } => (StatusCode::BAD_REQUEST, "too-little"),
        NoWaveform::TooMuch { .. } => (StatusCode::PAYLOAD_TOO_LARGE, "too-much"),
        NoWaveform::Nothing { .. } => (StatusCode::NOT_FOUND, "no-frame"),
        NoWaveform::NotHeld { is_gone: true, .. } => (StatusCode::GONE, "overwritten"),
        NoWaveform::NotHeld { is_gone: false, .. } => (StatusCode::NOT_FOUND, "not-yet"),
    };
    Problem::new(status, code, no.to_string())
}

fn waveforms(shared: &Shared) -> Result<Arc<Waveforms>, Problem> {
    shared.present.views().waveforms.ok_or_else(|| {
        let detail =
            "the frames of this run have no samples, or are in another process: its readout";
        shared.without(Problem::new(StatusCode::NOT_FOUND, "no-waveforms", detail))
    })
}
