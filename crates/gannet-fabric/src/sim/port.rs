//! The endpoint, and its end of a cable.

use gannet_rdma::Engine;
use gannet_wire::exchange::Message;
use gannet_wire::rdma::{DATA_LEN_MAX, HEADER_LEN};

use super::network::Network;
use super::path::Fates;
use crate::endpoint::{Failure, Peer};
use crate::exchange::{JoinError, Side};
use crate::packet::{self, Memory, PacketEndpoint, Pairs};

/// An endpoint in virtual time.
pub type Sim = PacketEndpoint<Port>;

impl Sim {
    /// Joins the endpoint at the other end of a cable, which may be there later.
    ///
    /// # Errors
    /// When as many are joined as may be.
    pub fn join(&mut self, mut cable: Cable) -> Result<Peer, JoinError> {
        self.join_by(|endpoint, _| {
            let patience_ns = endpoint.own.limits.deadline.as_nanos() as u64;
            let data_bytes = cable.begin(patience_ns);
            Ok((cable, data_bytes))
        })
    }

    /// What became of the packets to an endpoint.
    pub fn fates(&mut self, peer: Peer) -> Option<Fates> {
        let cable = self.cable(peer)?;
        let mut state = cable.network.lock();
        Some(state.ways(cable.number).from(cable.side).0.fates)
    }
}

/// One end of a cable of a network.
#[derive(Debug)]
pub struct Cable {
    network: Network,
    number: u64,
    side: Side,
    /// When this end has waited long enough for a path that is cut.
    silent_at: u64,
    /// For a packet.
    room: Vec<u8>,
}

impl Cable {
    pub(super) fn new(network: Network, number: u64, side: Side) -> Self {
        let room = vec![0; HEADER_LEN + DATA_LEN_MAX];
        Self { network, number, side, silent_at: u64::MAX, room }
    }

    /// Takes note of how long to wait for the other end; gives the bytes of data in a packet.
    fn begin(&mut self, patience_ns: u64) -> usize {
        let mut state = self.network.lock();
        let now = state.now;
        let (out, back) = state.ways(self.number).from(self.side);
        let silent_at = |path: &super::Path| path.silent_at(now, patience_ns);
        self.silent_at = silent_at(&out.path).min(silent_at(&back.path));
        out.path.packet_bytes.min(back.path.packet_bytes)
    }
}

/// The other end learns of it.
impl Drop for Cable {
    fn drop(&mut self) {
        self.network.lock().end(self.number, self.side);
    }
}

impl packet::Cable for Cable {
    fn side(&self) -> Side {
        self.side
    }

    fn tell(&mut self, message: &Message, waiting_max: usize) -> Result<(), Failure> {
        let mut state = self.network.lock();
        let now = state.now;
        let (out, _) = state.ways(self.number).from(self.side);
        out.tell(now, message);
        if out.waiting() > waiting_max { Err(Failure::Unresponsive) } else { Ok(()) }
    }

    fn empty_outbox(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    fn hear(&mut self) -> Result<Option<Message>, Failure> {
        let mut state = self.network.lock();
        let now = state.now;
        let (_, back) = state.ways(self.number).from(self.side);
        match back.heard(now) {
            None if back.is_over(now) => Err(Failure::Ended),
            None if now >= self.silent_at => Err(Failure::Unresponsive),
            message => Ok(message),
        }
    }
}

/// Where an endpoint is plugged into its network.
#[derive(Debug)]
pub struct Port(pub(super) Network);

impl packet::Port for Port {
    type Cable = Cable;

    const NAME: &'static str = "sim";

    fn now(&self) -> u64 {
        self.0.lock().now
    }

    fn reach(&mut self, now_ns: u64) {
        let mut state = self.0.lock();
        state.now = state.now.max(now_ns);
    }

    fn send(&self, cable: &mut Cable, now: u64, engine: &mut Engine<Memory>) {
        let mut state = self.0.lock();
        let (out, _) = state.ways(cable.number).from(cable.side);
        engine.advance(now);
        while out.room_at() <= now
            && let Some(packet) = engine.next_packet(now, &mut cable.room)
        {
            out.send(now, &cable.room[..packet.length]);
        }
        let room_at = if engine.has_packet() { out.room_at() } else { u64::MAX };
        let timer_at = engine.next_deadline().unwrap_or(u64::MAX);
        out.timer_at = timer_at.min(room_at).min(cable.silent_at);
    }

    fn receive(&mut self, pairs: &mut Pairs<'_, Cable>) -> bool {
        pairs.packets(|cable| {
            let mut state = cable.network.lock();
            let now = state.now;
            state.ways(cable.number).from(cable.side).1.arrived(now)
        });
        true
    }

    fn is_time_to_look(&mut self, _now: u64) -> bool {
        true
    }

    fn due(&self, _now: u64) -> u64 {
        self.0.lock().due()
    }
}
