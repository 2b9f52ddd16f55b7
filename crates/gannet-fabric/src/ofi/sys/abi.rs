//! Layouts and numbers of libfabric's binary interface, version 1.17, which 2.x keeps.
//!
//! Only what is used is named. Fields that later versions added stand at the end of their structures and
//! are not touched here.
//!
//! Source: manual pages and headers of libfabric 1.17.0 and 2.6.0 (`fabric`, `fi_domain`, `fi_endpoint`,
//! `fi_cq`, `fi_rma`, `fi_cm`).

use std::ffi::{c_char, c_int, c_void};

/// The version that calls are made in.
pub const API: u32 = 1 << 16 | 17;

pub const NO_DATA: c_int = 61;

pub const RMA: u64 = 1 << 2;
pub const READ: u64 = 1 << 8;
pub const WRITE: u64 = 1 << 9;
pub const REMOTE_READ: u64 = 1 << 12;
pub const REMOTE_WRITE: u64 = 1 << 13;
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
