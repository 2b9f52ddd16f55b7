//! Whatever words arrive, an end stays within its bounds and goes on.

use gannet_checksum::Crc32c;
use gannet_wire::apelink::{Credit, Footer, MAGIC, START, words_of};
use proptest::prelude::*;

use super::*;

/// What a hostile line sends.
#[derive(Clone, Debug)]
enum Piece {
    Word(Word),
    Credit(Credit),
    Header(Header),
    Packet { vc: u8, sequence: u32, payload: Vec<u8> },
}

fn piece() -> impl Strategy<Value = Piece> {
    let control = prop_oneof![Just(MAGIC), Just(START), any::<Word>()].prop_map(Piece::Word);
    let credit = (0u8..3, 0u16..40, any::<bool>()).prop_map(|(session, next, resend)| {
        Piece::Credit(Credit { session, echo: 1, next, resend, ..Credit::default() })
    });
    let header =
        (0u8..6, any::<u16>(), 0u8..32).prop_map(|(virtual_channel, size, packet_type)| {
            Piece::Header(Header { virtual_channel, size, packet_type, ..Header::default() })
        });
    let payload = proptest::collection::vec(any::<u8>(), 0..400);
    let packet = (0u8..2, 0u32..6, payload).prop_map(|(vc, sequence, payload)| Piece::Packet {
        vc,
        sequence,
        payload,
    });
    prop_oneof![4 => control, 3 => credit, 1 => header, 3 => packet]
}

fn words(piece: &Piece) -> Vec<Word> {
    match piece {
        Piece::Word(word) => vec![*word],
        Piece::Credit(credit) => vec![MAGIC, credit.to_word()],
        Piece::Header(header) => vec![MAGIC, START, header.to_word()],
        Piece::Packet { vc, sequence, payload } => {
            let size = payload.len() as u16;
            let header = Header { virtual_channel: *vc, size, ..Header::default() }.to_word();
            let footer = Footer { sequence: *sequence, ..Footer::default() };
            let footer = footer.sealed(header, Crc32c::of_padded(payload));
            [MAGIC, START, header]
                .into_iter()
                .chain(words_of(payload))
                .chain([footer.to_word()])
                .collect()
        }
    }
}

proptest! {
    #[test]
    fn an_end_stays_within_its_bounds(
        pieces in proptest::collection::vec(piece(), 0..120),
        retransmit: bool,
        take_every in 1u64..200,
    ) {
        let config = Config { retransmit, timeout: 50, credit_period: 40, dead_after: 90, ..Config::default() };
        let mut end = Link::new(config).unwrap();
        let mut buffer = [0; 100];
        for (now, word) in (0..).zip(pieces.iter().flat_map(words)) {
            end.receive(word, now);
            end.tick(now);
            let _ = end.send(Header::default(), Origin::default(), &[1; 200]);
            end.transmit(now);
            if now % take_every == 0 {
                end.take(0, &mut buffer);
                end.take(1, &mut buffer);
            }
            for vc in 0..2 {
                let room = end.room(vc);
                prop_assert!(room.words <= 512 && room.headers <= 128);
            }
        }
    }
}
