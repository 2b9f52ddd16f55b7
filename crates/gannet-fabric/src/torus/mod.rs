//! Endpoints of the hosts of a live torus, by the nodes of their hosts.
//!
//! A host runs a node (`gannet torus node`), and a process uses it by a socket: [`user`] is what it links. A [`Torus`] is an
//! endpoint over that. Each endpoint that it is joined to has a user of its own, with memory and addresses of its own, so that
//! whatever happens to one of them is nothing to the others, and nothing can be reached any more once it has left.
//!
//! A PUT is one of the torus, with the immediate as its tag; one that tells nobody is a quiet one. A window is a view of a
//! region at an address that is drawn at random for each endpoint, as are the numbers of users: who does not know both, reaches nothing. Who is told takes
//! a bounded number of events, and says by a word in the memory of the other side how many it has taken.
//!
//! Which node of the host is used, [`here`] knows. Endpoints meet over TCP ([`crate::tcp`]), and PUT a word to each other before they are joined: what cannot be reached is known
//! at once. Setting up memory waits for the node of this host, as a user does; nothing else waits.

mod credit;
mod endpoint;
pub mod here;
mod pair;
pub mod user;

pub use endpoint::Torus;
