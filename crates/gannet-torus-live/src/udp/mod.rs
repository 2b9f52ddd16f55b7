//! A cable of UDP datagrams: between two addresses of any network, or between two interfaces that have none but what the
//! kernel gives them. No rights.

mod intake;
mod interface;

use std::io;
use std::net::{Ipv6Addr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::time::Duration;

use gannet_ingest::udp::CoalescedSocket;
use gannet_torus::link::Most;
use gannet_wire::neighbour::is_call;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt;

use crate::port::Port;
use intake::Intake;
pub use interface::{GROUP, InterfaceError, PORT};
use interface::{Interface, Meeting, Sender};

/// Memory asked for frames that wait in the socket.
const BUFFER_BYTES: u64 = 8 << 20;
/// Most messages that are taken at once. Long ones always are, since the other end has more to send than goes in one; short ones only
/// while they keep waiting, twice as many each time.
const MESSAGES_AT_ONCE: usize = 4;
const LONG_BYTES: usize = 32 << 10;
/// Headers of IP and UDP in front of a frame.
const IPV4_HEADERS: u32 = 20 + 8;
const IPV6_HEADERS: u32 = 40 + 8;

/// Where the other end of a cable is.
#[derive(Debug)]
enum Other {
    At(SocketAddr),
    Met(Meeting),
}

/// An end of a cable over UDP.
#[derive(Debug)]
pub struct UdpPort {
    socket: CoalescedSocket,
    other: Other,
    room: Box<[u8]>,
    frame_bytes: usize,
    window_bytes: usize,
    strangers: u64,
    intake: Intake,
    /// Short messages that are taken at once the next time.
    short_at_once: usize,
}

impl UdpPort {
    /// An end at `local` of the cable whose other end is at `peer`, with frames as long as the path carries whole.
    ///
    /// # Errors
    /// When the address is not of this host, or taken, or `peer` cannot be reached from it.
    pub fn open(local: SocketAddr, peer: SocketAddr) -> io::Result<Self> {
        // A socket that hears one end only keeps the address that it has then.
        let socket = if local.ip().is_unspecified() {
            CoalescedSocket::bind(&local)?
        } else {
            CoalescedSocket::bind_between(&local, &peer)?
        };
        Self::new(socket, Other::At(peer), path_bytes(&local, &peer)?)
    }

    /// An end at `interface` of the cable that is plugged in there, whatever is at its other end: both call to each other
    /// over IPv6, by [`GROUP`] and [`PORT`], and need no addresses but those of the link that the kernel gives them.
    /// Who was met there is the other end until it has been silent for `silence`.
    ///
    /// # Errors
    /// When there is no such interface, or it is down, or without IPv6.
    pub fn open_at(interface: &str, silence: Duration) -> Result<Self, InterfaceError> {
        let Interface { socket, index, mtu } = Interface::open(interface)?;
        let frame_bytes = mtu.saturating_sub(IPV6_HEADERS as usize);
        let other = Other::Met(Meeting::new(interface, index, silence));
        Ok(Self::new(socket, other, frame_bytes.min(CoalescedSocket::BYTES_MAX))?)
    }

    fn new(socket: CoalescedSocket, other: Other, frame_bytes: usize) -> io::Result<Self> {
        let window_bytes = socket.set_buffers(BUFFER_BYTES)? as usize;
        Ok(Self {
            socket,
            other,
            room: vec![0; CoalescedSocket::ROOM].into_boxed_slice(),
            frame_bytes,
            window_bytes,
            strangers: 0,
            intake: Intake::new(),
            short_at_once: 1,
        })
    }

    /// Where this end is.
    ///
    /// # Errors
    /// When the system does not tell.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.socket.address()
    }

    /// Goes over to the interface that has taken name and place of the one that this end was at: nothing comes by the socket there any more.
    fn follow_interface(&mut self) -> io::Result<()> {
        if let Other::Met(meeting) = &self.other
            && let Some((socket, meeting)) = meeting.anew(&self.socket)
        {
            socket.set_buffers(BUFFER_BYTES)?;
            (self.socket, self.other) = (socket, Other::Met(meeting));
        }
        Ok(())
    }

    /// The same with frames of at most `bytes`.
    #[must_use]
    pub fn with_frames_of(mut self, bytes: usize) -> Self {
        self.frame_bytes = self.frame_bytes.min(bytes);
        self
    }
}

/// Longest datagram from `local` to `peer` that the network of this host does not cut.
fn path_bytes(local: &SocketAddr, peer: &SocketAddr) -> io::Result<usize> {
    let probe = std::net::UdpSocket::bind((local.ip(), 0))?;
    probe.connect(peer)?;
    let bytes = match peer {
        SocketAddr::V4(_) => sockopt::ip_mtu(&probe)?.saturating_sub(IPV4_HEADERS),
        SocketAddr::V6(_) => sockopt::ipv6_mtu(&probe)?.saturating_sub(IPV6_HEADERS),
    };
    Ok((bytes as usize).min(CoalescedSocket::BYTES_MAX))
}

impl Port for UdpPort {
    fn frame_bytes(&self) -> usize {
        self.frame_bytes
    }

    fn window_bytes(&self) -> usize {
        self.window_bytes
    }

    fn at_once(&self) -> Most {
        Most { frames: self.socket.datagrams_max(), bytes: CoalescedSocket::BYTES_MAX }
    }

    fn send(&mut self, frames: &[u8], frame: usize) -> io::Result<bool> {
        if is_call(frames) {
            self.follow_interface()?;
        }
        let to = match &self.other {
            Other::At(peer) => *peer,
            // Of who is not known yet only the true one can read what is sealed.
            Other::Met(meeting) if is_call(frames) => meeting.group(),
            Other::Met(meeting) => meeting.place(),
        };
        self.socket.send(frames, frame, &to)
    }

    fn may_send(&self) -> bool {
        let mut socket = [PollFd::from_borrowed_fd(self.socket.descriptor(), PollFlags::OUT)];
        // One that cannot be asked says at the next frame what is wrong.
        poll(&mut socket, Some(&Timespec::default())) != Ok(0)
    }

    /// Takes a message of the socket, so that what it has brought is acknowledged, or passed on, while others come; a few if they are
    /// long, since each answer costs as much as taking one, or if they keep waiting: a sender that takes acknowledgements one by one also
    /// sends one small piece after another.
    fn receive(&mut self, take: &mut dyn FnMut(&[u8])) -> io::Result<bool> {
        let short_at_once = self.short_at_once;
        self.short_at_once = MESSAGES_AT_ONCE.min(2 * short_at_once);
        for count in 1..=MESSAGES_AT_ONCE {
            let message = self.intake.receive(&self.socket, &mut self.room)?;
            let Some(message) = message else {
                self.short_at_once = 1;
                return Ok(true);
            };
            let mut frames = self.room[..message.bytes].chunks(message.datagram);
            let first = frames.clone().next().unwrap_or_default();
            let sender = match &mut self.other {
                Other::At(peer) if message.sender == *peer => Sender::OtherEnd,
                Other::At(_) => Sender::Nobody,
                Other::Met(meeting) => meeting.hears(message.sender, first),
            };
            match sender {
                // Of an empty datagram there is no frame, and nobody here sends one.
                Sender::OtherEnd if message.bytes > 0 => frames.for_each(&mut *take),
                Sender::Third => {
                    frames.by_ref().take(1).for_each(&mut *take);
                    self.strangers += frames.len() as u64;
                }
                Sender::OtherEnd | Sender::Nobody => {
                    self.strangers += frames.len().max(1) as u64;
                }
            }
            if message.bytes < LONG_BYTES && count >= short_at_once {
                break;
            }
        }
        Ok(false)
    }

    fn strangers(&self) -> u64 {
        self.strangers + u64::from(self.socket.refused())
    }

    fn confirm(&mut self) {
        if let Other::Met(meeting) = &mut self.other {
            meeting.confirm();
        }
    }

    fn interface(&self) -> Option<(&str, Option<Ipv6Addr>)> {
        match &self.other {
            Other::At(_) => None,
            Other::Met(meeting) => Some((meeting.interface(), meeting.address())),
        }
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.descriptor()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends a frame of each of these lengths, in a message of its own.
    fn send(port: &mut UdpPort, mut lengths: impl Iterator<Item = usize>) {
        assert!(lengths.all(|length| port.send(&vec![1; length], length).unwrap()));
    }

    /// Frames that come at once, and whether those were all.
    fn receive(port: &mut UdpPort) -> (usize, bool) {
        let mut count = 0;
        let were_all = port.receive(&mut |_| count += 1).unwrap();
        (count, were_all)
    }

    #[test]
    fn short_messages_are_taken_together_only_while_they_keep_waiting() {
        let [here, there] = [0; 2].map(|_| CoalescedSocket::bind(&"127.0.0.1:0".parse().unwrap()));
        let (here, there) = (here.unwrap(), there.unwrap());
        let [at_here, at_there] = [&here, &there].map(|socket| socket.address().unwrap());
        let mut here = UdpPort::new(here, Other::At(at_there), 8972).unwrap();
        let mut there = UdpPort::new(there, Other::At(at_here), 8972).unwrap();
        let as_they_should_be = || {
            while receive(&mut there) != (0, true) {}
            send(&mut here, 100..108);
            let taken = [(); 4].map(|()| receive(&mut there));
            send(&mut here, 100..102);
            (taken, receive(&mut there))
                == ([(1, false), (2, false), (4, false), (1, true)], (1, false))
        };
        // On a busy machine messages may still be on their way when they are looked for.
        assert!(std::iter::repeat_with(as_they_should_be).take(100).any(|holds| holds));
    }

    #[test]
    fn a_stream_behind_single_frames_comes_whole() {
        let any = "127.0.0.1:0".parse().unwrap();
        let there = CoalescedSocket::bind(&any).unwrap();
        let at_there = there.address().unwrap();
        let here = CoalescedSocket::bind_between(&any, &at_there).unwrap();
        let at_here = here.address().unwrap();
        let mut here = UdpPort::new(here, Other::At(at_there), 8972).unwrap();
        let mut there = UdpPort::new(there, Other::At(at_here), 8972).unwrap();
        let mut lengths = Vec::new();
        for _ in 0..2 {
            while here.intake != Intake::Datagrams {
                send(&mut there, 100..101);
                while receive(&mut here) != (0, true) {}
            }
            for frames in [7, 7, 3] {
                assert!(there.send(&vec![1; frames * 8972 - 1], 8972).unwrap());
                while lengths.len() < frames {
                    // A short one may have been late.
                    here.receive(&mut |frame| {
                        lengths.extend(Some(frame.len()).filter(|&it| it > 100))
                    })
                    .unwrap();
                }
                assert_eq!(lengths.pop(), Some(8971));
                assert!(lengths.drain(..).eq(std::iter::repeat_n(8972, frames - 1)));
            }
            assert_eq!(here.intake, Intake::new());
        }
    }
}
