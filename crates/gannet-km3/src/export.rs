//! Files for other people's tools: the objects of a log, one behind the other, as the experiment's programs
//! exchange them.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use gannet_log::files::{self, Existing, NewFile};
use gannet_log::name::PART;
use gannet_log::{Kind, Reader};

/// Writes what is in the finished log `log` to a file beside it that ends in `.dat`, in the place of one that
/// this user made. No file is made where there is nothing.
///
/// # Errors
/// What cannot be read or written; nothing is left half written.
pub fn export(log: &Path) -> Result<Vec<PathBuf>, String> {
    let unread = |error: gannet_log::Error| format!("{}: {error}", log.display());
    let verified = gannet_log::verify(log).map_err(unread)?;
    if !verified.is_complete() {
        return Err(format!("{}: the log is not whole", log.display()));
    }
    let named = |error: files::Error| error.to_string();
    let new = NewFile::begin(&log.with_extension("dat"), PART, Existing::Replace).map_err(named)?;
    let unwritten = |error: io::Error| format!("cannot write {}: {error}", new.path().display());
    let mut reader = Reader::open(log).map_err(unread)?;
    let mut out = BufWriter::new(new.file());
    let mut objects = 0;
    while let Some(chunk) = reader.next_chunk().map_err(unread)? {
        if chunk.header.label.kind == Kind::DAQ_OBJECTS {
            objects += u64::from(chunk.header.label.items);
            out.write_all(chunk.payload).map_err(unwritten)?;
        }
    }
    out.flush().map_err(unwritten)?;
    drop(out);
    if objects == 0 {
        return Ok(Vec::new());
    }
    Ok(vec![new.publish().map_err(named)?])
}
