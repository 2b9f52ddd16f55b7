//! The checksum of HDF5 metadata.

/// Bob Jenkins' `lookup3` hash of the bytes, with the initial value 0.
///
/// Source: HDF5 File Format Specification 3.0, "Disk Format"; `lookup3.c` of May 2006, which is
/// in the public domain.
pub fn lookup3(bytes: &[u8]) -> u32 {
    let [mut a, mut b, mut c] = [0xdead_beef_u32.wrapping_add(bytes.len() as u32); 3];
    let blocks = bytes.len().saturating_sub(1) / 12;
    let (whole, last) = bytes.split_at(blocks * 12);
    for block in whole.chunks_exact(12) {
        add(block, [&mut a, &mut b, &mut c]);
        mix(&mut a, &mut b, &mut c);
    }
    if last.is_empty() {
        return c;
    }
    let mut padded = [0; 12];
    padded[..last.len()].copy_from_slice(last);
    add(&padded, [&mut a, &mut b, &mut c]);
    scramble(a, b, c)
}

/// Adds the three words of a block to the state.
fn add(block: &[u8], state: [&mut u32; 3]) {
    for (word, sum) in block.chunks_exact(4).zip(state) {
        *sum = sum.wrapping_add(u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
    }
}

/// Spreads a block over the state, reversibly.
fn mix(a: &mut u32, b: &mut u32, c: &mut u32) {
    for turns in [[4, 6, 8], [16, 19, 4]] {
        *a = a.wrapping_sub(*c) ^ c.rotate_left(turns[0]);
        *c = c.wrapping_add(*b);
        *b = b.wrapping_sub(*a) ^ a.rotate_left(turns[1]);
        *a = a.wrapping_add(*c);
        *c = c.wrapping_sub(*b) ^ b.rotate_left(turns[2]);
        *b = b.wrapping_add(*a);
    }
}

/// Makes one word of the state after the last block.
fn scramble(mut a: u32, mut b: u32, mut c: u32) -> u32 {
    c = (c ^ b).wrapping_sub(b.rotate_left(14));
    a = (a ^ c).wrapping_sub(c.rotate_left(11));
    b = (b ^ a).wrapping_sub(a.rotate_left(25));
    c = (c ^ b).wrapping_sub(b.rotate_left(16));
    a = (a ^ c).wrapping_sub(c.rotate_left(4));
    b = (b ^ a).wrapping_sub(a.rotate_left(14));
    (c ^ b).wrapping_sub(b.rotate_left(24))
}

#[cfg(test)]
mod tests {
    use super::lookup3;

    #[test]
    fn published_vectors() {
        assert_eq!(lookup3(b""), 0xdead_beef);
        assert_eq!(lookup3(b"Four score and seven years ago"), 0x1777_0551);
    }

    #[test]
    fn superblock_written_by_libhdf5() {
        let bytes =
            b"\x89HDF\r\n\x1a\n\x02\x08\x08\0\0\0\0\0\0\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff\
                      \x05\x18\0\0\0\0\0\0\x30\0\0\0\0\0\0\0";
        assert_eq!(lookup3(bytes), 0xf46e_47b6);
    }
}
