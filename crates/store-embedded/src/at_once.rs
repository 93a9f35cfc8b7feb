//! Work on the databases of all lanes at the same time: most of it waits for the disk.

use std::panic::resume_unwind;
use std::thread::{self, ScopedJoinHandle};

use store::{Lane, StoreError, StoreResult};

/// Does some work with the input of each lane, for all lanes at the same time. Returns what came of
/// it, in the order of the inputs.
///
/// Errors: that of the first lane that has one. By then the work of all lanes has ended.
pub(crate) fn at_once<I: Send, T: Send>(
    inputs: impl IntoIterator<Item = (Lane, I)>,
    work: impl Fn(Lane, I) -> StoreResult<T> + Sync,
) -> StoreResult<Vec<(Lane, T)>> {
    let work = &work;
    let done: Vec<(Lane, StoreResult<T>)> = thread::scope(|scope| {
        let start = |(lane, input): (Lane, I)| {
            let started = thread::Builder::new().spawn_scoped(scope, move || work(lane, input));
            (lane, started)
        };
        let started: Vec<_> = inputs.into_iter().map(start).collect();
        let ended = started.into_iter().map(|(lane, started)| {
            let done = match started.map(ScopedJoinHandle::join) {
                Ok(Ok(done)) => done,
                Ok(Err(panic)) => resume_unwind(panic),
                Err(source) => Err(StoreError::Io { context: format!("starting a thread for lane {lane}"), source }),
            };
            (lane, done)
        });
        ended.collect()
    });
    done.into_iter().map(|(lane, done)| Ok((lane, done?))).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn no_lane_waits_for_another_and_each_has_its_own_input() {
        let begun = AtomicUsize::new(0);
        let inputs = Lane::ALL.into_iter().zip(1..);
        let done = at_once(inputs, |lane, number: usize| {
            begun.fetch_add(1, Ordering::SeqCst);
            let since = Instant::now();
            while begun.load(Ordering::SeqCst) < Lane::ALL.len() {
                assert!(since.elapsed() < Duration::from_secs(60), "one waits for another");
                thread::yield_now();
            }
            Ok((lane, 10 * number))
        });
        let expected = Lane::ALL.into_iter().zip(1..).map(|(lane, number)| (lane, (lane, 10 * number)));
        assert_eq!(done.unwrap(), expected.collect::<Vec<_>>());
    }

    #[test]
    fn the_error_is_that_of_the_first_lane_and_the_others_do_their_work_all_the_same() {
        let ended = AtomicUsize::new(0);
        let refused = at_once(Lane::ALL.map(|lane| (lane, ())), |lane, ()| -> StoreResult<()> {
            ended.fetch_add(1, Ordering::SeqCst);
            Err(StoreError::Unavailable(lane.name().to_owned()))
        });
        let first = Lane::ALL[0].name();
        assert!(matches!(&refused, Err(StoreError::Unavailable(name)) if name == first), "{refused:?}");
        assert_eq!(ended.into_inner(), Lane::ALL.len());
    }

    #[test]
    fn a_panic_in_the_work_of_one_lane_goes_on_once_that_of_all_others_has_ended() {
        let (breaks, ended) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let work = |lane: Lane, (): ()| -> StoreResult<()> {
            if lane == Lane::ALL[0] {
                breaks.fetch_add(1, Ordering::SeqCst);
                resume_unwind(Box::new("broken"))
            }
            let since = Instant::now();
            while breaks.load(Ordering::SeqCst) == 0 {
                assert!(since.elapsed() < Duration::from_secs(60), "one waits for another");
                thread::yield_now();
            }
            ended.fetch_add(1, Ordering::SeqCst);
            Ok(())
        };
        let broken = catch_unwind(AssertUnwindSafe(|| at_once(Lane::ALL.map(|lane| (lane, ())), work)));
        assert_eq!(broken.unwrap_err().downcast_ref::<&str>(), Some(&"broken"));
        assert_eq!(ended.into_inner(), Lane::ALL.len() - 1);
    }
}
