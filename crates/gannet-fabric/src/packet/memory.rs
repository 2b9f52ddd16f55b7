//! The regions of an endpoint as the memory of an engine.

use gannet_checksum::Crc32c;
use gannet_memory::SharedRegion;
use gannet_rdma::PhysicalMemory;

use crate::endpoint::{Local, RegionId};
use crate::windows::PAGES;

/// Bits of an address that say where in its place it is; the ones above say in which place.
const PLACE_BITS: u32 = 40;

/// Places in regions, each of which begins a page, whatever it is in its region.
///
/// A place is a region, or a window. The table of the engine keeps to the bytes of a window, of which the
/// last page may have more.
#[derive(Debug, Default)]
pub struct Memory {
    /// Lent by the endpoint for as long as the engine is at work.
    pub regions: Vec<SharedRegion>,
    places: Vec<Local>,
}

impl Memory {
    /// Lets a place, any number, begin at `start`.
    pub fn set(&mut self, place: usize, start: Local) {
        let nowhere = Local { region: RegionId(u32::MAX), offset: 0 };
        self.places.resize(self.places.len().max(place + 1), nowhere);
        self.places[place] = start;
    }

    /// Pages of the first `bytes` bytes of a place.
    pub fn pages(place: usize, bytes: u64) -> Vec<u64> {
        let pages = 0..bytes.div_ceil(PAGES.bytes());
        pages.map(|page| Self::address(place, page << PAGES.bits())).collect()
    }

    pub fn address(place: usize, offset: u64) -> u64 {
        (place as u64) << PLACE_BITS | offset
    }

    /// The region of an address, and where in it that is.
    #[inline]
    fn at(&self, address: u64) -> Option<(&SharedRegion, usize)> {
        let start = self.places.get((address >> PLACE_BITS) as usize)?;
        let region = self.regions.get(start.region.0 as usize)?;
        let offset = start.offset + (address & ((1 << PLACE_BITS) - 1));
        Some((region, offset as usize))
    }
}

impl PhysicalMemory for Memory {
    /// Whether the first byte exists: the endpoint has tested the others.
    fn contains(&self, address: u64, _length: u64) -> bool {
        self.at(address).is_some_and(|(region, offset)| offset <= region.len())
    }

    fn read(&self, address: u64, out: &mut [u8]) {
        let (region, offset) = self.at(address).expect("the engine asks for what it has");
        region.read(offset, out);
    }

    fn read_summed(&self, address: u64, out: &mut [u8], sum: Crc32c) -> Crc32c {
        let (region, offset) = self.at(address).expect("the engine asks for what it has");
        region.read_summed(offset, out, sum)
    }

    fn write(&mut self, address: u64, data: &[u8]) {
        let (region, offset) = self.at(address).expect("the engine asks for what it has");
        region.write(offset, data);
    }
}
