//! The stored form of a record, as the log keeps it: the header, then fragment after fragment.

use gannet_wire::record::Record;
use gannet_wire::{
    Error, Fragment, FragmentRepr, Result, TimeSliceHeader, TriggerRecordHeader, trigger_record,
};

/// A trigger record or time slice in one piece of memory.
#[derive(Clone, Copy, Debug)]
pub struct StoredRecord<'a> {
    header: &'a [u8],
    fragments: &'a [u8],
}

impl<'a> StoredRecord<'a> {
    /// The trigger record that fills `bytes`.
    ///
    /// # Errors
    /// When the header cannot be read. Fragments are looked at when they are asked for.
    pub fn trigger_record(bytes: &'a [u8]) -> Result<Self> {
        let requests = TriggerRecordHeader::new_checked(bytes)?.component_requests().len();
        Ok(Self::split(bytes, trigger_record::buffer_len(requests)))
    }

    /// The time slice that fills `bytes`.
    ///
    /// # Errors
    /// As [`trigger_record`](Self::trigger_record).
    pub fn time_slice(bytes: &'a [u8]) -> Result<Self> {
        TimeSliceHeader::parse(bytes)?;
        Ok(Self::split(bytes, TimeSliceHeader::LEN))
    }

    fn split(bytes: &'a [u8], header_len: usize) -> Self {
        let (header, fragments) = bytes.split_at(header_len);
        Self { header, fragments }
    }

    /// The header of the record, component requests included.
    pub fn header(&self) -> &'a [u8] {
        self.header
    }

    /// The fragments in their order; the size in each header says where the next one begins.
    ///
    /// Ends after the first error.
    pub fn fragments(&self) -> StoredFragments<'a> {
        StoredFragments { rest: self.fragments }
    }
}

/// Iterator over the fragments of a [`StoredRecord`].
#[derive(Clone, Debug)]
pub struct StoredFragments<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for StoredFragments<'a> {
    type Item = Result<Fragment<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let fragment = split_fragment(self.rest);
        self.rest = fragment.as_ref().map_or(&[], |(_, behind)| behind);
        Some(fragment.map(|(fragment, _)| fragment))
    }
}

/// The first fragment, and the bytes behind it.
fn split_fragment(bytes: &[u8]) -> Result<(Fragment<'_>, &[u8])> {
    let header = FragmentRepr::parse(bytes)?;
    let (min, max) = (FragmentRepr::LEN as u64, bytes.len() as u64);
    if !(min..=max).contains(&header.size) {
        let (format, field, got) = (FragmentRepr::FORMAT, "size", header.size);
        return Err(Error::Range { format, field, min, max, got });
    }
    // At most `max`, which is a length in memory.
    let (fragment, behind) = bytes.split_at(header.size as usize);
    Ok((Fragment::new_checked(fragment)?, behind))
}
