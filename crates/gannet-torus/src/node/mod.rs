//! A node of a torus: RDMA engine, links and the router between them as one machine without input
//! or output.
//!
//! [`TorusNode`] is given words with link and time ([`TorusNode::receive`]) and gives a word for
//! each link and word time ([`TorusNode::transmit`]). The host posts PUTs and GETs to its
//! [`engine`](TorusNode::engine) and polls completions there.
//!
//! # The way of a packet
//!
//! 1. The engine makes a packet. It waits in a bounded place until its link has room; packets for
//!    other links pass it.
//! 2. Each node asks [`Routes::hop`](crate::Routes::hop) for the next link and class; of the virtual
//!    channels of the class, the destination chooses one, so that packets to it keep their order. Where the direct way is broken, [`Routes::way`](crate::Routes::way)
//!    names a node to pass; every node finds the same one, since the footer carries the source.
//! 3. At its destination it goes to the engine.
//!
//! Packets are stored and forwarded: a link hands a packet over once its footer has been found
//! right, so that no router passes damaged bytes on. For a node in software, that takes words from a
//! socket or a ring, a packet is there or not anyway; a router in hardware would cut through, and
//! that is what [`simulator`](crate::simulator) models.
//!
//! The header names the destination by number and tells the hops made. Its process field holds the
//! number of the routes (below); the end-to-end header names the process. `last_in_dimension` is not
//! used: a turn is seen by the link that a packet came in by.
//!
//! # Room
//!
//! A packet is taken out of a receive FIFO only when the link it goes to takes it, or the engine
//! does. Otherwise it stays, the FIFO fills, and credits hold back the node before. Inputs that want
//! one output have it in turn, packet by packet, or by equal shares ([`router`](crate::router)), and an
//! engine is one input among them. A packet of a frame that need not wait, since none of its channel does
//! and nobody else wants to go by the same port, goes on from the frame.
//!
//! # No deadlock
//!
//! A packet waits for one of three things:
//!
//! * *Room at the engine.* It comes by itself: writes to memory take bounded time and wait for
//!   nothing, acknowledgements are not queued as packets but are a mark on the flow, and a queue of
//!   completions that is full holds a sender back end to end, not here.
//! * *Room in the replay buffer of a link*, which all channels share. What is in it has been promised
//!   room in its own far FIFO ([`link`](crate::link) takes a packet only then), so that it leaves
//!   whatever other packets do.
//! * *Room in a far FIFO.* FIFOs belong to one virtual channel of one link, hence to one class, and
//!   whose packets wait for which is the channel dependency graph of the routes, which is acyclic:
//!   dimension order by its dateline, all others because [`Routes::around`](crate::Routes::around)
//!   walks them before it gives them out. Routes with more classes than links have channels, and
//!   those that need bubbles, are refused ([`UnfitRoutes`]).
//!
//! A packet whose link is down does not wait: it is dropped, told and sent again end to end.
//!
//! # New routes
//!
//! Routes have a number, their *epoch*, which packets carry. A node passes on packets of its own
//! epoch only and drops others ([`Reason::OtherRoutes`]); at their destination all are taken. So no
//! packet ever follows two kinds of routes, and once all nodes have changed, none is left that could
//! wait in a cycle. What was dropped is sent again. To change without dropping anything,
//! [`TorusNode::pause`] all nodes, wait until they are all [drained](TorusNode::is_drained), change,
//! and [`TorusNode::resume`].
//!
//! A line that comes back after 256 changes may still bring a packet of an epoch with the same
//! number.
//!
//! # LO|FA|MO
//!
//! With [`TorusNode::with_monitor`] the spare bits of all credits carry diagnostics. The number of
//! words does not change.
//!
//! # Live links
//!
//! A driver owns one thread's worth of this: for each link a socket, or a ring of words to a device.
//! It takes what they have brought to [`TorusNode::accept`] or [`TorusNode::receive_all`], calls
//! [`TorusNode::advance`], and sends what [`TorusNode::emit`] or [`TorusNode::transmit_into`] give, credits
//! among it when they are due. Then it sleeps until something comes or [`TorusNode::next_deadline`].

mod arbiter;
mod configuration;
mod event;
mod guide;
mod injection;
mod port;
mod routing;
mod torus_node;

pub use configuration::{Configuration, ConfigurationError, INJECTION_PACKETS_MAX, UnfitRoutes};
pub use event::{Counters, EVENTS_MAX, Event, Reason};
pub use torus_node::TorusNode;
