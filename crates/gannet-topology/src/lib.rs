//! The PCI tree of a machine, the paths between its devices, and what they can carry.
//!
//! [`Machine::read`] reads what the kernel tells of PCI devices, NUMA nodes, sockets, and the means of
//! RDMA, below a root directory. [`Machine::route`] says how a network card and an accelerator reach each
//! other, as NCCL names it ([`PathClass`]), and [`Route::verdict`] what slows them. A [`Path`] is a list
//! of [`Hop`]s, from a machine ([`Machine::paths`]) or from a file ([`TopologyFile`]); [`Path::predict`]
//! gives its rates and the hop that limits each.
//!
//! Nothing is measured here, no device is touched, and no library is opened. What cannot be read is
//! `None`: unknown, never assumed without saying so.
//!
//! ```
//! use gannet_topology::rate::{Generation, PcieLink};
//!
//! let link = PcieLink::new(Generation::new(3).unwrap(), 16, 256);
//! assert_eq!((link.write_gbyte_per_s() * 100.0).round(), 1440.0);
//! ```
#![forbid(unsafe_code)]

mod config_space;
mod device;
mod files;
mod hop;
mod machine;
mod machine_paths;
mod path;
pub mod rate;
mod route;
pub mod testing;
mod topology_file;
mod verdict;

pub use config_space::{Acs, Express, PortType, acs, express};
pub use device::{Address, Device, Link, Port, Role};
pub use hop::{Hop, HopKind, Side, Window};
pub use machine::{GpuDirect, HugePages, Machine, NumaNode};
pub use path::{Limit, Path, Prediction, Rate, Visit, VisitTime};
pub use route::{PathClass, Route};
pub use topology_file::{HopTable, PathTable, TopologyFile, VisitTable, Wrong};
pub use verdict::{Standing, Verdict};
