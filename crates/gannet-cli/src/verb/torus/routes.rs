//! `gannet torus routes`: the way from this host to each other one, for people and for the kernel.

use std::collections::BTreeSet;
use std::fmt::{self, Write};
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use gannet_torus_live::kernel::{
    Changes, HostRoutes, Kernel, KernelError, RoutesError, namespace, obstacles,
};
use gannet_torus_live::status::Status;
use tun_rs::DeviceBuilder;

use super::socket::{self, Door, Following};
use super::{device, network};
use crate::exit::{Lacking, Outcome};
use crate::log;
use crate::output;
use crate::signals::Signals;

/// How long a signal may wait.
const LOOK: Duration = Duration::from_millis(100);
/// How often the kernel is looked at and the lease renewed, if there is no news.
const RENEW: Duration = Duration::from_secs(1);
/// How long routes stay when the node of this host is not heard, or has no place in a machine.
const GRACE: Duration = Duration::from_secs(2);

/// Tells by which neighbour this host reaches each other host of the machine, and with --install has its kernel route so: TCP
/// and all else then go by the kernel alone, as over any network, without a program in between.
///
/// The routes are the shortest ones over cables and hosts that are alive, without faults those of dimension order, and are
/// walked from each host to each other one before they are used. All cables must be plugged into interfaces (`gannet torus
/// node --port eth1,eth2`); these need no IPv4 addresses. The address of each host follows from its place: the one at x,y,z
/// has 10.(x+1).(y+1).(z+1). It is at a device that this makes for it, and that carries nothing.
///
/// Run it with --install on each host, as root, since each sends by way of others. Forwarding must be on, and rp_filter not
/// 1: it says so where they are not, and changes no setting. When an order of the machine names other cables as dead, only
/// routes that differ are replaced; a host to which there is no way is unreachable, and nothing for it goes to other
/// networks.
///
/// Ctrl-C removes all, and so does the kernel when this is killed, or hangs for 5 s; when the node has told of no place in a
/// machine for 2 s, since it has none, has ended or is halted, they go, too. The routes have protocol 71: `ip route show proto 71`.
///
/// Exit code 3 when some host cannot be reached, 5 when no node answers, or routes cannot be installed here.
///
/// Example: gannet torus routes --install
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Socket of the node for `gannet torus status` [default: that of the only node on this machine].
    #[arg(value_name = "SOCKET")]
    socket: Option<PathBuf>,
    /// Have the kernel of this host route so, until Ctrl-C.
    #[arg(long)]
    install: bool,
    /// Name of the device that has the address of this host.
    #[arg(long, value_name = "NAME", default_value = "torus0", value_parser = device::name)]
    device: String,
    /// First byte of all addresses, the same on all hosts.
    #[arg(long, value_name = "BYTE", default_value_t = 10, value_parser = network::first_byte)]
    network: u8,
    /// Print the routes as JSON.
    #[arg(long, conflicts_with = "install")]
    json: bool,
}

pub fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let path = arguments.socket.clone().map_or_else(|| socket::only(Door::Status), Ok)?;
    if arguments.install {
        return install(&path, arguments);
    }
    let routes = HostRoutes::of(&socket::ask(&path)?, arguments.network).map_err(Lacking::from)?;
    let Some(routes) = routes else {
        return Err(Lacking(
            "this host has no place in a machine, or is taken for dead there".into(),
        )
        .into());
    };
    if arguments.json {
        output::json(&routes)?;
    } else {
        output::text(&Table(&routes).to_string())?;
    }
    let all = routes.routes.iter().all(|route| route.way.is_some());
    Ok(if all { Outcome::Ok } else { Outcome::Degraded })
}

/// The routes as people look at them.
struct Table<'a>(&'a HostRoutes);

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(HostRoutes { lattice, order, place: [x, y, z], address, routes }) = self;
        writeln!(
            f,
            "this host has the address {address}: node {x},{y},{z} of {lattice}, order {order}\n"
        )?;
        writeln!(
            f,
            "  {:<10} {:<16} {:<15} {:<4} {:<15} {:>4}  next hop",
            "place", "host", "address", "way", "interface", "hops"
        )?;
        for route in routes {
            let [x, y, z] = route.place;
            let host = route.host.as_deref().unwrap_or("-");
            let place = format!("{x},{y},{z}");
            write!(f, "  {place:<10} {host:<16} {:<15} ", route.address.to_string())?;
            let (Some(way), Some(hops)) = (&route.way, route.hops) else {
                f.write_str("cannot be reached\n")?;
                continue;
            };
            let interface = route.interface.as_deref().unwrap_or("-");
            let next_hop = route.next_hop.map_or_else(|| "-".to_owned(), |it| it.to_string());
            writeln!(f, "{way:<4} {interface:<15} {hops:>4}  {next_hop}")?;
        }
        f.write_char('\n')
    }
}

impl From<RoutesError> for Lacking {
    fn from(error: RoutesError) -> Self {
        Self(error.to_string())
    }
}

impl From<KernelError> for Lacking {
    fn from(error: KernelError) -> Self {
        Self(error.to_string())
    }
}

/// Has the kernel follow the orders of the machine until a signal comes.
fn install(path: &Path, arguments: &Arguments) -> anyhow::Result<Outcome> {
    let signals = Signals::install()?;
    let mut following = follow(path).map(Some)?;
    // It is gone with this process, however it ends, and the address and the routes with it.
    let mut device = None;
    let kernel = Kernel::open(|| {
        device = Some(device::make(DeviceBuilder::new(), &arguments.device)?);
        Ok::<_, Lacking>(arguments.device.clone())
    })?;
    let mut installed = Installed::new(kernel, arguments);
    let result = loop {
        if let Some(signal) = signals.received() {
            break Ok(Outcome::Interrupted(signal));
        }
        let heard = match &mut following {
            Some(it) => it.next(LOOK),
            None => {
                thread::sleep(LOOK);
                following = Following::begin(path).ok();
                Ok(None)
            }
        };
        if let Err(error) = &heard {
            if error.kind() == io::ErrorKind::InvalidData {
                break Err(Lacking(format!(
                    "the node of this host is of another version of Gannet: {error}"
                ))
                .into());
            }
            following = None;
            log::say(format_args!(
                "the node of this host has ended; its routes stay for {} s, unless it comes back",
                GRACE.as_secs()
            ));
        }
        if let Err(error) = installed.step(heard.ok().flatten()) {
            break Err(error);
        }
    };
    let cleared = installed.kernel.clear().map_err(Lacking::from);
    drop(device);
    let outcome = result?;
    cleared?;
    Ok(outcome)
}

fn follow(path: &Path) -> Result<Following, Lacking> {
    Following::begin(path).map_err(|error| Door::Status.lacking(path, &error))
}

/// What is in the kernel, and since when nothing confirms it.
struct Installed {
    kernel: Kernel,
    /// Name of the device that has the address.
    device: String,
    network: u8,
    routes: Option<HostRoutes>,
    /// When the node last told of a machine, or this began.
    confirmed: Instant,
    is_cleared: bool,
    /// Whether there ever were routes.
    has_begun: bool,
    renewed: Instant,
    troubles: BTreeSet<String>,
}

impl Installed {
    fn new(kernel: Kernel, arguments: &Arguments) -> Self {
        let now = Instant::now();
        Self {
            kernel,
            device: arguments.device.clone(),
            network: arguments.network,
            routes: None,
            confirmed: now,
            is_cleared: false,
            has_begun: false,
            renewed: now,
            troubles: BTreeSet::new(),
        }
    }

    /// Takes what the node has told, if it has, and lets time pass.
    fn step(&mut self, told: Option<Status>) -> anyhow::Result<()> {
        let of_node = told.as_ref().and_then(|status| status.namespace);
        if of_node.zip(namespace()).is_some_and(|(node, own)| node != own) {
            return Err(Lacking(
                "the node is in another network namespace, whose kernel has to route: start this there, by `ip netns exec`"
                    .into(),
            )
            .into());
        }
        if let Some(status) = told
            && let Some(routes) = HostRoutes::of(&status, self.network).map_err(Lacking::from)?
        {
            self.confirmed = Instant::now();
            if self.routes.as_ref() != Some(&routes) {
                return self.change(&status, routes);
            }
        }
        if self.confirmed.elapsed() >= GRACE {
            return self.expire();
        }
        if self.renewed.elapsed() >= RENEW
            && let Some(routes) = self.routes.take()
        {
            self.write(routes)?;
        }
        Ok(())
    }

    /// Goes on with other routes.
    fn change(&mut self, status: &Status, routes: HostRoutes) -> anyhow::Result<()> {
        let is_new = self.routes.is_none();
        let used = status.ports.iter().filter(|port| port.direction.is_some());
        if let Some(port) = used.clone().find(|port| port.interface.is_none()) {
            return Err(Lacking(format!(
                "port {} is a cable between addresses, over which the kernel cannot route to the other end: name the \
                 interface instead, by `gannet torus node --port`, or use `gannet torus tun`",
                port.name
            ))
            .into());
        }
        // What changes later is told, and may be mended.
        if !std::mem::replace(&mut self.has_begun, true) {
            let found = obstacles(used.filter_map(|port| port.interface.as_deref()));
            if !found.is_empty() {
                return Err(Lacking(found.join("\n")).into());
            }
        }
        let (order, address) = (routes.order, routes.address);
        let before = self.routes.as_ref().map(|before| before.address);
        let Changes { written, removed, .. } = self.write(routes)?;
        if before != Some(address) {
            log::say(format_args!("{} has the address {address}", self.device));
        }
        if written + removed > 0 || is_new {
            log::say(format_args!("order {order}: routes written: {written}, removed: {removed}"));
        }
        Ok(())
    }

    /// Writes what differs, and tells what cannot be written, or can be again.
    fn write(&mut self, routes: HostRoutes) -> anyhow::Result<Changes> {
        let changes = self.kernel.write(&routes).map_err(Lacking::from)?;
        let mut now = changes.troubles.clone();
        let used: BTreeSet<_> =
            routes.routes.iter().filter_map(|route| route.interface.as_deref()).collect();
        now.extend(obstacles(used));
        for trouble in now.difference(&self.troubles) {
            log::say(trouble);
        }
        for trouble in self.troubles.difference(&now) {
            log::say(format_args!("no more: {trouble}"));
        }
        self.troubles = now;
        self.renewed = Instant::now();
        (self.routes, self.is_cleared) = (Some(routes), false);
        Ok(changes)
    }

    /// Removes what nothing has confirmed for too long.
    fn expire(&mut self) -> anyhow::Result<()> {
        if !std::mem::replace(&mut self.is_cleared, true) {
            let removed = self.kernel.clear().map_err(Lacking::from)?;
            let had_routes = self.routes.take().is_some();
            if had_routes || removed > 0 {
                log::say(format_args!("{removed} routes removed"));
            }
            log::say("waiting until the node of this host tells of its place in a machine");
        }
        Ok(())
    }
}
