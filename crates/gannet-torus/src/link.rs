//! One end of an APElink: packets in, words or frames out; words or frames in, packets out.
//!
//! [`Link`] is a state machine without input or output. The caller gives it the time and the words
//! that arrive, and takes the words that are to be sent, one for each word time of the line:
//!
//! ```
//! use gannet_torus::link::{Config, Link, Origin};
//! use gannet_wire::apelink::Header;
//!
//! let mut a = Link::new(Config { session: 1, ..Config::default() })?;
//! let mut b = Link::new(Config { session: 2, ..Config::default() })?;
//! let mut payload = [0; 4096];
//! for now in 0..100 {
//!     if now == 50 {
//!         a.send(Header::default(), Origin::default(), b"over the line")?;
//!     }
//!     let (to_b, to_a) = (a.transmit(now).word, b.transmit(now).word);
//!     a.receive(to_a, now);
//!     b.receive(to_b, now);
//! }
//! let packet = b.take(0, &mut payload).expect("a packet has arrived");
//! assert_eq!(&payload[..usize::from(packet.header.size)], b"over the line");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What crosses the line
//!
//! Framing, escapes and the formats of the words are those of [`gannet_wire::apelink`]. An idle
//! transmitter sends credits; a busy one inserts one every [`Config::credit_interval`] words. START is on the line where a packet begins and nowhere
//! else, so damage never reaches past the packet that it hit.
//!
//! A line in software, that charges for every word, is given those of [`Link::transmit_due`]: words
//! of packets, a credit when there is something new to tell, and one every [`Config::credit_period`].
//!
//! A line in software that moves datagrams has frames instead ([`Form::Frames`]): a credit and as many whole packets as fit, which
//! [`Link::take_frames`] gives as they lie in the replay buffer, and [`Link::accept`] takes. Nothing else differs. A frame counts
//! in numbers that do not end at 16 KiB; where its packets come to an end that cannot be read, what is
//! behind is lost and comes again.
//!
//! # Flow control
//!
//! A credit tells absolutely how full the FIFOs of the receiver are, and which packets that counts.
//! The transmitter adds what it has sent since, so a packet is taken only when there is room for
//! all of it whatever the length of the line: nothing is ever blocked half-way, and one virtual
//! channel never waits for another. Lost credits delay and do no harm.
//!
//! # Loss
//!
//! A packet is handed over when its footer has been found right, in the order of sending. With
//! [`Config::retransmit`], a packet that was lost or damaged is sent again with all behind it
//! (go-back-N) from a bounded replay buffer, on demand of the receiver or after
//! [`Config::timeout`]: every packet arrives once, intact and in order. Without it, such a packet
//! is lost and counted, and a timeout frees what it had reserved.
//!
//! Packets of a header only, which the format has too, have no footer, so no number and no check
//! sum: this link sends none and drops those that come.
//!
//! # Sessions
//!
//! Each life of an end has a session number, told in its credits together with the one that it
//! hears. Packets flow when both ends hear each other; a restart of either begins a new numbering,
//! so that neither waits for the other's past. Packets that a restarted end had accepted are gone.
//!
//! A line without good credits for [`Config::dead_after`] is down: [`Event::Down`]. Its end tells so
//! by answering no session any more, so that a line that has died one way is down at both ends. When
//! credits come back it goes on where it was.

mod config;
mod counters;
pub mod efficiency;
mod end;
mod fifo;
#[cfg(test)]
#[path = "../tests/it/line.rs"]
mod line;
mod receiver;
mod report;
mod ring;
#[cfg(test)]
mod tests;
mod transmitter;
mod window;

pub use config::{Config, ConfigError, FRAME_BYTES_MAX, Form};
pub use counters::Counters;
pub use end::{Diagnostics, Event, FrameError, Frames, Link, Sent, State};
pub use fifo::Arrival;
pub use receiver::Stage;
pub use transmitter::Refused;
pub use window::{Most, Origin};
