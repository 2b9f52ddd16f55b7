//! Frames between two ends that have met: what somebody else has made, changed or kept is not taken.

use gannet_torus_live::identity::Key;
use gannet_torus_live::neighbour::{MESSAGE_MAX, Neighbour, News};
use gannet_wire::neighbour::{HostId, Identity, Message, PROOF_LEN};

const WATCHDOG_NS: u64 = 100_000_000;

fn end(host: u64, life: u64, protects: bool) -> Neighbour {
    let own = Identity { host: HostId(host), life, protects, ..Identity::default() };
    Neighbour::new(own, Key([9; 32]), WATCHDOG_NS)
}

/// Lets both ends hear all that the other says, from `now` on until both have met.
fn meet(near: &mut Neighbour, far: &mut Neighbour, now: u64) {
    let mut room = [0; MESSAGE_MAX];
    let mut met = 0;
    for step in 0..100 {
        let now = now + step * WATCHDOG_NS / 16;
        for _ in 0..2 {
            let mut news = |news| met += u32::from(matches!(news, News::Met(_)));
            near.advance(now, &mut news);
            loop {
                let len = near.due(&mut room, now);
                if len == 0 {
                    break;
                }
                far.hear(&room[..len], now, &mut news);
            }
            std::mem::swap(near, far);
        }
        if met >= 2 && near.is_up() && far.is_up() {
            return;
        }
    }
    panic!("they did not meet");
}

fn proved(end: &mut Neighbour, frame: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; frame.len() + PROOF_LEN];
    bytes[..frame.len()].copy_from_slice(frame);
    let all = bytes.len();
    assert!(end.prove(&mut bytes, all));
    bytes
}

fn taken<'a>(end: &mut Neighbour, bytes: &'a [u8]) -> Option<&'a [u8]> {
    end.proved(bytes, 1, &mut |news| panic!("{news:?}"))
}

#[test]
fn one_end_that_wants_proofs_is_enough() {
    for (near, far) in [(true, true), (true, false), (false, true)] {
        let (mut near, mut far) = (end(1, 1, near), end(2, 1, far));
        meet(&mut near, &mut far, 1);
        for frame in [&b"a frame"[..], &[7; 900]] {
            let mut bytes = proved(&mut near, frame);
            assert_eq!(taken(&mut far, frame), None, "it has no proof");
            bytes[0] ^= 1;
            assert_eq!(taken(&mut far, &bytes), None, "it was changed");
            bytes[0] ^= 1;
            assert_eq!(taken(&mut far, &bytes), Some(frame));
            assert_eq!(taken(&mut far, &bytes), None, "it was heard before");
            let back = proved(&mut far, frame);
            assert_eq!(taken(&mut near, &back), Some(frame));
        }
        assert_eq!((far.refused().forged, far.refused().stale), (4, 2));
    }
}

#[test]
fn where_no_end_wants_proofs_frames_are_only_numbered() {
    let (mut near, mut far) = (end(1, 1, false), end(2, 1, false));
    assert!(!near.prove(&mut [0; 100], 100), "nobody was met");
    assert_eq!(taken(&mut far, b"frame"), None);
    meet(&mut near, &mut far, 1);
    let first = proved(&mut near, b"frame");
    assert_eq!(taken(&mut far, &first), Some(&b"frame"[..]));
    assert_eq!(taken(&mut far, &first), None, "it was heard before");
}

#[test]
fn an_end_says_when_much_is_lost_and_when_no_longer() {
    for protects in [true, false] {
        let (mut near, mut far) = (end(1, 1, protects), end(2, 1, protects));
        meet(&mut near, &mut far, 1);
        let mut changes = Vec::new();
        for number in 0..20_000 {
            let bytes = proved(&mut near, b"frame");
            let is_lost = (5000..6000).contains(&number) && number % 20 == 0;
            if !is_lost {
                let now = number * WATCHDOG_NS / 100;
                let mut news = |news| changes.push((news, number));
                far.proved(&bytes, now, &mut news).expect("it is right");
            }
        }
        let states: Vec<_> = changes.iter().map(|(news, at)| (news.clone(), at / 1000)).collect();
        assert_eq!(states, [(News::Lossy, 5), (News::Lossy, 13)], "{changes:?}");
        assert!(!far.is_lossy());
    }
}

#[test]
fn frames_of_an_earlier_life_prove_nothing() {
    let (mut near, mut far) = (end(1, 1, true), end(2, 1, true));
    meet(&mut near, &mut far, 1);
    let old = proved(&mut near, b"frame");
    let mut near = end(1, 2, true);
    meet(&mut near, &mut far, 10 * WATCHDOG_NS);
    assert_eq!(taken(&mut far, &old), None);
    let new = proved(&mut near, b"frame");
    assert_eq!(taken(&mut far, &new), Some(&b"frame"[..]));
}

/// What `from` says at `now`, message by message.
fn said(from: &mut Neighbour, now: u64) -> Vec<Vec<u8>> {
    let mut room = [0; 9000];
    from.advance(now, &mut |_| ());
    let mut due =
        || Some(from.due(&mut room, now)).filter(|&len| len > 0).map(|len| room[..len].to_vec());
    std::iter::from_fn(&mut due).collect()
}

fn hears(end: &mut Neighbour, message: &[u8], now: u64) -> Vec<News> {
    let mut all = Vec::new();
    end.hear(message, now, &mut |news| all.push(news));
    all
}

#[test]
fn whoever_can_only_send_changes_nothing_between_ends_that_have_met() {
    let (mut near, mut far) = (end(1, 5, true), end(2, 6, true));
    // A handshake that somebody has kept, of this life of both.
    let call = said(&mut far, 1);
    hears(&mut near, &call[0], 1);
    let opened = said(&mut near, 1);
    hears(&mut far, &opened[0], 1);
    meet(&mut near, &mut far, WATCHDOG_NS / 16);
    let now = 10 * WATCHDOG_NS;
    let call = |who: Identity| {
        let mut bytes = vec![0; MESSAGE_MAX];
        let len = Message::Call(who).emit(&mut bytes).unwrap();
        bytes.truncate(len);
        bytes
    };
    let (own, other) = (*near.own(), *far.own());
    let forged = [("its own number", call(Identity { life: 99, ..own })), ("itself", call(own))];
    // Keep them up while time goes on.
    for step in 0..10 {
        for message in said(&mut near, now + step) {
            hears(&mut far, &message, now + step);
        }
        for message in said(&mut far, now + step) {
            hears(&mut near, &message, now + step);
        }
    }
    let up = |near: &Neighbour, far: &Neighbour| near.is_up() && far.is_up();
    assert!(up(&near, &far));
    for (what, message) in &forged {
        let before = near.refused().total();
        assert_eq!(hears(&mut near, message, now + 20), [], "{what}");
        assert_eq!(near.refused().total(), before + 1, "{what}");
    }
    // An opened handshake that is said again is neither answered nor taken.
    let before = far.refused().stale;
    for _ in 0..100 {
        assert_eq!(hears(&mut far, &opened[0], now + 20), []);
    }
    assert_eq!(far.refused().stale, before + 100);
    assert!(said(&mut far, now + 20).iter().all(|message| message[4] != 3), "it answers");
    // A call of another life opens one handshake, which ends nothing: the other end does not answer.
    let restarted = call(Identity { life: 77, ..other });
    for at in 0..100 {
        assert_eq!(hears(&mut near, &restarted, now + 20 + at), []);
    }
    let opens: Vec<_> =
        said(&mut near, now + 120).into_iter().filter(|message| message[4] == 2).collect();
    assert_eq!(opens.len(), 1);
    let before = proved(&mut near, b"before");
    assert_eq!(hears(&mut far, &opens[0], now + 120), []);
    assert!(said(&mut far, now + 120).iter().all(|message| message[4] != 3), "it answers");
    assert_eq!(taken(&mut far, &before), Some(&b"before"[..]), "the keys are the same");
    let after = proved(&mut far, b"after");
    assert_eq!(taken(&mut near, &after), Some(&b"after"[..]));
    assert!(up(&near, &far));
}

#[test]
fn nobody_is_met_over_a_way_that_frames_do_not_fit() {
    let end = |host: u64, frame_bytes: u32| {
        let own = Identity { host: HostId(host), life: 1, frame_bytes, ..Identity::default() };
        Neighbour::new(own, Key([9; 32]), WATCHDOG_NS)
    };
    for (frames, most, is_met) in
        [([8972, 8972], 9000, true), ([8972, 8972], 1472, false), ([8972, 1472], 1472, true)]
    {
        let (mut near, mut far) = (end(1, frames[0]), end(2, frames[1]));
        let mut told = Vec::new();
        for step in 0..200 {
            let now = 1 + step * WATCHDOG_NS / 4;
            for message in said(&mut near, now).iter().filter(|message| message.len() <= most) {
                told.extend(hears(&mut far, message, now));
            }
            for message in said(&mut far, now).iter().filter(|message| message.len() <= most) {
                told.extend(hears(&mut near, message, now));
            }
        }
        assert_eq!(near.is_up() && far.is_up(), is_met, "{frames:?} through {most}");
        let says = told.iter().any(|news| matches!(news, News::NoHandshake(_)));
        assert_eq!(says, !is_met, "{told:?}");
    }
}

#[test]
fn an_outage_that_is_over_is_not_counted_to_the_next() {
    // The end that is called does not open the handshake, so that sealed messages alone bring the other end back.
    let (mut near, mut far) = (end(2, 1, true), end(1, 1, true));
    meet(&mut near, &mut far, 1);
    let is_call = |message: &[u8]| matches!(Message::parse(message), Ok(Message::Call(_)));
    let is_sealed = |message: &[u8]| matches!(Message::parse(message), Ok(Message::Sealed(..)));
    // One hour after the other.
    for outage in 1..=3 {
        let from = outage * 3_600_000_000_000;
        assert!(said(&mut near, from).iter().any(|message| is_call(message)) && !near.is_heard());
        let messages = said(&mut far, from);
        let call = messages.iter().find(|message| is_call(message)).expect("it calls");
        assert_eq!(hears(&mut near, call, from), [], "outage {outage}");
        let sealed = messages.iter().find(|message| is_sealed(message)).expect("it says so");
        assert!(hears(&mut near, sealed, from).contains(&News::Heard(true)));
    }
}
