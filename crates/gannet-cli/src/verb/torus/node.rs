//! `gannet torus node`: a node of a live torus on this host.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use gannet_fabric::Trust;
use gannet_lattice::Lattice;
use gannet_measure::quantity::Span;
use gannet_torus_live::identity::{Key, host_id};
use gannet_torus_live::member::{Member, Notice, Setup};
use gannet_torus_live::neighbour::Neighbour;
use gannet_torus_live::status::{Memory, Status};
use gannet_torus_live::udp::UdpPort;
use gannet_torus_live::users::Users;
use gannet_torus_live::{Driver, Host, Patience, Port as _};
use gannet_wire::neighbour::{HOST_NAME_MAX, Name};

use super::machine::ArbitrationName;
use super::ports::{self, End};
use super::socket::{self, Door, Socket};
use crate::exit::{Lacking, Outcome, Usage};
use crate::log;
use crate::signals::Signals;

/// How often it looks for signals and for who asks, at least.
const LOOK: Duration = Duration::from_millis(50);
/// How often what is wrong is told, and all to those who follow.
const TELL: Duration = Duration::from_millis(500);
/// Times that a watchdog may have.
const WATCHDOG_MIN: Span = Span::ms(10);
const WATCHDOG_MAX: Span = Span::s(60);

/// Runs a node of a torus on this host: it meets the hosts at the other ends of its cables, finds with them the lattice
/// that all cables make, and carries packets between them, round cables and hosts that die.
///
/// Start one on each host, with the same key. No host needs to know the shape, its place or the direction of a cable: these
/// are found when no more hosts come. Where the cables make no lattice, `gannet torus status` names each that is wrong,
/// and where it should go.
///
/// Cables between interfaces need no addresses: the ends call to each other over IPv6 on the link (UDP port 4700, group
/// ff12::6761:6e6e:6574), which a firewall must let through.
///
/// Make the key by `(umask 077; head -c 32 /dev/urandom | base64 > torus.key)`, and bring it to each host. Neighbours
/// prove that they know it before anything else is heard from them, and so does each frame that they send: who can reach a
/// cable can neither change, forge nor repeat what it carries, but can read it. `--protect none` saves that work where all cables
/// are direct ones.
///
/// Runs until Ctrl-C. Exit code 4 when the key cannot be used, 5 when an interface, an address of this host or the socket cannot be had, or the
/// machine has another host of this name.
///
/// Example: gannet torus node --key torus.key --port eth1,eth2,eth3,eth4
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Ends of cables: interfaces of this host, such as eth1,eth2, at each of which the other end is found; or address and UDP
    /// port of this host and those of the other end, as OWN=OTHER. At most 15 in all.
    #[arg(long = "port", value_name = "END,...", value_delimiter = ',', required = true)]
    ports: Vec<End>,
    /// Paths over a network that joins the hosts beside the torus, as OWN=OTHER. They carry no packets, but tell a host that lives and
    /// that no cable reaches from one that is dead. Give each host one to the next and one to the one before, as if they stood in a ring.
    #[arg(long = "service", value_name = "OWN=OTHER,...", value_delimiter = ',', value_parser = ports::path)]
    services: Vec<End>,
    /// File with the secret of the machine, for this user only.
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// Name of this host for people [default: that of the system].
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Make this lattice, and say what else the cables make; without it any lattice that they make is taken.
    #[arg(long, value_name = "SIZES")]
    lattice: Option<Lattice>,
    /// Within this time every host knows of a fault.
    #[arg(long, value_name = "TIME", default_value = "100 ms")]
    watchdog: Span,
    /// What proves that frames come from a host of the machine. Where either end of a cable wants it, both do it.
    #[arg(long, value_enum, default_value_t = Protect::Mac)]
    protect: Protect,
    /// Which of the packets goes first that compete for a cable of this host. Best the same on all hosts.
    #[arg(long, value_enum, default_value = "turns", value_name = "RULE")]
    arbitration: ArbitrationName,
    /// For so long no more hosts and cables must come before a machine is made of those that are there.
    #[arg(long, value_name = "TIME", default_value = "2 s")]
    settle: Span,
    /// Socket for `gannet torus status` [default: gannet-torus-NAME.sock in $XDG_RUNTIME_DIR, or where temporary files are].
    #[arg(long, value_name = "SOCKET")]
    status: Option<PathBuf>,
    /// Socket for processes of this user that use the node, such as `gannet torus tun` [default: the same, but with .processes at its end].
    #[arg(long, value_name = "SOCKET")]
    processes: Option<PathBuf>,
}

impl Arguments {
    /// All ends at this host, those of the service network behind those of cables.
    fn ends(&self) -> impl Iterator<Item = &End> {
        self.ports.iter().chain(&self.services)
    }
}

/// What proves where a frame comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Protect {
    /// A tag behind each frame, by ChaCha20-Poly1305 with keys that both ends have agreed on.
    Mac,
    /// Nothing: only for direct cables, at which nobody else can be.
    None,
}

pub fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    check(arguments)?;
    if fs::metadata(&arguments.key).is_ok_and(|key| key.file_type().is_fifo()) {
        log::say(format_args!("reading the key from the pipe {}", arguments.key.display()));
    }
    let Trust::Secret(secret) = Trust::from_file(&arguments.key)? else {
        return Err(Usage(format!("{} has no secret", arguments.key.display())).into());
    };
    let name = arguments.name.clone().unwrap_or_else(system_name);
    let (status, processes) = sockets(arguments, &name)?;
    let machine = fs::read("/etc/machine-id").unwrap_or_else(|_| name.clone().into_bytes());
    let mut ports = Vec::new();
    // A neighbour that is not heard for so long is given up.
    let silence = Duration::from_nanos(arguments.watchdog.ns() / 2);
    for end in arguments.ends() {
        ports.push(end.open(&name, silence)?);
    }
    let of_port = |(at, port): (usize, &UdpPort)| {
        (Name::of(&arguments.ports[at].name(at)), port.frame_bytes())
    };
    let (cables, services) = ports.split_at(arguments.ports.len());
    let window = cables.iter().map(|port| port.window_bytes()).min().unwrap_or(0);
    let patience = Patience { watchdog_ns: arguments.watchdog.ns(), ..Patience::default() };
    let setup = Setup {
        host: host_id(&machine, &name),
        life: life(),
        name: Name::of(&name),
        ports: cables.iter().enumerate().map(of_port).collect(),
        services: (0..services.len()).map(|at| Name::of(&format!("s{at}"))).collect(),
        key: Key::of(&secret),
        protects: arguments.protect == Protect::Mac,
        watchdog_ns: patience.watchdog_ns,
        lattice: arguments.lattice,
        settle_ns: arguments.settle.ns(),
    };
    let names: Vec<_> = setup.port_names().collect();
    let users = users(&processes)?;
    let mut socket = Socket::open(status)?;
    let host = Host::new(Member::new(setup), patience, window)
        .with_users(users)
        .with_arbitration(arguments.arbitration.rule());
    let mut driver = Driver::new(host, patience.spin_ns);
    for (at, (port, end)) in ports.into_iter().zip(arguments.ends()).enumerate() {
        log::say(format_args!("port {}: {end}", names[at]));
        driver.plug(at, Box::new(port));
    }
    if arguments.protect == Protect::None {
        log::say(
            "frames are not protected where the other end of a cable does not want it either: whoever can reach such a cable \
             can disturb the machine and change what it carries",
        );
    }
    log::say(format_args!(
        "{name} looks for its neighbours; how it is: {}",
        socket.path().display()
    ));
    drive(driver, &mut socket)
}

/// Where the sockets of a host of this name are to be, that for `gannet torus status` first.
fn sockets(arguments: &Arguments, name: &str) -> Result<(PathBuf, PathBuf), Usage> {
    let status = arguments.status.clone().unwrap_or_else(|| socket::of_host(name));
    let processes = arguments.processes.clone();
    let processes = processes.unwrap_or_else(|| status.with_extension("processes"));
    if status == processes {
        return Err(Usage(format!(
            "--status and --processes are both {}: give each socket a path of its own",
            status.display()
        )));
    }
    Ok((status, processes))
}

/// The processes that use the node by the socket at `path`.
fn users(path: &Path) -> Result<Users, Lacking> {
    Door::Processes.clear(path)?;
    Users::listen(path).map_err(|error| Lacking(format!("cannot make {}: {error}", path.display())))
}

fn check(arguments: &Arguments) -> Result<(), Usage> {
    ports::check(&arguments.ends().collect::<Vec<_>>())?;
    if let Some(name) = arguments.name.as_deref().filter(|name| !is_name(name)) {
        return Err(Usage(format!(
            "`{name}` is no name of a host: write up to {HOST_NAME_MAX} letters, digits, and - . _"
        )));
    }
    if !(WATCHDOG_MIN.ns()..=WATCHDOG_MAX.ns()).contains(&arguments.watchdog.ns()) {
        return Err(Usage(format!("--watchdog must be {WATCHDOG_MIN} to {WATCHDOG_MAX}")));
    }
    Ok(())
}

/// Whether a text can be the name of a host, and a part of that of its socket.
fn is_name(text: &str) -> bool {
    let is_sign = |sign: char| sign.is_ascii_alphanumeric() || "-._".contains(sign);
    (1..=HOST_NAME_MAX).contains(&text.len()) && text.chars().all(is_sign)
}

/// The name that the system has, as far as it can be one here.
fn system_name() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name: String = name.trim().chars().take(HOST_NAME_MAX).collect();
    if is_name(&name) { name } else { "host".to_owned() }
}

/// A number that is greater at each start.
fn life() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(1, |time| time.as_nanos() as u64).max(1)
}

/// Keeps the host going until a signal comes, and tells what happens.
fn drive(mut driver: Driver<Host>, socket: &mut Socket) -> anyhow::Result<Outcome> {
    let signals = Signals::install()?;
    let (mut memory, mut faults, mut told) = (Memory::default(), BTreeSet::new(), Instant::now());
    let mut place = String::new();
    loop {
        if !driver.step() {
            driver.wait(LOOK)?;
        }
        if let Some(signal) = signals.received() {
            return Ok(Outcome::Interrupted(signal));
        }
        let is_time = told.elapsed() >= TELL;
        let news = tell_notices(&mut driver, &mut place) || is_time;
        if news && driver.node().member().is_turned_away(driver.now()) {
            return Err(turned_away(&driver).into());
        }
        socket.tell(news, || Status::of(&driver, &mut memory.clone()));
        if is_time {
            told = Instant::now();
            let status = Status::of(&driver, &mut memory);
            let now: BTreeSet<String> = status.faults.into_iter().map(|fault| fault.text).collect();
            for fault in now.difference(&faults) {
                log::say(fault);
            }
            for fault in faults.difference(&now) {
                log::say(format_args!("no more: {fault}"));
            }
            faults = now;
        }
    }
}

/// What is to be done where the machine has a host of this name already.
fn turned_away(driver: &Driver<Host>) -> Lacking {
    let member = driver.node().member();
    let setup = member.setup();
    let is_heard = |port: usize| member.neighbour(port).is_some_and(Neighbour::is_heard);
    let ports = setup.port_names().enumerate().filter(|(port, _)| is_heard(*port));
    let ports: Vec<String> = ports.map(|(_, name)| name.to_string()).collect();
    Lacking(format!(
        "the machine at the other end of {} has another host {}: start this one with a name of its own (--name)",
        ports.join(", "),
        setup.name
    ))
}

/// Tells what has happened; `place` is what was last told of the place of this host. Gives whether there is another order or
/// neighbour.
fn tell_notices(driver: &mut Driver<Host>, place: &mut String) -> bool {
    let notices = driver.node_mut().notices();
    let member = driver.node().member();
    let name = |port: usize| member.setup().port_name(port);
    let met: Vec<usize> = notices
        .iter()
        .filter_map(|it| if let Notice::Met(port, _) = it { Some(*port) } else { None })
        .collect();
    let is_news = |it: &Notice| matches!(it, Notice::Met(..) | Notice::Ordered);
    let news = notices.iter().any(is_news);
    for notice in notices {
        match notice {
            Notice::Heard(port, true) if met.contains(&port) => {}
            Notice::Met(port, who) => {
                log::say(format_args!("port {}: met {}", name(port), who.place()))
            }
            Notice::Heard(port, true) => log::say(format_args!("port {}: heard again", name(port))),
            Notice::Heard(port, false) => log::say(format_args!("port {}: silent", name(port))),
            Notice::Ordered => {
                let Some(order) = member.order() else { continue };
                let Ok(lattice) = Lattice::new(order.sizes) else { continue };
                let now = match member.node().map(|node| lattice.coordinates(node)) {
                    Some([x, y, z]) => format!("this host is node {x},{y},{z} of {lattice}"),
                    None => format!("this host has no place in the machine of {lattice}"),
                };
                if now != *place {
                    log::say(&now);
                    *place = now;
                }
            }
            // What is wrong is told with the rest of it.
            Notice::WrongKey(..)
            | Notice::NoHandshake(..)
            | Notice::Itself(..)
            | Notice::SameHost(..)
            | Notice::Third(..)
            | Notice::OtherMachine(..)
            | Notice::OtherFrames(..)
            | Notice::OtherUse(..) => {}
        }
    }
    news
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_a_file_may_have() {
        for name in ["n07", "daq-1.example.org", "a_b", &system_name()] {
            assert!(is_name(name), "{name}");
        }
        for name in ["", "../x", "a b", "\u{1b}[2J", "é", &"n".repeat(33)] {
            assert!(!is_name(name), "{name}");
        }
    }

    #[test]
    fn a_later_start_is_a_greater_life() {
        let first = life();
        assert!(life() >= first && first > 1 << 60);
    }
}
