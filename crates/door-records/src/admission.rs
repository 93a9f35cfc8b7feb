//! Which commands are at work, and which are refused because they would wait too long.
//!
//! So many commands are at work at once. A further one waits for a place, in the order in which they
//! came. But if those before it take so long that it cannot end by its deadline, it is refused at
//! once: its client learns that earlier, and the others do not wait for a command that nobody waits
//! for any more.
//!
//! Commands are expected to take as long as the last ones did, or as long as no place has come free.
//! Another one is expected to wait for its part of that, by the number of those that wait. Only the
//! wait counts, because it may itself be faster than those before it: they may all wait for one
//! record. While there are places for it, none is refused: so a server that was overloaded notices
//! when it is not.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use store::Deadline;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout_at};

/// A command changes the time that the next ones are expected to take by this part of the
/// difference.
const WEIGHT: f64 = 1.0 / 64.0;

/// Admits commands.
pub(crate) struct Admission {
    places: usize,
    free: Semaphore,
    waiting: AtomicUsize,
    measured: Mutex<Measured>,
}

struct Measured {
    /// The time that the last commands took, in seconds.
    taken_s: f64,
    /// When the last place was taken.
    last_began: Instant,
}

/// Why a command gets no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoPlace {
    /// It would not end by its deadline.
    Overloaded,
    /// There was none by its deadline.
    Late,
}

/// Places among the commands that are at work.
pub(crate) struct Places<'a> {
    admission: &'a Admission,
    began: Instant,
    _permit: SemaphorePermit<'a>,
}

impl Drop for Places<'_> {
    fn drop(&mut self) {
        let taken_s = self.began.elapsed().as_secs_f64();
        let mut measured = self.admission.measured.lock();
        measured.taken_s += (taken_s - measured.taken_s) * WEIGHT;
    }
}

/// Commands that wait.
struct Waiting<'a> {
    waiting: &'a AtomicUsize,
    commands: usize,
}

impl<'a> Waiting<'a> {
    fn new(waiting: &'a AtomicUsize, commands: usize) -> Self {
        waiting.fetch_add(commands, Ordering::Relaxed);
        Self { waiting, commands }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.waiting.fetch_sub(self.commands, Ordering::Relaxed);
    }
}

impl Admission {
    /// So many commands are at work at once.
    pub(crate) fn new(places: usize) -> Self {
        let measured = Mutex::new(Measured { taken_s: 0.0, last_began: Instant::now() });
        Self { places, free: Semaphore::new(places), waiting: AtomicUsize::new(0), measured }
    }

    /// Places for commands that run as one, as soon as there are so many.
    pub(crate) async fn places(&self, commands: usize, deadline: Deadline) -> Result<Places<'_>, NoPlace> {
        let places = u32::try_from(commands.min(self.places)).unwrap_or(u32::MAX);
        let permit = match self.free.try_acquire_many(places) {
            Ok(permit) => permit,
            Err(_) if self.expected() > deadline.remaining() => return Err(NoPlace::Overloaded),
            Err(_) => {
                let _waiting = Waiting::new(&self.waiting, commands);
                let permit = timeout_at(deadline.0, self.free.acquire_many(places)).await;
                permit.ok().and_then(Result::ok).ok_or(NoPlace::Late)?
            }
        };
        let began = Instant::now();
        self.measured.lock().last_began = began;
        Ok(Places { admission: self, began, _permit: permit })
    }

    /// The time that another command would wait, while all places are taken.
    fn expected(&self) -> Duration {
        let waiting = self.waiting.load(Ordering::Relaxed) + 1;
        let measured = self.measured.lock();
        let since_last_s = measured.last_began.elapsed().as_secs_f64();
        let wait_s = measured.taken_s.max(since_last_s) * waiting as f64 / self.places as f64;
        Duration::try_from_secs_f64(wait_s.max(since_last_s)).unwrap_or(Duration::MAX)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::pin::pin;

    use futures::FutureExt;
    use tokio::time::{advance, sleep};

    use super::*;

    fn within(ms: u64) -> Deadline {
        Deadline::within(Duration::from_millis(ms))
    }

    /// Why there is no place now; `None`: there is one, or it is waited for.
    async fn refused(admission: &Admission, ms: u64) -> Option<NoPlace> {
        pin!(admission.places(1, within(ms))).now_or_never().and_then(Result::err)
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_is_refused_while_a_place_is_free_and_an_idle_time_counts_nothing() {
        let admission = Admission::new(2);
        let slow = admission.places(1, within(1_000)).await.unwrap();
        advance(Duration::from_secs(100)).await;
        assert_eq!(refused(&admission, 1).await, None);
        drop(slow);
        sleep(Duration::from_secs(100)).await;
        let _places = [admission.places(1, within(1)).await.unwrap(), admission.places(1, within(1)).await.unwrap()];
        assert_eq!(refused(&admission, 10_000).await, None, "one slow command says little");
    }

    #[tokio::test(start_paused = true)]
    async fn a_command_is_refused_once_those_at_work_have_taken_longer_than_it_may() {
        let admission = Admission::new(2);
        let places =
            [admission.places(1, within(1_000)).await.unwrap(), admission.places(1, within(1_000)).await.unwrap()];
        assert_eq!(refused(&admission, 20).await, None);
        advance(Duration::from_millis(21)).await;
        assert_eq!(refused(&admission, 20).await, Some(NoPlace::Overloaded));
        assert_eq!(refused(&admission, 100).await, None);
        drop(places);
        assert_eq!(refused(&admission, 1).await, None, "a place is free");
    }

    #[tokio::test(start_paused = true)]
    async fn the_more_commands_wait_the_earlier_another_is_refused() {
        let admission = Admission::new(2);
        let _places =
            [admission.places(1, within(1_000)).await.unwrap(), admission.places(1, within(1_000)).await.unwrap()];
        advance(Duration::from_millis(10)).await;
        let mut waiting: Vec<_> = (0..6).map(|_| Box::pin(admission.places(1, within(1_000)))).collect();
        for wait in &mut waiting {
            assert!(wait.now_or_never().is_none());
        }
        // 10 ms for each two of the seven that wait.
        assert_eq!(refused(&admission, 34).await, Some(NoPlace::Overloaded));
        assert_eq!(refused(&admission, 36).await, None);
        waiting.truncate(1);
        assert_eq!(refused(&admission, 34).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn commands_are_refused_by_how_long_the_last_ones_took_until_they_are_fast_again() {
        let admission = Admission::new(1);
        for _ in 0..1_000 {
            let place = admission.places(1, within(1_000)).await.unwrap();
            advance(Duration::from_millis(50)).await;
            drop(place);
        }
        let place = admission.places(1, within(1_000)).await.unwrap();
        assert_eq!(refused(&admission, 49).await, Some(NoPlace::Overloaded));
        drop(place);
        for _ in 0..1_000 {
            drop(admission.places(1, within(1_000)).await.unwrap());
        }
        let _place = admission.places(1, within(1_000)).await.unwrap();
        assert_eq!(refused(&admission, 50).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_fast_command_waits_although_all_places_are_taken_by_slow_ones() {
        let admission = Admission::new(100);
        // Each takes a second, and one of them ends every ten milliseconds.
        let mut places = std::collections::VecDeque::new();
        for _ in 0..1_000 {
            if places.len() == 100 {
                places.pop_front();
            }
            places.push_back(admission.places(1, within(60_000)).await.unwrap());
            advance(Duration::from_millis(10)).await;
        }
        assert_eq!(refused(&admission, 100).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn commands_that_run_as_one_wait_until_there_are_places_for_all_of_them() {
        let admission = Admission::new(3);
        let [first, second] =
            [admission.places(1, within(9)).await.unwrap(), admission.places(1, within(9)).await.unwrap()];
        let mut waits = Box::pin(admission.places(2, within(9)));
        assert!((&mut waits).now_or_never().is_none());
        drop(first);
        let two = waits.await.unwrap();
        drop((second, two));
        // More than there are places take all.
        let _all = admission.places(100, within(9)).await.unwrap();
        assert!(matches!(admission.places(1, within(9)).await, Err(NoPlace::Late)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_command_that_waits_gets_its_place_or_is_late() {
        let admission = Admission::new(1);
        let place = admission.places(1, within(1_000)).await.unwrap();
        let began = Instant::now();
        assert!(matches!(admission.places(1, within(7)).await, Err(NoPlace::Late)));
        assert_eq!(began.elapsed(), Duration::from_millis(7));
        let mut waits = Box::pin(admission.places(1, within(100)));
        assert!((&mut waits).now_or_never().is_none());
        drop(place);
        assert!(waits.await.is_ok());
    }
}
