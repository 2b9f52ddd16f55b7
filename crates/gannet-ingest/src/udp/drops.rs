//! What the kernel dropped, in datagrams.
//!
//! The kernel counts *messages* that it could not queue, in 32 bits per socket. `SO_MEMINFO`,
//! `SO_RXQ_OVFL` and `/proc/net/udp` all show this one counter; it is read from the first, which
//! neither lags behind nor needs a further datagram, or from the last where the first is missing.
//!
//! A message is one datagram unless the socket accepts coalesced messages. Then one drop may
//! stand for many datagrams, and only the [`ArrivalCounter`](crate::sys::arrival_counter) knows
//! how many.

use std::fs;

use crate::sys::arrival_counter::Tally;

/// Extends the kernel's counter to 64 bits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DropCount {
    last: u32,
    total: u64,
}

impl DropCount {
    /// Counts from `reading` on.
    pub(crate) fn from(reading: u32) -> Self {
        Self { last: reading, total: 0 }
    }

    /// Takes in a reading of the counter, and returns how many drops are new. Readings that are
    /// older than the newest change nothing.
    pub(crate) fn observe(&mut self, reading: u32) -> u64 {
        let new = reading.wrapping_sub(self.last);
        if new > u32::MAX / 2 {
            return 0;
        }
        (self.last, self.total) = (reading, self.total + u64::from(new));
        u64::from(new)
    }

    /// Drops so far, in messages.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }
}

/// Datagrams that were dropped: those that came to the queue and were not taken from it, plus one
/// for each drop before the queue (a wrong check sum). Exact when the queue is empty.
///
/// `arrived` counts before the queue, `taken` behind it, `drops` is the kernel's count of
/// dropped messages.
pub(super) fn dropped_datagrams(arrived: Tally, taken: Tally, drops: u64) -> u64 {
    let datagrams = arrived.datagrams.saturating_sub(taken.datagrams);
    let messages = arrived.messages.saturating_sub(taken.messages);
    datagrams + drops.saturating_sub(messages)
}

/// The drop counter of the socket `inode` from the text of `/proc/net/udp` or `udp6`.
///
/// Format: `Documentation/networking/proc_net_tcp.rst` and `udp4_format_sock` of the kernel; the
/// inode is the tenth column and the drops are the last.
pub(super) fn drops_in_proc(text: &str, inode: u64) -> Option<u32> {
    text.lines().skip(1).find_map(|line| {
        let columns: Vec<&str> = line.split_ascii_whitespace().collect();
        let [.., drops] = columns[..] else { return None };
        (columns.get(9)?.parse() == Ok(inode)).then(|| drops.parse().ok())?
    })
}

/// Reads the drop counter of the socket `inode` from the files of the kernel.
pub(crate) fn read_proc(inode: u64) -> Option<u32> {
    ["/proc/net/udp", "/proc/net/udp6"]
        .iter()
        .find_map(|path| drops_in_proc(&fs::read_to_string(path).ok()?, inode))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_counter_of_one_socket_is_found_by_inode() {
        let text = "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt \
             uid  timeout inode ref pointer drops\n\
             30: 0100007F:4445 00000000:0000 07 00000000:00000000 00:00000000 00000000     0  \
             0 4711 2 0000000000000000 17\n\
             31: 0100007F:4445 00000000:0000 07 00000000:00000000 00:00000000 00000000     0  \
             0 4712 2 0000000000000000 4294967295\n";
        assert_eq!(drops_in_proc(text, 4711), Some(17));
        assert_eq!(drops_in_proc(text, 4712), Some(u32::MAX));
        assert_eq!(drops_in_proc(text, 4713), None);
        assert_eq!(drops_in_proc("", 4711), None);
    }

    #[test]
    fn drops_are_sized_by_what_arrived_and_was_taken() {
        // Ten messages of nine datagrams; eight were taken, two dropped.
        let arrived = Tally { messages: 10, datagrams: 90 };
        let taken = Tally { messages: 8, datagrams: 72 };
        assert_eq!(dropped_datagrams(arrived, taken, 2), 18);
        assert_eq!(dropped_datagrams(arrived, taken, 5), 21, "three had a wrong check sum");
        assert_eq!(dropped_datagrams(arrived, arrived, 0), 0);
    }

    proptest! {
        #[test]
        fn wraps_lose_nothing_and_late_readings_change_nothing(
            start: u32, steps in proptest::collection::vec((0u32..1 << 30, 0u32..1000), 1..40),
        ) {
            let (mut counter, mut kernel, mut total) = (DropCount::from(start), start, 0);
            for (step, late) in steps {
                kernel = kernel.wrapping_add(step);
                total += u64::from(step);
                prop_assert_eq!(counter.observe(kernel), u64::from(step));
                counter.observe(kernel.wrapping_sub(late));
                prop_assert_eq!(counter.total(), total);
            }
        }
    }
}
