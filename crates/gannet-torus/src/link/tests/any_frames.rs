//! Whatever frames arrive, an end stays within its bounds and goes on.

use gannet_checksum::Crc32c;
use gannet_measure::random::Random;
use gannet_wire::apelink::frame::Head;
use gannet_wire::apelink::{Footer, packet};
use gannet_wire::record::Record;
use proptest::prelude::*;

use super::*;
use crate::link::{FrameError, Most, Refused};

/// What a hostile line sends.
fn frame() -> impl Strategy<Value = Vec<u8>> {
    let head = (0u32..3, 0u32..3, 0u32..8, any::<[bool; 2]>(), 0u16..6);
    let packet = (0u8..4, 0u32..8, proptest::collection::vec(any::<u8>(), 0..300));
    let whole = (head, proptest::collection::vec(packet, 0..4)).prop_map(|(head, packets)| {
        let (session, echo, next, [resend, asks], count) = head;
        let head = Head { session, echo, next, resend, asks, packets: count, ..head_of_pair() };
        let mut bytes = vec![0; 2000];
        head.emit(&mut bytes);
        let mut len = Head::LEN;
        for (virtual_channel, sequence, payload) in packets {
            let header = Header { virtual_channel, ..Header::default() };
            let footer = Footer { sequence, ..Footer::default() };
            len += packet::emit(&header, &payload, footer, &mut bytes[len..]);
        }
        bytes.truncate(len);
        bytes
    });
    let cut = (whole.clone(), any::<prop::sample::Index>()).prop_map(|(mut bytes, at)| {
        bytes.truncate(at.index(bytes.len()));
        bytes
    });
    let damaged =
        (whole.clone(), any::<prop::sample::Index>(), 0u8..8).prop_map(|(mut bytes, at, bit)| {
            // Damage of the head is found by its sum.
            let at = Head::LEN + at.index(bytes.len());
            bytes.get_mut(at).into_iter().for_each(|byte| *byte ^= 1 << bit);
            bytes
        });
    let any = proptest::collection::vec(any::<u8>(), 0..200);
    prop_oneof![4 => whole, 1 => cut, 2 => damaged, 1 => any]
}

/// The head of a frame of the other end of such a link as these tests make.
fn head_of_pair() -> Head {
    let Form::Frames { bytes } = FRAMES else { unreachable!() };
    Head { virtual_channels: 2, frame_bytes: bytes as u32, ..Head::default() }
}

fn end() -> Link {
    Link::new(Config {
        form: FRAMES,
        timeout: 5,
        credit_period: 4,
        dead_after: 9,
        ..Config::default()
    })
    .unwrap()
}

proptest! {
    #[test]
    fn an_end_stays_within_its_bounds(frames in proptest::collection::vec(frame(), 0..60), take_every in 1u64..20) {
        let (mut end, mut buffer) = (end(), [0; 9000]);
        for (now, frame) in (0..).zip(&frames) {
            let mut packets = 0;
            let taken = end.accept(frame, now, |event| packets += u32::from(matches!(event, Event::Packet(_))));
            prop_assert!(taken.is_ok() || packets == 0);
            end.tick(now);
            let _ = end.send(Header::default(), Origin::default(), &[1; 200]);
            prop_assert!(end.emit(&mut buffer, now) <= 8500);
            if now % take_every == 0 {
                end.pop(0);
                end.pop(1);
            }
            for vc in 0..2 {
                let room = end.room(vc);
                prop_assert!(room.words <= 512 && room.headers <= 128);
            }
        }
    }
}

#[test]
fn an_end_that_does_not_fit_is_refused_in_words() {
    let refused = |head: Head| {
        let mut bytes = [0; Head::LEN];
        head.emit(&mut bytes);
        let mut end = end();
        let error = end.accept(&bytes, 0, |event| panic!("{event:?}")).unwrap_err();
        assert_eq!(end.state(), State::Down);
        error.to_string()
    };
    let told = refused(Head { frame_bytes: 1472, ..head_of_pair() });
    assert!(
        told.starts_with("the other end takes frames of 1472 bytes and this one of 8500: give")
    );
    let told = refused(Head { virtual_channels: 4, ..head_of_pair() });
    assert!(
        told.starts_with("the other end has 4 virtual channels and this one 2: give"),
        "{told}"
    );
    let mut words = Link::new(Config::default()).unwrap();
    assert_eq!(words.accept(&[], 0, |_| ()), Err(FrameError::Words));
    assert_eq!(words.emit(&mut [0; 100], 0), 0);
}

#[test]
fn padding_that_is_not_zero_goes_no_further() {
    let mut pair = Pair::new(Config { form: FRAMES, ..Config::default() }, 10, Noise::default(), 0);
    pair.bring_up();
    let (header, payload) = (Header { size: 17, ..Header::default() }, [7; 32]);
    let (word, sum) = (header.to_word(), Crc32c::of(&payload));
    let footer = Footer::default().sealed(word, sum).to_word();
    let head = Head { session: 11, echo: 12, packets: 1, ..head_of_pair() };
    let mut frame = vec![0; Head::LEN];
    head.emit(&mut frame);
    frame.extend(word.to_le_bytes().into_iter().chain(payload).chain(footer.to_le_bytes()));
    let mut events = Vec::new();
    pair.ends[1].accept(&frame, pair.now, |event| events.push(event)).unwrap();
    assert_eq!(events, [Event::Credit, Event::Packet(0)]);
    assert_eq!(pair.ends[1].payload(0), [7; 17]);
    let arrival = pair.ends[1].front(0).unwrap();
    assert_eq!(arrival.sum, Crc32c::of_padded(&[7; 17]), "the next link pads with zeros");
}

#[test]
fn a_packet_may_fill_a_frame() {
    let Form::Frames { bytes } = FRAMES else { unreachable!() };
    let config = Config { form: FRAMES, fifo_words: 2048, window_words: 2048, ..Config::default() };
    let most = (bytes - Head::LEN - 2 * 16) / 16 * 16;
    let payload: Vec<u8> = (0..most).map(|at| (at / 16) as u8).collect();
    let mut pair = Pair::new(config, 100, Noise::default(), 0);
    pair.bring_up();
    let longer = vec![0; most + 1];
    let refused = pair.ends[0].send(Header::default(), Origin::default(), &longer);
    assert_eq!(refused, Err(Refused::TooLong { got: most + 1, max: most }));
    for _ in 0..3 {
        pair.ends[0].send(Header::default(), Origin::default(), &payload).unwrap();
    }
    pair.run_until(20_000, |pair| pair.arrived[1].len() == 3);
    assert!(pair.arrived[1].iter().all(|arrived| arrived.3 == payload));
}

#[test]
fn frames_have_windows_of_megabytes() {
    let config = Config {
        form: FRAMES,
        fifo_words: 4 << 16,
        fifo_headers: 1 << 12,
        window_packets: 1 << 12,
        window_words: 4 << 16,
        timeout: 1_000_000,
        ..Config::default()
    };
    // A line on which a packet needs a hundred times as long as to be sent.
    let mut pair = Pair::new(config, 30_000, Noise::default(), 0);
    pair.bring_up();
    for number in 0..1024 {
        pair.ends[0].send(Header::default(), Origin::default(), &[number as u8; 4096]).unwrap();
    }
    let full = pair.ends[0].send(Header::default(), Origin::default(), &[0; 4096]);
    assert!(full.is_err(), "4 MiB wait for acknowledgement");
    pair.run_until(1024 * 270 + 40_000, |pair| pair.arrived[1].len() == 1024);
    assert!((0..1024).all(|number| pair.arrived[1][number].3 == [number as u8; 4096]));
    assert_eq!(pair.ends[0].counters().tx_rewinds, 0);
}

#[test]
fn frames_that_go_together_or_not_at_all_lose_nothing() {
    let config = Config {
        form: FRAMES,
        tail: 24,
        fifo_words: 8192,
        window_words: 8192,
        timeout: 50,
        credit_period: 20,
        dead_after: 1000,
        ..Config::default()
    };
    let mut ends = [11, 12].map(|session| Link::new(Config { session, ..config }).unwrap());
    let (mut random, mut sent, mut arrived) = (Random::new(5), [0u32; 2], [0u32; 2]);
    let (mut together, mut refused) = (0, 0);
    for now in 0.. {
        for at in 0..2 {
            // Batches of packets of one length, so that frames are alike.
            let length = [40, 600, 2080, 4150][random.below(4) as usize];
            for _ in 0..random.below(40) {
                let payload: Vec<u8> = sent[at].to_le_bytes().repeat(length / 4);
                let taken = ends[at].send(Header::default(), Origin::default(), &payload);
                sent[at] += u32::from(taken.is_ok());
            }
            let most = Most { frames: 1 + random.below(7) as usize, bytes: 65_507 };
            while let Some(frames) = ends[at].take_frames(most, now) {
                assert!(frames.count() <= most.frames);
                together = together.max(frames.count());
                if random.below(4) == 0 {
                    ends[at].return_frames();
                    refused += 1;
                    continue;
                }
                let mut lines = Vec::new();
                for frame in frames.bytes.chunks_mut(frames.frame) {
                    let (frame, tail) = frame.split_at_mut(frame.len() - 24);
                    tail.fill(0xff);
                    if random.below(20) > 0 {
                        lines.push(frame.to_vec());
                    }
                }
                for frame in lines {
                    ends[1 - at].accept(&frame, now, |_| ()).unwrap();
                }
            }
            let far = &mut ends[1 - at];
            while far.front(0).is_some() {
                let number = arrived[1 - at].to_le_bytes();
                assert!(far.payload(0).chunks(4).all(|word| word == number), "{number:?}");
                far.pop(0);
                arrived[1 - at] += 1;
            }
            ends[at].tick(now);
        }
        if arrived.iter().all(|&count| count > 3000) {
            break;
        }
        assert!(now < 100_000, "the link stands still after {arrived:?}");
    }
    assert!(together == 7 && refused > 100, "{together} frames, {refused} times");
    assert!(ends[0].counters().tx_rewinds > 10);
}
