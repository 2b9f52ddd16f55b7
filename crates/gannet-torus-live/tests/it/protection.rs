//! Frames between two ends that have met: what somebody else has made, changed or kept is not taken.

use gannet_torus_live::identity::Key;
use gannet_torus_live::neighbour::{MESSAGE_MAX, Neighbour, News};
use gannet_wire::neighbour::{HostId, Identity, PROOF_LEN};

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
    let len = end.prove(&mut bytes, frame.len());
    bytes.truncate(len);
    bytes
}

#[test]
fn one_end_that_wants_proofs_is_enough() {
    for (near, far) in [(true, true), (true, false), (false, true)] {
        let (mut near, mut far) = (end(1, 1, near), end(2, 1, far));
        meet(&mut near, &mut far, 1);
        for frame in [&b"a frame"[..], &[7; 900]] {
            let mut bytes = proved(&mut near, frame);
            assert_eq!(far.proved(frame), None, "it has no proof");
            bytes[0] ^= 1;
            assert_eq!(far.proved(&bytes), None, "it was changed");
            bytes[0] ^= 1;
            assert_eq!(far.proved(&bytes), Some(frame));
            assert_eq!(far.proved(&bytes), None, "it was heard before");
            let back = proved(&mut far, frame);
            assert_eq!(near.proved(&back), Some(frame));
        }
        assert_eq!((far.refused().forged, far.refused().stale), (4, 2));
    }
}

#[test]
fn where_no_end_wants_proofs_frames_go_as_they_are() {
    let (mut near, mut far) = (end(1, 1, false), end(2, 1, false));
    assert_eq!(near.prove(&mut [0; 100], 10), 0, "nobody was met");
    assert_eq!(far.proved(b"frame"), None);
    meet(&mut near, &mut far, 1);
    assert_eq!(proved(&mut near, b"frame"), b"frame");
    assert_eq!(far.proved(b"frame"), Some(&b"frame"[..]));
}

#[test]
fn frames_of_an_earlier_life_prove_nothing() {
    let (mut near, mut far) = (end(1, 1, true), end(2, 1, true));
    meet(&mut near, &mut far, 1);
    let old = proved(&mut near, b"frame");
    let mut near = end(1, 2, true);
    meet(&mut near, &mut far, 10 * WATCHDOG_NS);
    assert_eq!(far.proved(&old), None);
    let new = proved(&mut near, b"frame");
    assert_eq!(far.proved(&new), Some(&b"frame"[..]));
}
