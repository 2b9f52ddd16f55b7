//! Frames put into the ring of a source over paths that lose, double, damage and disorder packets.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use gannet_fabric::clop::{Backend, ClopSink, ClopSource, FabricConfig, Policy};
use gannet_fabric::sim::{Cable, Faults, Network, Path, Sim};
use gannet_fabric::{JoinError, Limits, Meet, Peer, Trust};
use gannet_ingest::{Landing, Source};
use gannet_measure::clock::{Clock, SystemClock};
use gannet_measure::quantity::{Bytes, Span};

use crate::clop::{LENGTHS, send, take};
use crate::sim::{bad, switched};

/// Time between two looks whether somebody has come.
const LOOK: Duration = Duration::from_millis(1);

/// Meeting over cables of a network, whose time is that of whoever uses its endpoints.
#[derive(Clone)]
struct OverSim {
    network: Network,
    path: Path,
    /// Ends of cables of which nobody has accepted the other one.
    waiting: Arc<Mutex<VecDeque<Cable>>>,
}

impl Meet for OverSim {
    type Endpoint = Sim;
    type Listener = ();
    type Caller = Cable;

    fn listen(&self) -> io::Result<()> {
        Ok(())
    }

    fn place(&self, (): &()) -> String {
        "a network".to_owned()
    }

    fn come(&self, (): &(), wait: Duration) -> io::Result<Cable> {
        self.waiting.lock().unwrap().pop_front().ok_or_else(|| {
            thread::sleep(wait.min(LOOK));
            ErrorKind::WouldBlock.into()
        })
    }

    fn join(&self, cable: Cable, limits: &Limits, _: &Trust) -> Result<(Sim, Peer), JoinError> {
        let mut endpoint = self.network.endpoint(limits.clone());
        let peer = endpoint.join(cable)?;
        Ok((endpoint, peer))
    }

    fn connect(&self, limits: &Limits, _: &Trust) -> Result<(Sim, Peer), JoinError> {
        let [here, there] = self.network.cable(self.path.clone(), self.path.clone());
        self.waiting.lock().unwrap().push_back(there);
        let mut endpoint = self.network.endpoint(limits.clone());
        let peer = endpoint.join(here)?;
        Ok((endpoint, peer))
    }

    fn is_listening(&self) -> io::Result<bool> {
        Ok(true)
    }
}

/// A source, where its sender finds it, and how both behave.
fn source(seed: u64, policy: Policy) -> (Box<dyn Source>, OverSim, FabricConfig) {
    // What is lost comes again after milliseconds; here these pass.
    let cuts = vec![20_000_000..25_000_000, 40_000_000..42_000_000];
    let path = switched(Faults { loss: 0.03, cuts, ..bad() });
    let meet = OverSim { network: Network::new(seed), path, waiting: Arc::default() };
    let queue = Bytes(1000 * 128);
    let config = FabricConfig::new(Backend::Shm, "ring");
    let config = FabricConfig { queue, policy, wait: Span::s(10), ..config };
    let landing = Landing { lengths: LENGTHS, cells: 100 };
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    let mut source = ClopSource::new(meet.clone(), &config, landing, clock).unwrap();
    source.start().unwrap();
    (Box::new(source), meet, config)
}

#[test]
fn frames_arrive_whole_and_in_order() {
    for seed in 0..10 {
        let (source, meet, config) = source(seed, Policy::CreditStop);
        let sender = thread::spawn(move || {
            let mut sink = ClopSink::connect(meet, &config).unwrap();
            send(&mut sink, 0, 1000)
        });
        let (numbers, account) = take(source, Duration::ZERO, |account| account.offered == 1000);
        assert_eq!(sender.join().unwrap(), 1000, "seed {seed}");
        assert!(numbers.into_iter().eq(0..1000), "seed {seed}");
        assert_eq!((account.delivered, account.dropped_total()), (1000, 0), "seed {seed}");
    }
}

#[test]
fn what_finds_no_leave_or_is_given_up_is_counted() {
    for seed in 0..4 {
        let (source, meet, config) = source(seed, Policy::CreditStop);
        let sender = thread::spawn(move || {
            let config = FabricConfig { wait: Span(0), ..config };
            let mut sink = ClopSink::connect(meet, &config).unwrap();
            send(&mut sink, 0, 1000)
        });
        let pause = Duration::from_millis(5);
        let (numbers, account) = take(source, pause, |account| account.offered == 1000);
        let sent = sender.join().unwrap();
        assert!(numbers.is_sorted_by(|a, b| a < b), "seed {seed}");
        assert_eq!((account.delivered, account.count("no_leave")), (sent, 1000 - sent));

        let (source, meet, config) = self::source(seed, Policy::OverwriteOldest);
        let sender = thread::spawn(move || {
            let mut sink = ClopSink::connect(meet, &config).unwrap();
            send(&mut sink, 0, 1000)
        });
        let (numbers, account) =
            take(source, pause, |account| account.delivered + account.count("given_up") == 1000);
        assert_eq!(sender.join().unwrap(), 1000, "seed {seed}");
        assert!(numbers.is_sorted_by(|a, b| a < b) && numbers.last() == Some(&999), "seed {seed}");
        assert_eq!(account.dropped_total(), account.count("given_up"), "seed {seed}");
    }
}
