//! What the two ends of a link agree on.

use gannet_wire::apelink::frame::HEAD_LEN;
use gannet_wire::apelink::{
    DATA_USED_MAX, FRAMED_WORDS_MAX, HEADERS_USED_MAX, NEXT_MODULUS, PAYLOAD_WORDS_MAX,
    VIRTUAL_CHANNELS, WORD_LEN,
};
use thiserror::Error;

use super::window::Layout;

/// Most words that a FIFO or the replay buffer may have: 16 MiB.
pub const WORDS_MAX: usize = 1 << 20;
/// Most packets that a FIFO or the replay buffer may have.
pub const PACKETS_MAX: usize = 1 << 16;
/// Longest frame, bytes: what a UDP datagram carries.
pub const FRAME_BYTES_MAX: usize = 65_507;
/// Most bytes behind a frame.
pub(super) const TAIL_MAX: usize = 64;
/// Bytes of a frame that are not payload, if it has one packet.
const FRAME_BESIDE: usize = HEAD_LEN + 2 * WORD_LEN;

/// What crosses the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Words, as lines in hardware carry them.
    Words,
    /// Frames of whole packets, as lines in software do.
    Frames {
        /// Longest frame, bytes, the same at both ends.
        bytes: usize,
    },
}

impl Form {
    /// Most words of payload that a packet may have in this form.
    pub(super) fn packet_words_max(&self) -> usize {
        match self {
            Self::Words => PAYLOAD_WORDS_MAX,
            Self::Frames { bytes } => {
                (bytes.saturating_sub(FRAME_BESIDE) / WORD_LEN).min(FRAMED_WORDS_MAX)
            }
        }
    }
}

/// Parameters of a link; both ends have the same but for the session.
///
/// Times are in ticks of the caller's clock. The defaults take a clock of word times; for another
/// clock set [`timeout`](Self::timeout), [`credit_period`](Self::credit_period) and
/// [`dead_after`](Self::dead_after).
///
/// FIFO sizes are those of the public core: APE-group/APEIRON, VHDL `link_pkg`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// What crosses the line.
    pub form: Form,
    /// Virtual channels, 1 to 4.
    pub virtual_channels: usize,
    /// Words of the data FIFO of each virtual channel.
    pub fifo_words: usize,
    /// Headers of the header FIFO of each virtual channel.
    pub fifo_headers: usize,
    /// Safety margin that a receiver adds to both used counts, words and headers. The published
    /// core needs one because it does not know what is on its way; here it may be 0. Less than
    /// either FIFO has.
    pub margin: usize,
    /// Words of packets between two credits on a busy line.
    pub credit_interval: u32,
    /// Longest time from one credit to the next as long as words are asked for, ticks; on an idle
    /// line that charges for words, the usual one. Frames are due at its multiples, and an end that has been silent for a quarter
    /// longer is asked for one four times in each period. Both ends hear each other at least twice in
    /// [`dead_after`](Self::dead_after).
    pub credit_period: u64,
    /// How long a frame that only acknowledges packets, or tells of more room where there is much, waits for
    /// packets to go with, ticks. Less than the timeout of the other end.
    pub news_delay: u64,
    /// Most packets sent and not yet acknowledged.
    pub window_packets: usize,
    /// Most words of payload sent and not yet acknowledged: the replay buffer.
    pub window_words: usize,
    /// Whether packets that were lost or damaged on the line are sent again.
    pub retransmit: bool,
    /// Time after which a packet that was sent and not acknowledged is sent again or given up,
    /// ticks: longer than a round trip, the longest packet and a credit.
    pub timeout: u64,
    /// Time without a good credit, or without one that answers this end, after which the line
    /// counts as dead, ticks.
    pub dead_after: u64,
    /// Bytes behind each frame that whoever sends it uses for itself.
    pub tail: usize,
    /// Number of this life of this end, not 0, at most 255 on a line of words. A restarted end has to
    /// take another one; with retransmission, most of the time the ends notice if it does not.
    pub session: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            form: Form::Words,
            virtual_channels: 2,
            fifo_words: 512,
            fifo_headers: 128,
            margin: 0,
            credit_interval: 128,
            credit_period: 512,
            news_delay: 0,
            window_packets: 256,
            window_words: 1280,
            retransmit: true,
            timeout: 4096,
            dead_after: 4096,
            tail: 0,
            session: 1,
        }
    }
}

/// Why a link cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{field} of a link is {got}: it must be {min} to {max}")]
pub struct ConfigError {
    /// Name of the field.
    pub field: &'static str,
    /// Least value allowed.
    pub min: u64,
    /// Largest value allowed.
    pub max: u64,
    /// Value given.
    pub got: u64,
}

impl Config {
    /// Tests every field against what the format and our limits allow.
    ///
    /// # Errors
    ///
    /// The first field that is out of its range.
    pub fn check(&self) -> Result<(), ConfigError> {
        let (words, headers, packets, frame_bytes) = match self.form {
            Form::Words => (
                usize::from(DATA_USED_MAX).saturating_sub(self.margin),
                usize::from(HEADERS_USED_MAX).saturating_sub(self.margin),
                NEXT_MODULUS as usize / 2,
                FRAME_BYTES_MAX,
            ),
            Form::Frames { bytes } => (WORDS_MAX, PACKETS_MAX, PACKETS_MAX, bytes),
        };
        let frame_bytes_max = FRAME_BYTES_MAX.saturating_sub(self.tail);
        // A FIFO that the margin fills never has room.
        let margin = self.fifo_words.min(self.fifo_headers).saturating_sub(1);
        let sizes = [
            ("virtual_channels", 1, VIRTUAL_CHANNELS, self.virtual_channels),
            ("fifo_words", 1, words, self.fifo_words),
            ("fifo_headers", 1, headers, self.fifo_headers),
            ("margin", 0, margin, self.margin),
            ("window_packets", 1, packets, self.window_packets),
            ("window_words", self.packet_words_max().max(1), WORDS_MAX, self.window_words),
            ("session", 1, self.session_max() as usize, self.session as usize),
            ("credit_interval", 1, u32::MAX as usize, self.credit_interval as usize),
            ("tail", 0, TAIL_MAX, self.tail),
            ("the bytes of a frame", FRAME_BESIDE + WORD_LEN, frame_bytes_max, frame_bytes),
        ];
        let sizes = sizes.map(|(field, min, max, got)| (field, min as u64, max as u64, got as u64));
        let times = [
            ("timeout", 1, u64::MAX, self.timeout),
            ("dead_after", 2, u64::MAX, self.dead_after),
            ("credit_period", 1, self.dead_after / 2, self.credit_period),
            ("news_delay", 0, self.credit_period, self.news_delay),
        ];
        for (field, min, max, got) in sizes.into_iter().chain(times) {
            if !(min..=max).contains(&got) {
                return Err(ConfigError { field, min, max, got });
            }
        }
        Ok(())
    }

    /// Most words of payload that a packet may have on this link.
    pub(crate) fn packet_words_max(&self) -> usize {
        self.fifo_words.saturating_sub(self.margin).min(self.form.packet_words_max())
    }

    /// What frames are like; on a line of words each packet is alone, as it is.
    pub(super) fn layout(&self) -> Layout {
        match self.form {
            Form::Words => Layout::default(),
            Form::Frames { bytes } => Layout { head: HEAD_LEN, tail: self.tail, bytes },
        }
    }

    /// Largest number of a session.
    fn session_max(&self) -> u32 {
        match self.form {
            Form::Words => u8::MAX.into(),
            Form::Frames { .. } => u32::MAX,
        }
    }

    /// The number of a session after `session`.
    pub(super) fn session_after(&self, session: u32) -> u32 {
        if session < self.session_max() { session + 1 } else { 1 }
    }
}
