//! What a provider offers.

use std::ffi::{CStr, CString, c_char};
use std::fmt;
use std::ptr::NonNull;

use thiserror::Error;

use super::abi;
use super::library::{Hints, Library};

/// One offer of a provider: a way to one network, with its properties.
pub struct Info {
    library: Library,
    info: NonNull<abi::Info>,
}

// SAFETY: an offer is memory that nothing else refers to; the library's functions may be called from any
// thread.
unsafe impl Send for Info {}

/// What an endpoint does to memory of others, and lets them do.
const CAPABILITIES: u64 = abi::RMA | abi::READ | abi::WRITE | abi::REMOTE_READ | abi::REMOTE_WRITE;
/// What providers may ask of their callers, and get here.
const MODES: u64 = abi::CONTEXT | abi::CONTEXT2;
/// Ways of registering memory that are followed here.
const MR_MODES: i32 =
    abi::MR_LOCAL | abi::MR_VIRT_ADDR | abi::MR_ALLOCATED | abi::MR_PROV_KEY | abi::MR_ENDPOINT;

/// Why an offer cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Error)]
pub enum Lack {
    /// It joins two endpoints by a connection, or loses messages.
    #[error("has no endpoint that reaches many others reliably")]
    Endpoint,
    /// It does not write and read memory of others.
    #[error("does not write and read memory of others")]
    Rma,
    /// Its remote completions carry too little.
    #[error("tells the other side less than 32 bits")]
    Data,
    /// It asks its callers for something that is not done here.
    #[error("asks for memory or contexts to be handled in a way that is not known here")]
    Mode,
    /// It does not work, whatever it says.
    #[error("is deprecated, and its writes hang")]
    Deprecated,
}

/// Which operations to one endpoint the provider keeps in order, for bytes up to the longest message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Orders {
    /// Reads behind reads.
    pub read_after_read: bool,
    /// Reads behind writes.
    pub read_after_write: bool,
    /// Writes behind reads.
    pub write_after_read: bool,
    /// Writes behind writes.
    pub write_after_write: bool,
}

impl Info {
    /// # Safety
    /// `info` is null, or one of this library's that nobody else frees; its parts are there, as the library
    /// always makes them.
    pub(super) unsafe fn of(library: Library, info: *mut abi::Info) -> Option<Self> {
        Some(Self { library, info: NonNull::new(info)? })
    }

    pub(super) fn as_ptr(&self) -> *mut abi::Info {
        self.info.as_ptr()
    }

    fn raw(&self) -> &abi::Info {
        // SAFETY: it is ours until it is dropped.
        unsafe { self.info.as_ref() }
    }

    fn domain(&self) -> &abi::DomainAttr {
        // SAFETY: the library makes every part of an info.
        unsafe { &*self.raw().domain_attr }
    }

    fn transmit(&self) -> &abi::TxAttr {
        // SAFETY: as above.
        unsafe { &*self.raw().tx_attr }
    }

    fn endpoint(&self) -> &abi::EpAttr {
        // SAFETY: as above.
        unsafe { &*self.raw().ep_attr }
    }

    /// Asks, in an info that is empty so far, for everything there is.
    pub(super) fn ask_for_all(&mut self) {
        // SAFETY: the info and its parts are ours, and nobody else looks at them.
        unsafe {
            self.info.as_mut().mode = u64::MAX;
            (*self.info.as_ref().domain_attr).mr_mode = abi::MR_ANY;
        }
    }

    /// Asks, in an info that is empty so far, for what an endpoint needs.
    pub(super) fn ask(&mut self, hints: &Hints) {
        // SAFETY: as above. Strings of an info are freed with `free`, as those of `strdup` have to be.
        unsafe {
            let info = self.info.as_mut();
            (info.caps, info.mode) = (CAPABILITIES, MODES);
            (*info.ep_attr).kind = abi::EP_RDM;
            (*info.tx_attr).op_flags = abi::DELIVERY_COMPLETE;
            let domain = &mut *info.domain_attr;
            domain.threading = abi::THREAD_DOMAIN;
            domain.control_progress = abi::PROGRESS_MANUAL;
            domain.data_progress = abi::PROGRESS_MANUAL;
            domain.mr_mode = MR_MODES;
            if let Ok(name) = CString::new(&*hints.provider) {
                (*info.fabric_attr).prov_name = libc::strdup(name.as_ptr());
            }
        }
    }

    /// What keeps it from being used; nothing if it can be.
    pub fn lacks(&self) -> Option<Lack> {
        let raw = self.raw();
        if self.endpoint().kind != abi::EP_RDM {
            return Some(Lack::Endpoint);
        }
        if raw.caps & CAPABILITIES != CAPABILITIES {
            return Some(Lack::Rma);
        }
        if self.data_bytes() < size_of::<u32>() {
            return Some(Lack::Data);
        }
        // Registration by the two modes of old, if it is that, stands in the lowest bits.
        if raw.mode & !MODES & !abi::HARMLESS_MODES != 0
            || self.mr_mode() & !MR_MODES & !abi::MR_HMEM != 0
        {
            return Some(Lack::Mode);
        }
        None
    }

    /// The library that it is from.
    pub fn library(&self) -> &Library {
        &self.library
    }

    /// Name of the provider, with those above it after semicolons.
    pub fn provider(&self) -> String {
        // SAFETY: the library makes every part of an info; its strings are null, or end with zero.
        unsafe { text((*self.raw().fabric_attr).prov_name) }
    }

    /// Name of the device or network interface.
    pub fn device(&self) -> String {
        // SAFETY: as above.
        unsafe { text(self.domain().name) }
    }

    /// Whether a context has to live as long as its operation, and where registered memory lies and how it
    /// is named, as bits of `abi`.
    pub(super) fn mr_mode(&self) -> i32 {
        self.domain().mr_mode
    }

    /// Bytes of data that a remote completion carries.
    pub fn data_bytes(&self) -> usize {
        self.domain().cq_data_size
    }

    /// Bytes of the keys of memory.
    pub fn key_bytes(&self) -> usize {
        self.domain().mr_key_size
    }

    /// Operations that may be under way.
    pub fn operations(&self) -> usize {
        self.transmit().size
    }

    /// Pieces of memory of this side, and of the other one, that an operation may have.
    pub fn pieces(&self) -> usize {
        self.transmit().iov_limit.min(self.transmit().rma_iov_limit)
    }

    /// How its endpoints speak to each other: a number of libfabric's, and the version of it.
    pub fn protocol(&self) -> (u32, u32) {
        (self.endpoint().protocol, self.endpoint().protocol_version)
    }

    /// Bytes of the longest operation.
    pub fn bytes_max(&self) -> u64 {
        self.endpoint().max_msg_size as u64
    }

    /// Which operations of up to `bytes` bytes are kept in order.
    pub fn orders(&self, bytes: u64) -> Orders {
        let (order, endpoint) = (self.transmit().msg_order, self.endpoint());
        let kept = |bits: u64, bytes_max: usize| order & bits != 0 && bytes_max as u64 >= bytes;
        Orders {
            read_after_read: order & abi::ORDER_RAR != 0,
            read_after_write: kept(abi::ORDER_RAW, endpoint.max_order_raw_size),
            write_after_read: kept(abi::ORDER_WAR, endpoint.max_order_war_size),
            write_after_write: kept(abi::ORDER_WAW, endpoint.max_order_waw_size),
        }
    }
}

/// # Safety
/// `string` is null, or ends with zero.
unsafe fn text(string: *const c_char) -> String {
    if string.is_null() {
        return String::new();
    }
    // SAFETY: as the caller says.
    unsafe { CStr::from_ptr(string) }.to_string_lossy().into_owned()
}

impl fmt::Debug for Info {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Info({} on {})", self.provider(), self.device())
    }
}

impl Drop for Info {
    fn drop(&mut self) {
        // SAFETY: it is ours, and freed here only.
        unsafe { self.library.free(self.info.as_ptr()) }
    }
}
