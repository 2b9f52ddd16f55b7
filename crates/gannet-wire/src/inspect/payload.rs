//! What the payload of a fragment is.

use super::{Format, identify};
use crate::error::{Error, Result};
use crate::fragment::Fragment;
use crate::fragment_type::FragmentType;
use crate::overlay::Overlays;
use crate::record::Record;
use crate::trigger_activity::TriggerActivityData;
use crate::trigger_candidate::TriggerCandidateData;
use crate::trigger_primitive::TriggerPrimitive;
use crate::trigger_primitive_v1::TriggerPrimitiveV1;
use crate::{protowib, tpc_frame};

/// The format of a fragment's payload. Version 5 of the header does not say which version of the
/// primitives it holds.
pub(super) fn payload_format(fragment_type: FragmentType, payload: &[u8]) -> Option<Format> {
    let v1 = || identify(payload) == Some(Format::TriggerPrimitiveV1);
    match fragment_type {
        FragmentType::WibEth => Some(Format::WibEth),
        FragmentType::TdeEth => Some(Format::TdeEth),
        FragmentType::ProtoWib => Some(Format::ProtoWib),
        FragmentType::TriggerPrimitive if v1() => Some(Format::TriggerPrimitiveV1),
        FragmentType::TriggerPrimitive => Some(Format::TriggerPrimitive),
        FragmentType::TriggerActivity => Some(Format::TriggerActivity),
        FragmentType::TriggerCandidate => Some(Format::TriggerCandidate),
        _ => None,
    }
}

/// The format of the items in a fragment, such as frames or primitives, and how many there are;
/// `None` when its type is none that can be printed.
///
/// The count is an error when the payload ends inside an item, or an object cannot be read.
pub fn payload_items(fragment: &Fragment<'_>) -> Option<(Format, Result<usize>)> {
    let payload = fragment.payload();
    let format = payload_format(fragment.header().fragment_type, payload)?;
    let items = match format {
        Format::TriggerActivity => objects::<TriggerActivityData, TriggerPrimitive>(payload),
        Format::TriggerCandidate => objects::<TriggerCandidateData, TriggerActivityData>(payload),
        Format::TriggerPrimitive => whole(format, payload, TriggerPrimitive::LEN),
        Format::TriggerPrimitiveV1 => whole(format, payload, TriggerPrimitiveV1::LEN),
        Format::ProtoWib => whole(format, payload, protowib::FRAME_LEN),
        _ => whole(format, payload, tpc_frame::FRAME_LEN),
    };
    Some((format, items))
}

fn whole(format: Format, payload: &[u8], unit: usize) -> Result<usize> {
    if !payload.len().is_multiple_of(unit) {
        return Err(Error::Remainder { format: format.name(), unit, got: payload.len() });
    }
    Ok(payload.len() / unit)
}

fn objects<D: Record, I: Record>(payload: &[u8]) -> Result<usize> {
    Overlays::<D, I>::new(payload).try_fold(0, |count, object| object.map(|_| count + 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{fragment, overlay, source_id};

    fn items(fragment_type: FragmentType, payload: &[u8]) -> Option<(Format, Result<usize>)> {
        let header = fragment::Repr {
            version: fragment::Version::V5,
            size: 0,
            trigger_number: 1,
            trigger_timestamp: 2,
            window_begin: 3,
            window_end: 4,
            run_number: 5,
            error_bits: 0,
            fragment_type,
            sequence_number: 0,
            detector_id: 3,
            source_id: source_id::SourceId::new(source_id::Subsystem::Trigger, 9),
        };
        let mut bytes = vec![0; fragment::Repr::LEN];
        header.with_payload_len(payload.len()).emit(&mut bytes);
        bytes.extend(payload);
        payload_items(&Fragment::new_checked(&bytes).unwrap())
    }

    #[test]
    fn items_are_counted_by_the_type_of_the_fragment() {
        let frames = [0; 3 * 7200];
        assert_eq!(items(FragmentType::WibEth, &frames), Some((Format::WibEth, Ok(3))));
        assert_eq!(items(FragmentType::TdeEth, &[]), Some((Format::TdeEth, Ok(0))));
        let primitives = TriggerPrimitive::INVALID.to_le_bytes().repeat(5);
        let expected = Some((Format::TriggerPrimitive, Ok(5)));
        assert_eq!(items(FragmentType::TriggerPrimitive, &primitives), expected);
        assert_eq!(items(FragmentType::Unknown, &frames), None);

        let data = TriggerActivityData::read(&[0; TriggerActivityData::LEN]);
        let mut activity = [0; 80 + 8 + 48];
        overlay::emit(&data, &[TriggerPrimitive::INVALID; 2], &mut activity);
        let expected = Some((Format::TriggerActivity, Ok(2)));
        assert_eq!(items(FragmentType::TriggerActivity, &activity.repeat(2)), expected);
    }

    #[test]
    fn a_payload_that_ends_inside_an_item_has_no_count() {
        let error = Error::Remainder { format: "wibeth", unit: 7200, got: 7199 };
        let expected = Some((Format::WibEth, Err(error)));
        assert_eq!(items(FragmentType::WibEth, &[0; 7199]), expected);
        let (_, count) = items(FragmentType::TriggerActivity, &[0; 50]).unwrap();
        assert!(count.is_err());
    }
}
