//! What carries data between two endpoints of the fabric: one endpoint of a provider, with all that it needs.

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::fmt;
use std::ptr;
use std::sync::Arc;

use gannet_memory::Access;
use rustix::rand::{GetRandomFlags, getrandom};

use super::abi::{self, function};
use super::info::Info;
use super::library::{CallError, Library};
use super::memory::Mapped;
use super::objects::{Objects, bind, close, close_endpoint, enable, opened};

/// Most bytes of the name of an endpoint.
const NAME_MAX: usize = 256;
/// Completions that are read at a time.
const READ_MAX: usize = 16;
/// Most pieces of a transfer.
pub const PIECES_MAX: usize = 2;

/// How the other side reaches memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reach {
    /// Address of the first byte, as the provider counts.
    pub base: u64,
    /// What an access has to name.
    pub key: u64,
}

/// Bytes here and where they go, or come from.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    /// Number of the memory of this side.
    pub memory: usize,
    /// Where they begin in it.
    pub offset: usize,
    /// How the other side's memory is reached.
    pub reach: Reach,
    /// Where they begin in that.
    pub remote_offset: u64,
    /// How many.
    pub bytes: usize,
}

/// What a provider tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A transfer is done.
    Done {
        /// What it was posted with.
        tag: u64,
    },
    /// The other side has written, and says this of it.
    Told {
        /// The data of its write.
        data: u64,
    },
    /// A transfer has failed, or the endpoint has.
    Failed {
        /// What the transfer was posted with.
        tag: Option<u64>,
        /// Number of the error.
        code: i32,
    },
}

/// Memory that the other side may reach, until it is withdrawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lent(usize);

/// An endpoint of a provider that speaks with one other, with its queue of completions, its table of
/// addresses and its memory.
///
/// One thread at a time uses it, as it was asked for.
pub struct Cable {
    library: Library,
    mr_mode: i32,
    key_bytes: usize,
    /// What was opened, in that order; closed in the other one.
    objects: Vec<*mut abi::Fid>,
    domain: *mut abi::Domain,
    queue: *mut abi::Cq,
    table: *mut abi::Av,
    endpoint: *mut abi::Ep,
    read_queue: unsafe extern "C" fn(*mut abi::Cq, *mut c_void, usize) -> isize,
    read_error: unsafe extern "C" fn(*mut abi::Cq, *mut abi::CqError, u64) -> isize,
    write: abi::Transfer,
    read: abi::Transfer,
    /// The other endpoint.
    to: u64,
    /// Memory that transfers of this side use, and its descriptors, if the provider wants some.
    memory: Vec<(Arc<Mapped>, *mut abi::Mr)>,
    lent: Vec<*mut abi::Mr>,
    /// Lent to the provider for transfers under way, with their tags; those that are free.
    contexts: Vec<UnsafeCell<abi::OperationContext>>,
    tags: Vec<u64>,
    free: Vec<usize>,
}

// SAFETY: the objects are used by whoever has the cable, one thread at a time, which is what the domain was
// asked to allow (FI_THREAD_DOMAIN); no other cable has objects of it.
unsafe impl Send for Cable {}

impl Cable {
    /// Most events that are told at a time.
    pub(crate) const EVENTS_MAX: usize = READ_MAX;

    /// Opens an endpoint as `info` offers it, for `transfers` under way at a time and `events` that wait to be
    /// read besides.
    ///
    /// # Errors
    /// When the provider refuses.
    pub fn open(info: &Info, transfers: usize, events: usize) -> Result<Self, CallError> {
        let library = info.library().clone();
        // What is opened before a refusal is closed with the guard.
        let mut objects = Objects(Vec::new());
        let raw = info.as_ptr();
        // SAFETY: the info is the library's, and whole; each object is used only after it was opened, and
        // before what it was opened by is closed. Tables are those of the objects, and read as far as they
        // reach.
        unsafe {
            let fabric = library.fabric((*raw).fabric_attr)?;
            objects.0.push(fabric.cast());
            let open = function!((*fabric).ops, abi::FabricOps, domain);
            let domain = opened(&library, "opening the domain", open, fabric, raw)?;
            objects.0.push(domain.cast());
            let mut attr = abi::CqAttr {
                size: transfers + events,
                flags: 0,
                format: abi::CQ_FORMAT_DATA,
                wait_obj: abi::WAIT_NONE,
                signaling_vector: 0,
                wait_cond: 0,
                wait_set: ptr::null_mut(),
            };
            let open = function!((*domain).ops, abi::DomainOps, cq_open);
            let queue =
                opened(&library, "opening the queue of completions", open, domain, &mut attr)?;
            objects.0.push(queue.cast());
            let mut attr = abi::AvAttr {
                kind: abi::AV_TABLE,
                rx_ctx_bits: 0,
                count: 1,
                ep_per_node: 0,
                name: ptr::null(),
                map_addr: ptr::null_mut(),
                flags: 0,
            };
            let open = function!((*domain).ops, abi::DomainOps, av_open);
            let table =
                opened(&library, "opening the table of addresses", open, domain, &mut attr)?;
            objects.0.push(table.cast());
            let open = function!((*domain).ops, abi::DomainOps, endpoint);
            let endpoint = opened(&library, "opening the endpoint", open, domain, raw)?;
            objects.0.push(endpoint.cast());
            bind(&library, endpoint.cast(), queue.cast(), abi::TRANSMIT | abi::RECEIVE)?;
            bind(&library, endpoint.cast(), table.cast(), 0)?;
            enable(&library, endpoint.cast())?;
            let missing = || library.error("asking for its functions", libc::ENOSYS as isize);
            let rma = (*endpoint).rma;
            Ok(Self {
                mr_mode: info.mr_mode(),
                key_bytes: info.key_bytes(),
                read_queue: function!((*queue).ops, abi::CqOps, read).ok_or_else(missing)?,
                read_error: function!((*queue).ops, abi::CqOps, readerr).ok_or_else(missing)?,
                write: function!(rma, abi::RmaOps, writemsg).ok_or_else(missing)?,
                read: function!(rma, abi::RmaOps, readmsg).ok_or_else(missing)?,
                objects: std::mem::take(&mut objects.0),
                library,
                domain,
                queue,
                table,
                endpoint,
                to: 0,
                memory: Vec::new(),
                lent: Vec::new(),
                contexts: (0..transfers).map(|_| UnsafeCell::default()).collect(),
                tags: vec![0; transfers],
                free: (0..transfers).collect(),
            })
        }
    }

    /// Name by which others reach it.
    ///
    /// # Errors
    /// When the provider does not tell, or it has more than 256 bytes.
    pub fn name(&self) -> Result<Vec<u8>, CallError> {
        let what = "asking for the name of the endpoint";
        let (mut name, mut len) = (vec![0; NAME_MAX], NAME_MAX);
        // SAFETY: the endpoint is open; the name has room for as many bytes as are said.
        let code = unsafe {
            let ask = function!((*self.endpoint).cm, abi::CmOps, getname);
            let ask = ask.ok_or_else(|| self.library.error(what, libc::ENOSYS as isize))?;
            ask(self.endpoint.cast(), name.as_mut_ptr().cast(), &mut len)
        };
        if code != 0 || len > NAME_MAX {
            return Err(self.library.error(what, code as isize));
        }
        name.truncate(len);
        Ok(name)
    }

    /// Takes the name of the other side, to which everything goes from now on.
    ///
    /// # Errors
    /// When it is no name that the provider knows.
    pub fn reach(&mut self, name: &[u8]) -> Result<(), CallError> {
        let what = "taking the name of the other endpoint";
        // Providers take as many bytes as their names have, or those before a zero.
        let mut padded = [0u8; NAME_MAX + 1];
        let len = name.len().min(NAME_MAX);
        padded[..len].copy_from_slice(&name[..len]);
        // SAFETY: the table is open, the name longer than any name of a provider.
        let count = unsafe {
            let insert = function!((*self.table).ops, abi::AvOps, insert);
            let insert = insert.ok_or_else(|| self.library.error(what, libc::ENOSYS as isize))?;
            insert(self.table, padded.as_ptr().cast(), 1, &mut self.to, 0, ptr::null_mut())
        };
        match count {
            1 => Ok(()),
            code => Err(self.library.error(what, if code < 0 { code as isize } else { 22 })),
        }
    }

    /// Adds memory that transfers can use, for as long as the cable is; memory is numbered from 0 on.
    ///
    /// # Errors
    /// When the provider refuses it.
    pub fn add_memory(&mut self, memory: Arc<Mapped>) -> Result<(), CallError> {
        let registration = match self.mr_mode & abi::MR_LOCAL {
            0 => ptr::null_mut(),
            _ => self.register(&memory, (0, memory.len()), abi::READ | abi::WRITE)?,
        };
        self.memory.push((memory, registration));
        Ok(())
    }

    /// Lets the other side reach `bytes` bytes of memory, by a key drawn at random.
    ///
    /// # Errors
    /// When the provider refuses it.
    pub fn lend(
        &mut self,
        memory: usize,
        (offset, bytes): (usize, usize),
        access: Access,
    ) -> Result<(Lent, Reach), CallError> {
        let flags = match access {
            Access::Read => abi::REMOTE_READ,
            Access::Write => abi::REMOTE_READ | abi::REMOTE_WRITE,
        };
        let memory = self.memory[memory].0.clone();
        let registration = self.register(&memory, (offset, bytes), flags)?;
        // SAFETY: it has just been made.
        let key = unsafe { (*registration).key };
        let base = match self.mr_mode & abi::MR_VIRT_ADDR {
            0 => 0,
            _ => memory.address(offset, bytes) as u64,
        };
        let free = self.lent.iter().position(|lent| lent.is_null()).unwrap_or(self.lent.len());
        self.lent.resize(self.lent.len().max(free + 1), ptr::null_mut());
        self.lent[free] = registration;
        if key == u64::MAX {
            self.withdraw(Lent(free));
            return Err(self.library.error("asking for a key of 64 bits", libc::ENOSYS as isize));
        }
        Ok((Lent(free), Reach { base, key }))
    }

    /// Lets the other side reach memory no more.
    pub fn withdraw(&mut self, lent: Lent) {
        let registration = std::mem::replace(&mut self.lent[lent.0], ptr::null_mut());
        // SAFETY: it is ours, and was open until now.
        let _ = unsafe { close(registration.cast()) };
    }

    fn register(
        &self,
        memory: &Mapped,
        (offset, bytes): (usize, usize),
        access: u64,
    ) -> Result<*mut abi::Mr, CallError> {
        let what = "registering memory";
        let mut key = [0; 8];
        let drawn = getrandom(&mut key, GetRandomFlags::empty());
        drawn.map_err(|error| self.library.error(what, error.raw_os_error() as isize))?;
        let bits = 8 * self.key_bytes.min(8) as u32;
        let key = u64::from_ne_bytes(key).checked_shr(64 - bits).unwrap_or(0);
        let key = if self.mr_mode & abi::MR_PROV_KEY == 0 { key } else { 0 };
        let address = memory.address(offset, bytes);
        let mut registration = ptr::null_mut();
        // SAFETY: the domain is open. The memory stays mapped: the cable keeps it until all is closed.
        unsafe {
            let register = function!((*self.domain).mr, abi::MrOps, reg);
            let register = register.ok_or_else(|| self.library.error(what, 38))?;
            let (domain, none) = (self.domain.cast(), ptr::null_mut());
            match register(domain, address, bytes, access, 0, key, 0, &mut registration, none) {
                0 => {}
                code => return Err(self.library.error(what, code as isize)),
            }
            if self.mr_mode & abi::MR_ENDPOINT != 0 {
                let bound = bind(&self.library, registration.cast(), self.endpoint.cast(), 0);
                if let Err(error) = bound.and_then(|()| enable(&self.library, registration.cast()))
                {
                    let _ = close(registration.cast());
                    return Err(error);
                }
            }
        }
        Ok(registration)
    }

    /// Posts a write of one or two pieces, with `data` if the other side is to be told, and `tag` for its
    /// completion; `is_placed` if that is to come only when the bytes are placed. Gives false when it is to
    /// be tried again later.
    ///
    /// # Errors
    /// When the provider refuses.
    ///
    /// # Panics
    /// When a piece is not in the memory of this side.
    #[inline]
    pub fn write(
        &mut self,
        pieces: &[Piece],
        data: Option<u64>,
        is_placed: bool,
        tag: u64,
    ) -> Result<bool, CallError> {
        let told = if data.is_some() { abi::REMOTE_CQ_DATA } else { 0 };
        let placed = if is_placed { abi::DELIVERY_COMPLETE } else { 0 };
        let flags = abi::COMPLETION | told | placed;
        self.transfer(self.write, pieces, data.unwrap_or(0), flags, tag)
    }

    /// Posts a read; the rest as for [`write`](Self::write).
    ///
    /// # Errors
    /// When the provider refuses.
    ///
    /// # Panics
    /// When the piece is not in the memory of this side.
    pub fn read(&mut self, piece: &Piece, tag: u64) -> Result<bool, CallError> {
        self.transfer(self.read, std::slice::from_ref(piece), 0, abi::COMPLETION, tag)
    }

    #[inline]
    fn transfer(
        &mut self,
        transfer: abi::Transfer,
        pieces: &[Piece],
        data: u64,
        flags: u64,
        tag: u64,
    ) -> Result<bool, CallError> {
        let count = pieces.len();
        assert!((1..=PIECES_MAX).contains(&count), "{count} pieces");
        let mut here = [abi::Piece { base: ptr::null_mut(), len: 0 }; PIECES_MAX];
        let mut there = [abi::RemotePiece { address: 0, len: 0, key: 0 }; PIECES_MAX];
        let mut descriptors = [ptr::null_mut(); PIECES_MAX];
        for (at, piece) in pieces.iter().enumerate() {
            let (memory, registration) = &self.memory[piece.memory];
            let Piece { bytes: len, offset, reach, remote_offset, .. } = *piece;
            here[at] = abi::Piece { base: memory.address(offset, len), len };
            let address = reach.base.wrapping_add(remote_offset);
            there[at] = abi::RemotePiece { address, len, key: reach.key };
            if !registration.is_null() {
                // SAFETY: it is open as long as the cable.
                descriptors[at] = unsafe { (**registration).mem_desc };
            }
        }
        let Some(context) = self.free.pop() else { return Ok(false) };
        self.tags[context] = tag;
        let message = abi::RmaMessage {
            pieces: here.as_ptr(),
            descriptors: descriptors.as_mut_ptr(),
            count,
            address: self.to,
            remote: there.as_ptr(),
            remote_count: count,
            context: self.contexts[context].get().cast(),
            data,
        };
        // SAFETY: the endpoint is open; the provider copies the lists. The bytes are in memory that the
        // cable keeps, and the context is no other transfer's until its completion was read.
        match unsafe { transfer(self.endpoint, &message, flags) } {
            0 => Ok(true),
            code => {
                self.free.push(context);
                match -code {
                    abi::AGAIN => Ok(false),
                    _ => Err(self.library.error("posting a transfer", code)),
                }
            }
        }
    }

    /// Lets the provider work, and gives `told` some of what it tells; says how many.
    #[inline]
    pub fn poll(&mut self, mut told: impl FnMut(Event)) -> usize {
        let empty = abi::CqData {
            context: ptr::null_mut(),
            flags: 0,
            len: 0,
            buf: ptr::null_mut(),
            data: 0,
        };
        let mut entries = [empty; READ_MAX];
        // SAFETY: the queue is open, and has as many entries of its format to fill.
        let count = unsafe { (self.read_queue)(self.queue, entries.as_mut_ptr().cast(), READ_MAX) };
        match count {
            1.. => {
                let count = (count as usize).min(READ_MAX);
                for entry in &entries[..count] {
                    match self.settle(entry.context) {
                        Some(tag) => told(Event::Done { tag }),
                        None if entry.flags & abi::REMOTE_CQ_DATA != 0 => {
                            told(Event::Told { data: entry.data })
                        }
                        // A write of the other side that says nothing.
                        None => {}
                    }
                }
                count
            }
            code if -code == abi::ERROR_AVAILABLE => {
                self.fail(&mut told);
                1
            }
            code if code == 0 || -code == abi::AGAIN => 0,
            code => {
                told(Event::Failed { tag: None, code: -code as i32 });
                1
            }
        }
    }

    #[cold]
    fn fail(&mut self, told: &mut impl FnMut(Event)) {
        // SAFETY: zeros are what a caller without room for more says.
        let mut error: abi::CqError = unsafe { std::mem::zeroed() };
        // SAFETY: the queue is open, and the entry longer than any version writes.
        let count = unsafe { (self.read_error)(self.queue, &mut error, 0) };
        if count > 0 {
            told(Event::Failed { tag: self.settle(error.context), code: error.err });
        }
    }

    /// The tag of the transfer of a context, which is free again, if it is one that is under way.
    #[inline]
    fn settle(&mut self, context: *mut c_void) -> Option<u64> {
        let first = self.contexts.first()?.get() as usize;
        let place = (context as usize).checked_sub(first)?;
        let context = place / size_of::<abi::OperationContext>();
        if context >= self.contexts.len() {
            return None;
        }
        self.free.push(context);
        Some(self.tags[context])
    }

    /// What the library says of the number of an error.
    pub fn describe(&self, code: i32) -> CallError {
        self.library.error("moving data", code as isize)
    }
}

impl fmt::Debug for Cable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cable").field("library", &self.library).finish_non_exhaustive()
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        let used = self.memory.iter().map(|&(_, registration)| registration);
        let registrations = self.lent.iter().copied().chain(used).map(<*mut abi::Mr>::cast);
        let endpoint = self.objects.pop().unwrap_or(ptr::null_mut());
        // SAFETY: all are ours, and closed once. From then on nothing is under way.
        let is_closed = unsafe { close_endpoint(endpoint, registrations) };
        if !is_closed {
            // What the provider may still reach stays where it is.
            std::mem::forget((
                std::mem::take(&mut self.memory),
                std::mem::take(&mut self.contexts),
            ));
        }
        drop(Objects(std::mem::take(&mut self.objects)));
    }
}
