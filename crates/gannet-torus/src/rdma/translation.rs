//! From virtual to physical address, by TLB or by a walk of the table, and what it costs.

use gannet_memory::tlb::ADDRESS_BITS;
use gannet_memory::{Mapping, Refusal, RegisteredBuffers, Tlb};

use super::configuration::{Limits, Timing, TranslationCache};

/// Physical places of up to a page of bytes, which may lie on two pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Extents([(u64, usize); 2]);

impl Extents {
    /// Bytes that lie together.
    pub fn contiguous(physical: u64, length: usize) -> Self {
        Self([(physical, length), (0, 0)])
    }

    /// Physical address and length of each piece.
    pub fn iter(&self) -> impl Iterator<Item = (u64, usize)> + use<> {
        self.0.into_iter().filter(|&(_, length)| length > 0)
    }
}

/// The translation unit of an engine.
#[derive(Clone, Debug)]
pub(super) struct Translation {
    pub tlb: Tlb,
    pub buffers: RegisteredBuffers,
    tlb_ns: u64,
    walk_ns: u64,
    /// There is one walker; walks follow each other.
    walker_free_at: u64,
}

impl Translation {
    pub fn new(cache: &TranslationCache, limits: &Limits, timing: &Timing) -> Self {
        let tlb_ns = if cache.entries > 0 { timing.tlb_ns } else { 0 };
        Self {
            tlb: Tlb::new(cache.entries, cache.replacement),
            buffers: RegisteredBuffers::new(cache.page_size, limits.buffers, limits.pages),
            tlb_ns,
            walk_ns: timing.walk_ns,
            walker_free_at: 0,
        }
    }

    /// Where `length` bytes from `address` lie, and when that is known if it is asked at `at`.
    ///
    /// `length` is at most a page.
    pub fn translate(
        &mut self,
        at: u64,
        process: u16,
        address: u64,
        length: usize,
        write: bool,
    ) -> (u64, Result<Extents, Refusal>) {
        if address.saturating_add(length as u64) > 1 << ADDRESS_BITS {
            return (at, Err(Refusal::OutOfRange));
        }
        let page_size = self.buffers.page_size();
        let (mut time, mut extents) = (at, Extents::default());
        let (mut address, mut left) = (address, length as u64);
        for extent in &mut extents.0 {
            if left == 0 {
                break;
            }
            let offset = page_size.offset(address);
            let piece = left.min(page_size.bytes() - offset);
            let mapping = self.mapping(&mut time, process, page_size.page(address));
            match mapping.and_then(|mapping| mapping.resolve(offset, piece, write)) {
                Ok(physical) => *extent = (physical, piece as usize),
                Err(refusal) => return (time, Err(refusal)),
            }
            (address, left) = (address + piece, left - piece);
        }
        debug_assert_eq!(left, 0, "a packet is longer than a page");
        (time, Ok(extents))
    }

    fn mapping(&mut self, time: &mut u64, process: u16, page: u64) -> Result<Mapping, Refusal> {
        *time += self.tlb_ns;
        if let Some(mapping) = self.tlb.lookup(process, page) {
            return Ok(mapping);
        }
        self.walker_free_at = self.walker_free_at.max(*time) + self.walk_ns;
        *time = self.walker_free_at;
        let mapping = self.buffers.walk(process, page)?;
        self.tlb.fill(process, page, mapping);
        Ok(mapping)
    }
}
