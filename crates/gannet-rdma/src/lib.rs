//! RDMA between nodes: PUT and GET with completion events, nothing lost, nothing twice.
//!
//! An [`Engine`] is the RDMA part of the network interface of one node, as a state machine without
//! input or output. It is given descriptors ([`Engine::post_put`], [`Engine::post_get`]), packets
//! that a link brings ([`Engine::packet_in`]) and the time; it gives packets for a link
//! ([`Engine::next_packet`]), completions ([`Engine::poll_completion`]) and the time at which it
//! wants to be called again ([`Engine::next_deadline`]). It copies to and from a
//! [`PhysicalMemory`]. The same engine runs in software, at once, and as a model of hardware, with
//! the costs of [`Timing`].
//!
//! What it promises, whatever the path loses, doubles, swaps or damages:
//!
//! * data of a PUT are written once, before its [`Completion::RxDone`], and never after it;
//! * [`Completion::TxDone`] says that the data are in the far memory. Only then may the source be
//!   changed, since packets are sent again from there;
//! * completions of PUTs from one node come in the order in which they were posted there;
//! * what cannot be done is told: a refused address with its reason, a silent node as
//!   [`Failure::Unreachable`]. Data of such a PUT may have arrived in part, or all.
//!
//! How: the packets from one node to another are numbered, at most [`Limits::window`] of them are under
//! way, and the receiver tells the next number it waits for and which later ones it has. What is
//! not told in time is sent again: in the time that round trips to the node took so far, and with growing patience ([`Replay`]). After
//! so many times the engine gives the node up: what was posted to it fails, and empty packets take the place of those under way, so
//! that nothing is numbered anew and taken twice. Only when the other node says that it knows
//! nothing of the numbers, since it has started anew, a new epoch of them begins. See [`gannet_wire::rdma`] for the header that carries
//! this.
//!
//! What it does not do: wait for a process that does not take its completions ([`Overflow`] says
//! what happens then), order packets of different nodes, or encrypt.
//!
//! # Examples
//!
//! ```
//! use gannet_memory::Registration;
//! use gannet_lattice::Node;
//! use gannet_rdma::{Completion, Configuration, Engine, Put};
//!
//! let mut near = Engine::new(Configuration::new(Node(0)), vec![7; 4096]);
//! let mut far = Engine::new(Configuration::new(Node(1)), vec![0; 4096]);
//! far.register(&Registration {
//!     process: 3, start: 0x10000, length: 4096, writable: true, pages: &[0],
//! })?;
//!
//! near.post_put(0, &Put {
//!     source: 0, destination: Node(1), process: 3, address: 0x10010, length: 100, tag: 42,
//! })?;
//! let mut packet = [0; 4096];
//! while let Some(outgoing) = near.next_packet(0, &mut packet) {
//!     far.packet_in(0, &packet[..outgoing.length]);
//! }
//! assert!(matches!(far.poll_completion(), Some(Completion::RxDone { tag: 42, length: 100, .. })));
//! assert_eq!(far.memory()[0x10..][..100], [7; 100]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Sources: the order of events and the parameters of the model are those of APEnet+ (TX physical
//! and RX virtual address, TX_DONE, RX_DONE, TLB with miss path, two DMA engines); end-to-end
//! acknowledgement and replay are ours.
#![forbid(unsafe_code)]

mod completion;
mod configuration;
mod engine;
mod epoch;
mod memory;
mod operations;
mod receive_window;
mod round_trip;
mod send_window;

pub use completion::{Completion, Failure, Reason, Request};
pub use configuration::{
    Configuration, ConfigurationError, ENGINES_MAX, ENTRIES_MAX, Limits, OPERATIONS_MAX, Overflow,
    Replay, Timing, TranslationCache, UNLIMITED,
};
pub use engine::{Counters, Engine, Get, Outgoing, PostError, Put, RegistrationError, Unwritten};
pub use memory::PhysicalMemory;
pub use receive_window::WINDOW_MAX;
