//! DUNE raw files: trigger records and time slices in HDF5, as DUNE's own tools expect them.
//!
//! ```text
//! /                                     attributes of the file: FileInfo, layout, sizes, times
//! /TriggerRecord000007.0000             attributes of the record: which source lies where
//! /TriggerRecord000007.0000/RawData
//!     TR_Builder_0x00000000_TriggerRecordHeader
//!     Detector_Readout_0x00000064_WIBEth
//!     Trigger_0x00000000_Trigger_Primitive
//! ```
//!
//! Every data set is a plain row of bytes: a record header, or a fragment with its header. A file
//! holds records of one [`RecordKind`]; time slices have no part number in their name.
//!
//! [`RawFileWriter`] appends records; [`RawFileReader`] reads files of any writer; [`verify`]
//! reads all of a file back and compares what is said twice in it.
//!
//! Source: DUNE-DAQ/hdf5libs `HDF5RawDataFile.cpp`, `HDF5FileLayout.cpp` and
//! `HDF5SourceIDHandler.cpp`, file layout version 5.

mod error;
mod info;
mod layout;
mod maps;
mod reader;
mod verify;
mod writer;

pub use error::{Error, Result};
pub use info::{Catalogue, FileInfo, GeoIdMap, TakenAt};
pub use layout::{FileLayout, LAYOUT_VERSION, PathParams, RecordKind, RecordNumber};
pub use maps::RecordMaps;
pub use reader::{Entry, RawFileReader, RecordReader, Role};
pub use verify::{Summary, verify};
pub use writer::{FragmentParts, IN_PROGRESS, RawFileWriter};
