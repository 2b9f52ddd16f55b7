//! Cables between interfaces of namespaces, which have no addresses but those of the link.

use std::fs::File;
use std::os::fd::AsFd;
use std::process::{self, Command};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use gannet_measure::testing::skipped;
use gannet_torus_live::Port;
use gannet_torus_live::udp::{InterfaceError, UdpPort};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::conformance::call;

/// How long an end must be silent before another one takes its place.
const SILENCE: Duration = Duration::from_millis(300);

/// A namespace, which lasts as long as this, or sockets in it.
pub struct End(String);

impl Drop for End {
    fn drop(&mut self) {
        // It may not have come to be.
        let _gone = ip(&format!("netns delete {}", self.0));
    }
}

/// Runs `ip` with arguments that are split at spaces.
fn ip(arguments: &str) -> Result<(), String> {
    let output = Command::new("ip").args(arguments.split(' ')).output();
    let output = output.map_err(|error| format!("no program `ip`: {error}"))?;
    let told = String::from_utf8_lossy(&output.stderr);
    output.status.success().then_some(()).ok_or_else(|| format!("ip {arguments}: {}", told.trim()))
}

impl End {
    fn new() -> Result<Self, String> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let end = Self(format!("gannet-torus-{}-{count}", process::id()));
        ip(&format!("netns add {}", end.0))?;
        Ok(end)
    }

    /// What `work` returns in the namespace.
    fn within<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        thread::scope(|scope| {
            let moved = scope.spawn(|| {
                let file = File::open(format!("/run/netns/{}", self.0)).unwrap();
                move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
                work()
            });
            moved.join().unwrap()
        })
    }

    pub fn open(self) -> UdpPort {
        self.within(|| UdpPort::open_at("v0", SILENCE)).unwrap()
    }
}

/// Two namespaces with a cable between their interfaces v0, or why this process may not have them.
pub fn cable() -> Result<[End; 2], String> {
    let ends = [End::new()?, End::new()?];
    join(ends.each_ref())?;
    Ok(ends)
}

#[test]
fn an_interface_that_is_no_end_of_a_cable_is_told_with_what_to_do() {
    let end = match End::new() {
        Ok(end) => end,
        Err(why) => return skipped("interfaces without a link", &why),
    };
    let open = || end.within(|| UdpPort::open_at("v0", SILENCE)).map(drop);
    assert!(matches!(open(), Err(InterfaceError::NoSuch)));
    let loopback = end.within(|| UdpPort::open_at("lo", SILENCE)).map(drop);
    assert!(matches!(loopback, Err(InterfaceError::Loopback)));
    ip(&format!("-n {} link add v0 type veth peer name v1", end.0)).unwrap();
    let down = open().unwrap_err();
    assert!(
        matches!(down, InterfaceError::Down(_)) && down.to_string().contains("ip link set v0 up")
    );
    ip(&format!("-n {} link set v0 up", end.0)).unwrap();
    // No link-local address is there, nor carrier: both may still come.
    open().unwrap();
    end.within(|| std::fs::write("/proc/sys/net/ipv6/conf/v0/disable_ipv6", "1")).unwrap();
    let off = open().unwrap_err();
    assert!(
        matches!(off, InterfaceError::NoIpv6(_)) && off.to_string().contains("sysctl"),
        "{off}"
    );
    end.within(|| std::fs::write("/proc/sys/net/ipv6/conf/v0/disable_ipv6", "0")).unwrap();
    let _first = end.within(|| UdpPort::open_at("v0", SILENCE)).unwrap();
    assert!(matches!(open(), Err(InterfaceError::Taken)));
}

/// Joins the interfaces v0 of two namespaces.
fn join([a, b]: [&End; 2]) -> Result<(), String> {
    ip(&format!("link add v0 netns {} type veth peer name v0 netns {}", a.0, b.0))?;
    [a, b].iter().try_for_each(|end| ip(&format!("-n {} link set v0 up", end.0)))
}

#[test]
fn an_interface_that_is_made_anew_is_used_again() {
    let ends = match cable() {
        Ok(ends) => ends,
        Err(why) => return skipped("an interface that is made anew", &why),
    };
    let [a, b] = &ends;
    let open = |end: &End| end.within(|| UdpPort::open_at("v0", SILENCE)).unwrap();
    let mut ports = [open(a), open(b)];
    let mut meet = || {
        let begin = Instant::now();
        let mut heard = [false; 2];
        while heard != [true; 2] {
            assert!(begin.elapsed() < Duration::from_secs(60), "{heard:?}");
            for (end, port) in ends.iter().zip(&mut ports) {
                // An interface that has no address yet, or is gone, sends nothing.
                let _sent = end.within(|| port.send(&call(), call().len()));
            }
            thread::sleep(Duration::from_millis(20));
            for (heard, port) in heard.iter_mut().zip(&mut ports) {
                while let Ok(false) = port.receive(&mut |_| *heard = true) {}
            }
        }
    };
    meet();
    ip(&format!("-n {} link delete v0", a.0)).unwrap();
    join([a, b]).unwrap();
    meet();
}

/// Three interfaces of namespaces on one bridge, as at the ends of a cable that is plugged elsewhere.
fn bridged() -> Result<(End, Vec<UdpPort>), String> {
    let panel = End::new()?;
    ip(&format!("-n {} link add bridge type bridge mcast_snooping 0", panel.0))?;
    ip(&format!("-n {} link set bridge up", panel.0))?;
    let mut ports = Vec::new();
    for number in 0..3 {
        let end = End::new()?;
        ip(&format!(
            "link add v0 netns {} type veth peer name p{number} netns {}",
            end.0, panel.0
        ))?;
        ip(&format!("-n {} link set p{number} master bridge up", panel.0))?;
        ip(&format!("-n {} link set v0 up", end.0))?;
        ports.push(end.open());
    }
    Ok((panel, ports))
}

#[test]
fn another_end_takes_the_place_of_one_that_is_silent_and_of_no_other() {
    let (_panel, mut ports) = match bridged() {
        Ok(bridged) => bridged,
        Err(why) => return skipped("an end of a cable that is another one", &why),
    };
    let [a, b, c] = &mut ports[..] else { unreachable!() };
    let begin = Instant::now();
    let step = |from: &mut [&mut UdpPort], to: &mut UdpPort| {
        assert!(begin.elapsed() < Duration::from_secs(60));
        from.iter_mut().for_each(|port| _ = port.send(&call(), call().len()));
        thread::sleep(Duration::from_millis(20));
        let mut heard = 0;
        while !to.receive(&mut |_| heard += 1).unwrap() {}
        to.confirm();
        heard
    };
    while step(&mut [b], a) == 0 {}
    let other = |port: &UdpPort| port.interface().unwrap().1.unwrap();
    let met = other(a);
    // While it speaks, nobody else is heard, but that somebody calls.
    let frame = [1; 100];
    while a.strangers() < 5 {
        // It may have no address yet.
        let _sent = c.send(&frame, frame.len());
        assert!(step(&mut [b], a) <= 1);
    }
    while step(&mut [b, c], a) < 2 {}
    assert_eq!(other(a), met);
    while step(&mut [c], a) == 0 || other(a) == met {}
    let strangers = a.strangers();
    while a.strangers() == strangers {
        let _sent = b.send(&frame, frame.len());
        assert!(step(&mut [c], a) <= 1);
    }
}
