//! LO|FA|MO, the LOcal FAult MOnitor: every node watches itself and its neighbours, and a master
//! knows the state of the whole.
//!
//! Three machines without input or output: time, registers and diagnostics go in, actions come out.
//!
//! * [`Host`] beats its register, watches its [`Nic`], and tells the master over the service network
//!   what it learns;
//! * [`Nic`] watches host, sensors and links of its node, tells the neighbours, keeps what they say
//!   of themselves, and passes it on where a host cannot bring it to the master;
//! * [`Master`] keeps the [`Picture`] of the whole.
//!
//! The service network may lose what is sent over it: reports and probes are sent again until they
//! are acknowledged or answered, or given up after a bounded number of tries.
//!
//! [`Disassembler`] and [`Assembler`](gannet_wire::lofamo::Assembler) carry diagnostics in the spare
//! bits of credit words: no packet is added. [`Timing`] holds both ways to watch: *poll*, as
//! published, and *push*.
//!
//! Source: arXiv:1307.0433. The protocol between the machines is not published and is ours.

mod health;
mod host;
mod master;
mod nic;
mod report;
mod timing;

pub use health::{Limits, Readings, Thresholds};
pub use host::{Host, HostAction};
pub use master::{Heard, Master, MasterAction, Picture};
pub use nic::{Disassembler, Nic, NicAction};
pub use report::{Answer, Author, Receipt, Report};
pub use timing::{Mode, Timing};
