//! Pages behind vectors.
#![allow(unsafe_code)]

/// Bytes from which on huge pages are asked for: below, they would hardly be filled.
#[cfg(target_os = "linux")]
const HUGE_LEAST: usize = 4 << 20;

/// An empty vector with room for `len` values, on huge pages where the system gives them: large
/// tables that are read here and there then need far fewer translations.
pub fn vec_on_huge_pages<T>(len: usize) -> Vec<T> {
    let mut vector = Vec::with_capacity(len);
    #[cfg(target_os = "linux")]
    if vector.capacity() * size_of::<T>() >= HUGE_LEAST {
        advise_spare(&mut vector, libc::MADV_HUGEPAGE);
    }
    vector
}

/// Gives the whole pages behind the last value back to the system. The vector keeps its capacity: they come again, one by
/// one, when values are written there.
///
/// Systems other than Linux keep them.
pub fn return_spare<T>(vector: &mut Vec<T>) {
    #[cfg(target_os = "linux")]
    advise_spare(vector, libc::MADV_DONTNEED);
    #[cfg(not(target_os = "linux"))]
    let _ = vector;
}

/// Gives the kernel advice about the whole pages behind the last value; Miri, which has no kernel, takes none.
#[cfg(target_os = "linux")]
fn advise_spare<T>(vector: &mut Vec<T>, advice: libc::c_int) {
    // SAFETY: asks for a constant of the system and touches no memory.
    let Ok(page @ 1..) = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }) else {
        return;
    };
    let spare = vector.spare_capacity_mut();
    let start = spare.as_mut_ptr().addr().next_multiple_of(page);
    let end = (spare.as_mut_ptr().addr() + size_of_val(spare)) / page * page;
    if start >= end || cfg!(miri) {
        return;
    }
    let first = spare.as_mut_ptr().with_addr(start).cast();
    // SAFETY: the whole pages between start and end, in pages of this system, to which the kernel rounds, belong to the vector
    // alone, and hold no value of it: whatever is read there later was written first. A refusal leaves the pages as they are.
    unsafe { libc::madvise(first, end - start, advice) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_vector_is_empty_and_has_room() {
        for len in [0, 3, 3 << 20] {
            let mut vector: Vec<u64> = vec_on_huge_pages(len);
            assert!(vector.is_empty() && vector.capacity() >= len);
            vector.extend(0..len as u64);
            assert_eq!(vector.last().copied(), (len as u64).checked_sub(1));
        }
    }

    #[test]
    fn values_stay_where_spare_pages_go() {
        let (kept, len) = (5_000, 1 << 20);
        let mut vector = vec![7u8; len];
        vector.truncate(kept);
        return_spare(&mut vector);
        assert!(vector.iter().all(|&byte| byte == 7) && vector.capacity() >= len);
        if cfg!(target_os = "linux") && !cfg!(miri) {
            let spare = vector.spare_capacity_mut();
            // SAFETY: all of it was written before; a page that was given back reads as zeros.
            let bytes = unsafe { spare.assume_init_ref() };
            let (first, last) = (bytes.len() / 4, bytes.len() * 3 / 4);
            assert!(bytes[first..last].iter().all(|&byte| byte == 0));
        }
        vector.resize(len, 9);
        assert_eq!((vector[kept - 1], vector[kept], vector[len - 1]), (7, 9, 9));
        return_spare(&mut Vec::<u64>::new());
    }
}
