//! Datagrams as they are handed to a sender: borrowed parts, nothing copied.

/// Most frames of one stream in a burst: 9 of 7200 bytes fill one UDP super-datagram (GSO).
pub const BURST_FRAMES_MAX: usize = 9;

/// Most datagrams of a burst: a frame may be sent twice, and may release one that was held back.
pub const BURST_DATAGRAMS_MAX: usize = 3 * BURST_FRAMES_MAX;

/// One datagram in two parts, to be sent one after the other.
///
/// The second part is a body that frames share; a frame without one is whole in the first part.
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_parts_are_copied_in_order() {
        let datagram = Datagram { head: &[1, 2], body: &[3] };
        let mut buffer = [0; 5];
        assert_eq!(datagram.copy_to(&mut buffer), [1, 2, 3]);
        assert!(!datagram.is_empty());
    }
}
