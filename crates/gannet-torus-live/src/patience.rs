//! How long a node waits: all of it follows from the watchdog, and the sizes from the cables.

use gannet_ingest::udp::CoalescedSocket;
use gannet_lattice::{Lattice, Node};
use gannet_rdma::WINDOW_MAX;
use gannet_torus::link::{Config, Form};
use gannet_torus::node::Configuration;
use gannet_wire::apelink::frame::HEAD_LEN;
use gannet_wire::apelink::{FRAMED_LEN_MAX, FRAMED_WORDS_MAX, WORD_LEN};
use gannet_wire::rdma::HEADER_LEN;

/// Header and footer of a packet in a frame, bytes.
const PACKET_BESIDE: usize = 2 * WORD_LEN;
/// Shortest packets with which a window of so many words is used up before that of packets.
const PACKET_WORDS: usize = 8;

/// PUTs and GETs under way.
const POSTS_MAX: usize = 1024;
/// Registered buffers.
const BUFFERS_MAX: usize = 1024;
/// Pages of 4 KiB of all of them: 8 GiB.
const PAGES_MAX: usize = 2 << 20;

/// Packets of one message after which they are acknowledged: an eighth of those that may be under way.
const ACK_PACKETS: u8 = WINDOW_MAX as u8 / 8;
/// Most packets of the engine that a driver takes at once: with more, the other end waits for the first of them.
const PIECE_PACKETS_MAX: usize = 32;
/// How long an acknowledgement waits for packets to go with.
const NEWS_DELAY_NS: u64 = 50_000;

/// How often an end says that it is there, by frames of the link or by sealed messages, for a watchdog, ns.
pub(crate) const fn beat_ns(watchdog_ns: u64) -> u64 {
    watchdog_ns / 4
}

/// For how long an end may be silent before it counts as dead, for a watchdog, ns: what is left is for telling it.
pub(crate) const fn silence_ns(watchdog_ns: u64) -> u64 {
    watchdog_ns / 16 * 9
}

/// What a user says of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// Within it every node knows of a fault of a neighbour, ns.
    pub watchdog_ns: u64,
    /// How long a driver looks for frames again and again after the last one, before it sleeps, ns.
    pub spin_ns: u64,
}

impl Default for Patience {
    /// A tenth of a second, and no spinning: a host with fewer cores than nodes or ports must not burn them.
    fn default() -> Self {
        Self { watchdog_ns: 100_000_000, spin_ns: 0 }
    }
}

impl Patience {
    /// Configuration of a node whose cables all carry frames of `frame_bytes`, with `window_bytes` under way on each.
    ///
    /// A neighbour counts as dead when it has been silent for nine sixteenths of the watchdog. It says something each quarter of it: so a
    /// host may be kept from running for three tenths of the watchdog without being given up. It is asked for what does not come four times:
    /// so a cable may lose frames.
    /// A packet fills a frame, or an equal part of one.
    pub fn configure(
        &self,
        lattice: Lattice,
        node: Node,
        frame_bytes: usize,
        window_bytes: usize,
        session: u32,
    ) -> Configuration {
        let mut configuration = Configuration::new(lattice, node, 1);
        let words = (window_bytes / WORD_LEN).max(FRAMED_WORDS_MAX);
        configuration.link = Config {
            form: Form::Frames { bytes: frame_bytes },
            fifo_words: words,
            fifo_headers: words / PACKET_WORDS,
            window_words: words,
            window_packets: words / PACKET_WORDS,
            credit_period: beat_ns(self.watchdog_ns),
            news_delay: NEWS_DELAY_NS.min(self.watchdog_ns / 20),
            dead_after: silence_ns(self.watchdog_ns),
            timeout: self.watchdog_ns / 8,
            session,
            ..configuration.link
        };
        configuration.injection_packets = piece_packets(frame_bytes);
        let limits = &mut configuration.engine.limits;
        limits.data_bytes = data_bytes(frame_bytes);
        limits.window = WINDOW_MAX;
        // Of all processes of the host together.
        limits.posts = POSTS_MAX;
        limits.completions = 2 * POSTS_MAX;
        limits.buffers = BUFFERS_MAX;
        limits.pages = PAGES_MAX;
        // In software the table of buffers is no further away than a cache of it.
        configuration.engine.translation.entries = 0;
        let replay = &mut configuration.engine.replay;
        // The last packet of a message is acknowledged at once.
        replay.ack_packets = ACK_PACKETS;
        replay.ack_delay_ns = configuration.link.news_delay;
        // What a link loses it sends again itself, also twice; this is for packets that a dead node had.
        replay.timeout_ns = self.watchdog_ns / 4;
        replay.timeout_min_ns = replay.timeout_ns;
        replay.timeout_max_ns = 2 * self.watchdog_ns;
        configuration
    }
}

/// Packets of the engine that a driver takes at once: those that fill two messages of the kernel.
fn piece_packets(frame_bytes: usize) -> usize {
    (2 * message_packets(frame_bytes)).clamp(1, PIECE_PACKETS_MAX)
}

/// Longest PUT whose packets fill one message of the kernel, bytes, where frames have `frame_bytes`.
pub(crate) fn burst_bytes(frame_bytes: usize) -> usize {
    message_packets(frame_bytes) * data_bytes(frame_bytes)
}

/// Packets that fill a message of the kernel.
fn message_packets(frame_bytes: usize) -> usize {
    let frames = CoalescedSocket::BYTES_MAX / frame_bytes.max(1);
    frames * frame_bytes.div_ceil(FRAMED_LEN_MAX + PACKET_BESIDE)
}

/// Bytes of data in the longest packets of which a whole number fills a frame.
fn data_bytes(frame_bytes: usize) -> usize {
    let room = frame_bytes.saturating_sub(HEAD_LEN);
    let packets = room.div_ceil(FRAMED_LEN_MAX + PACKET_BESIDE).max(1);
    let payload = (room / packets).saturating_sub(PACKET_BESIDE) / WORD_LEN * WORD_LEN;
    payload.saturating_sub(HEADER_LEN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_fit_the_frames_of_common_cables() {
        assert_eq!(data_bytes(1472), 1376 - 48);
        assert_eq!(data_bytes(8972), 8864 - 48);
        assert_eq!(data_bytes(65_507), 16_320 - 48);
        assert_eq!(data_bytes(100), 0);
    }

    #[test]
    fn a_piece_is_two_messages_or_the_most() {
        assert_eq!([100, 1472, 8972, 65_507].map(piece_packets), [32, 32, 14, 8]);
    }

    #[test]
    fn a_burst_is_what_fills_a_message() {
        let bursts = [(1472, 44 * 1328), (8972, 7 * 8816), (65_507, 4 * 16_272), (100, 0)];
        for (frame_bytes, burst) in bursts {
            assert_eq!(burst_bytes(frame_bytes), burst, "{frame_bytes}");
        }
    }

    #[test]
    fn what_follows_from_the_watchdog_is_accepted_by_a_node() {
        let lattice: Lattice = "2x2".parse().unwrap();
        for (watchdog_ns, frame_bytes, window) in
            [(1_000_000, 576, 1 << 10), (100_000_000, 8972, 4 << 20), (60_000_000_000, 65_507, 0)]
        {
            let patience = Patience { watchdog_ns, ..Patience::default() };
            let configuration = patience.configure(lattice, Node(3), frame_bytes, window, 1);
            configuration.link.check().unwrap();
            configuration.engine.check().unwrap();
        }
    }
}
