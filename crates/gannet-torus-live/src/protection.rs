//! What lies behind each frame: its number, by which losses are seen, and the proof that its sender knows the key of the machine,
//! so that nobody else can make a frame up on a cable, nor change or repeat one.
//!
//! The proof is left out, and zero, where no end of a cable wants it. Its tag is that of ChaCha20-Poly1305 (RFC 8439) over the frame as associated data, with the number as nonce. The keys of both
//! ways follow from the key of the machine and from the handshake (HKDF, RFC 5869), so that each session has its own. Frames
//! can be read by others, as bytes of a cable can.

use gannet_wire::neighbour::PROOF_LEN;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, Tag, UnboundKey};
use ring::hkdf::{HKDF_SHA256, Salt};

use crate::identity::Key;

const NUMBER_LEN: usize = size_of::<u64>();

/// Why a frame is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Who has sent it does not know the key, or it was changed.
    Forged,
    /// It, or one after it, was taken before.
    Stale,
}

/// A frame that is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken<'a> {
    /// Its bytes, without what lies behind them.
    pub frame: &'a [u8],
    /// Whether frames that were sent before it have not come.
    pub is_behind_gap: bool,
}

/// Keys that prove frames of this end, and of the other one.
#[derive(Debug)]
struct Keys {
    own: LessSafeKey,
    other: LessSafeKey,
}

/// Numbers and proofs of the frames of a session, both ways.
#[derive(Debug, Default)]
pub struct Protection {
    keys: Option<Keys>,
    sent: u64,
    taken: u64,
}

impl Protection {
    /// Numbers alone.
    pub fn none() -> Self {
        Self::default()
    }

    /// For the session of a handshake with this hash, which this end has opened or answered.
    pub fn new(key: &Key, handshake: &[u8], opens: bool) -> Self {
        let secret = Salt::new(HKDF_SHA256, handshake).extract(&key.0);
        let [of_opener, of_answerer] = [&b"gannet torus frames of the opener"[..], b"of the other"]
            .map(|purpose| {
                let purpose = [purpose];
                let expanded = secret.expand(&purpose, &CHACHA20_POLY1305);
                LessSafeKey::new(UnboundKey::from(expanded.expect("a key is not too long")))
            });
        let (own, other) = if opens { (of_opener, of_answerer) } else { (of_answerer, of_opener) };
        Self { keys: Some(Keys { own, other }), ..Self::default() }
    }

    /// Whether frames that are taken prove who has sent them.
    pub fn proves(&self) -> bool {
        self.keys.is_some()
    }

    /// Writes number and proof of a frame to the end of `bytes`, behind the frame.
    ///
    /// # Panics
    /// When `bytes` is shorter than number and proof.
    pub fn prove(&mut self, bytes: &mut [u8]) {
        let (frame, proof) = bytes.split_at_mut(bytes.len() - PROOF_LEN);
        self.sent += 1;
        let (number, place) = proof.split_at_mut(NUMBER_LEN);
        number.copy_from_slice(&self.sent.to_le_bytes());
        let Some(keys) = &self.keys else { return place.fill(0) };
        let (nonce, aad) = (nonce(self.sent), Aad::from(&*frame));
        let tag = keys.own.seal_in_place_separate_tag(nonce, aad, &mut []);
        place.copy_from_slice(tag.expect("a frame is not too long").as_ref());
    }

    /// Reclaims the numbers of the last `count` frames, none of which has left this host, for others.
    pub fn reclaim_numbers(&mut self, count: usize) {
        self.sent -= count as u64;
    }

    /// The frame of which `bytes` has number and proof, too.
    ///
    /// # Errors
    /// When it is to be dropped.
    pub fn check<'a>(&mut self, bytes: &'a [u8]) -> Result<Taken<'a>, Refusal> {
        let (rest, tag) = bytes.split_last_chunk().ok_or(Refusal::Forged)?;
        let (frame, number) = rest.split_last_chunk().ok_or(Refusal::Forged)?;
        let number = u64::from_le_bytes(*number);
        if number <= self.taken {
            return Err(Refusal::Stale);
        }
        if let Some(Keys { other, .. }) = &self.keys {
            let aad = Aad::from(frame);
            other
                .open_in_place_separate_tag(nonce(number), aad, Tag::from(*tag), &mut [], 0..)
                .map_err(|_| Refusal::Forged)?;
        }
        let is_behind_gap = number > self.taken + 1;
        self.taken = number;
        Ok(Taken { frame, is_behind_gap })
    }
}

fn nonce(number: u64) -> Nonce {
    let mut bytes = [0; NONCE_LEN];
    bytes[NONCE_LEN - NUMBER_LEN..].copy_from_slice(&number.to_le_bytes());
    Nonce::assume_unique_for_key(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (Protection, Protection) {
        let key = Key([7; 32]);
        (Protection::new(&key, b"handshake", true), Protection::new(&key, b"handshake", false))
    }

    fn proved(end: &mut Protection, frame: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; frame.len() + PROOF_LEN];
        bytes[..frame.len()].copy_from_slice(frame);
        end.prove(&mut bytes);
        bytes
    }

    #[test]
    fn frames_are_taken_once_and_in_their_order() {
        let (mut near, mut far) = pair();
        let taken = |frame, is_behind_gap| Ok(Taken { frame, is_behind_gap });
        let frames = [&b"first"[..], b"", b"third"].map(|frame| (frame, proved(&mut near, frame)));
        assert_eq!(far.check(&frames[0].1), taken(frames[0].0, false));
        assert_eq!(far.check(&frames[0].1), Err(Refusal::Stale));
        assert_eq!(far.check(&frames[2].1), taken(frames[2].0, true), "one may be lost");
        assert_eq!(far.check(&frames[1].1), Err(Refusal::Stale), "it is too late");
        let back = proved(&mut far, b"back");
        assert_eq!(near.check(&back), taken(b"back", false));
        let again = proved(&mut near, b"again");
        assert_eq!(near.check(&again), Err(Refusal::Forged), "it is of this end");
    }

    #[test]
    fn what_has_not_left_leaves_no_gap() {
        let (mut near, mut far) = pair();
        let first = proved(&mut near, b"first");
        (0..2).for_each(|_| _ = proved(&mut near, b"stays here"));
        near.reclaim_numbers(2);
        let second = proved(&mut near, b"second");
        for bytes in [first, second] {
            assert_eq!(far.check(&bytes).map(|taken| taken.is_behind_gap), Ok(false));
        }
    }

    #[test]
    fn without_keys_frames_are_only_numbered() {
        let (mut near, mut far) = (Protection::none(), Protection::none());
        let frames = [&b"first"[..], b"second", b"third"].map(|frame| proved(&mut near, frame));
        let gap = |taken: Result<Taken, _>| taken.map(|taken| taken.is_behind_gap);
        assert_eq!(gap(far.check(&frames[0])), Ok(false));
        assert_eq!(gap(far.check(&frames[2])), Ok(true));
        assert_eq!(gap(far.check(&frames[2])), Err(Refusal::Stale));
    }

    #[test]
    fn no_bit_can_be_changed() {
        let (mut near, mut far) = pair();
        let good = proved(&mut near, &[5; 40]);
        for bit in 0..8 * good.len() {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(far.check(&bad).is_err(), "bit {bit}");
        }
        for len in 0..good.len() {
            assert_eq!(far.check(&good[..len]), Err(Refusal::Forged), "{len} bytes");
        }
        let taken = Taken { frame: &[5; 40], is_behind_gap: false };
        assert_eq!(far.check(&good), Ok(taken), "what was refused has left no trace");
    }

    #[test]
    fn other_keys_and_other_sessions_prove_nothing() {
        let good = proved(&mut pair().0, b"frame");
        for (key, handshake) in [([8; 32], &b"handshake"[..]), ([7; 32], b"another")] {
            let mut other = Protection::new(&Key(key), handshake, false);
            assert_eq!(other.check(&good), Err(Refusal::Forged));
        }
    }
}
