//! Coming up, dying, coming back, and what credits carry for the fault monitor.

use super::*;
use crate::link::{Refused, Stage};

fn pair(form: Form, length: usize) -> Pair {
    Pair::new(Config { form, ..Config::default() }, length, Noise::default(), 0)
}

fn send_numbers(pair: &mut Pair, numbers: std::ops::Range<u32>) {
    numbers.for_each(|number| pair.send(Header::default(), &numbered(number, 50)));
}

in_both_forms! {
    fn a_link_comes_up_when_both_ends_hear_each_other(form: Form) {
        let mut pair = pair(form, 30);
        (0..25).for_each(|_| pair.step());
        assert_eq!(pair.ends[0].state(), State::Down);
        (0..20).for_each(|_| pair.step());
        assert_eq!(pair.ends[0].state(), State::Waiting);
        (0..80).for_each(|_| pair.step());
        assert_eq!(pair.ends[0].state(), State::Up);
        assert_eq!(pair.events, [[Event::Up], [Event::Up]]);
    }

    fn a_packet_given_as_soon_as_the_link_is_up_finds_the_other_end_ready(form: Form) {
        for late in 0..4 {
            let config = Config { retransmit: false, form, ..Config::default() };
            let mut pair = Pair::new(config, 30, Noise::default(), 0);
            // The end that sends hears nothing until the other one hears it.
            pair.lines[1].cut();
            (0..40 + late).for_each(|_| pair.step());
            pair.lines[1].repair();
            pair.run_until(1000, |pair| pair.ends[0].state() == State::Up);
            send_numbers(&mut pair, 0..1);
            pair.run_until(1000, |pair| pair.ends[0].counters().tx_acknowledged == 1);
            assert_eq!(pair.ends[1].counters().strangers, 0);
        }
    }

    fn a_dead_line_is_noticed_and_forgotten_when_it_is_mended(form: Form) {
        let mut pair = pair(form, 30);
        pair.bring_up();
        send_numbers(&mut pair, 0..10);
        pair.lines[1].cut();
        let cut_at = pair.now;
        pair.run_until(10_000, |pair| pair.ends[0].state() == State::Down);
        let dead_after = pair.ends[0].config().dead_after;
        assert!((dead_after..dead_after + 40).contains(&(pair.now - cut_at)), "{}", pair.now - cut_at);
        assert_eq!(pair.events[0].last(), Some(&Event::Down));
        assert!(pair.now - pair.ends[0].last_credit().unwrap() > dead_after);
        pair.run_until(100, |pair| pair.ends[1].state() == State::Down);
        assert_eq!(pair.events[1].last(), Some(&Event::Down), "nobody hears this end any more");

        pair.lines[1].repair();
        pair.run_until(1000, |pair| pair.ends.iter().all(|end| end.state() == State::Up));
        send_numbers(&mut pair, 10..20);
        pair.run_until(20_000, |pair| pair.arrived[1].len() == 20);
        assert!(pair.payloads().into_iter().eq((0..20).map(|n| numbered(n, 50))));
        assert_eq!(pair.ends[0].counters().restarts, 0);
    }

    fn an_end_that_nobody_hears_stops_sending_packets(form: Form) {
        let mut pair = pair(form, 30);
        pair.bring_up();
        pair.lines[0].cut();
        send_numbers(&mut pair, 0..10);
        (0..50_000).for_each(|_| pair.step());
        assert_eq!(pair.ends.each_ref().map(Link::state), [State::Down; 2]);
        let refused = pair.ends[0].send(Header::default(), Origin::default(), &[]);
        assert_eq!(refused, Err(Refused::NotUp));
        assert!(pair.ends[0].counters().tx_rewinds <= 2, "{:?}", pair.ends[0].counters());
        assert!(pair.ends[0].is_idle(), "nothing but credits is sent");

        pair.lines[0].repair();
        pair.run_until(20_000, |pair| pair.arrived[1].len() == 10);
        assert!(pair.payloads().into_iter().eq((0..10).map(|n| numbered(n, 50))));
        let events = [Event::Up, Event::Down, Event::Up];
        assert_eq!(pair.events[0], events);
        assert!(pair.events[1].starts_with(&events));
    }

    fn a_line_that_never_lived_one_way_is_down_at_both_ends(form: Form) {
        let mut pair = pair(form, 30);
        pair.lines[0].cut();
        (0..5000).for_each(|_| pair.step());
        assert_eq!(pair.ends.each_ref().map(Link::state), [State::Down; 2]);
        assert_eq!(pair.events, [[Event::Down]; 2]);
        pair.lines[0].repair();
        pair.bring_up();
        assert_eq!(pair.events, [[Event::Down, Event::Up]; 2]);
    }

    fn a_line_that_dies_in_a_packet_loses_and_doubles_nothing(form: Form) {
        for after in 0..200 {
            let mut pair = pair(form, 10);
            pair.bring_up();
            send_numbers(&mut pair, 0..6);
            (0..after).for_each(|_| pair.step());
            pair.lines.iter_mut().for_each(Line::cut);
            (0..5000 + after).for_each(|_| pair.step());
            pair.lines.iter_mut().for_each(Line::repair);
            send_numbers(&mut pair, 6..12);
            pair.run_until(50_000, |pair| pair.arrived[1].len() >= 12);
            (0..5000).for_each(|_| pair.step());
            assert!(pair.payloads().into_iter().eq((0..12).map(|n| numbered(n, 50))), "{after}");
        }
    }
}

/// Replaces an end by a new one, as a restarted node does.
fn restart(pair: &mut Pair, at: usize, session: u32) {
    pair.ends[at] = Link::new(Config { session, ..*pair.ends[at].config() }).unwrap();
}

in_both_forms! {
    fn a_restarted_end_is_joined_again_whichever_it_is(form: Form) {
        for retransmit in [true, false] {
            for (at, session) in [(0, 99), (1, 99), (0, 11), (1, 12)] {
                if !retransmit && session != 99 {
                    continue;
                }
                let config = Config { retransmit, form, ..Config::default() };
                let mut pair = Pair::new(config, 30, Noise::default(), 0);
                pair.bring_up();
                send_numbers(&mut pair, 0..50);
                pair.run_until(100_000, |pair| pair.arrived[1].len() == 50 && pair.ends[0].is_idle());
                (0..500).for_each(|_| pair.step());
                restart(&mut pair, at, session);
                pair.arrived[1].clear();
                (0..500).for_each(|_| pair.step());
                assert_eq!(pair.ends.each_ref().map(Link::state), [State::Up; 2]);
                send_numbers(&mut pair, 50..100);
                pair.run_until(100_000, |pair| pair.arrived[1].len() >= 50);
                (0..5000).for_each(|_| pair.step());
                let got = pair.payloads();
                assert!(got.into_iter().eq((50..100).map(|n| numbered(n, 50))), "end {at}");
                let restarts = pair.ends.each_ref().map(|end| end.counters().restarts);
                assert!(session != 99 || restarts[1 - at] == 1, "{restarts:?}");
            }
        }
    }

    fn what_was_not_acknowledged_before_a_restart_is_sent_again(form: Form) {
        for after in (0..400).step_by(7) {
            let mut pair = pair(form, 30);
            pair.bring_up();
            send_numbers(&mut pair, 0..10);
            (0..after).for_each(|_| pair.step());
            let acknowledged = pair.ends[0].counters().tx_acknowledged;
            restart(&mut pair, 1, 77);
            pair.arrived[1].clear();
            send_numbers(&mut pair, 10..20);
            (0..20_000).for_each(|_| pair.step());
            let first = u32::from_le_bytes(pair.payloads()[0][..4].try_into().unwrap());
            assert!(u64::from(first) >= acknowledged, "{after}");
            assert!(pair.payloads().into_iter().eq((first..20).map(|n| numbered(n, 50))), "{after}");
        }
    }
}

#[test]
fn diagnostics_ride_in_every_credit_and_add_no_word() {
    let mut pair = pair(Form::Words, 20);
    pair.bring_up();
    assert_eq!(pair.ends[0].diagnostics().map(|seen| seen.bits), Some(0));
    let words = pair.ends[1].counters().tx_credits;
    pair.ends[1].set_diagnostics(0xbeef);
    let set_at = pair.now;
    pair.run_until(100, |pair| pair.ends[0].diagnostics().unwrap().bits == 0xbeef);
    let seen = pair.ends[0].diagnostics().unwrap();
    assert!((20..24).contains(&(seen.at - set_at)), "{seen:?}");
    assert_eq!(pair.ends[1].counters().tx_credits - words, (pair.now - set_at) / 2);
    assert_eq!(pair.ends[0].last_credit(), Some(seen.at));
}

#[test]
fn a_packet_that_stands_still_is_dropped_and_comes_again() {
    let mut pair = pair(Form::Words, 5);
    pair.bring_up();
    pair.send(Header::default(), &[3; 160]);
    pair.run_until(100, |pair| pair.ends[1].stage() == Stage::Payload);
    pair.lines[0].cut();
    (0..5000).for_each(|_| pair.step());
    assert_eq!(pair.ends[1].counters().data_timeouts, 1);
    pair.lines[0].repair();
    pair.run_until(10_000, |pair| pair.arrived[1].len() == 1);
    assert_eq!(pair.payloads(), [[3; 160]]);
}

/// Frames sent by both ends in so many periods of a link that says nothing but that it is there, of which those of the second end
/// are lost that go when time alone says so.
fn frames_of_an_idle_link(periods: u64, loses_beats: bool) -> u64 {
    let (period, slack) = (2000, 50);
    let config = Config { form: FRAMES, credit_period: period, ..Config::default() };
    assert!(config.dead_after < 3 * period);
    let mut pair = Pair::new(config, 30, Noise::default(), 0);
    pair.bring_up();
    pair.run_until(2 * period, |pair| pair.now % period == period / 2);
    let sent = |pair: &Pair| pair.ends.iter().map(|end| end.counters().tx_credits).sum::<u64>();
    let before = sent(&pair);
    for _ in 0..periods * period {
        if loses_beats && pair.now % period == period - 1 {
            pair.lines[1].cut();
        } else if loses_beats && pair.now % period == slack {
            pair.lines[1].repair();
        }
        pair.step();
    }
    assert_eq!(pair.events, [[Event::Up], [Event::Up]]);
    sent(&pair) - before
}

#[test]
fn frames_that_are_lost_are_asked_for() {
    assert_eq!(frames_of_an_idle_link(40, false), 2 * 40);
    let sent = frames_of_an_idle_link(40, true);
    assert!((2 * 40 + 1..=5 * 40).contains(&sent), "{sent}");
}

#[test]
fn a_packet_that_comes_twice_is_acknowledged_at_once() {
    let config =
        Config { form: FRAMES, credit_period: 40_000, dead_after: 100_000, ..Config::default() };
    let mut pair = Pair::new(config, 30, Noise::default(), 0);
    pair.bring_up();
    pair.run_until(1000, |pair| pair.now == 500);
    pair.lines[1].cut();
    send_numbers(&mut pair, 0..1);
    pair.run_until(1000, |pair| pair.arrived[1].len() == 1);
    (0..100).for_each(|_| pair.step());
    pair.lines[1].repair();
    // Its acknowledgement is lost, so it comes again.
    pair.run_until(config.timeout + 200, |pair| pair.ends[0].counters().tx_acknowledged == 1);
    assert!(pair.ends[1].counters().duplicates > 0);
}
