//! Memory of the system, whose lack is told in words.

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{Cursor, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::exit::Outcome;

/// The allocator of the system for the whole program. Where that has no memory left, the program says so and ends with the code of
/// what is lacking; by itself it would be aborted, with a backtrace.
#[derive(Clone, Copy, Debug)]
pub struct Memory;

// SAFETY: all of it is that of the system, but for places that are none, which are never given.
unsafe impl GlobalAlloc for Memory {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller has promised.
        there(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller has promised.
        there(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: as the caller has promised.
        there(unsafe { System.realloc(place, layout, bytes) }, bytes)
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: as the caller has promised.
        unsafe { System.dealloc(place, layout) }
    }
}

#[inline]
fn there(place: *mut u8, bytes: usize) -> *mut u8 {
    if place.is_null() {
        end(bytes);
    }
    place
}

/// Says that there are no `bytes` more of memory, and ends the program; neither takes any.
#[cold]
fn end(bytes: usize) -> ! {
    static IS_TOLD: AtomicBool = AtomicBool::new(false);
    while IS_TOLD.swap(true, Ordering::AcqRel) {
        // Another thread tells it.
        thread::sleep(Duration::from_secs(1));
    }
    let mut text = Cursor::new([0; 256]);
    let _fits = writeln!(
        text,
        "error: the system has no {bytes} bytes of memory more for this program; free memory, ask for less, or raise the limit \
         of its address space (ulimit -v)"
    );
    let length = text.position() as usize;
    // SAFETY: so many bytes of the text are there, and `_exit` takes a number and does not return.
    unsafe {
        libc::write(libc::STDERR_FILENO, text.get_ref().as_ptr().cast(), length);
        libc::_exit(Outcome::ResourceMissing.code().into())
    }
}
