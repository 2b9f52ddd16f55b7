//! A digest of a whole Parquet file, within the file.
//!
//! Check sums of pages leave out what describes them, and the writing library has none. So one of the
//! key-value pairs of the file is the CRC-32C of all its bytes, computed with zeros in its own place.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;

use crc_fast::{CrcAlgorithm, Digest};
use parquet::file::metadata::KeyValue;

/// Key of the digest: eight hexadecimal digits.
pub const DIGEST_KEY: &str = "gannet.file_crc32c";

/// The value until the file is whole, and what counts in its place.
const ZEROS: &[u8; 8] = b"00000000";
/// What stands between key and value: in Thrift's compact protocol, the next field, a text of 8 bytes.
const BETWEEN: [u8; 2] = [0x18, 8];
/// Last bytes of a file: the length of the footer, and the magic.
const TAIL: usize = 8;
const MAGIC: &[u8; 4] = b"PAR1";
/// Longest footer that is looked through, in bytes.
const FOOTER_BYTES_MAX: u64 = 256 << 20;
/// Bytes read at a time.
const PIECE: usize = 1 << 20;

/// The key-value pair that a file needs for [`seal`].
pub fn entry() -> KeyValue {
    KeyValue::new(DIGEST_KEY.to_owned(), String::from_utf8_lossy(ZEROS).into_owned())
}

/// Writes the digest into a whole file that has the pair [`entry`], open for reading and writing.
///
/// # Errors
/// `InvalidData` when the file has no such pair; else what the system says.
pub fn seal(file: &File) -> io::Result<()> {
    let place = find(file)?.ok_or_else(|| invalid("it has no place for a digest"))?;
    file.write_all_at(&hex(crc_of(file, place)?), place)
}

/// Whether the bytes of a file are those of its digest; nothing when it has none.
///
/// # Errors
/// `InvalidData` when it does not end as a Parquet file; else what the system says.
pub fn check(file: &File) -> io::Result<Option<bool>> {
    let Some(place) = find(file)? else { return Ok(None) };
    let mut stored = [0; 8];
    file.read_exact_at(&mut stored, place)?;
    Ok(Some(stored == hex(crc_of(file, place)?)))
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what)
}

fn hex(crc: u32) -> [u8; 8] {
    let mut digits = *ZEROS;
    digits.copy_from_slice(format!("{crc:08x}").as_bytes());
    digits
}

/// Where the value of the digest stands.
fn find(file: &File) -> io::Result<Option<u64>> {
    let is_short = || invalid("it does not end as a Parquet file");
    let len = file.metadata()?.len();
    let footer_end = len.checked_sub(TAIL as u64).ok_or_else(is_short)?;
    let mut tail = [0; TAIL];
    file.read_exact_at(&mut tail, footer_end)?;
    let (footer_len, magic) = tail.split_at(4);
    let footer_len = u64::from(u32::from_le_bytes(footer_len.try_into().unwrap_or_default()));
    if magic != MAGIC || footer_len > footer_end.min(FOOTER_BYTES_MAX) {
        return Err(is_short());
    }
    let start = footer_end - footer_len;
    let mut footer = vec![0; footer_len as usize];
    file.read_exact_at(&mut footer, start)?;
    let before = [DIGEST_KEY.as_bytes(), &BETWEEN].concat();
    let found = footer.windows(before.len() + ZEROS.len()).rposition(|at| at.starts_with(&before));
    Ok(found.map(|at| start + (at + before.len()) as u64))
}

/// CRC-32C of the file with zeros at `place`.
fn crc_of(file: &File, place: u64) -> io::Result<u32> {
    let mut crc = Digest::new(CrcAlgorithm::Crc32Iscsi);
    update(&mut crc, file, 0, place)?;
    crc.update(ZEROS);
    update(&mut crc, file, place + ZEROS.len() as u64, file.metadata()?.len())?;
    Ok(crc.finalize() as u32)
}

fn update(crc: &mut Digest, file: &File, mut at: u64, end: u64) -> io::Result<()> {
    let mut piece = vec![0; PIECE];
    while at < end {
        let piece = &mut piece[..(end - at).min(PIECE as u64) as usize];
        file.read_exact_at(piece, at)?;
        crc.update(piece);
        at += piece.len() as u64;
    }
    Ok(())
}
