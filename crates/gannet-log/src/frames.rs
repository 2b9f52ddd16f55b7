//! Frames in a chunk that holds a stream as it came.
//!
//! Frames of one length lie one after the other in a chunk of the kind [`Kind::RAW_FRAMES`]. Where
//! frames differ in length each is preceded by its length as a little-endian `u32`, in a chunk of
//! the kind [`Kind::SIZED_FRAMES`].

use super::format::{Kind, Label};

/// Bytes of the length before a frame.
pub const SIZE_BYTES: usize = size_of::<u32>();

/// The payload of a chunk does not hold the frames that its label says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the chunk does not hold {0} whole frames, as it says")]
pub struct NotWhole(pub u32);

/// The frames in a chunk of this label.
///
/// # Errors
/// When it holds something else, or other than as many whole frames as the label says.
pub fn frames<'a>(label: &Label, payload: &'a [u8]) -> Result<Vec<&'a [u8]>, NotWhole> {
    let frames = match label.kind {
        Kind::RAW_FRAMES => of_one_length(label.items as usize, payload),
        Kind::SIZED_FRAMES => sized(payload),
        _ => None,
    };
    frames.filter(|frames| frames.len() == label.items as usize).ok_or(NotWhole(label.items))
}

fn of_one_length(items: usize, payload: &[u8]) -> Option<Vec<&[u8]>> {
    let len = payload.len().checked_div(items).filter(|len| *len > 0)?;
    let frames = payload.chunks_exact(len);
    frames.remainder().is_empty().then(|| frames.collect())
}

/// Frames that are each preceded by their length; none if they do not fill the payload.
pub fn sized(mut payload: &[u8]) -> Option<Vec<&[u8]>> {
    let mut frames = Vec::new();
    while let Some((len, rest)) = payload.split_first_chunk() {
        let (frame, rest) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
        frames.push(frame);
        payload = rest;
    }
    payload.is_empty().then_some(frames)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label(kind: Kind, items: u32) -> Label {
        Label::new(kind).counts(items, 0)
    }

    #[test]
    fn frames_of_one_length_are_told_by_their_number() {
        let payload = [1, 1, 1, 2, 2, 2];
        let two = label(Kind::RAW_FRAMES, 2);
        assert_eq!(frames(&two, &payload), Ok(vec![&[1; 3][..], &[2; 3]]));
        for wrong in [0, 4, 7] {
            assert_eq!(frames(&label(Kind::RAW_FRAMES, wrong), &payload), Err(NotWhole(wrong)));
        }
        assert_eq!(frames(&label(Kind::BUSY, 2), &payload), Err(NotWhole(2)));
    }

    #[test]
    fn sized_frames_are_told_by_their_lengths() {
        let payload = [2, 0, 0, 0, 7, 8, 0, 0, 0, 0, 1, 0, 0, 0, 9];
        let three = label(Kind::SIZED_FRAMES, 3);
        assert_eq!(frames(&three, &payload), Ok(vec![&[7, 8][..], &[], &[9]]));
        assert_eq!(frames(&label(Kind::SIZED_FRAMES, 2), &payload), Err(NotWhole(2)));
        for cut in 1..payload.len() {
            assert_eq!(frames(&three, &payload[..cut]), Err(NotWhole(3)), "{cut}");
        }
    }
}
