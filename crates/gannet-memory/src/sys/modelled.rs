//! In the place of a mapping: words of loom. Readers and writers go by the same code as ever.

use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

use gannet_checksum::Crc32c;

use super::words::WORD;
use crate::sync::Arc;
use crate::sync::atomic::AtomicU64;

/// Words, zero at first.
#[derive(Clone, Debug)]
pub(crate) struct Mapping(Arc<Vec<AtomicU64>>);

impl Mapping {
    pub(super) fn anonymous(len: usize, _flags: libc::c_int) -> io::Result<Self> {
        Ok(Self(Arc::new((0..len.div_ceil(WORD)).map(|_| AtomicU64::new(0)).collect())))
    }

    pub(super) fn shared(
        _file: BorrowedFd<'_>,
        len: usize,
        _is_writable: bool,
    ) -> io::Result<Self> {
        Self::anonymous(len, 0)
    }

    pub(super) fn advise(&self, _advice: libc::c_int) -> io::Result<()> {
        Ok(())
    }

    pub(super) fn len(&self) -> usize {
        self.0.len() * WORD
    }

    pub(crate) fn address(&self, _offset: usize, _len: usize) -> NonNull<u8> {
        unreachable!("bytes of a model have no address")
    }

    #[expect(unsafe_code, reason = "as for a mapping")]
    pub(crate) unsafe fn slice(&self, _offset: usize, _len: usize) -> &[u8] {
        unreachable!("bytes of a model have no address")
    }

    pub(super) fn words(&self, offset: usize, len: usize) -> (&[AtomicU64], usize) {
        let skip = offset % WORD;
        let first = offset / WORD;
        (&self.0[first..first + (skip + len).div_ceil(WORD)], skip)
    }

    pub(super) fn read(&self, offset: usize, out: &mut [u8]) {
        self.load(offset, out);
    }

    pub(super) fn read_summed(&self, offset: usize, out: &mut [u8], sum: Crc32c) -> Crc32c {
        self.load(offset, out);
        sum.and(out)
    }

    pub(super) fn write(&self, offset: usize, bytes: &[u8]) {
        self.store(offset, bytes);
    }

    pub(super) fn copy_to(&self, offset: usize, to: &Self, to_offset: usize, len: usize) {
        let mut bytes = vec![0; len];
        self.load(offset, &mut bytes);
        to.store(to_offset, &bytes);
    }
}
