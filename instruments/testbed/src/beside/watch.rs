//! Looks for marks while a load runs.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::follow::Follower;
use super::jolokia::Jolokia;
use super::log::seconds_since;
use super::marks::{MarkSpec, Marks};
use crate::candidate::RunningCandidate;
use crate::samples::Marked;

/// From look to look at logs.
const LOG_INTERVAL: Duration = Duration::from_millis(100);
/// From look to look at MBeans, in looks at logs.
const JOLOKIA_EVERY: u32 = 10;

/// Looks for the marks of a candidate until `is_over` becomes true. Their instants are those at which
/// they are seen, a tenth of a second after they are written at most.
pub(crate) async fn watch(candidate: &RunningCandidate, start: Instant, mut is_over: watch::Receiver<bool>) -> Marks {
    let specs = candidate.marks();
    let mut followers: Vec<_> = specs.iter().filter_map(|spec| follower(spec, candidate)).collect();
    let addresses = specs.iter().filter_map(|spec| spec.jolokia.as_ref());
    let mut nodes: Vec<_> = addresses.filter_map(|url| Jolokia::new(&candidate.filled(url)).ok()).collect();
    let mut marks = Marks::default();
    if followers.is_empty() && nodes.is_empty() {
        return marks;
    }
    let mark = |what: String| Marked { at_s: seconds_since(start), what };
    let mut ticks = interval(LOG_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut look = 0_u32;
    loop {
        let is_last = tokio::select! {
            biased;
            _ = is_over.wait_for(|is_over| *is_over) => true,
            _ = ticks.tick() => false,
        };
        // Files may be slow to read.
        let read = tokio::task::spawn_blocking(move || {
            let found: Vec<_> = followers.iter_mut().flat_map(Follower::read).collect();
            (followers, found)
        });
        let Ok((given_back, found)) = read.await else { break };
        followers = given_back;
        found.into_iter().for_each(|what| marks.add(mark(what)));
        if look.is_multiple_of(JOLOKIA_EVERY) || is_last {
            for node in &mut nodes {
                node.read().await.into_iter().for_each(|what| marks.add(mark(what)));
            }
        }
        look = look.wrapping_add(1);
        if is_last {
            let skipped: u64 = followers.iter().map(Follower::skipped_bytes).sum();
            if skipped > 0 {
                marks.add(mark(format!("{skipped} bytes of logs grew too fast to be read")));
            }
            break;
        }
    }
    marks
}

fn follower(spec: &MarkSpec, candidate: &RunningCandidate) -> Option<Follower> {
    // The candidate's file was checked when it was read.
    let log = spec.of_log().ok()??;
    let path = log.file.map_or(candidate.log().to_owned(), |file| candidate.filled(&file).into());
    Some(Follower::new(path, log.patterns))
}
