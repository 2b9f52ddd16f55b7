//! Channels, and the samples of one of them or of a whole stream.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use gannet_control::channels::ChannelFigures;
use gannet_control::waveform::{Area, FRAMES_MAX, Look, NoWaveform, SampledChannel};
use serde::{Deserialize, Serialize};

use crate::api::{busy, problem, unreadable};
use crate::limits::FRAMES_PER_TURN;
use crate::site::Shared;

/// What is to be shown.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wanted {
    /// Number of the channel.
    channel: u32,
    #[serde(default = "frames")]
    frames: usize,
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
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WantedArea {
    /// Name of the stream; the first where it is absent.
    stream: Option<String>,
    #[serde(default = "frames")]
    frames: usize,
    #[serde(default = "area_columns")]
    columns: usize,
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
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WantedSpectrum {
    /// Number of the channel.
    channel: u32,
    #[serde(default = "spectrum_frames")]
    frames: usize,
    /// First tick after the frames; the newest where it is absent.
    end: Option<u64>,
}

fn spectrum_frames() -> usize {
    64
}

/// A stream and its channels.
#[derive(Serialize)]
struct Stream<'a> {
    stream: &'a str,
    channels: Vec<Channel<'a>>,
}

/// A channel, and what the last look at all of them came to.
#[derive(Serialize)]
struct Channel<'a> {
    #[serde(flatten)]
    channel: &'a SampledChannel,
    figures: Option<&'a ChannelFigures>,
}

/// The channels whose samples can be seen, by stream.
pub(crate) async fn channels(State(shared): State<Arc<Shared>>) -> Response {
    let Some(waveforms) = shared.present.views().waveforms else { return none() };
    let Ok(snapshot) = shared.forms.snapshot() else { return busy() };
    let looked: HashMap<_, _> =
        snapshot.channels.all.iter().map(|figures| (figures.channel, figures)).collect();
    let streams = waveforms.channels().into_iter().map(|(stream, channels)| {
        let looked = |channel: &SampledChannel| looked.get(&channel.channel).copied();
        let channels = channels.into_iter();
        let channels = channels.map(|channel| Channel { channel, figures: looked(channel) });
        Stream { stream, channels: channels.collect() }
    });
    Json(streams.collect::<Vec<_>>()).into_response()
}

/// The samples of a channel.
pub(crate) async fn waveform(
    State(shared): State<Arc<Shared>>,
    wanted: Result<Query<Wanted>, QueryRejection>,
) -> Response {
    let Wanted { channel, frames, columns, end } = match wanted {
        Ok(Query(wanted)) => wanted,
        Err(rejection) => return unreadable(&rejection),
    };
    let Some(waveforms) = shared.present.views().waveforms else { return none() };
    shared.pace.take(frames.min(FRAMES_MAX) / FRAMES_PER_TURN).await;
    shown(waveforms.look(&Look { channel, frames, end, columns }))
}

/// Time against channel of a stream.
pub(crate) async fn waterfall(
    State(shared): State<Arc<Shared>>,
    wanted: Result<Query<WantedArea>, QueryRejection>,
) -> Response {
    let WantedArea { stream, frames, columns, rows, end } = match wanted {
        Ok(Query(wanted)) => wanted,
        Err(rejection) => return unreadable(&rejection),
    };
    let Some(waveforms) = shared.present.views().waveforms else { return none() };
    // All channels of each frame are unpacked.
    shared.pace.take(frames.min(FRAMES_MAX)).await;
    shown(waveforms.waterfall(&Area { stream, frames, end, columns, rows }))
}

/// The spectrum of a channel.
pub(crate) async fn spectrum(
    State(shared): State<Arc<Shared>>,
    wanted: Result<Query<WantedSpectrum>, QueryRejection>,
) -> Response {
    let WantedSpectrum { channel, frames, end } = match wanted {
        Ok(Query(wanted)) => wanted,
        Err(rejection) => return unreadable(&rejection),
    };
    let Some(waveforms) = shared.present.views().waveforms else { return none() };
    shared.pace.take(frames.min(FRAMES_MAX) / FRAMES_PER_TURN).await;
    shown(waveforms.spectrum(channel, frames, end))
}

fn shown(seen: Result<impl Serialize, NoWaveform>) -> Response {
    match seen {
        Ok(seen) => Json(seen).into_response(),
        Err(no) => refusal(&no),
    }
}

fn refusal(no: &NoWaveform) -> Response {
    let (status, code) = match no {
        NoWaveform::UnknownChannel { .. } => (StatusCode::NOT_FOUND, "unknown-channel"),
        NoWaveform::UnknownStream { .. } => (StatusCode::NOT_FOUND, "unknown-stream"),
        NoWaveform::TooMuch { .. } => (StatusCode::PAYLOAD_TOO_LARGE, "too-much"),
        NoWaveform::Nothing { .. } => (StatusCode::NOT_FOUND, "no-frame"),
        NoWaveform::NotHeld { is_gone: true, .. } => (StatusCode::GONE, "overwritten"),
        NoWaveform::NotHeld { is_gone: false, .. } => (StatusCode::NOT_FOUND, "not-yet"),
    };
    problem(status, code, &no.to_string())
}

fn none() -> Response {
    let detail = "the frames of this run have no samples, or are in another process: its readout";
    problem(StatusCode::NOT_FOUND, "no-waveforms", detail)
}
