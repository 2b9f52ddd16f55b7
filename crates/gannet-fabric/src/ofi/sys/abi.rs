//! Layouts and numbers of libfabric's binary interface, version 1.17, which 2.x keeps.
//!
//! Only what is used is named. Fields that later versions added stand at the end of their structures and
//! are not touched here. Tables of functions begin with their length in bytes; [`function`] looks at it
//! before it reads an entry.
//!
//! Source: manual pages and headers of libfabric 1.17.0 and 2.6.0 (`fabric`, `fi_domain`, `fi_endpoint`,
//! `fi_cq`, `fi_rma`, `fi_cm`).

use std::ffi::{c_char, c_int, c_void};

/// The version that calls are made in.
pub const API: u32 = 1 << 16 | 17;

pub const AGAIN: isize = 11;
pub const NO_DATA: c_int = 61;
pub const ERROR_AVAILABLE: isize = 259;

pub const RMA: u64 = 1 << 2;
pub const READ: u64 = 1 << 8;
pub const WRITE: u64 = 1 << 9;
pub const RECEIVE: u64 = 1 << 10;
pub const TRANSMIT: u64 = 1 << 11;
pub const REMOTE_READ: u64 = 1 << 12;
pub const REMOTE_WRITE: u64 = 1 << 13;
pub const REMOTE_CQ_DATA: u64 = 1 << 17;
pub const COMPLETION: u64 = 1 << 24;
pub const DELIVERY_COMPLETE: u64 = 1 << 28;
/// That node and service are those of this side.
pub const SOURCE: u64 = 1 << 57;

pub const CONTEXT: u64 = 1 << 59;
pub const CONTEXT2: u64 = 1 << 52;

/// Receives that the library buffers, and flags of notifications: nothing to one who receives no messages.
pub const HARMLESS_MODES: u64 = 1 << 51 | 1 << 54;

pub const MR_LOCAL: c_int = 1 << 2;
pub const MR_VIRT_ADDR: c_int = 1 << 4;
pub const MR_ALLOCATED: c_int = 1 << 5;
pub const MR_PROV_KEY: c_int = 1 << 6;
pub const MR_ENDPOINT: c_int = 1 << 9;
pub const MR_HMEM: c_int = 1 << 10;
/// Every way but the two of old, which exclude all others.
pub const MR_ANY: c_int = 0xffc;

pub const PROGRESS_MANUAL: c_int = 2;
pub const THREAD_DOMAIN: c_int = 3;
pub const EP_RDM: c_int = 3;
pub const AV_TABLE: c_int = 2;
pub const CQ_FORMAT_DATA: c_int = 3;
pub const WAIT_NONE: c_int = 0;
/// Command of `control` by which endpoints and memory begin to work.
pub const ENABLE: c_int = 6;

/// Reads after reads come in order, be it all operations or RMA alone; the others likewise.
pub const ORDER_RAR: u64 = 1 | 1 << 32;
pub const ORDER_RAW: u64 = 1 << 1 | 1 << 33;
pub const ORDER_WAR: u64 = 1 << 3 | 1 << 34;
pub const ORDER_WAW: u64 = 1 << 4 | 1 << 35;

#[repr(C)]
pub struct TxAttr {
    pub caps: u64,
    pub mode: u64,
    pub op_flags: u64,
    pub msg_order: u64,
    pub comp_order: u64,
    pub inject_size: usize,
    pub size: usize,
    pub iov_limit: usize,
    pub rma_iov_limit: usize,
    pub tclass: u32,
}

#[repr(C)]
pub struct EpAttr {
    pub kind: c_int,
    pub protocol: u32,
    pub protocol_version: u32,
    pub max_msg_size: usize,
    pub msg_prefix_size: usize,
    pub max_order_raw_size: usize,
    pub max_order_war_size: usize,
    pub max_order_waw_size: usize,
}

#[repr(C)]
pub struct DomainAttr {
    pub domain: *mut c_void,
    pub name: *mut c_char,
    pub threading: c_int,
    pub control_progress: c_int,
    pub data_progress: c_int,
    pub resource_mgmt: c_int,
    pub av_type: c_int,
    pub mr_mode: c_int,
    pub mr_key_size: usize,
    pub cq_data_size: usize,
}

#[repr(C)]
pub struct FabricAttr {
    pub fabric: *mut c_void,
    pub name: *mut c_char,
    pub prov_name: *mut c_char,
    pub prov_version: u32,
    pub api_version: u32,
}

#[repr(C)]
pub struct Info {
    pub next: *mut Info,
    pub caps: u64,
    pub mode: u64,
    pub addr_format: u32,
    pub src_addrlen: usize,
    pub dest_addrlen: usize,
    pub src_addr: *mut c_void,
    pub dest_addr: *mut c_void,
    pub handle: *mut c_void,
    pub tx_attr: *mut TxAttr,
    pub rx_attr: *mut c_void,
    pub ep_attr: *mut EpAttr,
    pub domain_attr: *mut DomainAttr,
    pub fabric_attr: *mut FabricAttr,
    pub nic: *mut c_void,
}

/// What every object begins with.
#[repr(C)]
pub struct Fid {
    pub class: usize,
    pub context: *mut c_void,
    pub ops: *const Ops,
}

#[repr(C)]
pub struct Ops {
    pub size: usize,
    pub close: Option<unsafe extern "C" fn(*mut Fid) -> c_int>,
    pub bind: Option<unsafe extern "C" fn(*mut Fid, *mut Fid, u64) -> c_int>,
    pub control: Option<unsafe extern "C" fn(*mut Fid, c_int, *mut c_void) -> c_int>,
}

#[repr(C)]
pub struct Fabric {
    pub fid: Fid,
    pub ops: *const FabricOps,
}

pub type Open<P, A, R> =
    Option<unsafe extern "C" fn(*mut P, *mut A, *mut *mut R, *mut c_void) -> c_int>;

#[repr(C)]
pub struct FabricOps {
    pub size: usize,
    pub domain: Open<Fabric, Info, Domain>,
}

#[repr(C)]
pub struct Domain {
    pub fid: Fid,
    pub ops: *const DomainOps,
    pub mr: *const MrOps,
}

#[repr(C)]
pub struct DomainOps {
    pub size: usize,
    pub av_open: Open<Domain, AvAttr, Av>,
    pub cq_open: Open<Domain, CqAttr, Cq>,
    pub endpoint: Open<Domain, Info, Ep>,
}

#[repr(C)]
pub struct MrOps {
    pub size: usize,
    pub reg: Option<Register>,
}

/// Object, memory, length, access, offset, key asked for, flags, result, context.
pub type Register = unsafe extern "C" fn(
    *mut Fid,
    *const c_void,
    usize,
    u64,
    u64,
    u64,
    u64,
    *mut *mut Mr,
    *mut c_void,
) -> c_int;

#[repr(C)]
pub struct Mr {
    pub fid: Fid,
    pub mem_desc: *mut c_void,
    pub key: u64,
}

#[repr(C)]
pub struct AvAttr {
    pub kind: c_int,
    pub rx_ctx_bits: c_int,
    pub count: usize,
    pub ep_per_node: usize,
    pub name: *const c_char,
    pub map_addr: *mut c_void,
    pub flags: u64,
}

#[repr(C)]
pub struct Av {
    pub fid: Fid,
    pub ops: *const AvOps,
}

#[repr(C)]
pub struct AvOps {
    pub size: usize,
    pub insert: Option<
        unsafe extern "C" fn(*mut Av, *const c_void, usize, *mut u64, u64, *mut c_void) -> c_int,
    >,
}

#[repr(C)]
pub struct CqAttr {
    pub size: usize,
    pub flags: u64,
    pub format: c_int,
    pub wait_obj: c_int,
    pub signaling_vector: c_int,
    pub wait_cond: c_int,
    pub wait_set: *mut c_void,
}

#[repr(C)]
pub struct Cq {
    pub fid: Fid,
    pub ops: *const CqOps,
}

#[repr(C)]
pub struct CqOps {
    pub size: usize,
    pub read: Option<unsafe extern "C" fn(*mut Cq, *mut c_void, usize) -> isize>,
    pub readfrom: *const c_void,
    pub readerr: Option<unsafe extern "C" fn(*mut Cq, *mut CqError, u64) -> isize>,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct CqData {
    pub context: *mut c_void,
    pub flags: u64,
    pub len: usize,
    pub buf: *mut c_void,
    pub data: u64,
}

#[repr(C)]
pub struct CqError {
    pub context: *mut c_void,
    pub flags: u64,
    pub len: usize,
    pub buf: *mut c_void,
    pub data: u64,
    pub tag: u64,
    pub olen: usize,
    pub err: c_int,
    pub prov_errno: c_int,
    pub err_data: *mut c_void,
    pub err_data_size: usize,
    /// Later versions write an address here, and may write more.
    pub later: [u64; 8],
}

#[repr(C)]
pub struct Ep {
    pub fid: Fid,
    pub ops: *const c_void,
    pub cm: *const CmOps,
    pub msg: *const c_void,
    pub rma: *const RmaOps,
}

#[repr(C)]
pub struct CmOps {
    pub size: usize,
    pub setname: *const c_void,
    pub getname: Option<unsafe extern "C" fn(*mut Fid, *mut c_void, *mut usize) -> c_int>,
}

#[repr(C)]
pub struct RmaOps {
    pub size: usize,
    pub read: *const c_void,
    pub readv: *const c_void,
    pub readmsg: Option<Transfer>,
    pub write: *const c_void,
    pub writev: *const c_void,
    pub writemsg: Option<Transfer>,
}

pub type Transfer = unsafe extern "C" fn(*mut Ep, *const RmaMessage, u64) -> isize;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Piece {
    pub base: *mut c_void,
    pub len: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct RemotePiece {
    pub address: u64,
    pub len: usize,
    pub key: u64,
}

#[repr(C)]
pub struct RmaMessage {
    pub pieces: *const Piece,
    pub descriptors: *mut *mut c_void,
    pub count: usize,
    pub address: u64,
    pub remote: *const RemotePiece,
    pub remote_count: usize,
    pub context: *mut c_void,
    pub data: u64,
}

/// Memory that an operation lends to the provider until it is done; the larger of the two kinds.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct OperationContext(pub [usize; 8]);

/// The entry of a table of functions, if the table reaches so far.
macro_rules! function {
    ($table:expr, $type:ty, $entry:ident) => {{
        let table: *const $type = $table;
        let reach = std::mem::offset_of!($type, $entry) + size_of::<usize>();
        if table.is_null() || (*table).size < reach { None } else { (*table).$entry }
    }};
}
pub(super) use function;
