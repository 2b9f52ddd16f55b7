//! What drops mean for the run: which of them lose what it is for, and what can be done about them.

/// Drops that lose nothing of what the run is for: what came before it, what others sent here, what
/// came twice, what a setting keeps out, and commands.
const HARMLESS: [(&str, &str); 23] = [
    ("source", "before_start"),
    ("source", "empty"),
    ("source", "foreign_address"),
    ("source", "wrong_queue_pair"),
    ("source", "wrong_key"),
    ("source", "out_of_turn"),
    ("frames", "unknown_stream"),
    ("frames", "duplicate"),
    ("primitives", "after_stop"),
    ("merge", "too_long"),
    ("activity", "prescaled"),
    ("candidate", "prescaled"),
    ("module_level", "ignored"),
    ("module_level", "overlap"),
    ("module_level", "paused"),
    ("module_level", "busy"),
    ("module_level", "dead_time"),
    ("trigger_fragments", "timed_out"),
    ("trigger_fragments", "ended"),
    ("slow_control", "refused"),
    ("slow_control", "unknown_key"),
    ("slow_control", "not_acknowledged"),
    ("slow_control", "not_sent"),
];

/// Stage, reason, and what to do.
const ADVICE: &[(&str, &str, &str)] = &[
    (
        "sent",
        "kernel_queue",
        "Give the kernel larger buffers, or the readout more or faster processors: `gannet doctor` tells which.",
    ),
    (
        "sent",
        "no_readout",
        "Start the readout of these streams again; its own report tells why it ended.",
    ),
    (
        "sent",
        "before_socket",
        "Look at the counters of the network card (`ethtool -S`) and of the switch.",
    ),
    (
        "source",
        "kernel_queue",
        "Give the kernel larger buffers, or the readout more or faster processors: `gannet doctor` tells which.",
    ),
    (
        "source",
        "foreign_address",
        "If the sender is one of yours, add it to `allow` of the source.",
    ),
    (
        "source",
        "wrong_length",
        "Something else sends to this port, or the front end another format than `streams` says.",
    ),
    (
        "source",
        "bad_check_sum",
        "Packets are damaged on the way: look at cables and at the counters of the network card.",
    ),
    (
        "source",
        "no_leave",
        "The readout is slower than the sender: give it processors, or the source a longer `queue`.",
    ),
    (
        "source",
        "given_up",
        "The readout is slower than the sender: give it processors, or the source a longer `queue`.",
    ),
    (
        "frames",
        "bad_header",
        "The front end sends what is no frame of this format: look at its firmware and at `streams`.",
    ),
    (
        "frames",
        "unknown_stream",
        "Add the stream to `streams` of the source, or stop its front end.",
    ),
    ("frames", "other_socket", "Let each stream go to one socket only."),
    ("frames", "bad_timestamp", "Look at the clock of the front end."),
    ("frames", "too_old", "Give the source more `depth`, or see what delays these frames."),
    (
        "primitives",
        "trigger_busy",
        "Mask noisy channels or raise thresholds: `gannet channels` tells which are loud.",
    ),
    ("merge", "late", "Give the merger a longer hold, or see what delays the stream."),
    (
        "merge",
        "set_apart",
        "Synchronise the clock of the front end: its time is far from that of the others.",
    ),
    (
        "records",
        "builder_busy",
        "Ask for less: fewer triggers or shorter windows; or give the recorder a faster disk.",
    ),
    (
        "recorder",
        "disk_full",
        "Make room in the recorder's directory; recording goes on by itself.",
    ),
    (
        "recorder",
        "directory_missing",
        "Make the recorder's directory again; recording goes on by itself.",
    ),
    ("recorder", "file_limit", "Raise `ulimit -f`, or make files smaller."),
    (
        "recorder",
        "write_error",
        "Look at the disk (`dmesg`); recording goes on by itself when it takes data again.",
    ),
];

/// What to do about what `stage` drops for `reason`, where anything can be done here.
pub fn advice(stage: &str, reason: &str) -> Option<&'static str> {
    let at = |it: &&(&str, &str, &'static str)| (it.0, it.1) == (stage, reason);
    ADVICE.iter().find(at).map(|(_, _, advice)| *advice)
}

/// Whether what `stage` drops for `reason` is a loss of what the run is for.
pub fn is_loss(stage: &str, reason: &str) -> bool {
    reason != "not_recorded" && !HARMLESS.contains(&(stage, reason))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use gannet_ingest::SourceDrop;
    use gannet_log::ChunkDrop;
    use gannet_measure::ledger::Reason;
    use gannet_readout::items::ItemDrop;
    use gannet_readout::receiver::FrameDrop;
    use gannet_readout::record::RecordDrop;
    use gannet_trigger::merge::MergeDrop;

    use super::*;
    use crate::run::SentDrop;

    fn names<R: Reason>() -> Vec<&'static str> {
        R::ALL.iter().map(|reason| reason.name()).collect()
    }

    #[test]
    fn advice_is_for_reasons_that_there_are() {
        for (stage, reason, _) in ADVICE {
            let reasons = match *stage {
                "sent" => names::<SentDrop>(),
                "source" => names::<SourceDrop>(),
                "frames" => names::<FrameDrop>(),
                "primitives" => names::<ItemDrop>(),
                "merge" => names::<MergeDrop>(),
                "records" => names::<RecordDrop>(),
                "recorder" => names::<ChunkDrop>(),
                other => panic!("no stage {other}"),
            };
            assert!(reasons.contains(reason), "{stage} has no {reason}");
        }
        let told: HashSet<_> = ADVICE.iter().map(|(stage, reason, _)| (stage, reason)).collect();
        assert_eq!(told.len(), ADVICE.len(), "some reason has two");
    }

    #[test]
    fn what_others_send_here_is_no_loss() {
        assert!(!is_loss("source", "foreign_address") && !is_loss("recorder", "not_recorded"));
        assert!(is_loss("source", "kernel_queue") && is_loss("sent", "before_socket"));
    }
}
