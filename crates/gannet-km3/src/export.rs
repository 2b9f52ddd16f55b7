//! Files for other people's tools: the objects of a log, one behind the other, as the experiment's programs
//! exchange them.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use gannet_log::{Kind, Reader};

/// Writes what is in the finished log `log` to a file beside it that ends in `.dat`. No file is made
/// where there is nothing.
///
/// # Errors
/// What cannot be read or written.
pub fn export(log: &Path) -> Result<Vec<PathBuf>, String> {
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", log.display());
    let verified = gannet_log::verify(log).map_err(|error| failed(&error))?;
    if !verified.is_complete() {
        return Err(failed(&"the log is not whole"));
    }
    let mut reader = Reader::open(log).map_err(|error| failed(&error))?;
    let part = log.with_extension("dat.part");
    let mut out = BufWriter::new(File::create(&part).map_err(|error| failed(&error))?);
    let mut objects = 0;
    while let Some(chunk) = reader.next_chunk().map_err(|error| failed(&error))? {
        if chunk.header.label.kind == Kind::DAQ_OBJECTS {
            objects += u64::from(chunk.header.label.items);
            out.write_all(chunk.payload).map_err(|error| failed(&error))?;
        }
    }
    let file = out.into_inner().map_err(|error| failed(&error))?;
    if objects == 0 {
        fs::remove_file(&part).map_err(|error| failed(&error))?;
        return Ok(Vec::new());
    }
    file.sync_all().map_err(|error| failed(&error))?;
    let whole = log.with_extension("dat");
    fs::rename(&part, &whole).map_err(|error| failed(&error))?;
    Ok(vec![whole])
}
