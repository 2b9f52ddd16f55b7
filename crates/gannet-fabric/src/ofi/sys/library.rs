//! The library, opened at run time.

use std::ffi::{CStr, CString, OsStr, OsString, c_char, c_int, c_void};
use std::mem;
use std::net::IpAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr;

use thiserror::Error;

use super::abi;
use super::info::Info;

/// Environment variable that names the file of the library.
pub const VARIABLE: &str = "GANNET_LIBFABRIC";
/// What the loader looks for where no file is named.
const NAME: &str = "libfabric.so.1";
/// Most entries of a list of providers that are looked at.
const INFOS_MAX: usize = 1024;

/// Why libfabric cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LibraryError {
    /// It is not there, or is no library.
    #[error(
        "cannot open {name}: {cause}; install libfabric (Debian: libfabric1), or name its file in {VARIABLE}"
    )]
    Open {
        /// What was looked for.
        name: String,
        /// What the loader says.
        cause: String,
    },
    /// It lacks a function.
    #[error("{name} has no {symbol} of {version}; it has to be libfabric 1.17 or later")]
    Symbol {
        /// The library.
        name: String,
        /// Name of the function.
        symbol: &'static str,
        /// Version of the function.
        version: &'static str,
    },
    /// It is too old.
    #[error("{name} is libfabric {}.{}; 1.17 or later is needed", .version.0, .version.1)]
    Old {
        /// The library.
        name: String,
        /// Its version.
        version: (u16, u16),
    },
}

/// A call that the library or a provider refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("libfabric: {what}: {text} ({code})")]
pub struct CallError {
    /// What was tried.
    pub what: &'static str,
    /// The number of the error; those up to 255 are the system's.
    pub code: i32,
    /// What the library says of it.
    pub text: String,
}

type Version = unsafe extern "C" fn() -> u32;
type GetInfo = unsafe extern "C" fn(
    u32,
    *const c_char,
    *const c_char,
    u64,
    *const abi::Info,
    *mut *mut abi::Info,
) -> c_int;
type FreeInfo = unsafe extern "C" fn(*mut abi::Info);
type DuplicateInfo = unsafe extern "C" fn(*const abi::Info) -> *mut abi::Info;
type OpenFabric =
    unsafe extern "C" fn(*mut abi::FabricAttr, *mut *mut abi::Fabric, *mut c_void) -> c_int;
type Describe = unsafe extern "C" fn(c_int) -> *const c_char;

/// The library. It stays loaded until the process ends, since providers may have threads of their own.
#[derive(Clone, Debug)]
pub struct Library {
    path: PathBuf,
    version: (u16, u16),
    get_info: GetInfo,
    free_info: FreeInfo,
    duplicate_info: DuplicateInfo,
    open_fabric: OpenFabric,
    describe: Describe,
}

/// What is asked of a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hints {
    /// Its name.
    pub provider: String,
    /// Address of this side, for providers that have one.
    pub address: Option<IpAddr>,
}

impl Library {
    /// Opens the library: the file that [`VARIABLE`] names, or the one that the loader finds.
    ///
    /// # Errors
    /// When there is none, or it is none that can be used.
    pub fn open() -> Result<Self, LibraryError> {
        Self::open_named(&std::env::var_os(VARIABLE).unwrap_or_else(|| OsString::from(NAME)))
    }

    /// Opens the library with this path, or, without a slash, of this name.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_named(name: &OsStr) -> Result<Self, LibraryError> {
        let handle = loaded(name)?;
        let name = name.to_string_lossy().into_owned();
        let function = |symbol: &'static CStr, version: &'static CStr| {
            // SAFETY: the handle is one of the loader's, and both names end with zero.
            let address = unsafe { libc::dlvsym(handle, symbol.as_ptr(), version.as_ptr()) };
            let text = |text: &'static CStr| text.to_str().unwrap_or_default();
            let (symbol, version) = (text(symbol), text(version));
            match address.is_null() {
                true => Err(LibraryError::Symbol { name: name.clone(), symbol, version }),
                false => Ok(address),
            }
        };
        let version = function(c"fi_version", c"FABRIC_1.0")?;
        let path = file_of(version).unwrap_or_else(|| PathBuf::from(&name));
        let (get_info, free_info) =
            (function(c"fi_getinfo", c"FABRIC_1.3")?, function(c"fi_freeinfo", c"FABRIC_1.3")?);
        let duplicate_info = function(c"fi_dupinfo", c"FABRIC_1.3")?;
        let open_fabric = function(c"fi_fabric", c"FABRIC_1.1")?;
        let describe = function(c"fi_strerror", c"FABRIC_1.0")?;
        // SAFETY: the functions of these versions have these types, whatever the version of the library.
        let library = unsafe {
            let version = mem::transmute::<*mut c_void, Version>(version)();
            Self {
                path,
                version: ((version >> 16) as u16, version as u16),
                get_info: mem::transmute::<*mut c_void, GetInfo>(get_info),
                free_info: mem::transmute::<*mut c_void, FreeInfo>(free_info),
                duplicate_info: mem::transmute::<*mut c_void, DuplicateInfo>(duplicate_info),
                open_fabric: mem::transmute::<*mut c_void, OpenFabric>(open_fabric),
                describe: mem::transmute::<*mut c_void, Describe>(describe),
            }
        };
        let version = library.version;
        if version < ((abi::API >> 16) as u16, abi::API as u16) {
            return Err(LibraryError::Old { name, version });
        }
        Ok(library)
    }

    /// Its file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its version: major and minor.
    pub fn version(&self) -> (u16, u16) {
        self.version
    }

    /// All that providers offer, best first as the library sees it.
    ///
    /// # Errors
    /// When the library refuses the question.
    pub fn survey(&self) -> Result<Vec<Info>, CallError> {
        let mut asked = self.empty()?;
        asked.ask_for_all();
        self.infos(&asked, None)
    }

    /// What a provider offers that answers to the hints, best first; nothing when it offers no such thing.
    ///
    /// # Errors
    /// As [`survey`](Self::survey).
    pub fn offers(&self, hints: &Hints) -> Result<Vec<Info>, CallError> {
        let mut asked = self.empty()?;
        asked.ask(hints);
        self.infos(&asked, hints.address)
    }

    fn infos(&self, asked: &Info, address: Option<IpAddr>) -> Result<Vec<Info>, CallError> {
        let node = address.and_then(|address| CString::new(address.to_string()).ok());
        let (node, flags) = match &node {
            Some(node) => (node.as_ptr(), abi::SOURCE),
            None => (ptr::null(), 0),
        };
        let mut list = ptr::null_mut();
        // SAFETY: `asked` and the node live as long as the call, which fills `list` or leaves it.
        let code = unsafe {
            (self.get_info)(abi::API, node, ptr::null(), flags, asked.as_ptr(), &mut list)
        };
        match code {
            0 => {}
            code if code == -abi::NO_DATA => return Ok(Vec::new()),
            code => return Err(self.error("asking for providers", code as isize)),
        }
        let (mut infos, mut next) = (Vec::new(), list);
        while !next.is_null() && infos.len() < INFOS_MAX {
            // SAFETY: an entry of the list that the library made, which is freed below only.
            let entry = unsafe { &*next };
            infos.extend(self.copy(entry));
            next = entry.next;
        }
        // SAFETY: the list is the library's, and nothing refers to it any more.
        unsafe { (self.free_info)(list) };
        Ok(infos)
    }

    /// Hints that ask for nothing: made by the library itself, since their layout may grow.
    fn empty(&self) -> Result<Info, CallError> {
        // SAFETY: without a template the library makes an empty one.
        let fresh = unsafe { (self.duplicate_info)(ptr::null()) };
        // SAFETY: it is the library's, and ours now.
        let info = unsafe { Info::of(self.clone(), fresh) };
        info.ok_or_else(|| self.error("making hints", libc::ENOMEM as isize))
    }

    /// A copy of an entry of a list.
    fn copy(&self, entry: &abi::Info) -> Option<Info> {
        // SAFETY: the entry is whole; its copy is ours.
        unsafe { Info::of(self.clone(), (self.duplicate_info)(entry)) }
    }

    pub(in super::super) fn error(&self, what: &'static str, code: isize) -> CallError {
        let code = code.unsigned_abs() as i32;
        // SAFETY: for any number the library gives a string that stays, or nothing.
        let text = unsafe {
            let text = (self.describe)(code);
            if text.is_null() { c"unknown error" } else { CStr::from_ptr(text) }
        };
        CallError { what, code, text: text.to_string_lossy().into_owned() }
    }

    /// # Safety
    /// `attr` is part of an info of this library.
    pub(super) unsafe fn fabric(
        &self,
        attr: *mut abi::FabricAttr,
    ) -> Result<*mut abi::Fabric, CallError> {
        let mut fabric = ptr::null_mut();
        // SAFETY: as the caller says; the result is filled if the call succeeds.
        match unsafe { (self.open_fabric)(attr, &mut fabric, ptr::null_mut()) } {
            0 => Ok(fabric),
            code => Err(self.error("opening the fabric", code as isize)),
        }
    }

    /// # Safety
    /// `info` is one of this library's and is freed once.
    pub(super) unsafe fn free(&self, info: *mut abi::Info) {
        // SAFETY: as the caller says.
        unsafe { (self.free_info)(info) }
    }
}

/// Has the loader open a library.
fn loaded(name: &OsStr) -> Result<*mut c_void, LibraryError> {
    let refuse = |cause: String| {
        Err(LibraryError::Open { name: name.to_string_lossy().into_owned(), cause })
    };
    let Ok(file) = CString::new(name.as_bytes()) else {
        return refuse("its name has a zero byte".to_owned());
    };
    let handlers = Handlers::now();
    // SAFETY: the name ends with zero. What a library does when it is loaded is the business of who named
    // it, or of the system that has it.
    let handle = unsafe { libc::dlopen(file.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    handlers.restore();
    if !handle.is_null() {
        return Ok(handle);
    }
    // SAFETY: the loader gives its last error as a string, which is copied before another call.
    let cause = unsafe {
        let text = libc::dlerror();
        if text.is_null() { c"unknown error" } else { CStr::from_ptr(text) }.to_string_lossy()
    };
    refuse(cause.into_owned())
}

/// What a process does on signals that end others. Libraries of providers take these for themselves when they are loaded,
/// and call `exit`: that of PSM for cards of True Scale, which Debian's libfabric needs, does.
struct Handlers([(c_int, libc::sigaction); Self::SIGNALS.len()]);

impl Handlers {
    const SIGNALS: [c_int; 9] = [
        libc::SIGHUP,
        libc::SIGINT,
        libc::SIGQUIT,
        libc::SIGILL,
        libc::SIGABRT,
        libc::SIGBUS,
        libc::SIGFPE,
        libc::SIGSEGV,
        libc::SIGTERM,
    ];

    fn now() -> Self {
        Self(Self::SIGNALS.map(|signal| {
            // SAFETY: zeros are valid; the system fills it, and changes nothing.
            let action = unsafe {
                let mut action = mem::zeroed();
                libc::sigaction(signal, ptr::null(), &mut action);
                action
            };
            (signal, action)
        }))
    }

    fn restore(&self) {
        for (signal, action) in &self.0 {
            // SAFETY: it was in force before, and whoever set it keeps it valid.
            unsafe { libc::sigaction(*signal, action, ptr::null_mut()) };
        }
    }
}

/// The file that a function came from.
fn file_of(function: *const c_void) -> Option<PathBuf> {
    // SAFETY: zeros are valid; the loader fills it for an address that it knows, with strings that stay as
    // long as the library.
    unsafe {
        let mut info: libc::Dl_info = mem::zeroed();
        if libc::dladdr(function, &mut info) == 0 || info.dli_fname.is_null() {
            return None;
        }
        Some(PathBuf::from(OsStr::from_bytes(CStr::from_ptr(info.dli_fname).to_bytes())))
    }
}

#[cfg(test)]
mod tests {
    use gannet_measure::testing::skipped;

    use super::*;

    #[test]
    fn signals_stay_with_the_process_when_the_library_is_loaded() {
        let of = |handlers: &Handlers| handlers.0.map(|(_, action)| action.sa_sigaction);
        let before = of(&Handlers::now());
        if loaded(OsStr::new(NAME)).is_err() {
            return skipped("signals_stay_with_the_process", "libfabric is not here");
        }
        assert_eq!(of(&Handlers::now()), before);
    }
}
