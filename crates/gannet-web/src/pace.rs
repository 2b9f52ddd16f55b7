//! How often something may happen, fair to all who wait.

use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};

/// How much may be saved up while nobody asks: what comes in this time.
const BURST: Duration = Duration::from_millis(100);

/// A number of turns a second. Whoever asks first has its turn first.
pub(crate) struct Pace {
    per_s: f64,
    saved: Mutex<Saved>,
}

/// Turns that may be taken at once; less than none while turns are owed.
struct Saved {
    turns: f64,
    at: Instant,
}

impl Pace {
    pub fn new(per_s: f64) -> Self {
        let turns = per_s * BURST.as_secs_f64();
        Self { per_s, saved: Mutex::new(Saved { turns, at: Instant::now() }) }
    }

    /// Takes `turns`, and waits until they are due.
    pub async fn take(&self, turns: usize) {
        // Holding the lock while waiting is what keeps the order: it is a fair one.
        let mut saved = self.saved.lock().await;
        let now = Instant::now();
        let gained = self.per_s * (now - saved.at).as_secs_f64();
        let most = self.per_s * BURST.as_secs_f64();
        saved.turns = (saved.turns + gained).min(most) - turns as f64;
        saved.at = now;
        if saved.turns < 0.0 {
            sleep(Duration::from_secs_f64(-saved.turns / self.per_s)).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::runtime;

    #[test]
    fn beyond_the_burst_turns_take_their_time() {
        runtime().unwrap().block_on(async {
            let pace = Pace::new(1000.0);
            let begin = Instant::now();
            for _ in 0..150 {
                pace.take(1).await;
            }
            pace.take(50).await;
            // 100 are free, 100 are due after 100 ms; how much later they come is the machine's.
            assert!(begin.elapsed() >= Duration::from_millis(95), "{:?}", begin.elapsed());
        });
    }
}
