//! Vectors on huge pages.
#![allow(unsafe_code)]

/// Bytes from which on huge pages are asked for: below, they would hardly be filled.
#[cfg(target_os = "linux")]
const LEAST: usize = 4 << 20;

/// An empty vector with room for `len` values, on huge pages where the system gives them: large
/// tables that are read here and there then need far fewer translations.
pub fn vec_on_huge_pages<T>(len: usize) -> Vec<T> {
    let vector = Vec::with_capacity(len);
    #[cfg(target_os = "linux")]
    ask_for_huge_pages(&vector);
    vector
}

#[cfg(target_os = "linux")]
fn ask_for_huge_pages<T>(vector: &Vec<T>) {
    const PAGE: usize = 4096;
    let bytes = vector.capacity() * size_of::<T>();
    if bytes < LEAST {
        return;
    }
    let start = vector.as_ptr().addr().next_multiple_of(PAGE);
    let end = (vector.as_ptr().addr() + bytes) / PAGE * PAGE;
    let first = vector.as_ptr().with_addr(start).cast_mut().cast();
    // SAFETY: the whole pages between start and end belong to the vector. The advice changes
    // neither their contents nor who may use them; a refusal leaves ordinary pages.
    unsafe { libc::madvise(first, end - start, libc::MADV_HUGEPAGE) };
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
}
