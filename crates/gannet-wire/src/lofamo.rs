//! LO|FA|MO (LOcal FAult MOnitor): watchdog registers, and the diagnostics that ride in credit words.
//!
//! Host and network interface (NIC) watch each other through two registers: the host writes the
//! [`HostWatchdog`], the NIC the [`NicWatchdog`]. What the NIC concludes of its node it tells the
//! neighbours as a [`FaultDescriptor`], in the 16 spare bits of each credit word of its links: a
//! [`Diagnostic`] is seven such words, so no packet is added. Little-endian words of 64 bits.
//!
//! Source: registers, neighbours' status and carrier as in Ammendola et al., arXiv:1307.0433
//! ("Mutual Watch-dog Networking"); the public text does not give the bits, which are defined here.

mod diagnostic;
mod registers;
mod status;

pub use diagnostic::{Assembler, DIAGNOSTIC_WORDS, Diagnostic, IDLE_WORD};
pub use registers::{
    FaultDescriptor, FaultDescriptorRepr, HostWatchdog, HostWatchdogRepr, NicWatchdog,
    NicWatchdogRepr, VERSION,
};
pub use status::Status;
