//! Tables of windows: which bytes may be reached with which key.

use gannet_measure::random::Random;
use gannet_memory::tlb::ADDRESS_BITS;
use gannet_memory::{Access, PageSize, Refusal, RegisterError, RegisteredBuffers, Registration};
use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};

use crate::endpoint::{Key, Local};

/// Page size of the tables; a window takes as many entries as it has pages.
pub(crate) const PAGES: PageSize = PageSize::MiB2;
/// Most pages of all windows of a table: 256 GiB.
pub(crate) const PAGES_MAX: usize = 1 << 17;

/// A table of windows.
///
/// A window is a buffer at a virtual address of a process, as RDMA knows it; process and address are its
/// key. Both are drawn at random, 41 bits in all: of processes the even ones, so that a backend has one more
/// for each.
#[derive(Debug)]
pub(crate) struct Windows {
    buffers: RegisteredBuffers,
    keys: Vec<(Key, Local)>,
    windows_max: usize,
    /// Pages of the window that is being entered.
    pages: Vec<u64>,
}

/// Where keys come from.
#[derive(Debug)]
pub(crate) enum Keys {
    /// The system: nobody can guess one.
    System,
    /// A seed: the same ones each time.
    Seed(Random),
}

impl Keys {
    /// Draws a key.
    pub fn draw(&mut self) -> Result<Key, Errno> {
        let bits = match self {
            Self::System => {
                let mut bytes = [0; 8];
                getrandom(&mut bytes, GetRandomFlags::empty())?;
                u64::from_ne_bytes(bytes)
            }
            Self::Seed(random) => random.bits(),
        };
        // A window begins a page, and ends before the last address.
        let address = bits & ((1 << (ADDRESS_BITS - 1)) - 1);
        let process = bits & (0xfffe << ADDRESS_BITS);
        Ok(Key(process | (address & !(PAGES.bytes() - 1))))
    }
}

/// Process and virtual address of a key.
pub(crate) fn parts(key: Key) -> (u16, u64) {
    ((key.0 >> ADDRESS_BITS) as u16, key.0 & ((1 << ADDRESS_BITS) - 1))
}

impl Windows {
    pub fn new(windows_max: usize) -> Self {
        Self {
            buffers: RegisteredBuffers::new(PAGES, windows_max, PAGES_MAX),
            keys: Vec::new(),
            windows_max,
            pages: Vec::new(),
        }
    }

    /// Enters a window that begins at `start`.
    pub fn enter(
        &mut self,
        key: Key,
        start: Local,
        bytes: u64,
        access: Access,
    ) -> Result<(), RegisterError> {
        let (process, address) = parts(key);
        let range = RegisterError::Range { start: address, length: bytes };
        if self.keys.len() >= self.windows_max {
            return Err(RegisterError::TooManyBuffers { buffers_max: self.windows_max });
        }
        let pages = bytes.div_ceil(PAGES.bytes());
        if pages > PAGES_MAX as u64 || PAGES.offset(address) != 0 {
            return Err(range);
        }
        // The table counts from the begin of the window; where that is, is beside its key.
        self.pages.clear();
        self.pages.extend((0..pages).map(|page| page << PAGES.bits()));
        self.buffers.register(&Registration {
            process,
            start: address,
            length: bytes,
            writable: access == Access::Write,
            pages: &self.pages,
        })?;
        let at = self.keys.partition_point(|&(other, _)| other.0 < key.0);
        self.keys.insert(at, (key, start));
        Ok(())
    }

    /// Removes a window; gives whether there was one.
    pub fn remove(&mut self, key: Key) -> bool {
        let (process, address) = parts(key);
        let Ok(at) = self.keys.binary_search_by_key(&key.0, |&(key, _)| key.0) else {
            return false;
        };
        self.keys.remove(at);
        self.buffers.deregister(process, address).is_some()
    }

    /// The window that holds a virtual address of a process, and the place in it.
    pub fn holding(&self, process: u16, address: u64) -> Option<(Key, u64)> {
        let asked = u64::from(process) << ADDRESS_BITS | address;
        let after = self.keys.partition_point(|&(key, _)| key.0 <= asked);
        let (key, _) = self.keys[after.checked_sub(1)?];
        (parts(key).0 == process).then(|| (key, asked - key.0))
    }

    /// Where `bytes` bytes from `offset` of a window lie, if they may be accessed.
    #[inline]
    pub fn find(&self, key: Key, offset: u64, bytes: u64, write: bool) -> Result<Local, Refusal> {
        let (process, address) = parts(key);
        let at = self.keys.binary_search_by_key(&key.0, |&(key, _)| key.0);
        let Local { region, offset: start } = self.keys[at.map_err(|_| Refusal::Unknown)?].1;
        // From the begin of the window: what is beyond it may be another one.
        let end = offset.checked_add(bytes).ok_or(Refusal::OutOfRange)?;
        self.buffers.check(process, address, end, write)?;
        Ok(Local { region, offset: start + offset })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::endpoint::RegionId;
    use proptest::prelude::*;

    fn local(offset: u64) -> Local {
        Local { region: RegionId(1), offset }
    }

    #[test]
    fn a_key_reaches_its_own_window_only() {
        let mut windows = Windows::new(4);
        let (first, second) = (Key(7 << ADDRESS_BITS), Key(7 << ADDRESS_BITS | PAGES.bytes()));
        windows.enter(first, local(100), PAGES.bytes(), Access::Write).unwrap();
        windows.enter(second, local(0), 10, Access::Read).unwrap();
        assert_eq!(windows.find(first, 5, 10, true), Ok(local(105)));
        let next = windows.find(first, PAGES.bytes(), 1, false);
        assert_eq!(next, Err(Refusal::OutOfRange), "the window behind it has a key of its own");
        assert_eq!(windows.find(first, u64::MAX, 1, false), Err(Refusal::OutOfRange));
        assert_eq!(windows.find(second, 0, 10, false), Ok(local(0)));
        assert_eq!(windows.find(second, 0, 10, true), Err(Refusal::ReadOnly));
        assert!(windows.remove(first) && !windows.remove(first));
        assert_eq!(windows.find(first, 5, 10, true), Err(Refusal::Unknown));
    }

    #[test]
    fn there_are_only_so_many() {
        let mut windows = Windows::new(2);
        let enter = |windows: &mut Windows, number: u64| {
            windows.enter(Key(number << ADDRESS_BITS), local(0), 1, Access::Read)
        };
        enter(&mut windows, 1).unwrap();
        enter(&mut windows, 2).unwrap();
        assert_eq!(enter(&mut windows, 3), Err(RegisterError::TooManyBuffers { buffers_max: 2 }));
    }

    proptest! {
        /// Whatever is asked: it is found exactly where it lies inside its window.
        #[test]
        fn nothing_outside_is_found(
            bytes in 1u64..9_000_000, offset in 0u64..10_000_000, length in 0u64..10_000_000,
            key: u64, write: bool, is_writable: bool,
        ) {
            let mut windows = Windows::new(2);
            let drawn = Keys::System.draw().unwrap();
            let access = if is_writable { Access::Write } else { Access::Read };
            windows.enter(drawn, local(64), bytes, access).unwrap();
            let is_inside = offset + length <= bytes && (is_writable || !write);
            let found = windows.find(drawn, offset, length, write);
            prop_assert_eq!(found.ok(), is_inside.then(|| local(64 + offset)));
            if Key(key) != drawn {
                prop_assert_eq!(windows.find(Key(key), 0, 1, false), Err(Refusal::Unknown));
            }
        }
    }
}
