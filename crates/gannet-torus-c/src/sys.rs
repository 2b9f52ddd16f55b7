//! The functions that a program in C calls.
//!
//! What is asked of pointers stands in the header: they are null where it says so, or point to what it says, and a handle is one that
//! `gannet_torus_open` gave and `gannet_torus_close` did not take, used by one thread at a time.
#![allow(unsafe_code)]

use std::cell::RefCell;
use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use gannet_fabric::torus::user::Completion;

use crate::handle::{Failed, Handle, number};

thread_local! {
    /// Why the last function of this thread failed that did.
    static ERROR: RefCell<CString> = RefCell::default();
}

/// What happened.
#[repr(C)]
pub struct TorusCompletion {
    kind: u32,
    request: u32,
    outcome: u32,
    node: u32,
    address: u64,
    length: u32,
    tag: u32,
    missed: u64,
}

/// Where the process is.
#[repr(C)]
pub struct TorusPlace {
    process: u16,
    node: u32,
    nodes: u32,
}

/// The value of a function, and what it says of a failure.
fn told(result: Result<c_int, Failed>) -> c_int {
    result.unwrap_or_else(|Failed { code, text }| {
        let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
        ERROR.with_borrow_mut(|error| *error = text);
        code
    })
}

/// What a function makes of its handle; one that is null is told.
///
/// # Safety
/// `torus` is null, or a handle that nobody else uses now.
unsafe fn with(
    torus: *mut Handle,
    what: impl FnOnce(&mut Handle) -> Result<c_int, Failed>,
) -> c_int {
    // SAFETY: as the caller promises.
    let handle = unsafe { torus.as_mut() };
    told(handle.ok_or_else(|| Failed::new("the handle is null: it was not opened")).and_then(what))
}

/// Writes a result where the caller wants it.
///
/// # Safety
/// `out` is null, or points to memory for a `T` that may be written.
unsafe fn give<T>(out: *mut T, value: T) {
    if !out.is_null() {
        // SAFETY: it is not null, and so points to memory for a `T`, as the caller promises.
        unsafe { out.write(value) };
    }
}

/// The text of the last failure in this thread; it stays until the next one.
#[unsafe(no_mangle)]
pub extern "C" fn gannet_torus_error() -> *const c_char {
    ERROR.with_borrow(|error| error.as_ptr())
}

/// Uses the node at `path`.
///
/// # Safety
/// As the header says: `path` is null or a text, `out` points to memory for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gannet_torus_open(
    path: *const c_char,
    process: u16,
    out: *mut *mut Handle,
) -> c_int {
    let path = match path.is_null() {
        true => None,
        // SAFETY: the caller promises a text that ends with a zero byte, and it is used in this call only.
        false => Some(Path::new(OsStr::from_bytes(unsafe { CStr::from_ptr(path) }.to_bytes()))),
    };
    told(Handle::open(path, process).map(|handle| {
        // SAFETY: the caller promises memory for a pointer.
        unsafe { give(out, Box::into_raw(Box::new(handle))) };
        0
    }))
}

/// Ends it.
///
/// # Safety
/// `torus` is null, or a handle that is used no more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gannet_torus_close(torus: *mut Handle) {
    if !torus.is_null() {
        // SAFETY: it came from `Box::into_raw` in `gannet_torus_open`, and the caller gives it back once.
        drop(unsafe { Box::from_raw(torus) });
    }
}

/// Where the process is.
///
/// # Safety
/// `torus` is null or a handle, `out` points to memory for a place.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gannet_torus_place(torus: *mut Handle, out: *mut TorusPlace) -> c_int {
    let place = |handle: &mut Handle| {
        let (process, node, nodes) = handle.place();
        // SAFETY: the caller promises memory for a place.
        unsafe { give(out, TorusPlace { process, node, nodes }) };
        handle.check_node().map(|()| c_int::from(nodes > 0))
    };
    // SAFETY: the caller promises a handle that nobody else uses now.
    unsafe { with(torus, place) }
}

/// Registers new memory.
///
/// # Safety
/// `torus` is null or a handle, `region` and `memory` point to memory for a number and a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gannet_torus_register(
    torus: *mut Handle,
    bytes: usize,
    address: u64,
    reach: u32,
    region: *mut u32,
    memory: *mut *mut c_void,
) -> c_int {
    let register = |handle: &mut Handle| {
        let number = handle.register(bytes, address, reach)?;
        // The memory is mapped as long as it is registered, and others may change what is in it, of which C programs know.
        let begin = handle.memory(number)?.words(0, 0).as_ptr();
        // SAFETY: the caller promises memory for a number.
        unsafe { give(region, number) };
        // SAFETY: the caller promises memory for a pointer.
        unsafe { give(memory, begin.cast_mut().cast()) };
        Ok(0)
    };
    // SAFETY: the caller promises a handle that nobody else uses now.
    unsafe { with(torus, register) }
}

/// Gives memory back.
///
/// # Safety
/// `torus` is null or a handle, and nobody uses the memory any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gannet_torus_deregister(torus: *mut Handle, region: u32) -> c_int {
    // SAFETY: the caller promises a handle that nobody else uses now.
    unsafe { with(torus, |handle| handle.deregister(region).map(|()| 0)) }
}

/// Posts a PUT.
///
/// # Safety
/// `torus` is null or a handle, `request` is null or points to memory for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gannet_torus_put(
    torus: *mut Handle,
    region: u32,
    offset: u64,
    node: u32,
    process: u16,
    address: u64,
    length: u32,
    tag: u32,
    request: *mut u32,
) -> c_int {
    let post = |handle: &mut Handle| {
        let posted = handle.put((region, offset), (node, process, address), length, tag)?;
        // SAFETY: the caller promises null or memory for a number.
        unsafe { give(request, posted.0) };
        Ok(0)
    };
    // SAFETY: the caller promises a handle that nobody else uses now.
    unsafe { with(torus, post) }
}

/// Posts a GET.
///
/// # Safety
/// `torus` is null or a handle, `request` is null or points to memory for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gannet_torus_get(
    torus: *mut Handle,
    node: u32,
    process: u16,
    address: u64,
    region: u32,
    offset: u64,
    length: u32,
    request: *mut u32,
) -> c_int {
    let post = |handle: &mut Handle| {
        let posted = handle.get((node, process, address), (region, offset), length)?;
        // SAFETY: the caller promises null or memory for a number.
        unsafe { give(request, posted.0) };
        Ok(0)
    };
    // SAFETY: the caller promises a handle that nobody else uses now.
    unsafe { with(torus, post) }
}

/// Gives the next thing that happened, if anything has.
///
/// # Safety
/// `torus` is null or a handle, `out` points to memory for a completion.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gannet_torus_poll(torus: *mut Handle, out: *mut TorusCompletion) -> c_int {
    let poll = |handle: &mut Handle| {
        let Some(completion) = handle.poll()? else { return Ok(0) };
        // SAFETY: the caller promises memory for a completion.
        unsafe { give(out, in_c(completion)) };
        Ok(1)
    };
    // SAFETY: the caller promises a handle that nobody else uses now.
    unsafe { with(torus, poll) }
}

/// Sleeps until something has happened.
///
/// # Safety
/// `torus` is null or a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gannet_torus_wait(torus: *mut Handle, most_ms: u32) -> c_int {
    let most = Duration::from_millis(most_ms.into());
    // SAFETY: the caller promises a handle that nobody else uses now.
    unsafe { with(torus, |handle| handle.wait(most).map(|()| 0)) }
}

fn in_c(completion: Completion) -> TorusCompletion {
    let nothing = TorusCompletion {
        kind: 0,
        request: 0,
        outcome: 0,
        node: 0,
        address: 0,
        length: 0,
        tag: 0,
        missed: 0,
    };
    match completion {
        Completion::Done { request, outcome } => {
            let (request, outcome) = (request.0, number(outcome));
            TorusCompletion { kind: 1, request, outcome, ..nothing }
        }
        Completion::Arrived { node, address, length, tag } => {
            TorusCompletion { kind: 2, node: node.0, address, length, tag, ..nothing }
        }
        Completion::Missed(missed) => TorusCompletion { kind: 3, missed, ..nothing },
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Instant;
    use std::{ptr, thread};

    use gannet_torus_live::users::memory::NodeMemory;
    use gannet_torus_live::users::{Seat, Users};

    use super::*;
    use crate::handle::ENDED;

    #[test]
    fn a_node_that_is_not_there_is_told_in_words() {
        let mut torus = ptr::null_mut();
        // SAFETY: a text, and memory for a pointer.
        let code = unsafe { gannet_torus_open(c"/nowhere/at all".as_ptr(), 0, &mut torus) };
        assert!(code == crate::handle::FAILED && torus.is_null());
        // SAFETY: the text of this thread, which stays until the next failure.
        let text = unsafe { CStr::from_ptr(gannet_torus_error()) }.to_str().unwrap();
        assert!(text.contains("no node of a torus answers"), "{text}");
        // SAFETY: nothing is closed.
        unsafe { gannet_torus_close(ptr::null_mut()) };
        // SAFETY: there is no handle.
        let code = unsafe { gannet_torus_wait(torus, 0) };
        // SAFETY: the text of this thread, which stays until the next failure.
        let text = unsafe { CStr::from_ptr(gannet_torus_error()) }.to_str().unwrap();
        assert!(code == crate::handle::FAILED && text.contains("not opened"), "{text}");
    }

    #[test]
    fn that_the_node_has_ended_is_told_in_words() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("node");
        let (mut users, stop) = (Users::listen(&path).unwrap(), AtomicBool::new(false));
        let path = CString::new(path.as_os_str().as_bytes()).unwrap();
        let mut torus = ptr::null_mut();
        thread::scope(|scope| {
            scope.spawn(|| {
                let (mut memory, begin) = (NodeMemory::default(), Instant::now());
                while !stop.load(Ordering::Relaxed) {
                    let now = begin.elapsed().as_nanos() as u64;
                    users.serve(Seat::Idle(&mut memory), now);
                    thread::sleep(Duration::from_millis(1));
                }
                drop(users);
            });
            // SAFETY: a text, and memory for a pointer.
            let opened = unsafe { gannet_torus_open(path.as_ptr(), 0, &mut torus) };
            stop.store(true, Ordering::Relaxed);
            assert_eq!(opened, 0);
        });
        // SAFETY: the text of this thread, which stays until the next failure.
        let text = || unsafe { CStr::from_ptr(gannet_torus_error()) }.to_str().unwrap();
        let begin = Instant::now();
        // SAFETY: a handle, and nowhere to write to.
        while unsafe { gannet_torus_poll(torus, ptr::null_mut()) } != ENDED {
            assert!(begin.elapsed() < Duration::from_secs(30), "it is not told");
        }
        assert!(text().contains("has ended"), "{}", text());
        told(Err(Failed::new("something else")));
        // SAFETY: a handle, and nowhere to write to.
        assert_eq!(unsafe { gannet_torus_place(torus, ptr::null_mut()) }, ENDED);
        assert!(text().contains("has ended"), "{}", text());
        // SAFETY: it is used no more.
        unsafe { gannet_torus_close(torus) };
    }
}
