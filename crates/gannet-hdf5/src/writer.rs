//! Writing a file, group after group.

use std::collections::{BTreeMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, IoSlice, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::chain::{self, BLOCK, Block};
use crate::error::{Error, Result};
use crate::tree::{Group, Metadata, check_attributes, check_name, place_attributes};
use crate::value::Value;
use crate::{digest, index, message, superblock};

/// Where the first block of the root group lies; superblock and root header lie before it.
const FIRST_BLOCK: u64 = BLOCK as u64;
/// Most slices that the kernel takes in one call (`IOV_MAX`).
const SLICES_MAX: usize = 1024;

/// A new HDF5 file that grows by groups in its root.
///
/// After [`create`](Self::create) and after each [`append`](Self::append) the file is complete:
/// data and headers lie behind the old end, then the superblock moves the end, then one page
/// links the group. A failed append leaves the file as it was and may be tried again.
///
/// Memory: one page, and the names and places of the root's members, from which [`close`](Self::close)
/// makes an index, so that HDF5 libraries find the last member as soon as the first.
#[derive(Debug)]
pub struct Writer {
    file: File,
    path: PathBuf,
    end: u64,
    block: Block,
    members: BTreeMap<String, u64>,
    attribute_names: HashSet<String>,
    /// Messages of the attributes of the root.
    attributes: Vec<u8>,
}

impl Writer {
    /// Makes a new file with these attributes of its root.
    ///
    /// # Errors
    /// When the file exists or cannot be made or written, or an attribute is not allowed.
    pub fn create(path: &Path, attributes: &[(&str, Value<'_>)]) -> Result<Self> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path);
        Self::on(file.map_err(|source| io("create", path, source))?, path, attributes)
    }

    /// Fills the empty file `file`, which is open for reading and writing; errors call it `path`.
    ///
    /// # Errors
    /// When the file cannot be written, or an attribute is not allowed.
    pub fn on(file: File, path: &Path, attributes: &[(&str, Value<'_>)]) -> Result<Self> {
        let mut writer = Self {
            file,
            path: path.to_owned(),
            end: FIRST_BLOCK + BLOCK as u64,
            block: Block::new(FIRST_BLOCK),
            members: BTreeMap::new(),
            attribute_names: HashSet::new(),
            attributes: Vec::new(),
        };
        writer.write_at(&chain::root(FIRST_BLOCK), superblock::LEN as u64)?;
        writer.write_at(&writer.block.encode(None), FIRST_BLOCK)?;
        writer.write_at(&superblock::encode(writer.end, superblock::LEN as u64), 0)?;
        writer.set_attributes(attributes)?;
        Ok(writer)
    }

    /// Writes a group and makes it a member of the root; returns the bytes by which the file grew.
    ///
    /// # Errors
    /// When a name or text is not allowed, the root has a member of that name, or writing fails.
    pub fn append(&mut self, name: &str, group: &Group<'_>) -> Result<u64> {
        check_name(name)?;
        group.check()?;
        if self.members.contains_key(name) {
            return Err(Error::Duplicate { name: name.to_owned() });
        }
        let mut slices = Vec::new();
        group.slices(&mut slices);
        let mut data = self.end;
        let mut metadata = Metadata::new(self.end + total_len(&slices));
        let address = group.place(&mut data, &mut metadata)?;
        let grown = self.extend(&slices, &metadata, &[message::link(name, address)])?;
        self.members.insert(name.to_owned(), address);
        Ok(grown)
    }

    /// Gives the root more attributes and an index of its members, reads the file back for its digest,
    /// puts everything on the disk and ends the file.
    ///
    /// # Errors
    /// When an attribute is there already or is not allowed, or writing fails.
    pub fn close(mut self, attributes: &[(&str, Value<'_>)]) -> Result<()> {
        self.set_attributes(attributes)?;
        self.index()?;
        let digest = digest::encode(&self.file, self.end);
        self.write_at(&digest.map_err(|source| io("read", &self.path, source))?, self.end)?;
        self.file.sync_all().map_err(|source| io("sync", &self.path, source))
    }

    /// Bytes of the file so far.
    pub fn file_len(&self) -> u64 {
        self.end
    }

    fn set_attributes(&mut self, attributes: &[(&str, Value<'_>)]) -> Result<()> {
        check_attributes(attributes)?;
        let known = |(name, _): &&(&str, Value<'_>)| self.attribute_names.contains(*name);
        if let Some((name, _)) = attributes.iter().find(known) {
            return Err(Error::Duplicate { name: name.to_string() });
        }
        let mut metadata = Metadata::new(self.end);
        let messages = place_attributes(attributes, &mut metadata)?;
        self.extend(&[], &metadata, &messages)?;
        self.attributes.extend(messages.concat());
        self.attribute_names.extend(attributes.iter().map(|(name, _)| name.to_string()));
        Ok(())
    }

    /// Writes a second root behind the end, which has the same attributes and an index of the same members,
    /// then makes it the root in the place of the first.
    fn index(&mut self) -> Result<()> {
        let index::Encoded { bytes, root } =
            index::encode(&self.members, &self.attributes, self.end);
        self.write_at(&bytes, self.end)?;
        // What the superblock is to tell of must be on the disk before it.
        self.file.sync_data().map_err(|source| io("sync", &self.path, source))?;
        self.end += bytes.len() as u64;
        self.write_at(&superblock::encode(self.end, root), 0)
    }

    /// Writes data and metadata behind the end, then makes the messages part of the root.
    fn extend(&mut self, data: &[&[u8]], metadata: &Metadata, messages: &[Vec<u8>]) -> Result<u64> {
        let before = self.end;
        let chain = Chain::after(&self.block, messages, metadata.end());
        let padding = vec![0; (chain.start - metadata.end()) as usize];
        let tail = chain.encode_new();
        let mut slices: Vec<_> = data.iter().map(|slice| IoSlice::new(slice)).collect();
        slices.extend([metadata.bytes(), &padding, &tail].map(IoSlice::new));
        if let Err(error) = self.write_behind_end(&mut slices) {
            // Gives a full disk its space back. If that fails too, the rest is not part of the
            // file, and the next append writes over it.
            let _ = self.file.set_len(before);
            return Err(error);
        }
        self.write_at(&superblock::encode(chain.end(), superblock::LEN as u64), 0)?;
        self.end = chain.end();
        self.write_at(&chain.encode_first(), self.block.address())?;
        self.block = chain.into_last();
        Ok(self.end - before)
    }

    fn write_behind_end(&mut self, mut slices: &mut [IoSlice<'_>]) -> Result<()> {
        let failed = |source| io("write", &self.path, source);
        self.file.seek(SeekFrom::Start(self.end)).map_err(failed)?;
        // Skips empty slices, so that a write of nothing is not taken for a full disk.
        IoSlice::advance_slices(&mut slices, 0);
        while !slices.is_empty() {
            let most = slices.len().min(SLICES_MAX);
            match self.file.write_vectored(&slices[..most]) {
                Ok(0) => return Err(failed(ErrorKind::WriteZero.into())),
                Ok(written) => IoSlice::advance_slices(&mut slices, written),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(failed(error)),
            }
        }
        Ok(())
    }

    fn write_at(&self, bytes: &[u8], address: u64) -> Result<()> {
        self.file.write_all_at(bytes, address).map_err(|source| io("write", &self.path, source))
    }
}

/// The last block of the root with more messages, and the blocks that it takes to hold them.
struct Chain {
    first: Block,
    new: Vec<Block>,
    start: u64,
}

impl Chain {
    /// The chain after messages were added to `last`; new blocks begin at `end` or behind it.
    fn after(last: &Block, messages: &[Vec<u8>], end: u64) -> Self {
        let start = end.next_multiple_of(BLOCK as u64);
        let mut chain = Self { first: last.clone(), new: Vec::new(), start };
        for message in messages {
            if !chain.last().has_room_for(message) {
                chain.new.push(Block::new(start + (chain.new.len() * BLOCK) as u64));
            }
            chain.last().push(message);
        }
        if chain.new.is_empty() {
            chain.start = end;
        }
        chain
    }

    fn last(&mut self) -> &mut Block {
        self.new.last_mut().unwrap_or(&mut self.first)
    }

    fn into_last(mut self) -> Block {
        self.new.pop().unwrap_or(self.first)
    }

    fn end(&self) -> u64 {
        self.start + (self.new.len() * BLOCK) as u64
    }

    fn encode_first(&self) -> Vec<u8> {
        self.first.encode(self.new.first().map(Block::address))
    }

    fn encode_new(&self) -> Vec<u8> {
        let next = self.new.iter().skip(1).map(|block| Some(block.address())).chain([None]);
        self.new.iter().zip(next).flat_map(|(block, next)| block.encode(next)).collect()
    }
}

fn total_len(slices: &[&[u8]]) -> u64 {
    slices.iter().map(|slice| slice.len() as u64).sum()
}

fn io(action: &'static str, path: &Path, source: std::io::Error) -> Error {
    Error::Io { action, path: path.to_owned(), source }
}
