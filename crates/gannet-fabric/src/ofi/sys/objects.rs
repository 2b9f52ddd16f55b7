//! Opening, joining and closing the objects of the library.

use std::ffi::c_int;
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
    unsafe { try_close(object) == 0 }
}

/// Closes an object, if it is one, and gives what the library says.
///
/// # Safety
/// As for [`close`].
unsafe fn try_close(object: *mut abi::Fid) -> c_int {
    if object.is_null() {
        return 0;
    }
    // SAFETY: as the caller says.
    unsafe {
        function!((*object).ops, abi::Ops, close).map_or(-libc::ENOSYS, |close| close(object))
    }
}

/// Closes an endpoint and the registrations of what it moves; gives whether the library could.
///
/// The endpoint goes first: until then transfers may be under way, and memory may not be unregistered below
/// them. A provider that binds registrations to the endpoint may keep it open as long as there are any. It says
/// that it is busy, and the endpoint goes after them.
///
/// # Safety
/// All are open, or null, and used no more.
pub(super) unsafe fn close_endpoint(
    endpoint: *mut abi::Fid,
    registrations: impl Iterator<Item = *mut abi::Fid>,
) -> bool {
    // SAFETY: as the caller says.
    let code = unsafe { try_close(endpoint) };
    // SAFETY: as the caller says; each is closed once.
    let is_closed = registrations.fold(true, |all, one| all & unsafe { close(one) });
    // SAFETY: what is busy is still open.
    is_closed && (code == 0 || code == -libc::EBUSY && unsafe { close(endpoint) })
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

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    thread_local! {
        static CLOSED: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
        static BOUND: Cell<usize> = const { Cell::new(0) };
    }

    const ENDPOINT: usize = 1;

    /// Closes an endpoint that is busy while registrations are bound to it, or a registration.
    unsafe extern "C" fn note(object: *mut abi::Fid) -> c_int {
        // SAFETY: it is one of the test.
        let class = unsafe { (*object).class };
        if class == ENDPOINT && BOUND.get() > 0 {
            return -libc::EBUSY;
        }
        BOUND.set(BOUND.get().saturating_sub(1));
        CLOSED.with_borrow_mut(|closed| closed.push(class));
        0
    }

    /// In which order an endpoint and two registrations are closed, of which so many are bound to it.
    fn order(bound: usize) -> Vec<usize> {
        BOUND.set(bound);
        let ops =
            abi::Ops { size: size_of::<abi::Ops>(), close: Some(note), bind: None, control: None };
        let mut objects = [ENDPOINT, 2, 3].map(|class| abi::Fid {
            class,
            context: ptr::null_mut(),
            ops: &raw const ops,
        });
        let [endpoint, first, second] = objects.each_mut().map(ptr::from_mut);
        let registrations = [first, ptr::null_mut(), second].into_iter();
        // SAFETY: all are open, and of this test.
        assert!(unsafe { close_endpoint(endpoint, registrations) });
        CLOSED.take()
    }

    #[test]
    fn memory_is_unregistered_when_its_endpoint_is_closed() {
        assert_eq!(order(0), [ENDPOINT, 2, 3]);
    }

    #[test]
    fn an_endpoint_that_registrations_are_bound_to_is_closed_after_them() {
        assert_eq!(order(2), [2, 3, ENDPOINT]);
    }
}
