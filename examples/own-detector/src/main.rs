//! A detector of one's own: a hodoscope whose boards read 64 scintillator bars each.
//!
//! A board sends a datagram every 100 us. Three numbers of 64 bits, little endian, come first: time in
//! ticks of 16 ns, board, and number of the datagram. A board is detector, crate, slot and stream,
//! of 16 bits each from the low end. Then come three numbers of 16 bits for each hit: ticks since that
//! time, bar, and charge.

use gannet_dune::detector::prelude::*;

const STEP: u64 = 6250;
const HEADER: usize = 24;
const HITS_MAX: usize = 200;

/// The format of the datagrams.
#[derive(Clone, Copy, Debug)]
struct Hits;

impl FrameFormat for Hits {
    fn lengths(&self) -> RangeInclusive<usize> {
        HEADER..=HEADER + 6 * HITS_MAX
    }

    fn rhythm(&self) -> Rhythm {
        Rhythm { clock: CLOCK, step: Step::Fixed(STEP), sequence_modulus: 1 << 16 }
    }

    fn heading(&self, datagram: &[u8]) -> Result<Heading, Error> {
        let header = datagram.first_chunk::<HEADER>().filter(|_| datagram.len().is_multiple_of(6));
        let header = header.ok_or(Error::truncated("hodoscope", HEADER, datagram))?;
        let number = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| header[at + byte]));
        let (stream, sequence) = (StreamKey(number(8)), number(16) as u32 & 0xffff);
        Ok(Heading { stream, begin: number(0), sequence })
    }

    fn set_heading(&self, datagram: &mut [u8], heading: &Heading) {
        let numbers = [heading.begin, heading.stream.0, heading.sequence.into()];
        datagram[..HEADER].copy_from_slice(numbers.map(u64::to_le_bytes).as_flattened());
    }

    fn stream_name(&self, stream: StreamKey) -> String {
        GeoId::from_bits(stream.0).to_string()
    }
}

/// The table `[pipeline.tpg]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Search {
    /// Hits of no more charge are left out.
    charge: u16,
}

/// Finds the hits of a board that are above a threshold.
#[derive(Debug)]
struct Threshold {
    charge: u16,
    bars: [u32; 64],
    searched_to: u64,
}

impl Finder for Threshold {
    type Item = TriggerPrimitive;
    const ITEMS_MAX: usize = HITS_MAX;

    fn frame(&mut self, heading: &Heading, frame: &[u8], found: &mut Vec<Self::Item>) -> bool {
        let is_late = heading.begin < self.searched_to;
        for bytes in frame[HEADER..].chunks_exact(6).filter(|_| !is_late) {
            let number = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
            let (after, bar, charge) = (number(0), number(2), number(4));
            if charge > self.charge {
                let channel = self.bars[usize::from(bar) % 64];
                found.push(hit(channel, heading.begin.saturating_add(after.into()), charge));
            }
        }
        self.searched_to = self.searched_to.max(heading.begin.saturating_add(STEP));
        !is_late
    }

    fn searched_to(&self) -> u64 {
        self.searched_to
    }

    fn begin_anew(&mut self) {
        self.searched_to = 0;
    }
}

/// A few hits now and then, and a muon across 20 bars every 100 ms.
fn hits(heading: &Heading, random: &mut Random, frame: &mut Vec<u8>) {
    let noise = (0..random.below(4)).map(|hit| [1000 * hit, random.below(64), random.below(300)]);
    let muon = (0..20).map(|bar| [5000 + bar, 10 + bar, 900]);
    let muon = muon.filter(|_| (heading.begin / STEP).is_multiple_of(1000));
    frame.extend(noise.chain(muon).flatten().flat_map(|number| (number as u16).to_le_bytes()));
}

#[derive(Clone, Copy, Debug)]
struct Hodoscope;

impl PrimitiveDetector for Hodoscope {
    const NAME: &'static str = "hodoscope";
    const DEMONSTRATION: &'static str = include_str!("../hodoscope.toml");

    type Streams = BoardStreams;
    type Search = Search;
    type Emulate = EmulateConfig<BoardStreams>;
    type Format = Hits;
    type Finder = Threshold;
    type FrontEnd = Made<Hits>;

    fn format(&self, _: &BoardStreams) -> Hits {
        Hits
    }

    fn format_of(&self, _: &[u8]) -> &'static dyn AnyFormat {
        &Hits
    }

    fn finder(&self, search: &Search, stream: &SearchedStream<Hits>) -> Result<Threshold, String> {
        Ok(Threshold { charge: search.charge, bars: stream.channels.offline, searched_to: 0 })
    }

    fn front_end(
        &self,
        emulate: &Self::Emulate,
        _: &ChannelMap,
        start: u64,
    ) -> Result<Made<Hits>, ConfigError> {
        emulate.front_end(Hits, start, hits)
    }
}

fn main() -> ExitCode {
    gannet_cli::main(&[&Primitives(Hodoscope)])
}
