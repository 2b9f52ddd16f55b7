//! Which datagrams of a message are frames, and where in it they lie.

/// The frames in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Frames {
    /// This many, one after the other from the first byte on.
    Leading(usize),
    /// One, the last datagram, at this byte.
    Last(usize),
}

/// A message taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segments {
    /// Datagrams in the message.
    pub(super) datagrams: u64,
    /// Those of the frame length.
    pub(super) frames: Frames,
}

impl Segments {
    /// Takes apart a message of `len` bytes that holds datagrams of `segment` bytes each, the
    /// last one perhaps shorter; or, without `segment`, just one datagram.
    pub(super) fn of(len: usize, segment: Option<usize>, frame_len: usize) -> Self {
        let segment = segment.filter(|segment| *segment < len).unwrap_or(len);
        if segment == frame_len {
            let frames = Frames::Leading(len / frame_len);
            return Self { datagrams: len.div_ceil(frame_len) as u64, frames };
        }
        let datagrams = if segment == 0 { 1 } else { len.div_ceil(segment) };
        // All are of a wrong length, except perhaps the last.
        let last = (datagrams - 1) * segment;
        let frames = if len - last == frame_len { Frames::Last(last) } else { Frames::Leading(0) };
        Self { datagrams: datagrams as u64, frames }
    }

    /// Number of frames.
    pub(super) fn frame_count(&self) -> u64 {
        match self.frames {
            Frames::Leading(count) => count as u64,
            Frames::Last(_) => 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_cases_by_name() {
        let of = |len, segment| Segments::of(len, segment, 7200);
        let leading = |datagrams, count| Segments { datagrams, frames: Frames::Leading(count) };
        assert_eq!(of(7200, None), leading(1, 1), "one frame");
        assert_eq!(of(64_800, Some(7200)), leading(9, 9), "nine frames");
        assert_eq!(of(14_500, Some(7200)), leading(3, 2), "a short one behind two frames");
        assert_eq!(of(0, None), leading(1, 0), "an empty datagram");
        assert_eq!(of(64_800, None), leading(1, 0), "one long datagram");
        assert_eq!(of(14_000, Some(1400)), leading(10, 0), "many short ones");
        assert_eq!(of(1400, Some(7200)), leading(1, 0), "a segment length beyond the message");
        let last = Segments { datagrams: 3, frames: Frames::Last(16_000) };
        assert_eq!(of(23_200, Some(8000)), last, "a frame behind two long ones");
    }

    proptest! {
        #[test]
        fn every_datagram_is_judged_as_if_it_came_alone(
            frame_len in 1usize..40, segment in 1usize..40, len in 0usize..400,
        ) {
            let message: Vec<usize> = (0..len).collect();
            let naive: Vec<&[usize]> =
                if len == 0 { vec![&[]] } else { message.chunks(segment).collect() };
            let found = Segments::of(len, Some(segment), frame_len);
            prop_assert_eq!(found.datagrams, naive.len() as u64);
            let frames: Vec<&[usize]> =
                naive.into_iter().filter(|datagram| datagram.len() == frame_len).collect();
            prop_assert_eq!(found.frame_count(), frames.len() as u64);
            for (index, frame) in frames.iter().enumerate() {
                let start = match found.frames {
                    Frames::Leading(_) => index * frame_len,
                    Frames::Last(start) => start,
                };
                prop_assert_eq!(start, frame[0]);
            }
        }
    }
}
