//! The window algorithms as they are described, without regard to cost.

use gannet_wire::TriggerPrimitive;

/// Slides a window over primitives; `judge` gives the inputs of the activities of a window that
/// has reached its length, none if it does not fire.
pub(super) fn windows(
    tps: &[TriggerPrimitive],
    length: u64,
    judge: impl Fn(&[TriggerPrimitive]) -> Vec<Vec<TriggerPrimitive>>,
) -> Vec<Vec<TriggerPrimitive>> {
    let mut window: Vec<TriggerPrimitive> = Vec::new();
    let mut made = Vec::new();
    for tp in tps {
        let outside =
            window.first().is_some_and(|first| tp.time_start() - first.time_start() >= length);
        if outside {
            let activities = judge(&window);
            if activities.is_empty() {
                window.retain(|old| tp.time_start() - old.time_start() < length);
            } else {
                made.extend(activities);
                window.clear();
            }
        }
        window.push(*tp);
    }
    made.extend(judge(&window));
    made
}

/// The channels of a window in rising order, each once.
pub(super) fn channels(window: &[TriggerPrimitive]) -> Vec<u32> {
    let mut channels: Vec<u32> = window.iter().map(|tp| tp.channel()).collect();
    channels.sort_unstable();
    channels.dedup();
    channels
}

/// HorizontalMuon: length of the longest run. Each gap counts with the whole step over it.
pub(super) fn adjacency(window: &[TriggerPrimitive], tolerance: u32) -> u32 {
    let (mut longest, mut run, mut used) = (0, 0, 0);
    let mut last = None;
    for channel in channels(window) {
        let step = last.map(|last| channel - last);
        match step {
            Some(1) => run += 1,
            Some(step @ 2..=5) if used < tolerance => {
                run += 1;
                used += step;
            }
            _ => {
                run = 1;
                used = 0;
            }
        }
        longest = longest.max(run);
        last = Some(channel);
    }
    longest
}

/// ChannelAdjacency: find the first run that is long enough, take its channels out of the window,
/// and start over. Each gap counts with the channels missed. The latest primitive stands for the
/// first channel of a run, the earliest for each other one.
pub(super) fn tracks(
    window: &[TriggerPrimitive],
    threshold: u32,
    tolerance: u32,
) -> Vec<Vec<TriggerPrimitive>> {
    let mut window = window.to_vec();
    let mut tracks = Vec::new();
    while let Some(run) = first_long_run(&channels(&window), threshold, tolerance) {
        let pick = |channel: &u32| {
            let mut hits = window.iter().filter(|tp| tp.channel() == *channel);
            let hit = if *channel == run[0] { hits.next_back() } else { hits.next() };
            *hit.unwrap()
        };
        tracks.push(run.iter().map(pick).collect());
        window.retain(|tp| !run.contains(&tp.channel()));
    }
    tracks
}

fn first_long_run(channels: &[u32], threshold: u32, tolerance: u32) -> Option<Vec<u32>> {
    let mut run: Vec<u32> = Vec::new();
    let mut used = 0;
    for &channel in channels {
        let step = run.last().map(|last| channel - last);
        match step {
            Some(1) => {}
            Some(step @ 2..=5) if used < tolerance => used += step - 1,
            _ => {
                if run.len() as u32 > threshold {
                    return Some(run);
                }
                run.clear();
                used = 0;
            }
        }
        run.push(channel);
    }
    (run.len() as u32 > threshold).then_some(run)
}
