//! The memory of an engine: how it is accessed, where a virtual address lies in it, and how long it
//! takes to move bytes to and from there.

use gannet_checksum::{Crc32c, copy};
use gannet_memory::tlb::ADDRESS_BITS;
use gannet_memory::{Mapping, Refusal, RegisteredBuffers, Tlb};

use super::configuration::{ENGINES_MAX, Limits, Timing, TranslationCache};

/// Memory by physical address.
///
/// An engine asks [`contains`](Self::contains) once, when a buffer is registered or a descriptor is
/// posted, and afterwards accesses only what was contained.
pub trait PhysicalMemory {
    /// Whether all of `length` bytes from `address` exist.
    fn contains(&self, address: u64, length: u64) -> bool;

    /// Copies the bytes from `address` on to `out`.
    ///
    /// # Panics
    /// When the range is not contained.
    fn read(&self, address: u64, out: &mut [u8]);

    /// The same, and gives `sum` continued over what is in `out` then.
    ///
    /// # Panics
    /// When the range is not contained.
    fn read_summed(&self, address: u64, out: &mut [u8], sum: Crc32c) -> Crc32c {
        self.read(address, out);
        sum.and(out)
    }

    /// Copies `data` to `address` and the bytes after it.
    ///
    /// # Panics
    /// When the range is not contained.
    fn write(&mut self, address: u64, data: &[u8]);
}

/// Memory that begins at address 0.
impl PhysicalMemory for Vec<u8> {
    fn contains(&self, address: u64, length: u64) -> bool {
        address.checked_add(length).is_some_and(|end| end <= self.len() as u64)
    }

    fn read(&self, address: u64, out: &mut [u8]) {
        copy(&self[address as usize..][..out.len()], out);
    }

    fn read_summed(&self, address: u64, out: &mut [u8], sum: Crc32c) -> Crc32c {
        sum.and_copied(&self[address as usize..][..out.len()], out)
    }

    fn write(&mut self, address: u64, data: &[u8]) {
        copy(data, &mut self[address as usize..][..data.len()]);
    }
}

/// Pages on which the data of a packet may lie.
const PAGES: usize = 5;
/// Pages that the data of a packet may be long.
pub(crate) const WHOLE_PAGES: usize = PAGES - 1;

/// Physical places of the data of a packet, which may begin and end within a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Extents([(u64, usize); PAGES]);

impl Extents {
    /// Bytes that lie together.
    pub fn contiguous(physical: u64, length: usize) -> Self {
        let mut extents = Self::default();
        extents.0[0] = (physical, length);
        extents
    }

    /// Physical address and length of each piece.
    pub fn iter(&self) -> impl Iterator<Item = (u64, usize)> {
        self.0.iter().copied().take_while(|&(_, length)| length > 0)
    }

    /// Bytes of all pieces.
    pub fn bytes(&self) -> usize {
        self.iter().map(|(_, length)| length).sum()
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

    /// Where `length` bytes from `address` lie; `time`, at which it is asked, becomes that at which it is known.
    ///
    /// `length` is at most [`WHOLE_PAGES`].
    #[inline]
    pub fn translate(
        &mut self,
        time: &mut u64,
        process: u16,
        address: u64,
        length: usize,
        write: bool,
    ) -> Result<Extents, Refusal> {
        if address.saturating_add(length as u64) > 1 << ADDRESS_BITS {
            return Err(Refusal::OutOfRange);
        }
        let page_size = self.buffers.page_size();
        let mut extents = Extents::default();
        let (mut address, mut left) = (address, length as u64);
        for extent in &mut extents.0 {
            if left == 0 {
                break;
            }
            let offset = page_size.offset(address);
            let piece = left.min(page_size.bytes() - offset);
            let mapping = self.mapping(time, process, page_size.page(address))?;
            *extent = (mapping.resolve(offset, piece, write)?, piece as usize);
            (address, left) = (address + piece, left - piece);
        }
        debug_assert_eq!(left, 0, "a packet is longer than its extents");
        Ok(extents)
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

/// DMA engines, each busy from its claim to the end of its transfer.
///
/// Latencies of several engines overlap; their transfers follow each other on the bus, in the
/// order in which they were claimed.
#[derive(Clone, Debug)]
pub(super) struct Dma {
    /// When each engine has ended what it was given, in nanoseconds.
    free_at: [u64; ENGINES_MAX],
    engines: usize,
    bus_free_at: u64,
    bytes_per_s: u64,
}

/// An engine that was given work.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claim {
    engine: usize,
    /// When it begins.
    pub start: u64,
}

impl Dma {
    pub fn new(engines: usize, bytes_per_s: u64) -> Self {
        debug_assert!((1..=ENGINES_MAX).contains(&engines) && bytes_per_s > 0);
        Self { free_at: [0; ENGINES_MAX], engines, bus_free_at: 0, bytes_per_s }
    }

    /// When an engine is idle.
    pub fn idle_at(&self) -> u64 {
        self.free_at[..self.engines].iter().copied().min().unwrap_or(0)
    }

    /// The engine that is idle first; it begins not before `now`.
    pub fn claim(&self, now: u64) -> Claim {
        let free_at = &self.free_at[..self.engines];
        let engine = (0..self.engines).min_by_key(|&engine| free_at[engine]).unwrap_or(0);
        Claim { engine, start: free_at[engine].max(now) }
    }

    /// Moves `bytes` as soon as they are `ready` and the bus is free; gives the end.
    pub fn transfer(&mut self, claim: Claim, ready: u64, bytes: usize) -> u64 {
        let end = match bytes {
            0 => ready,
            _ => ready.max(self.bus_free_at) + duration_ns(bytes as u64, self.bytes_per_s),
        };
        if bytes > 0 {
            self.bus_free_at = end;
        }
        self.free_at[claim.engine] = end;
        end
    }
}

/// Time to move `bytes`, to the nearest nanosecond.
pub(super) fn duration_ns(bytes: u64, bytes_per_s: u64) -> u64 {
    let scaled = u128::from(bytes) * 1_000_000_000 + u128::from(bytes_per_s) / 2;
    match u64::try_from(scaled) {
        Ok(scaled) => scaled / bytes_per_s,
        Err(_) => (scaled / u128::from(bytes_per_s)) as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::UNLIMITED;

    /// End of the last of `count` transfers of 1000 bytes at 1 byte a nanosecond, each after 500.
    fn last_end(engines: usize, count: usize) -> u64 {
        let mut dma = Dma::new(engines, 1_000_000_000);
        (0..count).fold(0, |_, _| {
            let claim = dma.claim(0);
            dma.transfer(claim, claim.start + 500, 1000)
        })
    }

    #[test]
    fn one_engine_waits_each_time_and_two_hide_it() {
        assert_eq!(last_end(1, 10), 15_000);
        assert_eq!(last_end(2, 10), 10_500);
        assert_eq!(last_end(3, 10), 10_500);
    }

    #[test]
    fn what_has_no_limit_takes_no_time() {
        assert_eq!(duration_ns(4096, UNLIMITED), 0);
        assert_eq!(duration_ns(4096, 4_000_000_000), 1024);
    }
}
