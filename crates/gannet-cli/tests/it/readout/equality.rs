//! What the readout finds in frames that came by network is what the chain finds in the frames.

use gannet_dune::tpg::StreamTpg;
use gannet_emulate::FrontEnd;
use gannet_log::{Kind, Reader};
use gannet_wire::TpcFormat;
use gannet_wire::record::Record;
use gannet_wire::{FragmentRepr, TimeSliceHeader, TriggerPrimitive, tpc_frame, wibeth};

use crate::readout::process::{Bench, Ended, alone, scale};

/// The recorded primitives, sorted.
pub fn recorded(bench: &Bench) -> Vec<[u64; 3]> {
    let mut all = Vec::new();
    for file in bench.files() {
        let mut reader = Reader::open(&file).unwrap();
        while let Some(chunk) = reader.next_chunk().unwrap() {
            if chunk.header.label.kind == Kind::TP_SLICE {
                let primitives = &chunk.payload[TimeSliceHeader::LEN + FragmentRepr::LEN..];
                all.extend(primitives.chunks_exact(TriggerPrimitive::LEN).map(words));
            }
        }
    }
    all.sort_unstable();
    all
}

fn words(primitive: &[u8]) -> [u64; 3] {
    std::array::from_fn(|i| u64::from_le_bytes(primitive[8 * i..][..8].try_into().unwrap()))
}

/// The primitives of the same frames, made again without any network.
pub fn expected(bench: &Bench, ended: &Ended) -> Vec<[u64; 3]> {
    let mut config = bench.tpc().config.emulate.clone();
    config.start_timestamp = Some(ended.number("/streams/0/first_timestamp"));
    let mut emulator = config.emulator(&bench.tpc().channel_map, 0).unwrap();
    let mut found = Vec::new();
    let mut frame = [0; tpc_frame::FRAME_LEN];
    for (stream, planned) in bench.tpc().streams.iter().enumerate() {
        let detector = planned.geo_id.detector as u8;
        let tpg = &bench.tpc().config.pipeline.tpg;
        let mut tpg = StreamTpg::new(tpg, &planned.channels, detector, TpcFormat::WibEth).unwrap();
        let front_end = emulator.front_end();
        for index in 0..ended.number(&format!("/streams/{stream}/frames")) {
            frame.copy_from_slice(&front_end.frame(stream, index));
            let frame = wibeth::Frame::new_unchecked(&frame[..]);
            tpg.process(frame.adc_block(), frame.timestamp(), &mut found);
        }
    }
    let mut words: Vec<_> = found.iter().map(|primitive| primitive.words).collect();
    words.sort_unstable();
    words
}

/// Sixteen streams; the long version is half a minute at the true rate.
#[test]
fn sixteen_streams_lose_nothing_and_give_the_same_primitives() {
    let _alone = alone();
    let rate_scale = if scale(2) == 1 { 0.25 } else { 1.0 };
    let bench = Bench::new(&format!(
        r#"
        [[source]]
        streams = {{ count = 16 }}
        udp = {{ listen = ["127.0.0.1:0"] }}
        depth = "500 ms"
        [pipeline.tpg]
        threshold = [60, 60, 60]
        [emulate]
        seed = 3
        streams = {{ count = 16 }}
        pace = {{ rate_scale = {rate_scale} }}
        tracks = {{ rate_hz = 50.0 }}
        "#
    ));
    let (sent, ended) = bench.run(15_000 * scale(61));
    if ended.kernel_was_short("sixteen streams") {
        return;
    }
    let frames = sent.truth.total().frames_made;
    assert_eq!(ended.ledger("frames", "delivered"), frames, "{}", ended.report);
    assert!(!ended.is_degraded(), "{}", ended.report);
    assert!(ended.number("/trigger/decisions") > 0);
    let expected = expected(&bench, &ended);
    assert!(expected.len() > 1000, "{}", expected.len());
    assert!(recorded(&bench) == expected, "{} primitives differ", expected.len());
}
