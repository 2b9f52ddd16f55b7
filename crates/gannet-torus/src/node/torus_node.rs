//! The node: words, time and descriptors in; words and events out.

use std::collections::VecDeque;
use std::sync::Arc;

use gannet_lattice::{Direction, LINKS, Node};
use gannet_lofamo::{Nic, Thresholds, Timing};
use gannet_rdma::{Engine, PhysicalMemory};
use gannet_wire::apelink::{WORD_LEN, Word};
use gannet_wire::lofamo::Diagnostic;

use super::arbiter::Arbiter;
use super::configuration::{Configuration, ConfigurationError, UnfitRoutes, check_routes};
use super::event::{Counters, EVENTS_MAX, Event};
use super::guide::Guide;
use super::injection::Injection;
use super::port::{Monitor, Port};
use crate::link::{self, Arrival, FrameError, Frames, Link, Most};
use crate::routes::Routes;

/// A node of a torus. See the [module](super).
///
/// Times are in nanoseconds from any origin and must not go back from one call to the next.
#[derive(Debug)]
pub struct TorusNode<M> {
    pub(super) guide: Guide,
    pub(super) engine: Engine<M>,
    pub(super) ports: [Option<Box<Port>>; LINKS],
    pub(super) arbiter: Arbiter,
    pub(super) injection: Injection,
    pub(super) counters: Counters,
    pub(super) is_paused: bool,
    /// Something has come or gone since packets were last moved.
    pub(super) is_stirred: bool,
    /// A packet waits for the engine to have room.
    pub(super) waits_for_engine: bool,
    events: VecDeque<Event>,
    notices: VecDeque<Diagnostic>,
    monitor: Option<Monitor>,
    virtual_channels: usize,
    now: u64,
}

impl<M: PhysicalMemory> TorusNode<M> {
    /// A node whose engine reads and writes `memory`, and which follows `routes` of number `epoch`.
    ///
    /// All memory is allocated here.
    ///
    /// # Errors
    /// When a parameter is out of its range, or the routes do not fit.
    pub fn new(
        configuration: Configuration,
        memory: M,
        routes: Arc<Routes>,
        epoch: u8,
    ) -> Result<Self, ConfigurationError> {
        let Configuration { engine, link, hop_limit, injection_packets, arbitration } =
            configuration.clone();
        let lattice = routes.lattice();
        configuration.check(lattice)?;
        check_routes(&routes, lattice, link.virtual_channels)?;
        let mut ports = [const { None }; LINKS];
        for direction in Direction::ALL.into_iter().filter(|&direction| lattice.has(direction)) {
            ports[direction.index()] = Some(Box::new(Port::new(link)?));
        }
        let channels = link.virtual_channels as u8;
        let guide = Guide::new(engine.node, routes, channels, epoch, hop_limit);
        Ok(Self {
            arbiter: Arbiter::new(arbitration, guide.at),
            guide,
            engine: Engine::new(engine, memory),
            ports,
            injection: Injection::new(injection_packets, link.packet_words_max() * WORD_LEN),
            counters: Counters::default(),
            is_paused: false,
            is_stirred: false,
            waits_for_engine: false,
            events: VecDeque::with_capacity(EVENTS_MAX),
            notices: VecDeque::with_capacity(EVENTS_MAX),
            monitor: None,
            virtual_channels: link.virtual_channels,
            now: 0,
        })
    }

    /// The node with a fault monitor, which tells its neighbours by the spare bits of credits.
    ///
    /// Links are silent when three credits in their period are missing, or after the silence of
    /// `timing` if that is longer.
    pub fn with_monitor(mut self, timing: Timing, thresholds: Thresholds) -> Self {
        let periods = self.ports.iter().flatten().map(|port| port.link.config().credit_period);
        let missed_ns = periods.max().unwrap_or(0).saturating_mul(3);
        let link_silence_ns = timing.link_silence_ns.max(missed_ns);
        let timing = Timing { link_silence_ns, ..timing };
        let mut monitor = Monitor::new(self.guide.lattice(), self.node(), timing, thresholds);
        for (port, direction) in self.ports.iter_mut().zip(Direction::ALL) {
            if let Some(port) = port {
                port.link.set_diagnostics(monitor.bits(direction, 0));
            }
        }
        self.monitor = Some(monitor);
        self
    }

    /// The node that it is.
    pub fn node(&self) -> Node {
        self.guide.node
    }

    /// The engine.
    pub fn engine(&self) -> &Engine<M> {
        &self.engine
    }

    /// The memory, to go on with in another node.
    pub fn into_memory(self) -> M {
        self.engine.into_memory()
    }

    /// The engine, to register memory, post and poll. What is posted leaves at the next
    /// [`advance`](Self::advance).
    pub fn engine_mut(&mut self) -> &mut Engine<M> {
        &mut self.engine
    }

    /// The link in `direction`, if the lattice has it.
    pub fn link(&self, direction: Direction) -> Option<&Link> {
        self.ports[direction.index()].as_ref().map(|port| &port.link)
    }

    /// What the node has done.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Packets taken from the engine that wait for a link.
    pub fn waiting(&self) -> usize {
        self.injection.len()
    }

    /// The fault monitor, if there is one.
    pub fn nic(&self) -> Option<&Nic> {
        self.monitor.as_ref().map(|monitor| &monitor.nic)
    }

    /// The fault monitor, for the beats of the host and what its sensors read.
    pub fn nic_mut(&mut self) -> Option<&mut Nic> {
        self.monitor.as_mut().map(|monitor| &mut monitor.nic)
    }

    /// Number of the routes that the node follows.
    pub fn epoch(&self) -> u8 {
        self.guide.epoch
    }

    /// Follows other routes from now on; their number must not be that of the ones before.
    ///
    /// # Errors
    /// When the routes do not fit; the node goes on as before.
    pub fn set_routes(&mut self, routes: Arc<Routes>, epoch: u8) -> Result<(), UnfitRoutes> {
        self.check_routes(&routes)?;
        self.guide.follow(routes, epoch);
        self.look_at_all();
        Ok(())
    }

    /// Tests whether the node can follow `routes`.
    ///
    /// # Errors
    /// Why not.
    pub fn check_routes(&self, routes: &Routes) -> Result<(), UnfitRoutes> {
        check_routes(routes, self.guide.lattice(), self.virtual_channels)
    }

    /// Lets no packet of the engine enter the network, until [`resume`](Self::resume).
    pub fn pause(&mut self) {
        self.is_paused = true;
        self.look_at_injection();
    }

    /// Ends a pause.
    pub fn resume(&mut self) {
        self.is_paused = false;
        self.look_at_injection();
        self.is_stirred = true;
    }

    /// Whether no packet of the network is in this node, or on its way from it to the next.
    ///
    /// What a link that is down has taken does not count. Should the link come back, it brings
    /// packets of an old epoch, which wait for nothing.
    pub fn is_drained(&self) -> bool {
        let mut ports = self.ports.iter().zip(Direction::ALL);
        ports.all(|(port, direction)| {
            let Some(port) = port else { return true };
            let waits = (0..self.virtual_channels as u8).any(|vc| port.link.front(vc).is_some());
            !waits && (self.guide.is_down(direction) || port.under_way() == 0)
        })
    }

    /// The word to be sent on the link in `direction` in this word time; nothing if the lattice has
    /// no such link.
    pub fn transmit(&mut self, direction: Direction, now: u64) -> Option<Word> {
        self.send_word(direction, now, |link| Some(link.transmit(now)))
    }

    /// Writes the words that are due on the link in `direction` to the front of `words`, and gives
    /// their number. More may be due if it is that of `words`. For links that charge for every word:
    /// see [`Link::transmit_due`].
    pub fn transmit_into(&mut self, direction: Direction, words: &mut [Word], now: u64) -> usize {
        let mut due = || self.send_word(direction, now, |link| link.transmit_due(now));
        let filled = words.iter_mut().map_while(|place| due().map(|word| *place = word));
        filled.count()
    }

    /// A word that the link gives. Each credit carries the next diagnostics.
    fn send_word(
        &mut self,
        direction: Direction,
        now: u64,
        next: impl FnOnce(&mut Link) -> Option<link::Sent>,
    ) -> Option<Word> {
        let port = self.ports[direction.index()].as_mut()?;
        let link::Sent { word, is_credit } = next(&mut port.link)?;
        if is_credit && let Some(monitor) = &mut self.monitor {
            port.link.set_diagnostics(monitor.bits(direction, now));
        }
        Some(word)
    }

    /// Takes the words that the link in `direction` has brought, oldest first. Packets move at the
    /// next [`advance`](Self::advance).
    pub fn receive_all(&mut self, direction: Direction, words: &[Word], now: u64) {
        words.iter().for_each(|&word| self.receive(direction, word, now));
    }

    /// The frames that are due on the link in `direction` and go at once; none if none is. More may be due behind them: see
    /// [`Link::take_frames`].
    pub fn take_frames(
        &mut self,
        direction: Direction,
        most: Most,
        now: u64,
    ) -> Option<Frames<'_>> {
        self.due_link(direction, now)?.take_frames(most, now)
    }

    /// The link in `direction` if a frame is due there, with diagnostics that no frame has told yet.
    fn due_link(&mut self, direction: Direction, now: u64) -> Option<&mut Link> {
        let Port { link, is_told, .. } = &mut **self.ports[direction.index()].as_mut()?;
        if !link.is_frame_due(now) {
            return None;
        }
        if let Some(monitor) = &mut self.monitor
            && std::mem::replace(is_told, true)
        {
            link.set_diagnostics(monitor.bits(direction, now));
        }
        Some(link)
    }

    /// Returns the frames that were taken last in `direction` and could not be sent: they are due again.
    pub fn return_frames(&mut self, direction: Direction) {
        if let Some(port) = &mut self.ports[direction.index()] {
            port.link.return_frames();
            port.is_told = false;
        }
    }

    /// Copies the frame that is due on the link in `direction` to the front of `frame`, and gives its
    /// length; 0 if none is. More may be due behind it.
    ///
    /// # Panics
    ///
    /// When `frame` is shorter than the frame.
    pub fn emit(&mut self, direction: Direction, frame: &mut [u8], now: u64) -> usize {
        self.due_link(direction, now).map_or(0, |link| link.emit(frame, now))
    }

    /// Takes a frame that the link in `direction` has brought. Its packets move on at once where nobody competes with them, and else at the next
    /// [`advance`](Self::advance).
    ///
    /// # Errors
    ///
    /// As [`Link::accept`]; nothing of the frame was taken then.
    pub fn accept(
        &mut self,
        direction: Direction,
        frame: &[u8],
        now: u64,
    ) -> Result<(), FrameError> {
        let at = direction.index();
        let Some(mut port) = self.ports[at].take() else { return Ok(()) };
        // A credit first, and a bit for each channel that has a packet.
        let (mut credit, mut arrived) = (None, 0u8);
        // Those behind one that has to wait might take the room that it waits for.
        let mut passes = true;
        let take = |arrival: &Arrival, payload: &[u8]| {
            passes = passes && self.pass_on(at, arrival, payload, now);
            passes
        };
        let accepted = port.accept(frame, now, take, |event| match event {
            link::Event::Packet(vc) => arrived |= 1 << vc,
            event => credit = Some(event),
        });
        self.ports[at] = Some(port);
        accepted?;
        if let Some(event) = credit {
            self.heard(direction, event, now);
        }
        for vc in (0..self.virtual_channels as u8).filter(|vc| arrived >> vc & 1 == 1) {
            self.arrived(at, vc);
        }
        Ok(())
    }

    /// Takes a word that the link in `direction` has brought. Packets move at the next
    /// [`advance`](Self::advance).
    pub fn receive(&mut self, direction: Direction, word: Word, now: u64) {
        let port = self.ports[direction.index()].as_mut();
        match port.and_then(|port| port.receive(word, now)) {
            None => {}
            Some(link::Event::Packet(vc)) => self.arrived(direction.index(), vc),
            Some(event) => self.heard(direction, event, now),
        }
    }

    /// A good credit has come, and with it what `event` says.
    fn heard(&mut self, direction: Direction, event: link::Event, now: u64) {
        self.hear_credit(direction, now);
        if event != link::Event::Credit {
            self.link_event(direction, event);
        }
    }

    /// A good credit has come: there may be room, and news of the neighbour.
    fn hear_credit(&mut self, direction: Direction, now: u64) {
        self.is_stirred = true;
        let Some(port) = &mut self.ports[direction.index()] else { return };
        let heard = port.heard();
        if let Some(monitor) = &mut self.monitor {
            let (notices, untold) = (&mut self.notices, &mut self.counters.untold);
            monitor.hear(direction, heard, now, |notice| keep(notices, notice, untold));
        }
    }

    /// Lets everything happen that can: deadlines, and packets that have room where they go.
    pub fn advance(&mut self, now: u64) {
        self.advance_in_part(now);
        while self.has_packet() {
            self.move_packets(now);
        }
    }

    /// The same for no more packets of the engine than may wait for a link, so that a driver sends the first ones while
    /// others are made; with others left, [`next_deadline`](Self::next_deadline) is now.
    pub fn advance_in_part(&mut self, now: u64) {
        self.now = now;
        for direction in Direction::ALL {
            let port = self.ports[direction.index()].as_mut();
            if let Some(event) = port.and_then(|port| port.link.tick(now)) {
                self.link_event(direction, event);
            }
        }
        if let Some(monitor) = &mut self.monitor {
            let (notices, untold) = (&mut self.notices, &mut self.counters.untold);
            monitor.poll(now, |notice| keep(notices, notice, untold));
        }
        self.engine.advance(now);
        let engine_has_room = self.waits_for_engine && self.engine.can_receive();
        if self.is_stirred || engine_has_room || self.has_packet() {
            self.move_packets(now);
        }
    }

    /// When [`advance`](Self::advance) and then [`transmit_into`](Self::transmit_into) have something
    /// to do if no word comes before; `None` if never.
    pub fn next_deadline(&self) -> Option<u64> {
        self.next_deadline_of(|_| true)
    }

    /// The same where only links in directions that `has_line` have a line; what others would say stays due.
    pub fn next_deadline_of(&self, has_line: impl Fn(Direction) -> bool) -> Option<u64> {
        let links = self.ports.iter().zip(Direction::ALL).filter_map(|(port, direction)| {
            port.as_ref().filter(|_| has_line(direction)).map(|port| port.link.deadline())
        });
        let monitor = self.nic().and_then(Nic::deadline_ns);
        let soon = (self.is_stirred || self.has_packet()).then_some(self.now);
        links.chain(self.engine.next_deadline()).chain(monitor).chain(soon).min()
    }

    /// Whether the engine has a packet for which there is room.
    fn has_packet(&self) -> bool {
        self.engine.has_packet() && self.injection.has_room()
    }

    /// The next event, oldest first.
    pub fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// What the fault monitor wants the host to know.
    pub fn next_notice(&mut self) -> Option<Diagnostic> {
        self.notices.pop_front()
    }

    pub(super) fn tell(&mut self, event: Event) {
        keep(&mut self.events, event, &mut self.counters.untold);
    }

    fn link_event(&mut self, direction: Direction, event: link::Event) {
        self.tell(Event::Link(direction, event));
        self.is_stirred = true;
        match event {
            link::Event::Down => self.guide.set_down(direction, true),
            link::Event::Up => self.guide.set_down(direction, false),
            _ => return,
        }
        self.look_at_all();
    }
}

/// Appends to a queue of what is told, unless the host lets it fill up.
fn keep<T>(queue: &mut VecDeque<T>, news: T, untold: &mut u64) {
    if queue.len() < EVENTS_MAX {
        queue.push_back(news);
    } else {
        *untold += 1;
    }
}
