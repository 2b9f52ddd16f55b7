//! What the tests of this crate share.

/// Time from which the tests count, of the size of real time stamps.
pub(crate) const START: u64 = 107_544_625_968_525_251;
