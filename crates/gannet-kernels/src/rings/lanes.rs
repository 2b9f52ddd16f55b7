//! What an instruction set must give to find rings: arithmetic on 16 numbers at a time.

use core::array;
use core::ops::{Add, Div, Mul, Sub};

/// Numbers that are computed with at a time.
pub(super) const LANES: usize = 16;
/// Hits that triplets are taken from.
pub(super) const TABLE: usize = 64;

/// An instruction set. A value is the proof that the machine has it.
pub(super) trait Lanes: Copy {
    /// 16 numbers.
    type Real: Real;

    /// Asks for the line of the cache at `address` before it is needed.
    fn prefetch(self, address: *const u8);
    /// The same, but no nearer than the second-level cache.
    fn prefetch_far(self, address: *const u8);
    fn splat(self, x: f32) -> Self::Real;
    fn load(self, from: &[f32; LANES]) -> Self::Real;
    /// The numbers at these indices, each below [`TABLE`].
    fn look_up(self, table: &[f32; TABLE], indices: &[u8; LANES]) -> Self::Real;
    /// Columns of rows: number `r` of column `c` is number `c` of row [`row`]`(r)`.
    fn columns(self, rows: &[[f32; 8]; LANES]) -> [Self::Real; 8];
}

/// 16 numbers, and what is done with all of them. Every instruction set rounds alike: operations are fused
/// where it is said, and nowhere else.
pub(super) trait Real:
    Copy + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> + Div<Output = Self>
{
    /// Some of the 16.
    type Mask: Copy;

    fn store(self, to: &mut [f32; LANES]);
    /// `self - a * b`, rounded once.
    fn less_product(self, a: Self, b: Self) -> Self;
    fn abs(self) -> Self;
    fn sqrt(self) -> Self;
    /// Where it is less; nowhere where either is not a number.
    fn less(self, than: Self) -> Self::Mask;
    fn both(a: Self::Mask, b: Self::Mask) -> Self::Mask;
    /// A bit for each of the 16.
    fn bits(mask: Self::Mask) -> u16;
    /// `yes` where the mask is, `no` elsewhere.
    fn select(mask: Self::Mask, yes: Self, no: Self) -> Self;

    /// Writes the numbers where the mask is to the first places, in their order; after them, up to 16 in all,
    /// anything.
    fn pack(self, mask: Self::Mask, to: &mut [f32; LANES]);

    /// The sum where the mask is, `self` elsewhere.
    #[inline(always)]
    fn add_where(self, mask: Self::Mask, x: Self) -> Self {
        Self::select(mask, self + x, self)
    }
}

/// Row whose numbers [`Lanes::columns`] puts at place `r` of its columns.
pub(super) const fn row(r: usize) -> usize {
    r % 4 * 4 + r / 4
}

/// Plain Rust, on any machine: the definition.
#[derive(Clone, Copy)]
pub(super) struct Plain;

/// 16 numbers in plain Rust.
#[derive(Clone, Copy)]
pub(super) struct Numbers([f32; LANES]);

impl Lanes for Plain {
    type Real = Numbers;

    #[inline(always)]
    fn prefetch(self, _: *const u8) {}

    #[inline(always)]
    fn prefetch_far(self, _: *const u8) {}

    #[inline(always)]
    fn splat(self, x: f32) -> Numbers {
        Numbers([x; LANES])
    }

    #[inline(always)]
    fn load(self, from: &[f32; LANES]) -> Numbers {
        Numbers(*from)
    }

    #[inline(always)]
    fn look_up(self, table: &[f32; TABLE], indices: &[u8; LANES]) -> Numbers {
        Numbers(indices.map(|index| table[usize::from(index) % TABLE]))
    }

    #[inline(always)]
    fn columns(self, rows: &[[f32; 8]; LANES]) -> [Numbers; 8] {
        array::from_fn(|column| Numbers(array::from_fn(|r| rows[row(r)][column])))
    }
}

macro_rules! each {
    ($($trait:ident $name:ident $op:tt),*) => {$(
        impl $trait for Numbers {
            type Output = Self;

            #[inline(always)]
            fn $name(self, other: Self) -> Self {
                Self(array::from_fn(|lane| self.0[lane] $op other.0[lane]))
            }
        }
    )*};
}

each!(Add add +, Sub sub -, Mul mul *, Div div /);

impl Real for Numbers {
    type Mask = [bool; LANES];

    #[inline(always)]
    fn store(self, to: &mut [f32; LANES]) {
        *to = self.0;
    }

    #[inline(always)]
    fn less_product(self, a: Self, b: Self) -> Self {
        Self(array::from_fn(|lane| (-a.0[lane]).mul_add(b.0[lane], self.0[lane])))
    }

    #[inline(always)]
    fn abs(self) -> Self {
        Self(self.0.map(f32::abs))
    }

    #[inline(always)]
    fn sqrt(self) -> Self {
        Self(self.0.map(f32::sqrt))
    }

    #[inline(always)]
    fn less(self, than: Self) -> Self::Mask {
        array::from_fn(|lane| self.0[lane] < than.0[lane])
    }

    #[inline(always)]
    fn both(a: Self::Mask, b: Self::Mask) -> Self::Mask {
        array::from_fn(|lane| a[lane] & b[lane])
    }

    #[inline(always)]
    fn bits(mask: Self::Mask) -> u16 {
        (0..LANES).fold(0, |bits, lane| bits | u16::from(mask[lane]) << lane)
    }

    #[inline(always)]
    fn pack(self, mask: Self::Mask, to: &mut [f32; LANES]) {
        let kept = self.0.into_iter().zip(mask).filter(|&(_, is_kept)| is_kept);
        for (place, (number, _)) in to.iter_mut().zip(kept) {
            *place = number;
        }
    }

    #[inline(always)]
    fn select(mask: Self::Mask, yes: Self, no: Self) -> Self {
        Self(array::from_fn(|lane| if mask[lane] { yes.0[lane] } else { no.0[lane] }))
    }
}
