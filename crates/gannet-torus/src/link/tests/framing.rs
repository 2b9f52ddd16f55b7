//! Any payload passes unchanged, whatever is inserted into it.

use gannet_checksum::Crc32c;
use gannet_wire::apelink::{
    Credit, Destination, ESCAPED_START, Footer, HEADER_ONLY, Header, MAGIC, START, Word, secded,
};
use proptest::prelude::*;

use super::*;
use crate::link::Refused;

fn quiet() -> Noise {
    Noise::default()
}

/// Words of which many are control words, and some look like credits.
fn word() -> impl Strategy<Value = Word> {
    prop_oneof![
        4 => Just(MAGIC),
        3 => Just(START),
        1 => Just(ESCAPED_START),
        1 => any::<u16>().prop_map(|next| Credit { next, session: 11, echo: 12, ..Credit::default() }.to_word()),
        2 => any::<Word>(),
    ]
}

fn payload() -> impl Strategy<Value = Vec<u8>> {
    let words = proptest::collection::vec(word(), 0..=256).prop_map(|words| bytes_of(&words));
    (words, 0..16usize).prop_map(|(mut bytes, cut)| {
        bytes.truncate(bytes.len().saturating_sub(cut));
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_payload_passes_unchanged_through_any_credit_schedule(
        payloads in proptest::collection::vec((payload(), 0u8..2), 1..5),
        credit_interval in 1u32..40,
        length in 0usize..60,
        retransmit: bool,
    ) {
        let config = Config { credit_interval, retransmit, ..Config::default() };
        let mut pair = Pair::new(config, length, quiet(), 0);
        pair.bring_up();
        for (payload, virtual_channel) in &payloads {
            pair.send(Header { virtual_channel: *virtual_channel, ..Header::default() }, payload);
        }
        pair.run_until(100_000, |pair| pair.arrived[1].len() == payloads.len());
        for ((payload, vc), (got_vc, header, _, got)) in payloads.iter().zip(&pair.arrived[1]) {
            prop_assert!(got == payload && got_vc == vc);
            prop_assert_eq!(usize::from(header.size), payload.len());
        }
        let counters = pair.ends[1].counters();
        prop_assert_eq!(counters.rx_packets, counters.rx_start);
    }
}

#[test]
fn a_payload_of_nothing_but_magic_passes() {
    let mut pair = Pair::new(Config { credit_interval: 3, ..Config::default() }, 2, quiet(), 0);
    pair.bring_up();
    let payload = bytes_of(&[MAGIC; 256]);
    pair.send(Header::default(), &payload);
    pair.run_until(5000, |pair| !pair.arrived[1].is_empty());
    assert!(pair.payloads() == [&payload[..]]);
    assert_eq!(pair.ends[0].counters().tx_escapes, 256);
}

/// The first four bytes of a payload word with which the packet has the sum `crc`.
///
/// The sum is linear over GF(2): the change that each of 32 bits makes is measured, and the bits
/// are chosen by elimination.
fn payload_for(crc: u32, header: Word, footer: &Footer) -> [u8; 4] {
    let sum = |bits: u32| footer.sealed(header, Crc32c::of_padded(&bits.to_le_bytes())).crc;
    let mut rows: Vec<(u32, u32)> = (0..32).map(|bit| (sum(1 << bit) ^ sum(0), 1 << bit)).collect();
    let (mut wanted, mut bits) = (sum(0) ^ crc, 0);
    for bit in 0..32 {
        let at = rows.iter().position(|(change, _)| change >> bit & 1 == 1).unwrap();
        let (change, from) = rows.swap_remove(at);
        for row in rows.iter_mut().filter(|(other, _)| other >> bit & 1 == 1) {
            *row = (row.0 ^ change, row.1 ^ from);
        }
        if wanted >> bit & 1 == 1 {
            (wanted, bits) = (wanted ^ change, bits ^ from);
        }
    }
    assert_eq!((wanted, sum(bits)), (0, crc));
    bits.to_le_bytes()
}

#[test]
fn a_footer_that_is_a_control_word_passes() {
    for control in [MAGIC, START] {
        let mut footer = Footer::from_word(control);
        let crc = std::mem::take(&mut footer.crc);
        let header = Header { size: 4, ..Header::default() };
        let payload = payload_for(crc, header.to_word(), &footer);
        assert_eq!(Footer { crc, ..footer }.to_word(), control);

        let mut pair = Pair::new(Config::default(), 2, quiet(), 0);
        pair.ends.iter_mut().for_each(|end| end.number_from(footer.sequence));
        pair.bring_up();
        let origin = Origin { source: footer.source, time: footer.time };
        pair.ends[0].send(header, origin, &payload).unwrap();
        pair.run_until(1000, |pair| !pair.arrived[1].is_empty());
        assert_eq!(pair.arrived[1][0].2, origin);
        assert_eq!(pair.ends[0].counters().tx_escapes, 1, "the footer is sent as two words");
        assert_eq!(pair.ends[1].counters().crc_errors, 0);
    }
}

#[test]
fn no_right_header_is_a_control_word() {
    for control in [MAGIC, START, ESCAPED_START] {
        assert!(!secded::is_clean(control));
    }
}

in_both_forms! {
    fn sequence_numbers_wrap(form: Form) {
        let mut pair = Pair::new(Config { form, ..Config::default() }, 0, quiet(), 0);
        pair.ends.iter_mut().for_each(|end| end.number_from(u32::MAX - 5000));
        pair.bring_up();
        (0..10_000).for_each(|number| pair.send(Header::default(), &numbered(number, 2)));
        pair.run_until(10_000, |pair| pair.arrived[1].len() == 10_000);
        assert!(pair.payloads().into_iter().eq((0..10_000).map(|number| numbered(number, 2))));
        assert_eq!(pair.ends[0].counters().restarts, 0);
    }

    fn four_channels_may_share_a_link(form: Form) {
        let mut pair =
            Pair::new(Config { virtual_channels: 4, form, ..Config::default() }, 9, quiet(), 0);
        pair.bring_up();
        for number in 0..400 {
            let header = Header { virtual_channel: (number % 4) as u8, ..Header::default() };
            pair.send(header, &numbered(number, 60));
        }
        pair.run_until(100_000, |pair| pair.arrived[1].len() == 400);
        for vc in 0..4u32 {
            let got = pair.arrived[1].iter().filter(|(channel, ..)| u32::from(*channel) == vc);
            let sent = (0..100).map(|number| numbered(4 * number + vc, 60));
            assert!(got.map(|(.., payload)| payload.clone()).eq(sent));
        }
    }

    fn every_field_of_a_header_arrives(form: Form) {
        let mut pair = Pair::new(Config { form, ..Config::default() }, 7, quiet(), 0);
        pair.bring_up();
        let header = Header {
            virtual_channel: 1,
            last_in_dimension: true,
            process: 0xabc,
            destination: Destination::Node(999_999),
            port: 9,
            out_of_lattice: true,
            packet_type: 5,
            size: 0,
            address: 0x1234_5678_9abc,
            hops: 1000,
        };
        pair.send(header, &[]);
        pair.run_until(1000, |pair| !pair.arrived[1].is_empty());
        assert_eq!(pair.arrived[1][0].1, header);
    }

    fn what_does_not_fit_the_link_is_refused(form: Form) {
        let mut pair =
            Pair::new(Config { fifo_words: 100, form, ..Config::default() }, 0, quiet(), 0);
        let send = |pair: &mut Pair, vc, payload: &[u8]| {
            let header = Header { virtual_channel: vc, ..Header::default() };
            pair.ends[0].send(header, Origin::default(), payload).unwrap_err()
        };
        assert_eq!(send(&mut pair, 0, &[]), Refused::NotUp);
        pair.bring_up();
        assert_eq!(send(&mut pair, 2, &[]), Refused::VirtualChannel(2));
        let alone = Header { packet_type: HEADER_ONLY, ..Header::default() };
        assert_eq!(pair.ends[0].can_send(&alone), Err(Refused::HeaderOnly));
        assert_eq!(send(&mut pair, 0, &[0; 1601]), Refused::TooLong { got: 1601, max: 1600 });
        pair.ends[0].send(Header::default(), Origin::default(), &[0; 800]).unwrap();
        assert_eq!(send(&mut pair, 0, &[0; 801]), Refused::NoCredit(0));
        let (fifo_words, told) = match form {
            Form::Words => (1024, "fifo_words of a link is 1024: it must be 1 to 1023"),
            Form::Frames { .. } => {
                (2 << 20, "fifo_words of a link is 2097152: it must be 1 to 1048576")
            }
        };
        let error = Link::new(Config { fifo_words, form, ..Config::default() }).unwrap_err();
        assert_eq!(error.to_string(), told);
    }

    fn parameters_with_which_no_packet_would_ever_pass_are_refused(form: Form) {
        let good = Config { form, ..Config::default() };
        for (field, config) in [
            ("margin", Config { fifo_headers: 8, margin: 8, ..good }),
            ("margin", Config { fifo_words: 100, margin: 100, ..good }),
            ("timeout", Config { timeout: 0, ..good }),
            ("dead_after", Config { dead_after: 0, ..good }),
            ("credit_period", Config { credit_period: 0, ..good }),
            ("credit_period", Config { credit_period: good.dead_after, ..good }),
        ] {
            assert_eq!(Link::new(config).unwrap_err().field, field);
        }
        for margin in [0, 7] {
            let config = Config { fifo_words: 8, fifo_headers: 8, margin, ..good };
            let mut pair = Pair::new(config, 2, quiet(), 0);
            pair.bring_up();
            pair.send(Header::default(), &[1; 16]);
            pair.run_until(1000, |pair| !pair.arrived[1].is_empty());
        }
        let patient = Config { dead_after: u64::MAX, timeout: u64::MAX, ..good };
        Pair::new(patient, 2, quiet(), 0).bring_up();
    }

    fn a_full_channel_does_not_hold_up_the_other(form: Form) {
        let mut pair =
            Pair::new(Config { fifo_words: 64, form, ..Config::default() }, 20, quiet(), 0);
        pair.bring_up();
        let on = |virtual_channel| Header { virtual_channel, ..Header::default() };
        let mut sent = [0; 2];
        for _ in 0..5000 {
            for vc in 0..2 {
                let taken = pair.ends[0].send(on(vc), Origin::default(), &[vc; 160]).is_ok();
                sent[usize::from(vc)] += u64::from(taken);
            }
            pair.step_without_taking();
            while pair.ends[1].pop(1).is_some() {}
        }
        assert_eq!((sent[0], pair.ends[1].room(0).words), (6, 4));
        assert!(sent[1] > 100, "{sent:?}");
        assert_eq!(pair.ends[1].counters().overflows, 0);
    }
}
