//! Frames that are held back, to be sent after later ones.

use crate::datagram::BURST_FRAMES_MAX;

/// A ring of held-back frames of one stream.
///
/// A place is used again only after a whole burst: so a released frame may still be borrowed by
/// the burst that released it.
#[derive(Clone, Debug, Default)]
pub(crate) struct HeldBack {
    frames: Vec<Vec<u8>>,
    /// Per place the frame after which it is released.
    release: Vec<u64>,
    oldest: u64,
    next: u64,
}

impl HeldBack {
    /// Room for frames of at most `len` bytes that are held for `distance` frames; none for 0.
    pub(crate) fn new(distance: usize, len: usize) -> Self {
        let places = if distance == 0 { 0 } else { distance + BURST_FRAMES_MAX };
        let frames = (0..places).map(|_| Vec::with_capacity(len)).collect();
        Self { frames, release: vec![0; places], ..Self::default() }
    }

    fn place(&self, number: u64) -> usize {
        (number % self.frames.len() as u64) as usize
    }

    /// Frames held back now.
    pub(crate) fn len(&self) -> u64 {
        self.next - self.oldest
    }

    /// Keeps a copy of a frame, given in two parts, until frame `release` of its stream has passed.
    pub(crate) fn hold(&mut self, head: &[u8], body: &[u8], release: u64) {
        let place = self.place(self.next);
        let frame = &mut self.frames[place];
        frame.clear();
        frame.extend_from_slice(head);
        frame.extend_from_slice(body);
        self.release[place] = release;
        self.next += 1;
    }

    /// Releases the oldest frame if frame `index` is the one that it waits for.
    pub(crate) fn release(&mut self, index: u64) -> Option<usize> {
        if self.len() == 0 || self.release[self.place(self.oldest)] > index {
            return None;
        }
        self.oldest += 1;
        Some(self.place(self.oldest - 1))
    }

    /// The frame in a place.
    pub(crate) fn frame(&self, place: usize) -> &[u8] {
        &self.frames[place]
    }
}
