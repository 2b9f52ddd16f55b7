//! Which chunks of a log hold frames of a TPC.

use gannet_log::{Kind, Label};
use gannet_wire::tpc_frame::FRAME_LEN;

/// Whether a chunk of the log with a payload of so many bytes holds frames of a TPC as they came, rather
/// than those of another detector.
pub fn holds_tpc_frames(label: &Label, payload_len: usize) -> bool {
    let bytes = label.items as usize * FRAME_LEN;
    label.kind == Kind::RAW_FRAMES && payload_len == bytes && bytes > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raw_frames_of_another_detector_are_not_taken_for_frames_of_a_tpc() {
        let raw = Label::new(Kind::RAW_FRAMES).counts(3, 0);
        assert!(holds_tpc_frames(&raw, 3 * FRAME_LEN));
        assert!(!holds_tpc_frames(&raw, 3 * 64) && !holds_tpc_frames(&raw, 3 * FRAME_LEN + 1));
        assert!(!holds_tpc_frames(&Label::new(Kind::SIZED_FRAMES).counts(3, 0), 3 * FRAME_LEN));
        assert!(!holds_tpc_frames(&Label::new(Kind::RAW_FRAMES), 0));
    }
}
