//! Instruction sets that the kernels are written for.

use core::fmt;
use core::str::FromStr;

/// Why a kernel cannot use an instruction set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IsaError {
    /// The name is not that of an instruction set.
    #[error("instruction set {got:?} is unknown; choose one of scalar, avx2, avx512")]
    Unknown {
        /// Name given.
        got: String,
    },
    /// This machine lacks the instruction set.
    #[error("this machine does not have {isa}; choose {best} or another that it has")]
    Unavailable {
        /// Instruction set asked for.
        isa: Isa,
        /// Fastest one that the machine has.
        best: Isa,
    },
}

/// An instruction set that a kernel uses.
///
/// Every set can be named on every machine, so that configurations are portable; only those in
/// [`Isa::available`] can be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Isa {
    /// Plain Rust: the definition of the results, on any machine.
    Scalar,
    /// 256-bit vectors (x86-64 since 2013).
    Avx2,
    /// 512-bit vectors with byte permutation (AVX-512 F, BW, VBMI, VBMI2: Ice Lake, Zen 4 and later).
    Avx512,
}

impl Isa {
    /// All instruction sets, slowest first.
    pub const ALL: [Isa; 3] = [Isa::Scalar, Isa::Avx2, Isa::Avx512];

    /// Whether this machine has the instruction set.
    pub fn is_available(self) -> bool {
        Kernel::detect(self).is_some()
    }

    /// The instruction sets that this machine has, slowest first. `Scalar` is always one.
    pub fn available() -> impl Iterator<Item = Isa> {
        Isa::ALL.into_iter().filter(|isa| isa.is_available())
    }

    /// The fastest instruction set that this machine has.
    pub fn best() -> Isa {
        Isa::available().last().unwrap_or(Isa::Scalar)
    }

    /// The name used in configurations and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Isa::Scalar => "scalar",
            Isa::Avx2 => "avx2",
            Isa::Avx512 => "avx512",
        }
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Isa {
    type Err = IsaError;

    fn from_str(name: &str) -> Result<Self, IsaError> {
        Isa::ALL
            .into_iter()
            .find(|isa| isa.name() == name)
            .ok_or_else(|| IsaError::Unknown { got: name.to_owned() })
    }
}

/// Proof that the machine has AVX2, and what came with it: fused multiplication, bit operations.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx2(());

#[cfg(target_arch = "x86_64")]
impl Avx2 {
    fn detect() -> Option<Self> {
        let found = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("popcnt");
        found.then_some(Self(()))
    }
}

/// Proof that the machine has AVX-512 F, BW, VL, VBMI and VBMI2, and all of [`Avx2`].
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx512(());

#[cfg(target_arch = "x86_64")]
impl Avx512 {
    fn detect() -> Option<Self> {
        let found = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512vbmi")
            && is_x86_feature_detected!("avx512vbmi2");
        (found && Avx2::detect().is_some()).then_some(Self(()))
    }
}

/// An instruction set that was found on this machine; the vector tokens are the proof.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kernel {
    Scalar,
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
    #[cfg(target_arch = "x86_64")]
    Avx512(Avx512),
}

impl Kernel {
    /// Looks for the instruction set on this machine.
    pub(crate) fn detect(isa: Isa) -> Option<Self> {
        match isa {
            Isa::Scalar => Some(Self::Scalar),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => Avx2::detect().map(Self::Avx2),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => Avx512::detect().map(Self::Avx512),
            #[cfg(not(target_arch = "x86_64"))]
            Isa::Avx2 | Isa::Avx512 => None,
        }
    }

    /// The kernel of an instruction set.
    ///
    /// # Errors
    ///
    /// When this machine lacks it.
    pub(crate) fn of(isa: Isa) -> Result<Self, IsaError> {
        Self::detect(isa).ok_or(IsaError::Unavailable { isa, best: Isa::best() })
    }

    /// The instruction set that the kernel uses.
    pub(crate) const fn isa(self) -> Isa {
        match self {
            Self::Scalar => Isa::Scalar,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(_) => Isa::Avx2,
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(_) => Isa::Avx512,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for isa in Isa::ALL {
            assert_eq!(isa.to_string().parse::<Isa>().unwrap(), isa);
        }
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_known_ones() {
        let message = "avx1024".parse::<Isa>().unwrap_err().to_string();
        assert!(
            message.contains("avx1024") && message.contains("scalar, avx2, avx512"),
            "{message}"
        );
    }

    #[test]
    fn scalar_is_always_available_and_best_is_available() {
        assert!(Isa::Scalar.is_available());
        assert!(Isa::best().is_available());
    }
}
