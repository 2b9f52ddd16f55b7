//! Primitives for the tests of all modules.

use gannet_wire::TriggerPrimitive;
use gannet_wire::trigger_primitive::Repr;

/// Time from which the tests count, of the size of real time stamps.
pub(crate) const START: u64 = 107_544_625_968_525_251;

/// A primitive of 10 samples, its peak after 4, 100 ADC high with integral 500, that starts
/// `offset` ticks after [`START`].
pub(crate) fn tp(offset: u64, channel: u32) -> TriggerPrimitive {
    TriggerPrimitive::new(Repr {
        channel,
        detid: 3,
        flag: 0,
        time_start: START + offset,
        samples_over_threshold: 10,
        samples_to_peak: 4,
        adc_integral: 500,
        adc_peak: 100,
    })
}
