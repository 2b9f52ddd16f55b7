//! Small records to be written to raw files.

use gannet_dune::time_slice::TimeSlice;
use gannet_record::{Fragment, TriggerRecord};
use gannet_wire::geo_id::DAQ_DETECTOR;
use gannet_wire::record::Record;
use gannet_wire::{
    ComponentRequest, FragmentRepr, FragmentType, SourceId, Subsystem, TimeSliceHeader,
    TriggerPrimitive, TriggerRecordRepr, fragment, trigger_record,
};

pub const BUILDER: SourceId = SourceId::new(Subsystem::TrBuilder, 0);
const PRIMITIVES: SourceId = SourceId::new(Subsystem::Trigger, 0);
pub const RUN: u32 = 27980;

pub fn readout(stream: u16) -> SourceId {
    SourceId::new(Subsystem::DetectorReadout, 100 + u32::from(stream))
}

/// A record of two streams of two frames each, and of primitives.
pub fn trigger_record(number: u64) -> TriggerRecord {
    let frames = |stream: u16| vec![number as u8 ^ stream as u8; 2 * 7200];
    let fragments = vec![
        fragment(number, readout(0), FragmentType::WibEth, frames(0)),
        fragment(number, readout(1), FragmentType::WibEth, frames(1)),
        fragment(number, PRIMITIVES, FragmentType::TriggerPrimitive, primitives(number)),
    ];
    let request = |f: &Fragment| ComponentRequest {
        component: f.header.source_id,
        window_begin: f.header.window_begin,
        window_end: f.header.window_end,
    };
    let header = TriggerRecordRepr {
        version: trigger_record::Version::V4,
        trigger_number: number,
        trigger_timestamp: 1000 * number,
        run_number: RUN,
        error_bits: 0,
        trigger_type: 1 << 5,
        sequence_number: 0,
        max_sequence_number: 0,
        source_id: BUILDER,
    };
    TriggerRecord { header, requests: fragments.iter().map(request).collect(), fragments }
}

pub fn slice(number: u64) -> TimeSlice {
    let payload = primitives(number);
    TimeSlice {
        header: TimeSliceHeader { number, run_number: RUN, source_id: BUILDER },
        primitives: payload.len() / TriggerPrimitive::LEN,
        fragment: fragment(number, PRIMITIVES, FragmentType::TriggerPrimitive, payload),
    }
}

fn primitives(number: u64) -> Vec<u8> {
    let word = |i: u64| [2 | 3 << 16 | (i % 3) << 24, 1000 * number + i / 3, i];
    (0..10 + number % 5).flat_map(word).flat_map(u64::to_le_bytes).collect()
}

fn fragment(
    number: u64,
    source_id: SourceId,
    fragment_type: FragmentType,
    payload: Vec<u8>,
) -> Fragment {
    let header = FragmentRepr {
        version: fragment::Version::V5,
        size: (FragmentRepr::LEN + payload.len()) as u64,
        trigger_number: number,
        trigger_timestamp: 1000 * number,
        window_begin: 1000 * number - 10,
        window_end: 1000 * number + 10,
        run_number: RUN,
        error_bits: 0,
        fragment_type,
        sequence_number: 0,
        detector_id: if source_id == PRIMITIVES { DAQ_DETECTOR } else { 3 },
        source_id,
    };
    Fragment { header, payload }
}
