//! Trigger primitive generation (TPG).
//!
//! One [`Tpg`] turns the ADC blocks of one stream (64 channels x 64 samples of 14 bits) into
//! trigger primitives, by the rules of DUNE-DAQ/tpglibs bit for bit. The chain is: pedestal
//! subtraction, an optional running sum, threshold, hit finding.
//!
//! * [`chain`] says what the chain does: [`ChainConfig`] and the per-channel [`ChannelTable`];
//! * [`stream`] owns the state of one stream and dispatches to the instruction set chosen;
//! * `scalar` is the definition; `avx2` and `avx512` give the same bits, faster.
//!
//! The module is *not* concerned with frame headers, lost frames, time order between streams or
//! channel maps: it sees a block, a time stamp and a table of numbers.
//!
//! # Examples
//!
//! ```
//! use gannet_kernels::Isa;
//! use gannet_kernels::tpg::{ChainConfig, ChannelTable, MAX_TPS_PER_FRAME, Tpg, block};
//!
//! // Channel 5 rises 200 counts above its pedestal of 900 for three samples.
//! let pulse = |t: usize, channel: usize| {
//!     if channel == 5 && (10..13).contains(&t) { 1100 } else { 900 }
//! };
//! let config = ChainConfig { initial_pedestal: 900, ..ChainConfig::default() };
//! let mut tpg = Tpg::new(&config, &ChannelTable::default(), Isa::best())?;
//!
//! let mut tps = Vec::with_capacity(MAX_TPS_PER_FRAME);
//! tpg.process(&block::pack(pulse), 64_000, &mut tps);
//!
//! assert_eq!(tps.len(), 1);
//! assert_eq!(tps[0].channel(), 5);
//! assert_eq!(tps[0].time_start(), 64_000 + 10 * 32);
//! assert_eq!((tps[0].samples_over_threshold(), tps[0].adc_integral()), (3, 600));
//! # Ok::<(), gannet_kernels::tpg::Error>(())
//! ```

pub mod block;
pub mod chain;
mod fetch;
mod job;
mod parameters;
mod samples;
pub mod state;
pub mod stream;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod scalar;
#[cfg(target_arch = "x86_64")]
mod tables;
#[cfg(target_arch = "x86_64")]
mod vector;

pub use block::{BLOCK_LEN, CHANNELS, MAX_TPS_PER_FRAME, SAMPLES};
pub use chain::{ChainConfig, ChannelTable, Error, FIR_TAPS, Pedestal, Result, Transform};
pub use fetch::{Ahead, Fetch};
pub use state::State;
pub use stream::{Path, Tpg};
