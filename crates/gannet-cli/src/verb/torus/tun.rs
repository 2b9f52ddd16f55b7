//! `gannet torus tun`: IP over the torus, for programs that know nothing of it.

use std::fmt;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use gannet_fabric::JoinError;
use gannet_torus_live::addresses::Addresses;
use gannet_torus_live::kernel;
use gannet_torus_live::tunnel::{Counters, PROCESS, Tunnel, VNET_HEADER_LEN};
use gannet_torus_live::user::{Place, User, UserError};
use gannet_wire::torus_user::Refused;
use serde::Serialize;
use tun_rs::{DeviceBuilder, SyncDevice};

use super::socket::{self, Door};
use super::{device, network};
use crate::exit::{Lacking, Outcome};
use crate::log;
use crate::output;
use crate::signals::Signals;
use crate::sys;

/// How long a signal may wait.
const LOOK: Duration = Duration::from_millis(100);
/// How long who had the number of this process before may take to leave.
const LEAVES_WITHIN: Duration = Duration::from_secs(5);
/// From one try to reach the node to the next.
const AGAIN: Duration = Duration::from_millis(500);
/// How often it is looked whether the device has its address still.
const ADDRESS_LOOK: Duration = Duration::from_secs(1);
/// Bits that the addresses of all nodes have in common.
const PREFIX: u8 = 8;
/// MTUs that the system takes.
const MTU: std::ops::RangeInclusive<u16> = 576..=u16::MAX;

/// Carries IP over the torus: makes a network device by which programs of this host reach the other hosts of the machine, as over any
/// network. Run it on each host, beside `gannet torus node`.
///
/// It carries IPv4 unicast only: packets of IPv6, multicast and broadcast are dropped and counted. Nothing answers for an address
/// without a host, so a program that calls one waits for its own time-out.
///
/// The address of each host follows from its place: the one at x,y,z has 10.(x+1).(y+1).(z+1). What is sent to another host
/// goes by PUT to its memory; packets that find no room there wait for a moment, and are then dropped and counted. The device follows the host when the
/// machine gives it another place, and is gone when this ends. Where all cables are plugged into interfaces, `gannet torus routes --install` is
/// several times as fast.
///
/// Runs until Ctrl-C, and then says what was carried, and what was dropped, also by the kernel when the queue of the device was full.
/// Exit code 5 when no node answers, or the device cannot be made or is deleted.
///
/// Example: gannet torus tun --mtu 32768
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Socket of the node for processes [default: the one that the variable GANNET_TORUS_NODE names, or that of the only node on this machine].
    #[arg(value_name = "SOCKET")]
    socket: Option<PathBuf>,
    /// Name of the device.
    #[arg(long, value_name = "NAME", default_value = "gannet0", value_parser = device::name)]
    device: String,
    /// Bytes of the longest packet, 576 to 65535. Long ones are carried with the least work; TCP sends long ones whatever this is [default:
    /// what fills one message of the kernel to a neighbour, about 60000].
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u16).range(i64::from(*MTU.start())..))]
    mtu: Option<u16>,
    /// First byte of all addresses.
    #[arg(long, value_name = "BYTE", default_value_t = 10, value_parser = network::first_byte)]
    network: u8,
    /// Print what was carried as JSON.
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let path = arguments.socket.clone().map_or_else(|| socket::only(Door::Processes), Ok)?;
    let signals = Signals::install()?;
    let mut sum = Carried { packets: Counters::default(), device_full: 0 };
    let mut user = Some(connect(&path)?);
    let signal = loop {
        let Some(own) = user.take().map_or_else(|| again(&path, &signals), |it| Ok(Some(it)))?
        else {
            break signals.received();
        };
        let Some((own, place)) = placed(own, &signals)? else {
            if signals.received().is_some() {
                break signals.received();
            }
            continue;
        };
        let address = address(place, arguments)?;
        let device = make(place, address, mtu(&own, arguments), arguments)?;
        let tunnel = match Tunnel::new(own, place, arguments.network, &device) {
            Ok(tunnel) => tunnel,
            Err(UserError::Ended) => {
                thread::sleep(AGAIN);
                continue;
            }
            Err(error) => return Err(Lacking(error.to_string()).into()),
        };
        let (counters, is_gone) = carry(tunnel, (&arguments.device, address), &signals)?;
        sum.packets += counters;
        sum.device_full += device::dropped(&arguments.device).unwrap_or(0);
        if is_gone || signals.received().is_some() {
            break signals.received();
        }
    };
    if arguments.json {
        output::json(&sum)?;
    } else {
        output::text(&sum.to_string())?;
    }
    match signal {
        Some(signal) => Ok(Outcome::Interrupted(signal)),
        None => {
            let device = &arguments.device;
            Err(Lacking(format!("the network device {device} is gone: somebody has deleted it"))
                .into())
        }
    }
}

/// What has become of packets.
#[derive(Serialize)]
struct Carried {
    /// Those that the device has offered, and those that have arrived.
    #[serde(flatten)]
    packets: Counters,
    /// Those that the kernel has dropped before, since the device had no room for them; none of a device that somebody else has deleted.
    device_full: u64,
}

impl fmt::Display for Carried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { packets, device_full } = self;
        packets.fmt(f)?;
        match device_full {
            0 => Ok(()),
            _ => writeln!(
                f,
                "dropped    {device_full:>12} by the kernel, since the queue of the device was full"
            ),
        }
    }
}

/// The process that carries IP at the node that listens at `path`.
fn connect(path: &Path) -> Result<User, Lacking> {
    let begin = Instant::now();
    loop {
        match User::connect(path, Some(PROCESS)) {
            Err(UserError::Refused(Refused::Taken)) if begin.elapsed() < LEAVES_WITHIN => {
                thread::sleep(Duration::from_millis(20));
            }
            Err(UserError::Refused(Refused::Taken)) => {
                return Err(Lacking("another `gannet torus tun` runs at this node".into()));
            }
            Err(UserError::Join(JoinError::System(error))) => {
                return Err(Door::Processes.lacking(path, &error));
            }
            result => {
                return result.map_err(|error| Lacking(format!("{}: {error}", path.display())));
            }
        }
    }
}

/// The same, for a node that has ended and may come back, or has another place; none when a signal comes first.
fn again(path: &Path, signals: &Signals) -> anyhow::Result<Option<User>> {
    log::say("the node of this host has ended, or has another place; waiting for it");
    while signals.received().is_none() {
        match User::connect(path, Some(PROCESS)) {
            Ok(user) => return Ok(Some(user)),
            Err(
                UserError::Join(JoinError::System(_) | JoinError::Closed)
                | UserError::System(_)
                | UserError::Refused(Refused::Taken),
            ) => thread::sleep(AGAIN),
            Err(error) => return Err(Lacking(format!("{}: {error}", path.display())).into()),
        }
    }
    Ok(None)
}

/// Waits until the host has a place in the machine; none when the node ends or a signal comes first.
fn placed(mut user: User, signals: &Signals) -> anyhow::Result<Option<(User, Place)>> {
    if user.place().is_none() {
        log::say("waiting until this host has a place in a machine");
    }
    loop {
        if let Some(place) = user.place() {
            return Ok(Some((user, place)));
        }
        if user.has_ended() || signals.received().is_some() {
            return Ok(None);
        }
        user.wait(LOOK)?;
    }
}

/// Has packets of a device carried until a signal comes, the host has no longer this place or the device is gone; gives what has become of them,
/// and whether it is gone. It gets its address again when somebody takes that away.
fn carry(
    mut tunnel: Tunnel,
    (device, address): (&str, Ipv4Addr),
    signals: &Signals,
) -> anyhow::Result<(Counters, bool)> {
    let mut looked = Instant::now();
    while !tunnel.is_over() && !tunnel.is_gone() && signals.received().is_none() {
        tunnel.wait(LOOK)?;
        if looked.elapsed() < ADDRESS_LOOK {
            continue;
        }
        looked = Instant::now();
        // One that is gone is not given anything, and noticed above.
        if let Ok(true) = kernel::restore_address(device, address, PREFIX) {
            log::say(format_args!("{device} had lost its address {address}, and has it again"));
        }
    }
    let is_gone = tunnel.is_gone();
    Ok((tunnel.finish(), is_gone))
}

/// Bytes of the longest packet.
fn mtu(user: &User, arguments: &Arguments) -> u16 {
    let fitting = (user.burst_bytes() as usize).saturating_sub(VNET_HEADER_LEN);
    let fitting = u16::try_from(fitting).ok().filter(|mtu| MTU.contains(mtu));
    arguments.mtu.or(fitting).unwrap_or(*MTU.end())
}

/// The address of this host.
fn address(place: Place, arguments: &Arguments) -> Result<Ipv4Addr, Lacking> {
    let lattice = place.lattice;
    let addresses = Addresses { first: arguments.network, lattice };
    let lacking = || Lacking(format!("{lattice} has more nodes in a row than addresses"));
    addresses.of(place.node).ok_or_else(lacking)
}

/// Makes the device, with virtio-net headers.
fn make(
    place: Place,
    address: Ipv4Addr,
    mtu: u16,
    arguments: &Arguments,
) -> anyhow::Result<SyncDevice> {
    let Arguments { device: name, network, .. } = arguments;
    if let Ok(Some(interface)) = kernel::interface_with(address) {
        return Err(Lacking(format!(
            "{address} is an address of {interface} already; if `gannet torus routes` runs here, give it another --network on \
             all hosts, or end it"
        ))
        .into());
    }
    let builder = DeviceBuilder::new().ipv4(address, PREFIX, None).mtu(mtu).offload(true);
    let device = device::make(builder, name)?;
    // Packets of UDP that are still to be cut, which `tun-rs` lets through, too, are taken by kernels since Linux 6.2 only.
    sys::leave_to_reader(&device).map_err(|error| {
        Lacking(format!(
            "the kernel does not leave check sums of packets of {name} to other hosts: {error}"
        ))
    })?;
    log::say(format_args!(
        "{name} has the address {address}; the one at x,y,z of {} has {network}.(x+1).(y+1).(z+1)",
        place.lattice
    ));
    Ok(device)
}
