//! The stages whose items are recorded: what they delivered is what is on the disk.

use gannet_log::{Chunk, Item, Kind, Label, LastWords};
use gannet_measure::ledger::Statement;

use crate::snapshot::Snapshot;

/// Most files that the totals of a run name, which bounds their length.
const FILES_NAMED: usize = 100;

/// The account of a stage up to the disk, joined from that of who made the items, and dropped some
/// before the recorder saw them, and that of the recorder.
pub(super) fn up_to_disk(made: Statement, recorded: &Statement) -> Statement {
    let mut statement = Statement { offered: made.offered, ..recorded.clone() };
    statement.dropped.splice(0..0, made.dropped);
    statement
}

/// What the log says at its end: the state of the run, its totals, and where and why anything was
/// lost.
pub(super) fn last_words(mut snapshot: Snapshot) -> LastWords {
    let is_recorded = |stage: &str| Item::ALL.iter().any(|item| item.stage() == stage);
    let stages = snapshot.ledger.iter().filter(|statement| is_recorded(&statement.stage));
    let account = stages.cloned().collect();
    let recorder = &mut snapshot.recorder;
    for files in [&mut recorder.files, &mut recorder.unfinished, &mut recorder.exports] {
        files.drain(..files.len().saturating_sub(FILES_NAMED));
    }
    // Only numbers, texts and lists: there is no way to fail.
    let text = serde_json::to_vec(&snapshot).unwrap_or_default();
    LastWords { chunk: Chunk::new(Label::new(Kind::RUN_END), text), account }
}

#[cfg(test)]
mod tests {
    use gannet_measure::ledger::Account;

    use super::*;

    gannet_measure::drop_reasons! {
        enum Early {
            Overwritten => "overwritten",
        }
    }

    gannet_measure::drop_reasons! {
        enum Late {
            DiskFull => "disk_full",
        }
    }

    #[test]
    fn a_frame_is_delivered_when_it_is_on_the_disk() {
        let (made, recorded) = (Account::<Early>::default(), Account::<Late>::default());
        made.offer(100);
        made.discard(Early::Overwritten, 10);
        made.deliver(90);
        recorded.offer(90);
        recorded.deliver(50);
        recorded.discard(Late::DiskFull, 30);
        let join = || up_to_disk(made.statement("frames"), &recorded.statement("raw_frames"));
        assert_eq!(
            join().at_work().to_string(),
            "raw_frames: offered 100 delivered 50 dropped 40 overwritten=10 disk_full=30 under \
             way 10"
        );
        recorded.deliver(10);
        assert!(join().closes());
    }
}
