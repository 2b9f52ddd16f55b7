//! How frames are taken from a socket.

/// Messages in a row, none of them long, after which frames are taken as datagrams.
const SHORT_MAX: u32 = 16;

/// A stream is cheaper in messages of several frames, which is how it is sent, and single frames are cheaper as datagrams, of which the kernel need not tell how
/// many they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Intake {
    /// As messages; the last ones, so many, were not long.
    Messages { short: u32 },
    /// As messages until all have been taken that were made before the kernel was told to make no more.
    Last,
    /// As datagrams.
    Datagrams,
}

impl Intake {
    /// Whether the kernel is to make messages of several frames.
    pub(super) fn coalesces(self) -> bool {
        matches!(self, Self::Messages { .. })
    }

    /// How the next one is taken after the socket was asked and gave a message, which was long or not, or nothing.
    pub(super) fn after(self, is_long: Option<bool>) -> Self {
        match (self, is_long) {
            (_, Some(true)) => Self::Messages { short: 0 },
            (Self::Messages { short }, Some(false)) => {
                Self::Messages { short: SHORT_MAX.min(short + 1) }
            }
            (Self::Messages { short: SHORT_MAX }, None) => Self::Last,
            (Self::Last, None) => Self::Datagrams,
            (unchanged, _) => unchanged,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_short_frames_are_taken_as_datagrams_until_a_long_one_comes() {
        let begin = Intake::Messages { short: 0 };
        let short = |intake: Intake| intake.after(Some(false));
        let almost = (1..SHORT_MAX).fold(begin, |intake, _| short(intake).after(None));
        assert!(almost.coalesces() && almost.after(None).coalesces());
        assert_eq!(almost.after(Some(true)), begin);
        let last = short(almost).after(None);
        assert_eq!((last, last.coalesces(), short(last)), (Intake::Last, false, Intake::Last));
        let datagrams = last.after(None);
        assert_eq!((datagrams, short(datagrams)), (Intake::Datagrams, datagrams));
        assert_eq!([last, datagrams].map(|intake| intake.after(Some(true))), [begin; 2]);
    }
}
