//! What hops of the torus give over sockets: PUTs between two nodes on threads of their own, joined by UDP over
//! loopback or between network namespaces, directly or by way of others.
//!
//! Beside each figure stands plain UDP over the same path, whose threads wait in the same way, with datagrams as long as the frames of the
//! cable, or as the message if that is shorter: one sent back, or 32 of them under way that are counted, nothing mended; by way of a plain relay
//! for each node between. Its rate is measured with a datagram for each call of the kernel and a count sent back for each, as most programs have it, and with
//! up to 16 of them for a call and a count, as cables of the torus do.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use gannet_lattice::{Direction, Lattice, Node};
use gannet_memory::Registration;
use gannet_rdma::{Completion, Failure, Put};
use gannet_torus::Routes;
use gannet_torus::node::{ConfigurationError, TorusNode};
use gannet_torus_live::udp::UdpPort;
use gannet_torus_live::{Driver, Patience, Port};
use serde::Serialize;

use crate::cores::Cores;
use crate::fabric::datagrams::Datagrams;
use crate::path::{Medium, Path};

/// Repeats of each figure, in turn.
const REPEATS: usize = 7;
/// PUTs posted and not acknowledged.
const UNDER_WAY: u32 = 8;
/// Where nodes have registered the place of PUTs.
const ADDRESS: u64 = 1 << 40;
const PAGE_BYTES: u64 = 4096;
/// Time without a PUT after which there is no path.
const LOST: Duration = Duration::from_secs(1);
/// For how long a thread sleeps at a time, where threads sleep.
const NAP: Duration = Duration::from_millis(1);
/// Most hops.
pub const HOPS_MAX: usize = 4;
/// Most bytes of a PUT.
pub const BYTES_MAX: u64 = 1 << 26;

/// What is to be measured.
#[derive(Clone, Debug)]
pub struct CablePlan {
    /// Bytes of a PUT, each 1 to [`BYTES_MAX`].
    pub bytes: Vec<u64>,
    /// Hops from one node to the other, 1 to [`HOPS_MAX`]. Over one both threads look for frames without pause, each on a
    /// processor of its own; over more all threads sleep while nothing comes.
    pub hops: usize,
    /// What joins them.
    pub medium: Medium,
    /// Longest frame, bytes.
    pub frame_bytes: usize,
    /// Length of each repeat.
    pub time: Duration,
}

/// PUTs of one size.
#[derive(Clone, Debug, Serialize)]
pub struct CableRow {
    /// Bytes of a PUT.
    pub bytes: u64,
    /// Hops from one node to the other.
    pub hops: usize,
    /// What joins the nodes.
    pub medium: Medium,
    /// Longest frame of the cable, bytes.
    pub frame_bytes: usize,
    /// Bytes written and acknowledged, in Gbit/s: the median.
    pub gbit_per_s: f64,
    /// The same of plain datagrams, one for each call of the kernel, each counted by the other end.
    pub plain_gbit_per_s: f64,
    /// The first by the second.
    pub plain_ratio: f64,
    /// Plain datagrams, up to 16 for each call of the kernel, counted together.
    pub limit_gbit_per_s: f64,
    /// The first by them.
    pub limit_ratio: f64,
    /// From a PUT to the completion of the answer to it, halved, ns: the median.
    pub half_trip_ns: f64,
    /// The same of plain datagrams.
    pub limit_half_trip_ns: f64,
    /// The first by the second.
    pub trip_ratio: f64,
    /// Packets that a link sent again.
    pub rewinds: u64,
    /// Processors that there were for the two threads.
    pub processors: usize,
}

/// Why the experiment cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The hosts of the path, or its cables, cannot be made.
    #[error(transparent)]
    Path(io::Error),
    /// No sockets, or one is broken.
    #[error(transparent)]
    Socket(#[from] io::Error),
    /// No node can be made so.
    #[error(transparent)]
    Node(#[from] ConfigurationError),
    /// PUTs do not arrive.
    #[error("no PUT was acknowledged for {LOST:?}: does the interface pass UDP?")]
    Lost,
    /// A PUT was not written.
    #[error("a PUT of {bytes} bytes failed: {failure}")]
    Failed {
        /// Its bytes.
        bytes: u64,
        /// Why.
        failure: Failure,
    },
}

/// Measures, one hop between the first two processors.
///
/// # Errors
/// When there are no sockets or namespaces, or frames are too short, or PUTs do not arrive or fail.
///
/// # Panics
/// When there is no size to be measured, or hops are out of bounds.
pub fn measure(plan: &CablePlan) -> Result<Vec<CableRow>, Error> {
    assert!((1..=HOPS_MAX).contains(&plan.hops), "{} hops", plan.hops);
    let cores = Cores::usable();
    if plan.hops == 1 {
        cores.pin(0);
    }
    let path = Path::lay(plan.medium, plan.hops, plan.frame_bytes).map_err(Error::Path)?;
    let bytes_max = plan.bytes.iter().copied().max().expect("a size");
    let datagrams: Vec<u64> =
        plan.bytes.iter().map(|&bytes| bytes.min(plan.frame_bytes as u64)).collect();
    let mut rows = plan.bytes.iter().map(|_| Figures::default()).collect::<Vec<_>>();
    for _ in 0..REPEATS {
        let plain = Datagrams::measure_over(&path, &datagrams, plan.time, &cores)?;
        let mut line = Line::start(&path, plan, bytes_max, &cores)?;
        for ((row, &bytes), &datagram) in rows.iter_mut().zip(&plan.bytes).zip(&datagrams) {
            row.plain_trips.push(plain.half_trip_ns(datagram));
            let gbit_per_s = |per_s: f64| 8.0 * per_s * datagram as f64 / 1e9;
            row.plain_rates.push(gbit_per_s(plain.one_by_one_per_s(datagram)));
            row.limit_rates.push(gbit_per_s(plain.per_s(datagram)));
            row.trips.push(line.half_trip_ns(bytes, plan.time)?);
            row.rates.push(8.0 * line.bytes_per_s(bytes, plan.time)? / 1e9);
            row.rewinds = row.rewinds.max(line.rewinds());
        }
    }
    let rows = rows.into_iter().zip(&plan.bytes);
    let row = |(figures, &bytes): (Figures, _)| figures.row(bytes, plan, cores.count());
    Ok(rows.map(row).collect())
}

#[derive(Default)]
struct Figures {
    rates: Vec<f64>,
    plain_rates: Vec<f64>,
    limit_rates: Vec<f64>,
    trips: Vec<f64>,
    plain_trips: Vec<f64>,
    rewinds: u64,
}

impl Figures {
    fn row(self, bytes: u64, plan: &CablePlan, processors: usize) -> CableRow {
        let Self { rates, plain_rates, limit_rates, trips, plain_trips, rewinds } = self;
        let [gbit_per_s, plain_gbit_per_s, limit_gbit_per_s] =
            [rates, plain_rates, limit_rates].map(median);
        let [half_trip_ns, limit_half_trip_ns] = [trips, plain_trips].map(median);
        CableRow {
            bytes,
            hops: plan.hops,
            medium: plan.medium,
            frame_bytes: plan.frame_bytes,
            gbit_per_s,
            plain_gbit_per_s,
            plain_ratio: gbit_per_s / plain_gbit_per_s,
            limit_gbit_per_s,
            limit_ratio: gbit_per_s / limit_gbit_per_s,
            half_trip_ns,
            limit_half_trip_ns,
            trip_ratio: half_trip_ns / limit_half_trip_ns,
            rewinds,
            processors,
        }
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The near node, which this thread drives, and the threads of the others.
struct Line {
    near: Driver<TorusNode<Vec<u8>>>,
    far: Node,
    stop: Arc<AtomicBool>,
    others: Vec<thread::JoinHandle<()>>,
}

impl Line {
    fn start(path: &Path, plan: &CablePlan, bytes_max: u64, cores: &Cores) -> Result<Self, Error> {
        let &CablePlan { hops, frame_bytes, .. } = plan;
        let is_direct = hops == 1;
        // In an odd ring one way is shorter; nodes and cables that are not on it are not there.
        let lattice = Lattice::new([2 * hops as u16 + 1, 1, 1]).expect("a short ring");
        let routes = Arc::new(Routes::dimension_order(lattice));
        let spin_ns = if is_direct { 1 << 60 } else { 0 };
        let patience = Patience { watchdog_ns: 10_000_000_000, spin_ns };
        let [way, back] = [true, false].map(|is_up| Direction::of(0, is_up));
        let mut ports: Vec<_> = (0..=hops).map(|_| Vec::new()).collect();
        for cable in 0..hops {
            let [near, far] = path.ports(cable, frame_bytes)?;
            ports[cable].push((way, near));
            ports[cable + 1].push((back, far));
        }
        let drivers = lattice.all().zip(ports).map(|(node, ports)| -> Result<_, Error> {
            let bytes = |of: fn(&UdpPort) -> usize| ports.iter().map(|(_, port)| of(port)).min();
            let frame_bytes = bytes(Port::frame_bytes).unwrap_or(0);
            let window_bytes = bytes(Port::window_bytes).unwrap_or(0);
            let configuration =
                patience.configure(lattice, node, frame_bytes, window_bytes, 1 + node.0);
            let node = torus_node(configuration, &routes, bytes_max)?;
            let mut driver = Driver::new(node, patience.spin_ns);
            for (direction, port) in ports {
                driver.plug(direction.index(), Box::new(port));
            }
            Ok(driver)
        });
        let mut drivers = drivers.collect::<Result<Vec<_>, _>>()?.into_iter();
        let near = drivers.next().expect("a ring has nodes");
        let stop = Arc::new(AtomicBool::new(false));
        let others = drivers.map(|driver| {
            let (stopped, cores) = (Arc::clone(&stop), cores.clone());
            thread::spawn(move || {
                if is_direct {
                    cores.pin(1);
                }
                answer(driver, &stopped);
            })
        });
        let others = others.collect();
        Ok(Self { near, far: Node(hops as u32), stop, others })
    }

    /// Posts a PUT; one with an answer is to be answered by the far node.
    fn post(&mut self, bytes: u64, wants_answer: bool) {
        let put = put_to(self.far, bytes, wants_answer);
        let now = self.near.now();
        self.near.node_mut().engine_mut().post_put(now, &put).expect("there is room for it");
    }

    /// Half of the time from a PUT to the answer to it, ns: of which half take less.
    fn half_trip_ns(&mut self, bytes: u64, time: Duration) -> Result<f64, Error> {
        let (mut trips, begin) = (Vec::new(), Instant::now());
        while trips.len() < 20 || begin.elapsed() < time {
            let sent = Instant::now();
            self.post(bytes, true);
            let (mut is_back, mut is_done) = (false, false);
            while !(is_back && is_done) {
                self.near.send();
                if !self.near.receive() {
                    self.near.wait(NAP)?;
                }
                while let Some(completion) = self.near.node_mut().engine_mut().poll_completion() {
                    if let Completion::RxDone { .. } = completion {
                        is_back = true;
                        trips.push(sent.elapsed().as_nanos() as f64 / 2.0);
                    } else {
                        is_done = true;
                        succeeded(completion, bytes)?;
                    }
                }
                if sent.elapsed() > LOST {
                    return Err(Error::Lost);
                }
            }
        }
        // The first ones find caches cold and links not yet up.
        Ok(median(trips.split_off(10)))
    }

    /// Bytes a second that are acknowledged.
    fn bytes_per_s(&mut self, bytes: u64, time: Duration) -> Result<f64, Error> {
        let (mut posted, mut done, begin, mut heard) = (0, 0, Instant::now(), Instant::now());
        while begin.elapsed() < time || done == 0 {
            while posted - done < UNDER_WAY {
                self.post(bytes, false);
                posted += 1;
            }
            if !self.near.step() {
                self.near.wait(NAP)?;
            }
            while let Some(completion) = self.near.node_mut().engine_mut().poll_completion() {
                succeeded(completion, bytes)?;
                done += 1;
                heard = Instant::now();
            }
            if heard.elapsed() > LOST {
                return Err(Error::Lost);
            }
        }
        let rate = (u64::from(done) * bytes) as f64 / begin.elapsed().as_secs_f64();
        while done < posted && heard.elapsed() < LOST {
            if !self.near.step() {
                self.near.wait(NAP)?;
            }
            while self.near.node_mut().engine_mut().poll_completion().is_some() {
                done += 1;
            }
        }
        Ok(rate)
    }

    fn rewinds(&self) -> u64 {
        let links = Direction::ALL.into_iter().filter_map(|way| self.near.node().link(way));
        links.map(|link| link.counters().tx_rewinds).sum()
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for other in self.others.drain(..) {
            let _ = other.join();
        }
    }
}

/// Whether a PUT of `bytes` was written.
fn succeeded(completion: Completion, bytes: u64) -> Result<(), Error> {
    match completion {
        Completion::TxDone { outcome: Err(failure), .. } => Err(Error::Failed { bytes, failure }),
        _ => Ok(()),
    }
}

/// Takes PUTs and passes them on, and answers those that want it, until it is stopped or its sockets are broken.
fn answer(mut driver: Driver<TorusNode<Vec<u8>>>, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        driver.send();
        if !driver.receive() && driver.wait(NAP).is_err() {
            return;
        }
        while let Some(completion) = driver.node_mut().engine_mut().poll_completion() {
            if let Completion::RxDone { length, tag: 1, .. } = completion {
                let (put, now) = (put_to(Node(0), length.into(), false), driver.now());
                // One that finds no room is missed by the other side.
                let _ = driver.node_mut().engine_mut().post_put(now, &put);
            }
        }
    }
}

fn put_to(destination: Node, bytes: u64, wants_answer: bool) -> Put {
    let (address, length, tag) = (ADDRESS, bytes as u32, u32::from(wants_answer));
    Put { source: 0, destination, process: 0, address, length, tag }
}

/// A node with room for PUTs of up to `bytes_max`, from where it sends them, too.
fn torus_node(
    mut configuration: gannet_torus::node::Configuration,
    routes: &Arc<Routes>,
    bytes_max: u64,
) -> Result<TorusNode<Vec<u8>>, ConfigurationError> {
    let length = bytes_max.next_multiple_of(PAGE_BYTES);
    let pages: Vec<u64> = (0..length).step_by(PAGE_BYTES as usize).collect();
    configuration.engine.limits.pages = pages.len();
    let mut node = TorusNode::new(configuration, vec![0; length as usize], Arc::clone(routes), 1)?;
    let place = Registration { process: 0, start: ADDRESS, length, writable: true, pages: &pages };
    node.engine_mut().register(&place).expect("the memory has these pages");
    Ok(node)
}
