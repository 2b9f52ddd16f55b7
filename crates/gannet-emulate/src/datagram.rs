//! Datagrams as they are handed to a sender: borrowed parts, nothing copied.

use gannet_wire::tpc_frame::FRAME_LEN;

/// Most frames of one stream in a burst: 9 x 7200 bytes fill one UDP super-datagram (GSO).
pub const BURST_FRAMES_MAX: usize = 9;

/// Most datagrams of a burst: a frame may be sent twice, and may release one that was held back.
pub const BURST_DATAGRAMS_MAX: usize = 3 * BURST_FRAMES_MAX;

/// One datagram in two parts, to be sent one after the other.
///
/// Of a whole frame the first part is its headers (32 bytes) and the second its ADC block
/// (7168 bytes). A frame that was held back or cut may have all its bytes in the first part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// First part.
    pub head: &'a [u8],
    /// Second part, perhaps empty.
    pub body: &'a [u8],
}

impl Datagram<'_> {
    /// Bytes of both parts.
    pub fn len(&self) -> usize {
        self.head.len() + self.body.len()
    }

    /// True if the datagram has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies both parts to the start of `buffer` and returns the bytes written.
    ///
    /// # Panics
    /// If `buffer` is shorter than the datagram.
    pub fn copy_to<'b>(&self, buffer: &'b mut [u8]) -> &'b mut [u8] {
        let bytes = &mut buffer[..self.len()];
        bytes[..self.head.len()].copy_from_slice(self.head);
        bytes[self.head.len()..].copy_from_slice(self.body);
        bytes
    }
}

/// Datagrams of one stream in the order in which they are to be sent.
#[derive(Clone, Copy, Debug)]
pub struct Burst<'a> {
    datagrams: [Datagram<'a>; BURST_DATAGRAMS_MAX],
    count: usize,
}

impl<'a> Burst<'a> {
    pub(crate) fn new() -> Self {
        Self { datagrams: [Datagram::default(); BURST_DATAGRAMS_MAX], count: 0 }
    }

    pub(crate) fn push(&mut self, datagram: Datagram<'a>) {
        self.datagrams[self.count] = datagram;
        self.count += 1;
    }

    /// All datagrams.
    pub fn datagrams(&self) -> &[Datagram<'a>] {
        &self.datagrams[..self.count]
    }

    /// The datagrams in groups that can each be sent as one super-datagram: whole frames, at most
    /// [`BURST_FRAMES_MAX`], or a single datagram of another length.
    pub fn groups(&self) -> impl Iterator<Item = &[Datagram<'a>]> {
        self.datagrams()
            .chunk_by(|one, next| one.len() == FRAME_LEN && next.len() == FRAME_LEN)
            .flat_map(|whole| whole.chunks(BURST_FRAMES_MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_hold_whole_frames_or_one_odd_datagram() {
        let bytes = [0; FRAME_LEN];
        let mut burst = Burst::new();
        let lengths = [vec![FRAME_LEN; 11], vec![5, 6], vec![FRAME_LEN]].concat();
        for &length in &lengths {
            burst.push(Datagram {
                head: &bytes[..length.min(32)],
                body: &bytes[length.min(32)..length],
            });
        }
        let groups: Vec<usize> = burst.groups().map(<[Datagram]>::len).collect();
        assert_eq!(groups, [9, 2, 1, 1, 1]);
        let total: usize = burst.groups().flatten().map(Datagram::len).sum();
        assert_eq!(total, lengths.iter().sum::<usize>());
    }

    #[test]
    fn both_parts_are_copied_in_order() {
        let datagram = Datagram { head: &[1, 2], body: &[3] };
        let mut buffer = [0; 5];
        assert_eq!(datagram.copy_to(&mut buffer), [1, 2, 3]);
        assert!(!datagram.is_empty());
    }
}
