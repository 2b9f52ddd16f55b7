//! The memory that an engine reads and writes.

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
        out.copy_from_slice(&self[address as usize..][..out.len()]);
    }

    fn write(&mut self, address: u64, data: &[u8]) {
        self[address as usize..][..data.len()].copy_from_slice(data);
    }
}
