//! Reading files of any HDF5 library.

use std::collections::BTreeMap;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hdf5_pure::{AttrValue, File, ReadSeekSource};

use crate::error::{Error, Result};
use crate::value::Value;

/// A file opened for reading; contents are read when they are asked for.
pub struct Reader {
    root: GroupReader,
}

/// What all parts of a file know about it.
#[derive(Debug)]
struct Origin {
    path: PathBuf,
    len: u64,
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
        let origin = Arc::new(Origin { path: path.to_owned(), len });
        let source = ReadSeekSource::new(source).map_err(|e| origin.format(e.into()))?;
        let file = File::from_source(source).map_err(|e| origin.format(e))?;
        Ok(Self { root: GroupReader { group: file.root(), origin } })
    }

    /// The group that holds everything.
    pub fn root(&self) -> &GroupReader {
        &self.root
    }
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").field("origin", &self.root.origin).finish_non_exhaustive()
    }
}

/// A group of a file.
pub struct GroupReader {
    group: hdf5_pure::Group,
    origin: Arc<Origin>,
}

impl GroupReader {
    /// Attributes by name: scalar integers and texts. Attributes of other types are left out.
    ///
    /// # Errors
    /// When the attributes are damaged.
    pub fn attributes(&self) -> Result<BTreeMap<String, Value<'static>>> {
        let attributes = self.group.attrs().map_err(|e| self.origin.format(e))?;
        let known = |(name, value)| Some((name, known_value(&value)?));
        Ok(attributes.into_iter().filter_map(known).collect())
    }

    /// Names and contents of the sub-groups.
    ///
    /// # Errors
    /// When the group is damaged.
    pub fn groups(&self) -> Result<Vec<(String, GroupReader)>> {
        let groups = self.group.iter_groups().map_err(|e| self.origin.format(e))?;
        Ok(groups.map(|(name, group)| (name, self.sub_group(group))).collect())
    }

    /// Names and contents of the data sets.
    ///
    /// # Errors
    /// When the group is damaged.
    pub fn data_sets(&self) -> Result<Vec<(String, DataSet)>> {
        let data_sets = self.group.iter_datasets().map_err(|e| self.origin.format(e))?;
        Ok(data_sets.map(|(name, data)| (name, self.data(data))).collect())
    }

    /// The sub-group of a name.
    ///
    /// # Errors
    /// When there is none, or it is damaged.
    pub fn group(&self, name: &str) -> Result<GroupReader> {
        let group = self.group.group(name).map_err(|e| self.origin.format(e))?;
        Ok(self.sub_group(group))
    }

    /// The data set of a name.
    ///
    /// # Errors
    /// When there is none, or it is damaged.
    pub fn data_set(&self, name: &str) -> Result<DataSet> {
        let data_set = self.group.dataset(name).map_err(|e| self.origin.format(e))?;
        Ok(self.data(data_set))
    }

    fn sub_group(&self, group: hdf5_pure::Group) -> GroupReader {
        GroupReader { group, origin: Arc::clone(&self.origin) }
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
        self.data_set.shape().map_err(|e| self.origin.format(e))
    }

    /// Bytes of all elements, as the header of the data set tells; the largest number when that
    /// overflows.
    ///
    /// # Errors
    /// When the header of the data set is damaged.
    pub fn len_bytes(&self) -> Result<u64> {
        let element = self.data_set.element_size().map_err(|e| self.origin.format(e))?;
        let len = self.shape()?.into_iter().try_fold(element, u64::checked_mul);
        Ok(len.unwrap_or(u64::MAX))
    }

    /// The stored bytes of all elements.
    ///
    /// # Errors
    /// When the data set is damaged or compressed, or claims to be larger than its file: so the
    /// memory taken is never more than the file has bytes.
    pub fn bytes(&self) -> Result<Vec<u8>> {
        let (got, max) = (self.len_bytes()?, self.origin.len);
        if got > max {
            return Err(Error::TooLarge { path: self.origin.path.clone(), max, got });
        }
        self.data_set.read_raw().map_err(|e| self.origin.format(e))
    }
}

impl Origin {
    fn format(&self, error: hdf5_pure::Error) -> Error {
        Error::Format { path: self.path.clone(), reason: error.to_string() }
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
}
