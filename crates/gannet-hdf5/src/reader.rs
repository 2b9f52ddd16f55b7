//! Reading files of any HDF5 library.

use std::collections::BTreeMap;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hdf5_pure::{AttrValue, File, FormatError, ReadSeekSource, Source};

use crate::error::{Error, Result};
use crate::index::Index;
use crate::superblock;
use crate::value::Value;

/// Most bytes of a packed data set, unpacked.
const UNPACKED_MAX: u64 = 1 << 30;
/// Most bytes that one stored byte may become: more than deflate, the densest of the filters, can pack.
const UNPACKED_FACTOR_MAX: u64 = 1032;

/// A file opened for reading; contents are read when they are asked for.
pub struct Reader {
    root: GroupReader,
}

/// What all parts of a file know about it.
struct Origin {
    path: PathBuf,
    len: u64,
    source: Box<dyn Source + Send + Sync>,
}

impl Reader {
    /// Opens a file.
    ///
    /// # Errors
    /// When the file cannot be opened or does not begin as an HDF5 file does.
    pub fn open(path: &Path) -> Result<Self> {
        let io = |source| Error::Io { action: "open", path: path.to_owned(), source };
        Self::new(std::fs::File::open(path).map_err(io)?, path)
    }

    /// Reads from `source`, which errors call `path`.
    ///
    /// # Errors
    /// When the source cannot be read or does not begin as an HDF5 file does.
    pub fn new<S>(mut source: S, path: &Path) -> Result<Self>
    where
        S: Read + Seek + Send + 'static,
    {
        let io = |source| Error::Io { action: "read", path: path.to_owned(), source };
        let len = source.seek(SeekFrom::End(0)).map_err(io)?;
        let format =
            |error: FormatError| Error::Format { path: path.to_owned(), reason: error.to_string() };
        let source = Box::new(ReadSeekSource::new(source).map_err(format)?);
        let origin = Arc::new(Origin { path: path.to_owned(), len, source });
        let view = View { origin: Arc::clone(&origin), superblock: None };
        let file = File::from_source(view).map_err(|e| origin.format(e))?;
        let index = origin.index();
        Ok(Self { root: GroupReader { place: Place::Opened(file.root()), index, origin } })
    }

    /// The group that holds everything.
    pub fn root(&self) -> &GroupReader {
        &self.root
    }
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").field("path", &self.root.origin.path).finish_non_exhaustive()
    }
}

/// A group of a file.
pub struct GroupReader {
    place: Place,
    index: Option<Index>,
    origin: Arc<Origin>,
}

/// Where a group is.
enum Place {
    Opened(hdf5_pure::Group),
    /// Address of the object header, which is read when something is asked of the group.
    At(u64),
}

impl GroupReader {
    /// Attributes by name: scalar integers and texts. Attributes of other types are left out.
    ///
    /// # Errors
    /// When the attributes are damaged.
    pub fn attributes(&self) -> Result<BTreeMap<String, Value<'static>>> {
        let attributes = self.open()?.attrs().map_err(|e| self.origin.format(e))?;
        let known = |(name, value)| Some((name, known_value(&value)?));
        Ok(attributes.into_iter().filter_map(known).collect())
    }

    /// Names and contents of the sub-groups. Those of the root of a closed file of
    /// [`Writer`](crate::Writer) are not read before something is asked of them.
    ///
    /// # Errors
    /// When the group is damaged.
    pub fn groups(&self) -> Result<Vec<(String, GroupReader)>> {
        if let Some(index) = self.index {
            let members = index.members(&*self.origin.source);
            let members = members.map_err(|e| self.origin.format(e.into()))?;
            return Ok(members.into_iter().map(|(name, at)| (name, self.at(at))).collect());
        }
        let groups = self.open()?.iter_groups().map_err(|e| self.origin.format(e))?;
        Ok(groups.map(|(name, group)| (name, self.sub_group(group))).collect())
    }

    /// Names and contents of the data sets.
    ///
    /// # Errors
    /// When the group is damaged.
    pub fn data_sets(&self) -> Result<Vec<(String, DataSet)>> {
        let data_sets = self.open()?.iter_datasets().map_err(|e| self.origin.format(e))?;
        Ok(data_sets.map(|(name, data)| (name, self.data(data))).collect())
    }

    /// The sub-group of a name. In the root of a closed file of [`Writer`](crate::Writer) the last of
    /// many is found as soon as the first.
    ///
    /// # Errors
    /// When there is none, or it is damaged.
    pub fn group(&self, name: &str) -> Result<GroupReader> {
        if let Some(index) = self.index {
            let found = index.find(&*self.origin.source, name);
            let found = found.and_then(|at| at.ok_or(FormatError::PathNotFound(name.to_owned())));
            return Ok(self.at(found.map_err(|e| self.origin.format(e.into()))?));
        }
        let group = self.open()?.group(name).map_err(|e| self.origin.format(e))?;
        Ok(self.sub_group(group))
    }

    /// The data set of a name.
    ///
    /// # Errors
    /// When there is none, or it is damaged.
    pub fn data_set(&self, name: &str) -> Result<DataSet> {
        let data_set = self.open()?.dataset(name).map_err(|e| self.origin.format(e))?;
        Ok(self.data(data_set))
    }

    /// The group, read now if it was not yet.
    ///
    /// The library goes to a group by the names of all members of those above it; so it is given the file
    /// with a superblock that calls this group the root.
    fn open(&self) -> Result<hdf5_pure::Group> {
        let at = match &self.place {
            Place::Opened(group) => return Ok(group.clone()),
            Place::At(at) => *at,
        };
        let superblock = Some(superblock::encode(self.origin.len, at));
        let view = View { origin: Arc::clone(&self.origin), superblock };
        Ok(File::from_source(view).map_err(|e| self.origin.format(e))?.root())
    }

    fn at(&self, address: u64) -> GroupReader {
        let origin = Arc::clone(&self.origin);
        GroupReader { place: Place::At(address), index: None, origin }
    }

    fn sub_group(&self, group: hdf5_pure::Group) -> GroupReader {
        let origin = Arc::clone(&self.origin);
        GroupReader { place: Place::Opened(group), index: None, origin }
    }

    fn data(&self, data_set: hdf5_pure::Dataset) -> DataSet {
        DataSet { data_set, origin: Arc::clone(&self.origin) }
    }
}

/// A data set of a file.
pub struct DataSet {
    data_set: hdf5_pure::Dataset,
    origin: Arc<Origin>,
}

impl DataSet {
    /// Number of elements in each dimension.
    ///
    /// # Errors
    /// When the header of the data set is damaged.
    pub fn shape(&self) -> Result<Vec<u64>> {
        self.data_set.shape().map_err(|e| self.unreadable(e))
    }

    /// Bytes of all elements, as the header of the data set tells; the largest number when that
    /// overflows.
    ///
    /// # Errors
    /// When the header of the data set is damaged.
    pub fn len_bytes(&self) -> Result<u64> {
        let element = self.data_set.element_size().map_err(|e| self.unreadable(e))?;
        let len = self.shape()?.into_iter().try_fold(element, u64::checked_mul);
        Ok(len.unwrap_or(u64::MAX))
    }

    /// The bytes of all elements, unpacked.
    ///
    /// # Errors
    /// When the data set is damaged, packed by an unknown filter, or claims to be larger than its file,
    /// or than what its file may unpack to: so the memory taken is never more than that.
    pub fn bytes(&self) -> Result<Vec<u8>> {
        self.check_len()?;
        self.data_set.read_raw().map_err(|e| self.unreadable(e))
    }

    /// The first `len` bytes of [`bytes`](Self::bytes), or all of fewer; of a large data set only what
    /// holds these is read.
    ///
    /// # Errors
    /// As [`bytes`](Self::bytes).
    pub fn head(&self, len: usize) -> Result<Vec<u8>> {
        self.check_len()?;
        let rows = self.shape()?.first().copied().unwrap_or(1);
        let row = self.len_bytes()?.checked_div(rows).unwrap_or(0).max(1);
        let rows = (len as u64).div_ceil(row);
        let mut bytes = self.data_set.read_raw_rows(0, rows).map_err(|e| self.unreadable(e))?;
        bytes.truncate(len);
        Ok(bytes)
    }

    /// Refuses what claims more bytes than the file can hold or unpack to.
    fn check_len(&self) -> Result<()> {
        let (len, is_packed) = (self.origin.len, !self.data_set.filters().is_empty());
        let max = match is_packed {
            false => len,
            true => len.saturating_mul(UNPACKED_FACTOR_MAX).min(UNPACKED_MAX).max(len),
        };
        self.at_most(max, self.len_bytes()?)?;
        let format = |e| self.unreadable(e);
        let Some(shape) = self.data_set.chunk_shape().map_err(format)? else { return Ok(()) };
        let chunks = self.data_set.chunks().map_err(format)?;
        let Some(stored) = chunks.iter().map(|chunk| chunk.storage_size).max() else {
            return Ok(());
        };
        self.at_most(len, stored)?;
        let element = self.data_set.element_size().map_err(format)?;
        let unpacked = shape.iter().try_fold(element, |len, rows| len.checked_mul(*rows));
        self.at_most(max, unpacked.unwrap_or(u64::MAX))?;
        // The library adds places within a chunk to where it begins.
        let fits =
            |at: &[u64]| at.iter().zip(&shape).all(|(at, rows)| at.checked_add(*rows).is_some());
        if chunks.iter().all(|chunk| fits(&chunk.offset)) {
            return Ok(());
        }
        let reason = "a chunk lies beyond what a data set can hold".to_owned();
        Err(Error::Format { path: self.origin.path.clone(), reason })
    }

    fn at_most(&self, max: u64, got: u64) -> Result<()> {
        let path = || self.origin.path.clone();
        if got > max { Err(Error::TooLarge { path: path(), max, got }) } else { Ok(()) }
    }

    fn unreadable(&self, error: hdf5_pure::Error) -> Error {
        let path = self.origin.path.clone();
        let number = match &error {
            hdf5_pure::Error::Format(FormatError::UnsupportedFilter(number)) => *number,
            hdf5_pure::Error::Format(error) if let Some(layout) = unknown_layout(error) => {
                return Error::Layout { path, layout };
            }
            _ => return self.origin.format(error),
        };
        let filters = self.data_set.filter_pipeline();
        let told = filters.into_iter().find(|filter| filter.id == number).and_then(|f| f.name);
        let name = told.unwrap_or_else(|| filter_name(number).to_owned());
        Error::Filter { path, number, name }
    }
}

/// The layout that the library does not read, if that is why it failed.
fn unknown_layout(error: &FormatError) -> Option<&'static str> {
    match error {
        FormatError::InvalidLayoutVersion(5) => Some("version 5, of HDF5 2.0"),
        // The bytes are there: it is the width of a number that the library does not take.
        FormatError::UnexpectedEof { expected, available } if expected <= available => {
            Some("a chunk of more than 65535 rows, as HDF5 1.10 tells it")
        }
        FormatError::UnsupportedVirtualLayout => Some("virtual"),
        FormatError::UnsupportedExternalStorage => Some("data in other files"),
        FormatError::ChunkedReadError(why) if why.contains("version 2 B-tree") => {
            Some("chunks that may grow in several dimensions")
        }
        _ => None,
    }
}

/// The usual name of a filter that the library does not have.
///
/// Source: HDF5 File Format Specification 3.0, section IV.A.2.l, and the list of registered filters of
/// the HDF Group.
fn filter_name(number: u16) -> &'static str {
    match number {
        4 => "szip",
        5 => "nbit",
        307 => "bzip2",
        32001 => "blosc",
        32004 => "lz4",
        32008 => "bitshuffle",
        32013 => "zfp",
        32015 => "zstd",
        32026 => "blosc2",
        _ => "unknown",
    }
}

impl Origin {
    /// The index of the root, if it is one that the writer makes.
    fn index(&self) -> Option<Index> {
        let mut start = [0; superblock::LEN];
        self.source.read_at(0, &mut start).ok()?;
        Index::of(&*self.source, superblock::root(&start)?)
    }

    fn format(&self, error: hdf5_pure::Error) -> Error {
        Error::Format { path: self.path.clone(), reason: error.to_string() }
    }
}

/// The bytes of a file, which may begin with another superblock.
struct View {
    origin: Arc<Origin>,
    superblock: Option<[u8; superblock::LEN]>,
}

impl Source for View {
    fn len(&self) -> u64 {
        self.origin.len
    }

    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> std::result::Result<(), FormatError> {
        self.origin.source.read_at(offset, bytes)?;
        if let Some(superblock) = &self.superblock {
            let rest = superblock.get(usize::try_from(offset).unwrap_or(usize::MAX)..);
            bytes.iter_mut().zip(rest.unwrap_or_default()).for_each(|(byte, own)| *byte = *own);
        }
        Ok(())
    }
}

fn known_value(value: &AttrValue) -> Option<Value<'static>> {
    match value {
        AttrValue::U32(number) => Some(Value::U32(*number)),
        AttrValue::U64(number) => Some(Value::U64(*number)),
        _ => None
            .or_else(|| value.as_i64().map(Value::I64))
            .or_else(|| value.as_str().map(|text| Value::from(text.to_owned()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Group, Writer, message, object};

    #[test]
    fn a_data_set_that_claims_more_than_the_file_has_is_refused() -> Result<()> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.h5");
        let mut writer = Writer::create(&path, &[])?;
        let at = writer.file_len();
        let parts: &[&[u8]] = &[b"data"];
        let mut group = Group::new();
        group.data_set("data", parts);
        writer.append("group", &group)?;
        writer.close(&[])?;

        let honest = object::data_set(at, 4);
        let (rows, layout) = (message::extent(1 << 40), message::layout(at, 4));
        let messages = [rows, message::byte_type(), message::fill_value(), layout];
        let forged = object::header(&messages.concat());
        let mut bytes = std::fs::read(&path).unwrap();
        let header = bytes.windows(honest.len()).position(|window| window == honest).unwrap();
        bytes[header..][..forged.len()].copy_from_slice(&forged);
        std::fs::write(&path, &bytes).unwrap();

        let data_set = Reader::open(&path)?.root().group("group")?.data_set("data")?;
        let error = data_set.bytes().unwrap_err();
        assert_eq!(data_set.len_bytes()?, 1 << 40);
        assert!(matches!(error, Error::TooLarge { got, .. } if got == 1 << 40), "{error}");
        Ok(())
    }

    /// Files of h5py 3.16 with HDF5 2.0: `maxshape=(None, None)` and one chunk of 70000 rows with
    /// `libver="v110"`, and gzip with `libver="latest"`.
    #[test]
    fn a_layout_that_is_not_known_is_not_called_damaged() -> Result<()> {
        let files: [(&[u8], &str); 3] = [
            (include_bytes!("../tests/data/chunks_by_b_tree_2.h5"), "several dimensions"),
            (include_bytes!("../tests/data/chunk_of_3_byte_size.h5"), "65535 rows"),
            (include_bytes!("../tests/data/layout_version_5.h5"), "version 5"),
        ];
        for (bytes, expected) in files {
            let reader = Reader::new(std::io::Cursor::new(bytes), Path::new("a.h5"))?;
            let error = reader.root().data_set("data")?.bytes().unwrap_err();
            let is_known =
                matches!(error, Error::Layout { layout, .. } if layout.contains(expected));
            assert!(is_known && error.to_string().contains("h5repack"), "{error}");
        }
        Ok(())
    }

    /// A file of the fuzzer, whose index of chunks tells of one of 4 GiB.
    #[test]
    fn a_chunk_that_claims_more_than_the_file_has_is_refused() -> Result<()> {
        let bytes = include_bytes!("../tests/data/large_chunk.h5");
        let reader = Reader::new(std::io::Cursor::new(bytes), Path::new("large_chunk.h5"))?;
        let data_sets = reader.root().data_sets()?;
        let mut refusals = data_sets.iter().filter_map(|(_, data_set)| data_set.bytes().err());
        let is_too_large = |error| matches!(error, Error::TooLarge { got, .. } if got > 1 << 31);
        assert!(refusals.any(is_too_large));
        Ok(())
    }

    /// A file of the fuzzer, one of whose chunks begins at the end of all numbers.
    #[test]
    fn a_chunk_beyond_all_numbers_is_refused() -> Result<()> {
        let bytes = include_bytes!("../tests/data/chunk_far_outside.h5");
        let reader = Reader::new(std::io::Cursor::new(bytes), Path::new("chunk_far_outside.h5"))?;
        let data_sets = reader.root().data_sets()?;
        let mut refusals = data_sets.iter().filter_map(|(_, data_set)| data_set.bytes().err());
        assert!(refusals.any(|error| error.to_string().contains("a chunk lies beyond")));
        Ok(())
    }
}
