//! What an end of a link has seen and done.

/// Counters of one end since it was made.
///
/// The counts of control words, headers and footers and the header errors are those of the
/// registers of the public core (APE-group/APEIRON `dev_apps/lat_bw/host/reg_labels.txt`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// MAGIC words sent as control words.
    pub tx_magic: u64,
    /// START words sent.
    pub tx_start: u64,
    /// Headers sent, those sent again included.
    pub tx_headers: u64,
    /// Words of payload sent, those sent again included.
    pub tx_payload_words: u64,
    /// Footers sent, those sent again included.
    pub tx_footers: u64,
    /// Credit words sent.
    pub tx_credits: u64,
    /// Words of packets that were sent as two.
    pub tx_escapes: u64,
    /// Times that sending went back to the oldest packet that is not acknowledged.
    pub tx_rewinds: u64,
    /// Packets acknowledged by the other end.
    pub tx_acknowledged: u64,
    /// Packets given up: without retransmission, because no acknowledgement came in time or the
    /// other end has restarted.
    pub tx_given_up: u64,

    /// MAGIC words received as control words.
    pub rx_magic: u64,
    /// START words received.
    pub rx_start: u64,
    /// Headers received that were right, or put right.
    pub rx_headers: u64,
    /// Footers received.
    pub rx_footers: u64,
    /// Good credit words received.
    pub rx_credits: u64,
    /// Credit words ignored because a bit was wrong.
    pub rx_credit_errors: u64,
    /// Headers with one wrong bit, which was put right.
    pub header_errors: u64,
    /// Headers with two wrong bits: the packet is dropped.
    pub fatal_header_errors: u64,
    /// Headers whose size or virtual channel this link does not have, or that nothing follows.
    pub header_refused: u64,
    /// Packets whose check sum was wrong.
    pub crc_errors: u64,
    /// Packets that a START cut short, or a restart.
    pub cut_packets: u64,
    /// Packets in front of which others are missing; with retransmission they are dropped.
    pub sequence_gaps: u64,
    /// Packets that, by the gaps, were sent and did not arrive. Only without retransmission.
    pub lost_packets: u64,
    /// Packets that had already been accepted.
    pub duplicates: u64,
    /// Packets for which there was no room: the other end does not keep to the credits.
    pub overflows: u64,
    /// Packets dropped because the two ends had not yet heard each other.
    pub strangers: u64,
    /// Packets accepted.
    pub rx_packets: u64,

    /// Waits for a header that lasted too long.
    pub header_timeouts: u64,
    /// Waits for payload or footer that lasted too long.
    pub data_timeouts: u64,
    /// Times that numbering began anew because an end had restarted.
    pub restarts: u64,
    /// Times that the line was found dead.
    pub downs: u64,
}
