//! What ports have met that is no neighbour, in words.

use crate::member::{Notice, Setup};

/// For how long something that is no neighbour is told after it was seen last, ns.
const STRANGER_NS: u64 = 10_000_000_000;

#[derive(Clone, Debug)]
struct Stranger {
    words: String,
    until: u64,
    /// Whether the words say what is wrong, and not only what may be.
    is_sure: bool,
}

/// The stranger of each port.
#[derive(Debug)]
pub(crate) struct Strangers(Vec<Option<Stranger>>);

impl Strangers {
    pub(crate) fn new(ports: usize) -> Self {
        Self(vec![None; ports])
    }

    /// What a port has met, if that is still to be believed.
    pub(crate) fn words(&self, port: usize, now: u64) -> Option<&str> {
        let stranger = self.0.get(port)?.as_ref()?;
        (now < stranger.until).then_some(&stranger.words)
    }

    /// Takes note of what has happened at a port.
    pub(crate) fn note(&mut self, notice: &Notice, setup: &Setup, now: u64) {
        let (port, words) = match notice {
            Notice::Met(port, _) => return self.0[*port] = None,
            // What both ends have agreed on stays as it is.
            Notice::Heard(port, true) => {
                let place = &mut self.0[*port];
                return *place = place.take().filter(|stranger| stranger.until == u64::MAX);
            }
            Notice::Heard(_, false) | Notice::Ordered => return,
            // On a wire of three, one hears answers that are for another.
            Notice::WrongKey(port, who) => {
                let words = format!(
                    "{} has another key, or more than two hosts are on this wire: give all hosts the same key, and each cable two ends",
                    who.place()
                );
                (*port, words)
            }
            Notice::NoHandshake(port, who) => {
                let own = setup.ports.get(*port).map_or(usize::MAX, |it| it.1);
                let words = format!(
                    "{} calls, but no handshake comes through: give both hosts the same key, and see that all between them \
                     lets frames of {} bytes through, or set a lower MTU at both ends",
                    who.place(),
                    own.min(who.frame_bytes as usize)
                );
                (*port, words)
            }
            Notice::Itself(port, who) => {
                (*port, format!("its cable leads back to this host, port {}", who.port_name))
            }
            Notice::SameHost(port, who) => {
                let words = format!(
                    "{} has the number of this host, {}; give one of them another name",
                    who.place(),
                    who.host
                );
                (*port, words)
            }
            Notice::Third(port, who) => {
                let words = format!(
                    "{} calls here, too: more than two hosts are on this wire; give each cable two ends",
                    who.place()
                );
                (*port, words)
            }
            Notice::OtherMachine(port, who, name) => {
                let words = format!(
                    "{} is of another machine, which has a host {name}, too; give one of them another name",
                    who.place()
                );
                (*port, words)
            }
            Notice::OtherFrames(port, who) => {
                let words = format!(
                    "it carries frames of {} bytes and {} of {}; the shorter ones are used; set the MTU of both ends alike",
                    setup.ports[*port].1,
                    who.place(),
                    who.frame_bytes
                );
                (*port, words)
            }
            Notice::OtherUse(port, who) => {
                let (service, cable) = ("is of the service network", "is the end of a cable");
                let (own, other) = if who.is_service { (cable, service) } else { (service, cable) };
                (*port, format!("it {own}, and {} {other}; use both alike", who.place()))
            }
        };
        let is_sure = !matches!(notice, Notice::NoHandshake(..));
        let is_beside = matches!(notice, Notice::Third(..) | Notice::OtherMachine(..));
        let holds_already = self.0[port].as_ref().is_some_and(|it| it.until == u64::MAX);
        if !is_sure && self.knows(port, now) || is_beside && holds_already {
            return;
        }
        // What both ends have agreed on stays so; anything else is believed for a while.
        let holds = matches!(notice, Notice::OtherFrames(..) | Notice::OtherUse(..));
        let until = if holds { u64::MAX } else { now + STRANGER_NS };
        self.0[port] = Some(Stranger { words, until, is_sure });
    }

    /// Whether it is known what is wrong at a port.
    fn knows(&self, port: usize, now: u64) -> bool {
        self.0[port].as_ref().is_some_and(|stranger| stranger.is_sure && now < stranger.until)
    }
}

#[cfg(test)]
mod tests {
    use gannet_wire::neighbour::{HostId, Identity, Name};

    use super::*;
    use crate::identity::Key;

    fn setup() -> Setup {
        Setup {
            host: HostId(1),
            life: 1,
            name: Name::default(),
            ports: vec![(Name::default(), 8972); 2],
            services: vec![Name::default()],
            key: Key([0; 32]),
            protects: true,
            watchdog_ns: 1_000_000,
            lattice: None,
            settle_ns: 0,
        }
    }

    fn who() -> Identity {
        Identity { host: HostId(2), frame_bytes: 1472, ..Identity::default() }
    }

    /// What is told of port 1 after these notices.
    fn told(notices: &[Notice], now: u64) -> Option<String> {
        let mut strangers = Strangers::new(3);
        notices.iter().for_each(|notice| strangers.note(notice, &setup(), 0));
        assert_eq!(strangers.words(0, now), None, "of another port");
        strangers.words(1, now).map(str::to_owned)
    }

    #[test]
    fn what_is_wrong_counts_for_more_than_what_may_be() {
        let (sure, vague) = (Notice::WrongKey(1, who()), Notice::NoHandshake(1, who()));
        for notices in [[sure.clone(), vague.clone()], [vague.clone(), sure.clone()]] {
            assert!(told(&notices, 1).unwrap().contains("has another key"), "{notices:?}");
        }
        let vague = told(&[vague], 1).unwrap();
        assert!(vague.contains("frames of 1472 bytes"), "{vague}");
        assert_eq!(told(&[sure], STRANGER_NS), None, "it is told for ever");
    }

    #[test]
    fn who_is_heard_is_no_stranger() {
        let vague = Notice::NoHandshake(1, who());
        assert_eq!(told(&[vague.clone(), Notice::Heard(1, true)], 1), None);
        assert!(told(&[vague.clone(), Notice::Heard(1, false)], 1).is_some());
        assert_eq!(told(&[vague, Notice::Met(1, who())], 1), None);
        // What both ends have agreed on is said of who was met.
        let holds = [Notice::Met(1, who()), Notice::OtherFrames(1, who()), Notice::Heard(1, true)];
        assert!(told(&holds, u64::MAX - 1).unwrap().contains("8972 bytes"));
        let with_third = [&holds[..], &[Notice::Third(1, who())]].concat();
        assert!(told(&with_third, 1).unwrap().contains("8972 bytes"));
    }

    #[test]
    fn a_port_of_the_service_network_has_the_frames_of_the_other_end() {
        let mut strangers = Strangers::new(3);
        strangers.note(&Notice::NoHandshake(2, who()), &setup(), 0);
        assert!(strangers.words(2, 1).unwrap().contains("frames of 1472 bytes"));
    }
}
