//! A digest of the whole file, behind its end.
//!
//! HDF5 protects headers by checksums, but neither data nor texts. So a closed file has one block more
//! than HDF5 knows of; HDF5 libraries read up to the end that the superblock tells and do not mind it.
//!
//! ```text
//!   0  "GnDigest"
//!   8  bytes of the file before this block
//!  16  CRC-32C of them
//!  20  CRC-32C of bytes 0..20
//! ```

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crc_fast::{CrcAlgorithm, Digest};

use crate::error::{Error, Result};

/// Bytes of the block.
const LEN: usize = 24;
const MAGIC: [u8; 8] = *b"GnDigest";
/// Bytes read at a time.
const PIECE: usize = 1 << 20;

/// The block for the first `len` bytes of `file`.
pub fn encode(file: &File, len: u64) -> io::Result<[u8; LEN]> {
    let mut block = [0; LEN];
    block[..8].copy_from_slice(&MAGIC);
    block[8..16].copy_from_slice(&len.to_le_bytes());
    block[16..20].copy_from_slice(&crc_of(file, len)?.to_le_bytes());
    let own = crc_fast::crc32_iscsi(&block[..20]);
    block[20..].copy_from_slice(&own.to_le_bytes());
    Ok(block)
}

/// Compares a file with the digest that [`Writer::close`](crate::Writer::close) put behind its end;
/// false when it has none: another program wrote it, or it was not closed.
///
/// # Errors
/// When the file cannot be read, differs from its digest, or has something else behind its end.
pub fn check_digest(path: &Path) -> Result<bool> {
    let io = |source| Error::Io { action: "read", path: path.to_owned(), source };
    let wrong = |reason: &str| Error::Format { path: path.to_owned(), reason: reason.to_owned() };
    let file = File::open(path).map_err(io)?;
    let len = file.metadata().map_err(io)?.len();
    if let Some(before) = len.checked_sub(LEN as u64) {
        let mut block = [0; LEN];
        file.read_exact_at(&mut block, before).map_err(io)?;
        if block[..8] == MAGIC && crc_fast::crc32_iscsi(&block[..20]).to_le_bytes() == block[20..] {
            return match encode(&file, before).map_err(io)? == block {
                true => Ok(true),
                false => Err(wrong(
                    "its bytes differ from its digest: it was damaged, or changed after it was \
                     written",
                )),
            };
        }
    }
    match end_of_file(&file).map_err(io)? {
        Some(end) if len > end => {
            Err(wrong("what is behind its end is no digest: it was damaged, or is not closed"))
        }
        _ => Ok(false),
    }
}

/// Where the superblock, of a version that we write, says that the file ends.
fn end_of_file(file: &File) -> io::Result<Option<u64>> {
    let mut start = [0; 36];
    match file.read_exact_at(&mut start, 0) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    }
    let mut end = [0; 8];
    end.copy_from_slice(&start[28..]);
    let is_known = start[..8] == *b"\x89HDF\r\n\x1a\n" && matches!(start[8..11], [2 | 3, 8, 8]);
    Ok(is_known.then(|| u64::from_le_bytes(end)))
}

/// CRC-32C of the first `len` bytes.
fn crc_of(file: &File, len: u64) -> io::Result<u32> {
    let mut piece = vec![0; PIECE.min(len as usize)];
    let (mut crc, mut at) = (Digest::new(CrcAlgorithm::Crc32Iscsi), 0);
    while at < len {
        let piece = &mut piece[..(len - at).min(PIECE as u64) as usize];
        file.read_exact_at(piece, at)?;
        crc.update(piece);
        at += piece.len() as u64;
    }
    Ok(crc.finalize() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Group, Value, Writer};

    #[test]
    fn every_flipped_bit_of_a_file_is_found() -> Result<()> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.h5");
        let mut writer = Writer::create(&path, &[("run", Value::U32(7))])?;
        let parts: &[&[u8]] = &[b"data"];
        let mut group = Group::new();
        group.attribute("name", Value::from("gannet"));
        group.data_set("data", parts);
        writer.append("group", &group)?;
        assert!(!check_digest(&path)?, "not before it is closed");
        writer.close(&[])?;
        assert!(check_digest(&path)?);
        let file = File::options().read(true).write(true).open(&path).unwrap();
        let len = file.metadata().unwrap().len();
        for at in (0..len).filter(|at| at.is_multiple_of(5) || *at < 48 || *at > len - 30) {
            let mut byte = [0];
            file.read_exact_at(&mut byte, at).unwrap();
            for bit in 0..8 {
                file.write_all_at(&[byte[0] ^ 1 << bit], at).unwrap();
                assert!(check_digest(&path).is_err(), "bit {bit} of byte {at}");
            }
            file.write_all_at(&byte, at).unwrap();
        }
        assert!(check_digest(&path)?);
        file.set_len(len - 1).unwrap();
        assert!(check_digest(&path).is_err());
        file.set_len(len - LEN as u64).unwrap();
        assert!(!check_digest(&path)?, "as if another program had written it");
        Ok(())
    }
}
