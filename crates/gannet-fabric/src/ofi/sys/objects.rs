//! Opening, joining and closing the objects of the library.

use std::ptr;

use super::abi::{self, function};
use super::library::{CallError, Library};

/// Opens an object by an entry of a table of functions.
///
/// # Safety
/// `parent` and `attr` are what the entry takes.
pub(super) unsafe fn opened<P, A, R>(
    library: &Library,
    what: &'static str,
    open: abi::Open<P, A, R>,
    parent: *mut P,
    attr: *mut A,
) -> Result<*mut R, CallError> {
    let Some(open) = open else { return Err(library.error(what, libc::ENOSYS as isize)) };
    let mut object = ptr::null_mut();
    // SAFETY: as the caller says; the result is filled if the call succeeds.
    match unsafe { open(parent, attr, &mut object, ptr::null_mut()) } {
        0 => Ok(object),
        code => Err(library.error(what, code as isize)),
    }
}

/// Objects to be closed, the last one first.
pub(super) struct Objects(pub Vec<*mut abi::Fid>);

impl Drop for Objects {
    fn drop(&mut self) {
        for &object in self.0.iter().rev() {
            // SAFETY: it was opened, and what was opened by it is closed.
            let _ = unsafe { close(object) };
        }
    }
}

/// Closes an object, if it is one; gives whether the library could.
///
/// # Safety
/// The object is open, or null, and used no more.
pub(super) unsafe fn close(object: *mut abi::Fid) -> bool {
    // SAFETY: as the caller says.
    unsafe {
        object.is_null()
            || function!((*object).ops, abi::Ops, close).is_some_and(|close| close(object) == 0)
    }
}

/// # Safety
/// Both are open, and go together.
pub(super) unsafe fn bind(
    library: &Library,
    object: *mut abi::Fid,
    to: *mut abi::Fid,
    flags: u64,
) -> Result<(), CallError> {
    // SAFETY: as the caller says.
    let code = unsafe {
        function!((*object).ops, abi::Ops, bind)
            .map_or(-libc::ENOSYS, |bind| bind(object, to, flags))
    };
    if code == 0 {
        Ok(())
    } else {
        Err(library.error("joining parts of an endpoint", code as isize))
    }
}

/// # Safety
/// The object is open.
pub(super) unsafe fn enable(library: &Library, object: *mut abi::Fid) -> Result<(), CallError> {
    // SAFETY: as the caller says.
    let code = unsafe {
        function!((*object).ops, abi::Ops, control)
            .map_or(-libc::ENOSYS, |control| control(object, abi::ENABLE, ptr::null_mut()))
    };
    if code == 0 { Ok(()) } else { Err(library.error("enabling an endpoint", code as isize)) }
}
