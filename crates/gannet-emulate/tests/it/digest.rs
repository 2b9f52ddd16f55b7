//! A digest of everything that is sent.

/// FNV-1a of datagrams with their lengths.
#[derive(Debug)]
pub struct Digest(u64);

impl Default for Digest {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Digest {
    /// Adds a datagram.
    pub fn datagram(&mut self, datagram: &[u8]) {
        self.add(&(datagram.len() as u32).to_le_bytes());
        self.add(datagram);
    }

    /// Adds bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    }

    /// The digest of what was added.
    pub fn value(&self) -> u64 {
        self.0
    }
}
