//! The memory of a node: a few pages of its own, and what processes have registered.

use gannet_checksum::Crc32c;
use gannet_memory::SharedRegion;
use gannet_rdma::PhysicalMemory;

/// Bytes of a page of the memory of a node.
pub const PAGE: usize = 4096;
/// Pages of its own.
const OWN_PAGES: usize = 2;
/// Bits of an address within a region.
const OFFSET_BITS: u32 = 40;
/// Bits of the number of a region; above them it is told apart from earlier ones of the number.
const SLOT_BITS: u32 = 16;

/// A region in the memory of a node: the physical address of its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot(u64);

impl Slot {
    /// Physical address of the byte at `offset`.
    pub fn address(self, offset: u64) -> u64 {
        self.0 + offset
    }

    /// Physical addresses of the pages that hold `bytes` bytes from `offset` on.
    pub fn pages(self, offset: u64, bytes: u64) -> Vec<u64> {
        let page = PAGE as u64;
        (offset / page..(offset + bytes).div_ceil(page)).map(|at| self.0 + at * page).collect()
    }
}

/// The memory of a node.
///
/// What was detached reads as zeros, and takes what is written without keeping it: an engine may have begun with packets of it.
#[derive(Debug)]
pub struct NodeMemory {
    own: Vec<u8>,
    /// Regions by number from 1 on, and how many had the number before.
    slots: Vec<(u8, Option<SharedRegion>)>,
}

impl Default for NodeMemory {
    fn default() -> Self {
        Self::with_more(0)
    }
}

impl NodeMemory {
    /// Physical address behind the pages that every node has.
    pub const MORE_FROM: u64 = (OWN_PAGES * PAGE) as u64;

    /// Memory with `bytes` more of its own.
    pub fn with_more(bytes: usize) -> Self {
        Self { own: vec![0; OWN_PAGES * PAGE + bytes], slots: Vec::new() }
    }

    /// Adds a region; none if there are as many as may be, or it is too long.
    pub fn attach(&mut self, region: SharedRegion) -> Option<Slot> {
        if region.len() as u64 > 1 << OFFSET_BITS {
            return None;
        }
        let free = self.slots.iter().position(|(_, region)| region.is_none());
        let at = free.unwrap_or(self.slots.len());
        if at + 1 >= 1 << SLOT_BITS {
            return None;
        }
        if at == self.slots.len() {
            self.slots.push((0, None));
        }
        let (generation, place) = &mut self.slots[at];
        *generation = generation.wrapping_add(1);
        *place = Some(region);
        let number = u64::from(*generation) << SLOT_BITS | (at as u64 + 1);
        Some(Slot(number << OFFSET_BITS))
    }

    /// Takes a region away.
    pub fn detach(&mut self, slot: Slot) {
        if self.region_at(slot.0).is_some() {
            self.slots[slot_of(slot.0) - 1].1 = None;
        }
    }

    /// A region, if it was not taken away.
    pub fn region(&self, slot: Slot) -> Option<&SharedRegion> {
        self.region_at(slot.0)
    }

    /// The region that has an address.
    fn region_at(&self, address: u64) -> Option<&SharedRegion> {
        let (generation, region) = self.slots.get(slot_of(address).checked_sub(1)?)?;
        region.as_ref().filter(|_| address >> (OFFSET_BITS + SLOT_BITS) == u64::from(*generation))
    }
}

fn slot_of(address: u64) -> usize {
    (address >> OFFSET_BITS & ((1 << SLOT_BITS) - 1)) as usize
}

fn offset_of(address: u64) -> u64 {
    address & ((1 << OFFSET_BITS) - 1)
}

impl PhysicalMemory for NodeMemory {
    fn contains(&self, address: u64, length: u64) -> bool {
        if address < 1 << OFFSET_BITS {
            return self.own.contains(address, length);
        }
        let end = offset_of(address).checked_add(length);
        let region = self.region_at(address);
        region.zip(end).is_some_and(|(region, end)| end <= region.len() as u64)
    }

    #[inline]
    fn read(&self, address: u64, out: &mut [u8]) {
        if address < 1 << OFFSET_BITS {
            return self.own.read(address, out);
        }
        match self.region_at(address) {
            Some(region) => region.read(offset_of(address) as usize, out),
            None => out.fill(0),
        }
    }

    #[inline]
    fn read_summed(&self, address: u64, out: &mut [u8], sum: Crc32c) -> Crc32c {
        if address < 1 << OFFSET_BITS {
            return self.own.read_summed(address, out, sum);
        }
        match self.region_at(address) {
            Some(region) => region.read_summed(offset_of(address) as usize, out, sum),
            None => {
                out.fill(0);
                sum.and(out)
            }
        }
    }

    #[inline]
    fn write(&mut self, address: u64, data: &[u8]) {
        if address < 1 << OFFSET_BITS {
            return self.own.write(address, data);
        }
        if let Some(region) = self.region_at(address) {
            region.write(offset_of(address) as usize, data);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_come_and_go_beside_the_own_pages() {
        let mut memory = NodeMemory::default();
        assert!(memory.contains(0, (OWN_PAGES * PAGE) as u64));
        assert!(!memory.contains(1, (OWN_PAGES * PAGE) as u64));
        let first = memory.attach(SharedRegion::new(PAGE).unwrap()).unwrap();
        let second = memory.attach(SharedRegion::new(2 * PAGE).unwrap()).unwrap();
        assert!(memory.contains(second.address(4000), 4192));
        assert!(!memory.contains(second.address(4000), 4193));
        assert!(!memory.contains(first.address(0), 4097) && !memory.contains(u64::MAX, 2));
        memory.write(second.address(4095), b"gannet");
        let mut bytes = [0; 6];
        memory.read(second.address(4095), &mut bytes);
        assert_eq!(&bytes, b"gannet");
        assert_eq!(second.pages(0, 4097), [second.address(0), second.address(4096)]);
        assert_eq!(second.pages(4095, 2), second.pages(0, 4097));
        assert_eq!(second.pages(4096, 4096), [second.address(4096)]);
    }

    #[test]
    fn what_was_detached_is_no_memory_of_who_comes_next() {
        let mut memory = NodeMemory::default();
        let old = memory.attach(SharedRegion::new(PAGE).unwrap()).unwrap();
        memory.detach(old);
        let new = memory.attach(SharedRegion::new(PAGE).unwrap()).unwrap();
        memory.write(new.address(0), b"new");
        memory.write(old.address(0), b"old");
        let mut bytes = [1; 3];
        memory.read(old.address(0), &mut bytes);
        assert_eq!((bytes, memory.contains(old.address(0), 1)), ([0; 3], false));
        memory.detach(old);
        memory.read(new.address(0), &mut bytes);
        assert_eq!(&bytes, b"new");
    }
}
