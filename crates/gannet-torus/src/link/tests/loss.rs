//! Errors and losses: nothing wrong is handed over, and nothing stops for ever.

use super::*;
use proptest::prelude::*;

/// Sends `packets` numbered packets on both channels in turn and waits for the last.
fn exchange(pair: &mut Pair, packets: u32, words_max: u32) {
    pair.bring_up();
    for number in 0..packets {
        let header = Header { virtual_channel: (number % 2) as u8, ..Header::default() };
        pair.send(header, &numbered(number, words_max));
    }
    pair.run_until(20_000_000, |pair| pair.arrived[1].len() >= packets as usize);
    // What is still on its way would be a packet too many.
    (0..20_000).for_each(|_| pair.step());
}

/// That packets arrived once each, intact, and in order on their channel.
fn assert_all_once_and_in_order(pair: &Pair, packets: u32, words_max: u32) {
    for vc in 0..2 {
        let got = pair.arrived[1].iter().filter(|(channel, ..)| u32::from(*channel) == vc);
        let numbers = (0..packets).filter(|number| number % 2 == vc);
        assert!(
            got.map(|(.., payload)| payload.clone()).eq(numbers.map(|n| numbered(n, words_max)))
        );
    }
}

in_both_forms! {
    fn with_wrong_bits_everything_arrives_once_in_order_and_intact(form: Form) {
        let noise = Noise { bit_error_rate: 1e-6, ..Noise::default() };
        let mut pair = Pair::new(Config { form, ..Config::default() }, 50, noise, 1);
        exchange(&mut pair, 3000, 256);
        assert_all_once_and_in_order(&pair, 3000, 256);
        let (sent, got) = (pair.ends[0].counters(), pair.ends[1].counters());
        assert!(got.crc_errors > 10 && sent.tx_rewinds > 10, "{got:?}");
        assert_eq!(got.rx_packets, 3000);
        assert_eq!(sent.tx_acknowledged, 3000);
    }

    fn with_many_wrong_bits_and_lost_words_everything_arrives(form: Form) {
        for seed in 0..4 {
            let noise = Noise {
                bit_error_rate: 1e-5,
                word_loss: 1e-3,
                credit_loss: 0.2,
                packet_loss: 0.05,
            };
            let mut pair = Pair::new(Config { form, ..Config::default() }, 50, noise, seed);
            exchange(&mut pair, 1000, 40);
            assert_all_once_and_in_order(&pair, 1000, 40);
            let got = pair.ends[1].counters();
            assert!(got.sequence_gaps > 0 && got.crc_errors > 0, "{got:?}");
            assert!(got.cut_packets > 0 || form != Form::Words, "{got:?}");
            assert!(got.header_errors > 0, "{got:?}");
        }
    }

    fn packets_lost_whole_arrive_by_retransmission(form: Form) {
        let noise = Noise { packet_loss: 0.05, ..Noise::default() };
        let mut pair = Pair::new(Config { form, ..Config::default() }, 100, noise, 3);
        exchange(&mut pair, 2000, 60);
        assert_all_once_and_in_order(&pair, 2000, 60);
        assert!(pair.ends[1].counters().sequence_gaps > 10);
    }

    fn without_retransmission_what_arrives_is_intact_in_order_and_the_rest_is_counted(form: Form) {
        let noise =
            Noise { bit_error_rate: 1e-6, word_loss: 2e-4, packet_loss: 0.02, credit_loss: 0.1 };
        let config = Config { retransmit: false, timeout: 1500, form, ..Config::default() };
        let mut pair = Pair::new(config, 50, noise, 5);
        pair.bring_up();
        let (packets, words_max) = (3000, 60);
        for number in 0..packets {
            pair.send(Header::default(), &numbered(number, words_max));
        }
        (0..20_000).for_each(|_| pair.step());
        let mut last = None;
        for payload in pair.payloads() {
            let number = u32::from_le_bytes(payload[..4].try_into().unwrap());
            assert!(payload == numbered(number, words_max) && last < Some(number));
            last = Some(number);
        }
        let (sent, got) = (pair.ends[0].counters(), pair.ends[1].counters());
        let arrived = pair.payloads().len() as u64;
        // A frame is lost with all its packets.
        let least = if form == Form::Words { 2500 } else { 1500 };
        assert!(arrived > least && arrived < 3000, "{arrived}");
        assert_eq!(got.rx_packets, arrived);
        // Lost packets behind the last one that arrived are in no gap.
        let behind = u64::from(packets - 1 - last.unwrap());
        assert_eq!(got.lost_packets + arrived + behind, u64::from(packets));
        assert_eq!(sent.tx_acknowledged + sent.tx_given_up, u64::from(packets));
        assert_eq!(got.overflows, 0);
    }

    fn lost_credits_never_stop_a_link(form: Form) {
        for seed in 0..6 {
            let retransmit = seed % 2 == 0;
            let noise = Noise { credit_loss: 0.9, ..Noise::default() };
            let config = Config { retransmit, fifo_words: 256, form, ..Config::default() };
            let mut pair = Pair::new(config, 30, noise, seed);
            pair.bring_up();
            (0..400).for_each(|number| pair.send(Header::default(), &numbered(number, 200)));
            pair.run_until(1_000_000, |pair| {
                let sent = pair.ends[0].counters();
                sent.tx_acknowledged + sent.tx_given_up == 400
            });
            if retransmit {
                assert!(pair.payloads().into_iter().eq((0..400).map(|n| numbered(n, 200))));
            }
            assert_eq!(pair.ends[1].counters().overflows, 0);
        }
    }

    fn a_time_without_any_credit_passes(form: Form) {
        let mut pair = Pair::new(
            Config { dead_after: 100_000, form, ..Config::default() },
            10,
            Noise::default(),
            0,
        );
        pair.bring_up();
        pair.lines[1].set_noise(Noise { credit_loss: 1.0, ..Noise::default() });
        let mut taken = 0;
        for number in 0..20_000 {
            taken += u32::from(
                pair.ends[0]
                    .send(Header::default(), Origin::default(), &numbered(number, 9))
                    .is_ok(),
            );
            pair.step();
            if number == 10_000 {
                assert!(taken < 300, "no more than the window was taken");
                pair.lines[1].set_noise(Noise::default());
            }
        }
        pair.run_until(20_000, |pair| pair.arrived[1].len() == taken as usize);
        assert!(taken > 600);
    }

    fn single_header_errors_are_corrected_and_fatal_ones_drop_the_packet(form: Form) {
        for retransmit in [true, false] {
            let config = Config { retransmit, form, ..Config::default() };
            let mut pair = Pair::new(config, 10, Noise::default(), 7);
            pair.bring_up();
            pair.lines[0].inject_header_errors(20);
            (0..20).for_each(|number| pair.send(Header::default(), &numbered(number, 20)));
            pair.run_until(100_000, |pair| pair.arrived[1].len() == 20);
            assert_eq!(pair.ends[1].counters().header_errors, 20);
            assert_eq!(pair.ends[1].counters().fatal_header_errors, 0);

            pair.lines[0].inject_fatal_header_errors(5);
            for number in 20..40 {
                pair.send(Header::default(), &numbered(number, 20));
                // A frame ends for the receiver where it cannot read a header: one packet in each.
                (0..100).for_each(|_| pair.step());
            }
            let arrive = if retransmit { 40 } else { 35 };
            pair.run_until(100_000, |pair| pair.arrived[1].len() == arrive);
            assert_eq!(pair.ends[1].counters().fatal_header_errors, 5);
            let lost = pair.ends[1].counters().lost_packets;
            assert_eq!(lost, if retransmit { 0 } else { 5 });
            let numbers = (0..40).filter(|number| retransmit || !(20..25).contains(number));
            assert!(pair.payloads().into_iter().eq(numbers.map(|n| numbered(n, 20))));
        }
    }

    fn a_lost_packet_comes_again_on_demand_long_before_the_timeout(form: Form) {
        let config = Config { timeout: 1_000_000, form, ..Config::default() };
        let mut pair = Pair::new(config, 20, Noise::default(), 0);
        pair.bring_up();
        pair.lines[0].inject_fatal_header_errors(1);
        (0..5).for_each(|number| pair.send(Header::default(), &numbered(number, 20)));
        pair.run_until(500, |pair| pair.arrived[1].len() == 5);
        assert_eq!(pair.ends[0].counters().tx_rewinds, 1, "one demand, one answer");
        assert_eq!(pair.ends[1].counters().duplicates, 0);
    }

    fn packets_sent_again_because_acknowledgements_were_lost_are_known_as_duplicates(form: Form) {
        let config = Config { dead_after: 5000, form, ..Config::default() };
        let mut pair = Pair::new(config, 20, Noise::default(), 0);
        pair.bring_up();
        pair.lines[1].set_noise(Noise { credit_loss: 1.0, ..Noise::default() });
        (0..5).for_each(|number| pair.send(Header::default(), &numbered(number, 20)));
        // Longer than the timeout, and shorter than what makes the line count as dead.
        (0..4090).for_each(|_| pair.step());
        pair.lines[1].set_noise(Noise { credit_loss: 0.99, ..Noise::default() });
        pair.run_until(50_000, |pair| pair.ends[0].counters().tx_acknowledged == 5);
        let got = pair.ends[1].counters();
        assert!(pair.ends[0].counters().tx_rewinds > 0 && got.duplicates > 0, "{got:?}");
        assert_eq!((got.sequence_gaps, pair.arrived[1].len()), (0, 5));
    }
}

#[test]
fn a_forged_packet_in_a_payload_is_never_taken_for_one() {
    // The words of a whole packet, with a right sum and number, as payload of another: whatever
    // words are lost, it must not come out.
    let mut forged = [0; 64];
    for sequence in 0..40 {
        let header = Header { address: 0xbad, ..Header::default() };
        let footer = gannet_wire::apelink::Footer { sequence, ..Default::default() };
        let len = gannet_wire::apelink::packet::emit(&header, b"forged", footer, &mut forged);
        let mut payload = bytes_of(&[gannet_wire::apelink::MAGIC, gannet_wire::apelink::START]);
        payload.extend(&forged[..len]);
        let noise = Noise { word_loss: 0.05, ..Noise::default() };
        let mut pair = Pair::new(Config::default(), 5, noise, sequence.into());
        pair.bring_up();
        (0..40).for_each(|_| pair.send(Header::default(), &payload));
        pair.run_until(10_000_000, |pair| pair.arrived[1].len() >= 40);
        assert!(pair.payloads().iter().all(|got| *got == payload));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn no_noise_gets_anything_wrong_through(
        seed: u64,
        bit_errors in 0u32..40,
        word_loss in 0u32..40,
        packet_loss in 0u32..10,
        credit_interval in 1u32..100,
        length in 0usize..80,
    ) {
        let noise = Noise {
            bit_error_rate: f64::from(bit_errors) * 1e-6,
            word_loss: f64::from(word_loss) * 1e-4,
            credit_loss: 0.1,
            packet_loss: f64::from(packet_loss) * 1e-2,
        };
        let arrived = [Form::Words, FRAMES].map(|form| {
            let config = Config { form, credit_interval, timeout: 2000, ..Config::default() };
            let mut pair = Pair::new(config, length, noise, seed);
            exchange(&mut pair, 100, 50);
            assert_all_once_and_in_order(&pair, 100, 50);
            let [_, mut arrived] = pair.arrived;
            arrived.sort_by_key(|(vc, ..)| *vc);
            arrived
        });
        prop_assert!(arrived[0] == arrived[1], "the two forms hand over the same");
    }
}
