//! HDF5 files that grow record by record, and files of others read back.
//!
//! [`Writer`] appends whole groups (sub-groups, attributes, data sets of bytes) to the root of a
//! new file. The cost of an append depends on the group alone, the bytes of a data set go from
//! the caller's slices to the kernel without a copy, and after each append the file on disk is a
//! complete HDF5 file: a process that dies leaves one that every HDF5 library opens. A closed file has an
//! index, by which the last group is found as soon as the first, and a digest of all its bytes behind its
//! end, which [`check_digest`] compares.
//!
//! [`Reader`] reads groups, attributes and byte data sets of files from any HDF5 library, packed ones
//! too. It wraps the `hdf5-pure` crate and adds the limits that untrusted files need.
//!
//! This is not a general HDF5 library: nothing is written packed or in chunks, there are no numeric
//! arrays and no editing.
//! Why writing is our own and reading is not is told in `docs/decisions/0003-hdf5.md`.
//!
//! ```
//! use gannet_hdf5::{Group, Reader, Value, Writer};
//!
//! let folder = tempfile::tempdir()?;
//! let path = folder.path().join("birds.h5");
//! let mut writer = Writer::create(&path, &[("run", Value::U32(7))])?;
//! let mut group = Group::new();
//! group.attribute("bird", Value::from("gannet"));
//! group.data_set("sightings", &[&[1, 2, 3], &[4]]);
//! writer.append("Day1", &group)?;
//! writer.close(&[("closed", Value::from("yes"))])?;
//!
//! let reader = Reader::open(&path)?;
//! assert_eq!(reader.root().attributes()?["run"], Value::U32(7));
//! assert_eq!(reader.root().group("Day1")?.data_set("sightings")?.bytes()?, [1, 2, 3, 4]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod chain;
mod checksum;
mod digest;
mod error;
mod heap;
mod index;
mod message;
mod object;
mod reader;
mod superblock;
mod tree;
mod value;
mod writer;

pub use digest::check_digest;
pub use error::{Error, Result};
pub use reader::{DataSet, GroupReader, Reader};
pub use tree::Group;
pub use value::Value;
pub use writer::Writer;

/// The address that stands for "nowhere" in the format.
const UNDEFINED: u64 = u64::MAX;
