//! Where in a message its datagrams lie, and which of them are taken.

use std::ops::{Range, RangeInclusive};

/// A message taken apart: datagrams of one length one behind the other, the last perhaps shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segments {
    /// Datagrams in the message.
    pub(super) count: usize,
    /// Bytes of each but the last.
    pub(super) len: usize,
    last_len: usize,
}

impl Segments {
    /// Takes apart a message of `len` bytes that holds datagrams of `segment` bytes each, the
    /// last one perhaps shorter; or, without `segment`, just one datagram.
    pub(super) fn of(len: usize, segment: Option<usize>) -> Self {
        match segment {
            Some(segment) if segment < len => {
                let count = len.div_ceil(segment);
                Self { count, len: segment, last_len: len - (count - 1) * segment }
            }
            _ => Self { count: 1, len, last_len: len },
        }
    }

    /// Bytes of datagram `index`.
    #[inline]
    pub(super) fn len_of(&self, index: usize) -> usize {
        if index + 1 == self.count { self.last_len } else { self.len }
    }

    /// The datagrams whose lengths are among `lengths`.
    pub(super) fn within(&self, lengths: &RangeInclusive<usize>) -> Range<usize> {
        let last = self.count - 1;
        let start = if lengths.contains(&self.len) { 0 } else { last };
        let end = if lengths.contains(&self.last_len) { self.count } else { last };
        start..end
    }

    /// The bytes of the message in which `datagrams` lie.
    pub(super) fn bytes(&self, datagrams: &Range<usize>) -> Range<usize> {
        if datagrams.is_empty() {
            return 0..0;
        }
        let last = datagrams.end - 1;
        datagrams.start * self.len..last * self.len + self.len_of(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_cases_by_name() {
        let of = |len, segment| {
            let segments = Segments::of(len, segment);
            let taken = segments.within(&(7200..=7200));
            (segments.count, segments.bytes(&taken))
        };
        assert_eq!(of(7200, None), (1, 0..7200), "one frame");
        assert_eq!(of(64_800, Some(7200)), (9, 0..64_800), "nine frames");
        assert_eq!(of(14_500, Some(7200)), (3, 0..14_400), "a short one behind two frames");
        assert_eq!(of(0, None), (1, 0..0), "an empty datagram");
        assert_eq!(of(64_800, None), (1, 0..0), "one long datagram");
        assert_eq!(of(14_000, Some(1400)), (10, 0..0), "many short ones");
        assert_eq!(of(1400, Some(7200)), (1, 0..0), "a segment length beyond the message");
        assert_eq!(of(23_200, Some(8000)), (3, 16_000..23_200), "a frame behind two long ones");
    }

    proptest! {
        #[test]
        fn every_datagram_is_judged_as_if_it_came_alone(
            shortest in 1usize..40, more in 0usize..40, segment in 1usize..40, len in 0usize..400,
        ) {
            let lengths = shortest..=shortest + more;
            let message: Vec<usize> = (0..len).collect();
            let naive: Vec<&[usize]> =
                if len == 0 { vec![&[]] } else { message.chunks(segment).collect() };
            let found = Segments::of(len, Some(segment));
            prop_assert_eq!(found.count, naive.len());
            let taken = found.within(&lengths);
            for (index, datagram) in naive.iter().enumerate() {
                prop_assert_eq!(found.len_of(index), datagram.len());
                prop_assert_eq!(taken.contains(&index), lengths.contains(&datagram.len()));
            }
            let bytes: Vec<usize> = naive[taken.clone()].concat();
            prop_assert_eq!(found.bytes(&taken).collect::<Vec<_>>(), bytes);
        }
    }
}
