//! What has become of each PUT of a drill.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Serialize;

/// A PUT, whoever tells of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Put {
    /// Number of the host that has posted it, and which life of that.
    pub(crate) source: usize,
    pub(crate) life: u64,
    /// Its number in that life.
    pub(crate) tag: u32,
}

/// A PUT of which not all is known yet.
#[derive(Clone, Copy, Debug)]
struct Open {
    destination: usize,
    /// How often source and destination had been given up for dead when it was posted.
    deaths: [u64; 2],
    /// Whether the destination was dead then, which who posted it did not know yet.
    was_dead: bool,
    /// In which life of the destination it has arrived.
    arrived: Option<u64>,
    is_told_done: bool,
}

/// What became of the PUTs of a drill.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// PUTs that were posted.
    pub posted: u64,
    /// Those that have arrived once, with the bytes that were sent, and were acknowledged.
    pub arrived: u64,
    /// Those that failed, as was told, since one of both hosts was killed or halted.
    pub failed: u64,
    /// Those that were under way when the host that had posted them was killed.
    pub orphaned: u64,
    /// Bytes that were compared.
    pub bytes: u64,
    /// Those whose bytes were not those that were sent.
    pub wrong: u64,
    /// Those that came another time, or that nobody had posted.
    pub twice: u64,
    /// Those that failed, or were forgotten by the node that had them, though their destination lived.
    pub refused: u64,
    /// Those that were acknowledged and have not arrived, or of which nothing became known.
    pub missing: u64,
}

impl Totals {
    /// Whether all is as it should be.
    pub fn is_clean(&self) -> bool {
        let Self { posted, arrived, failed, orphaned, .. } = *self;
        (self.wrong, self.twice, self.refused, self.missing) == (0, 0, 0, 0)
            && posted == arrived + failed + orphaned
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { posted, arrived, failed, orphaned, bytes, wrong, twice, refused, missing } =
            self;
        write!(f, "{posted} PUTs, {bytes} bytes compared: ")?;
        if self.is_clean() {
            write!(f, "{arrived} arrived, each once")?;
        } else {
            write!(
                f,
                "{arrived} arrived, {missing} are missing, {twice} came again, {wrong} have wrong bytes, {refused} \
                 failed though their host lived"
            )?;
        }
        match (failed, orphaned) {
            (0, 0) => Ok(()),
            _ => write!(
                f,
                ", {failed} failed since a host was killed or halted, {orphaned} died with the host that sent them"
            ),
        }
    }
}

/// All PUTs of a drill.
#[derive(Debug)]
pub(crate) struct Ledger {
    open: BTreeMap<Put, Open>,
    /// Those that may still arrive, but need not.
    loose: BTreeSet<Put>,
    deaths: Vec<u64>,
    dead: Vec<bool>,
    totals: Totals,
}

impl Ledger {
    /// That of so many hosts.
    pub(crate) fn new(hosts: usize) -> Self {
        let (open, loose, deaths) = (BTreeMap::new(), BTreeSet::new(), vec![0; hosts]);
        Self { open, loose, deaths, dead: vec![false; hosts], totals: Totals::default() }
    }

    /// A PUT was posted.
    pub(crate) fn post(&mut self, put: Put, destination: usize) {
        let deaths = [put.source, destination].map(|host| self.deaths[host]);
        let was_dead = self.dead[destination];
        let open = Open { destination, deaths, was_dead, arrived: None, is_told_done: false };
        self.open.insert(put, open);
        self.totals.posted += 1;
    }

    /// `bytes` of a PUT have arrived in this life of its destination, and are those that were sent or not.
    pub(crate) fn arrive(
        &mut self,
        put: Put,
        destination: usize,
        life: u64,
        bytes: Result<u64, ()>,
    ) {
        match bytes {
            Ok(bytes) => self.totals.bytes += bytes,
            Err(()) => self.totals.wrong += 1,
        }
        match self.open.get_mut(&put) {
            Some(open) if open.destination == destination && open.arrived != Some(life) => {
                open.arrived = Some(life);
                if open.is_told_done {
                    self.close(put);
                }
            }
            None if self.loose.remove(&put) => {}
            _ => self.totals.twice += 1,
        }
    }

    /// Whoever has posted a PUT was told what has become of it.
    pub(crate) fn tell(&mut self, put: Put, is_done: bool) {
        let Some(open) = self.open.get_mut(&put) else { return self.totals.twice += 1 };
        if is_done {
            open.is_told_done = true;
            // Its destination may look at it only now.
            if open.arrived.is_some() {
                self.close(put);
            }
            return;
        }
        let open = *open;
        self.open.remove(&put);
        let deaths = [put.source, open.destination].map(|host| self.deaths[host]);
        let is_just = open.was_dead || deaths != open.deaths;
        let count = if is_just { &mut self.totals.failed } else { &mut self.totals.refused };
        *count += 1;
        if open.arrived.is_none() {
            self.loose.insert(put);
        }
    }

    fn close(&mut self, put: Put) {
        self.open.remove(&put);
        self.totals.arrived += 1;
    }

    /// A host does nothing for so long that all others give it up. What it has posted is still its own.
    pub(crate) fn halt(&mut self, host: usize) {
        self.deaths[host] += 1;
        self.dead[host] = true;
    }

    /// A host was killed, and with it what it had posted.
    pub(crate) fn die(&mut self, host: usize) {
        self.halt(host);
        let (gone, open) =
            std::mem::take(&mut self.open).into_iter().partition(|(put, _)| put.source == host);
        self.open = open;
        let gone: BTreeMap<Put, Open> = gone;
        for (put, open) in gone {
            if open.is_told_done {
                // It is looked for until the end.
                self.open.insert(put, open);
                continue;
            }
            self.totals.orphaned += 1;
            if open.arrived.is_none() {
                self.loose.insert(put);
            }
        }
    }

    /// A host that was killed or halted is in use again.
    pub(crate) fn revive(&mut self, host: usize) {
        self.dead[host] = false;
    }

    /// PUTs of which not all is known.
    pub(crate) fn open(&self) -> usize {
        self.open.len()
    }

    /// What has become of all; what is open is missing when the drill `is_over`.
    pub(crate) fn totals(&self, is_over: bool) -> Totals {
        Totals { missing: if is_over { self.open.len() as u64 } else { 0 }, ..self.totals }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn put(tag: u32) -> Put {
        Put { source: 0, life: 1, tag }
    }

    fn ledger(puts: u32) -> Ledger {
        let mut ledger = Ledger::new(2);
        (0..puts).for_each(|tag| ledger.post(put(tag), 1));
        ledger
    }

    #[test]
    fn a_put_that_arrives_and_is_told_counts_in_either_order() {
        let mut ledger = ledger(2);
        ledger.arrive(put(0), 1, 7, Ok(10));
        ledger.tell(put(0), true);
        ledger.tell(put(1), true);
        assert!(!ledger.totals(true).is_clean());
        ledger.arrive(put(1), 1, 7, Ok(10));
        let totals = ledger.totals(true);
        assert_eq!((totals.arrived, totals.bytes, totals.is_clean()), (2, 20, true));
    }

    #[test]
    fn what_comes_twice_or_wrong_or_to_another_is_told() {
        let mut ledger = ledger(4);
        (0..3).for_each(|tag| ledger.arrive(put(tag), 1, 7, Ok(1)));
        ledger.tell(put(0), true);
        ledger.arrive(put(0), 1, 7, Ok(1));
        ledger.arrive(put(1), 1, 7, Ok(1));
        ledger.arrive(put(9), 1, 7, Ok(1));
        assert_eq!(ledger.totals(false).twice, 3);
        // Its destination has forgotten it, and is sent it again.
        ledger.arrive(put(2), 1, 8, Ok(1));
        assert_eq!(ledger.totals(false).twice, 3);
        ledger.arrive(put(3), 0, 7, Err(()));
        let totals = ledger.totals(true);
        assert_eq!((totals.twice, totals.wrong, totals.missing), (4, 1, 3));
    }

    #[test]
    fn a_failure_is_just_when_the_destination_has_died() {
        let mut ledger = ledger(2);
        ledger.tell(put(0), false);
        assert_eq!(ledger.totals(false).refused, 1);
        ledger.die(1);
        ledger.tell(put(1), false);
        // It may have been there all the same, once.
        ledger.arrive(put(1), 1, 7, Ok(1));
        assert_eq!((ledger.totals(true).failed, ledger.totals(true).twice), (1, 0));
        ledger.arrive(put(1), 1, 7, Ok(1));
        assert_eq!(ledger.totals(true).twice, 1);
        // Posted before it was known that the destination is dead, and after it was in use again.
        ledger.post(put(2), 1);
        ledger.revive(1);
        ledger.post(put(3), 1);
        ledger.tell(put(2), false);
        ledger.tell(put(3), false);
        assert_eq!((ledger.totals(false).failed, ledger.totals(false).refused), (2, 2));
    }

    #[test]
    fn what_a_halted_host_had_posted_may_fail_or_arrive() {
        let mut ledger = ledger(3);
        ledger.halt(0);
        ledger.tell(put(0), false);
        ledger.arrive(put(1), 1, 7, Ok(1));
        ledger.tell(put(1), true);
        ledger.revive(0);
        ledger.post(put(3), 1);
        ledger.tell(put(3), false);
        let totals = ledger.totals(true);
        assert_eq!((totals.failed, totals.arrived), (1, 1));
        assert_eq!((totals.refused, totals.missing), (1, 1), "both hosts lived");
    }

    #[test]
    fn what_a_dead_host_had_posted_is_nobody_s() {
        let mut ledger = ledger(3);
        ledger.tell(put(0), true);
        ledger.arrive(put(1), 1, 7, Ok(1));
        ledger.die(0);
        let totals = ledger.totals(true);
        assert_eq!((totals.orphaned, totals.missing), (2, 1));
        ledger.arrive(put(0), 1, 7, Ok(1));
        ledger.arrive(put(2), 1, 7, Ok(1));
        assert!(ledger.totals(true).is_clean());
    }
}
