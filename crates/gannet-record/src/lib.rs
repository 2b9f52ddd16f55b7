//! Records of any detector in the one form in which the log keeps them: DUNE's trigger record, whose
//! parts tell their source and the format of their bytes.
#![forbid(unsafe_code)]

mod encode;
mod stored;

use gannet_log::Chunk;
use gannet_readout::record::{self, Part, Record};
use gannet_wire::component_request::ComponentRequest;
use gannet_wire::fragment_type::FragmentType;
use gannet_wire::record::Record as _;
use gannet_wire::source_id::{SourceId, Subsystem};
use gannet_wire::{fragment, trigger_record};

pub use encode::{Fragment, TriggerRecord};
pub use stored::{StoredFragments, StoredRecord};

/// What a part of a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Source that made it.
    pub source_id: SourceId,
    /// Format of its bytes.
    pub fragment_type: FragmentType,
    /// Detector it is about.
    pub detector_id: u16,
}

impl Origin {
    /// Frames of stream `number`, in a format that fragments have no name for.
    pub const fn of_stream(number: u32) -> Self {
        let source_id = SourceId::new(Subsystem::DetectorReadout, number);
        Self { source_id, fragment_type: FragmentType::Unknown, detector_id: 0 }
    }
}

impl record::Origin for Origin {
    fn into_chunk(record: Record<Self>) -> Chunk {
        TriggerRecord::from(record).into_chunk()
    }
}

impl TriggerRecord {
    /// The source that records name as their builder.
    pub const BUILDER: SourceId = SourceId::new(Subsystem::TrBuilder, 0);
}

impl From<Record<Origin>> for TriggerRecord {
    fn from(record: Record<Origin>) -> Self {
        let request = record.request.clone();
        let error_bits = match record.is_incomplete() {
            true => trigger_record::error_bits::INCOMPLETE,
            false => 0,
        };
        let header = trigger_record::Repr {
            version: trigger_record::Version::V4,
            trigger_number: request.trigger_number,
            trigger_timestamp: request.trigger_timestamp,
            run_number: request.run_number,
            error_bits,
            trigger_type: request.trigger_type,
            sequence_number: 0,
            max_sequence_number: 0,
            source_id: Self::BUILDER,
        };
        let (window_begin, window_end) = (request.window.begin, request.window.end);
        let fragment = |part: Part<Origin>| Fragment {
            header: fragment::Repr {
                version: fragment::Version::V5,
                size: (fragment::Repr::LEN + part.payload.len()) as u64,
                trigger_number: request.trigger_number,
                trigger_timestamp: request.trigger_timestamp,
                window_begin,
                window_end,
                run_number: request.run_number,
                // The readout numbers them as DUNE does.
                error_bits: part.error_bits,
                fragment_type: part.origin.fragment_type,
                sequence_number: 0,
                detector_id: part.origin.detector_id,
                source_id: part.origin.source_id,
            },
            payload: part.payload,
        };
        let fragments: Vec<_> = record.into_parts().map(fragment).collect();
        let component = |fragment: &Fragment| ComponentRequest {
            component: fragment.header.source_id,
            window_begin,
            window_end,
        };
        Self { header, requests: fragments.iter().map(component).collect(), fragments }
    }
}

#[cfg(test)]
mod tests {
    use gannet_readout::latency::Window;
    use gannet_readout::record::RecordRequest;
    use gannet_readout::request::error_bits;
    use gannet_wire::trigger_record::TriggerRecordHeader;

    use super::*;

    fn part(source: u32, error_bits: u32, len: usize) -> Part<Origin> {
        let source_id = SourceId::new(Subsystem::DetectorReadout, source);
        let origin = Origin { source_id, fragment_type: FragmentType::WibEth, detector_id: 3 };
        Part { origin, error_bits, payload: vec![7; len] }
    }

    #[test]
    fn the_stored_header_is_what_the_format_reads() {
        let request = RecordRequest {
            trigger_number: 5,
            run_number: 9,
            trigger_timestamp: 2048,
            trigger_type: 1 << 7,
            window: Window { begin: 2048, end: 2048 },
            decided_ns: 0,
        };
        let streams = vec![part(100, error_bits::INVALID_WINDOW, 0), part(101, 0, 0)];
        let record =
            Record { request, streams, added: Some(vec![part(1, 0, 3)]), unreachable: false };
        let record = TriggerRecord::from(record);
        let bytes = record.header_bytes();
        let stored = TriggerRecordHeader::new_checked(&bytes).unwrap();
        assert_eq!(stored.header(), record.header);
        assert_eq!(stored.component_requests().count(), 3);
        assert!(record.is_incomplete());
        assert_eq!(record.len_bytes(), bytes.len() + 2 * 72 + 75);
    }

    #[test]
    fn the_readout_numbers_errors_as_fragments_do() {
        let numbers =
            [error_bits::DATA_NOT_FOUND, error_bits::INCOMPLETE, error_bits::INVALID_WINDOW];
        let dune = [
            fragment::error_bits::DATA_NOT_FOUND,
            fragment::error_bits::INCOMPLETE,
            fragment::error_bits::INVALID_WINDOW,
        ];
        assert_eq!(numbers, dune);
    }
}
