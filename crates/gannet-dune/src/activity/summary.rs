//! The data of an activity from its primitives.

use gannet_wire::TriggerPrimitive;
use gannet_wire::trigger_activity::{Algorithm, TriggerActivityData, Type};

use crate::sampling::Sampling;

/// The data of one primitive as an activity: it is all that the activity has.
pub(super) fn single(
    tp: &TriggerPrimitive,
    sampling: Sampling,
    algorithm: Algorithm,
) -> TriggerActivityData {
    let time_peak = sampling.time_peak(tp);
    TriggerActivityData {
        time_start: tp.time_start(),
        time_end: sampling.time_end(tp),
        time_peak,
        time_activity: time_peak,
        channel_start: tp.channel(),
        channel_end: tp.channel(),
        channel_peak: tp.channel(),
        adc_integral: u64::from(tp.adc_integral()),
        adc_peak: tp.adc_peak(),
        detid: tp.detid(),
        sensor: Type::Tpc,
        algorithm,
    }
}

/// Widens `data`, made of the last primitive, to the extent and the peak of all; `time_end` of a
/// primitive is what `end` says.
pub(super) fn widen<'a>(
    data: &mut TriggerActivityData,
    tps: impl Iterator<Item = &'a TriggerPrimitive>,
    sampling: Sampling,
    end: impl Fn(&TriggerPrimitive) -> u64,
) {
    data.adc_integral = 0;
    for tp in tps {
        data.time_start = data.time_start.min(tp.time_start());
        data.time_end = data.time_end.max(end(tp));
        data.channel_start = data.channel_start.min(tp.channel());
        data.channel_end = data.channel_end.max(tp.channel());
        data.adc_integral += u64::from(tp.adc_integral());
        if tp.adc_peak() > data.adc_peak {
            data.time_peak = sampling.time_peak(tp);
            data.adc_peak = tp.adc_peak();
            data.channel_peak = tp.channel();
        }
    }
}

/// The data of primitives in the order of time, from the first to the last; `None` of none.
///
/// Source: DUNE-DAQ/triggeralgs `TAMakerChannelDistanceAlgorithm.cpp`,
/// `TAMakerBundleNAlgorithm.cpp`, function `set_ta_attributes`.
pub(super) fn sequence(
    tps: &[TriggerPrimitive],
    sampling: Sampling,
    algorithm: Algorithm,
) -> Option<TriggerActivityData> {
    let (first, last) = (tps.first()?, tps.last()?);
    // The first of equal peaks is the one that counts.
    let peak = tps.iter().rev().max_by_key(|tp| tp.adc_peak())?;
    Some(TriggerActivityData {
        time_end: last.time_start(),
        channel_end: last.channel(),
        adc_integral: tps.iter().map(|tp| u64::from(tp.adc_integral())).sum(),
        adc_peak: peak.adc_peak(),
        channel_peak: peak.channel(),
        time_peak: sampling.time_peak(peak),
        time_activity: sampling.time_peak(peak),
        ..single(first, sampling, algorithm)
    })
}
