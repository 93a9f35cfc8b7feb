//! Reads of rows that are probably cached, by the engine or by the operating system: places for
//! them on their callers' threads. In a store that lets all syncs wait, small writes take them too,
//! and in any store those of the audit whose sync may wait.

use std::cell::Cell;
use std::ffi::c_long;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use tokio::runtime::Handle;

/// A read of a few rows that takes this long had to wait for the disk or for a processor.
const SLOW: Duration = Duration::from_millis(1);

/// The additional time for each KiB of a larger read: three times what it takes from the operating
/// system's cache.
const SLOW_PER_KIB: Duration = Duration::from_micros(2);

/// How long further reads are assumed to be slow once enough were.
const SLOW_FOR: Duration = Duration::from_secs(1);

/// The weight of a slow read against prompt ones: one in sixteen is too many.
const WEIGHT: i64 = 16;

/// The balance above which reads are slow.
const TOO_MANY: i64 = 3 * WEIGHT;

/// A read that has not ended after this time stalls.
const STALLED: Duration = Duration::from_millis(20);

/// How often the watch looks for reads that stall.
const LOOK: Duration = Duration::from_millis(10);

/// How long others are assumed to be slow once the watch has seen one that stalls.
const SLOW_AFTER_STALL: Duration = Duration::from_millis(50);

/// After so many looks that see no read, the watch sleeps until one begins.
const QUIET_LOOKS: u32 = 10;

/// File systems whose reads the system counts for the thread that waits for them, by their number
/// in `statfs`: ext4, XFS, Btrfs, F2FS, NFS, tmpfs, and overlays of them.
const COUNTED: [u64; 7] = [0xEF53, 0x5846_5342, 0x9123_683E, 0xF2F5_2010, 0x6969, 0x0102_1994, 0x794C_7630];

/// In a slot: nobody has the place.
const FREE: u64 = 0;

/// Numbers the threads that read.
static THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// The slot at which a thread begins to look for a free one. So threads seldom meet.
    static FIRST_SLOT: usize = THREADS.fetch_add(1, Ordering::Relaxed);

    /// How often a thread had read from a disk when it asked last.
    static DISK_READS: Cell<c_long> = const { Cell::new(0) };
}

/// Whether the system counts what a thread reads from files in this folder. It does not for FUSE,
/// for example: another process reads there.
fn is_counted(folder: &Path) -> bool {
    rustix::fs::statfs(folder).is_ok_and(|found| COUNTED.contains(&(found.f_type as u64 & 0xFFFF_FFFF)))
}

/// Whether this thread has read from a disk since it asked last. It counts as so if the system does
/// not report.
fn has_read_from_disk() -> bool {
    getrusage(UsageWho::RUSAGE_THREAD).ok().is_none_or(|usage| {
        let reads = usage.block_reads();
        DISK_READS.replace(reads) != reads
    })
}

/// How often this thread has given up its processor to wait for something; `None`: the system does
/// not report. It does not count when the scheduler interrupts the thread.
fn waits_of_thread() -> Option<c_long> {
    getrusage(UsageWho::RUSAGE_THREAD).ok().map(|usage| usage.voluntary_context_switches())
}

/// Hands out places for reads on their callers' threads, times these reads, and advises against
/// them while they wait for the disk. Threads that serve others are then delayed by a few reads
/// only, and after that by one per second. A read without a place belongs on a thread that may
/// block.
///
/// While all processors are at work, many reads and writes are slow that were only interrupted.
/// Those say nothing of the disk: further threads would not end them earlier, and would take
/// processors too. Where the system does not report which, each slow one counts.
///
/// If the disk does not answer at all, such a read keeps its thread. There are fewer places than
/// workers of the runtime, so one of them goes on to serve others and to keep deadlines. That
/// worker may be asleep: Tokio wakes none when the worker that waited for timers and sockets begins
/// a task, and nobody waits for them until that task ends. So a thread, the watch, wakes one while
/// a read stalls.
pub(crate) struct Promptness {
    reads: Arc<Reads>,
    /// Slow reads by weight, minus prompt ones.
    balance: AtomicI64,
    /// Whether the system reports which reads and writes waited for the disk.
    is_counted: bool,
    /// `None`: there is no other worker to wake.
    watch: Option<JoinHandle<()>>,
}

/// What the watch sees.
struct Reads {
    begun: Instant,
    /// In microseconds since `begun`.
    slow_until: AtomicU64,
    slots: Box<[Slot]>,
    /// Whether the watch sleeps.
    is_asleep: AtomicBool,
    /// Whether the watch should end.
    is_ended: AtomicBool,
}

/// When the read at a place began, in microseconds as above, or [`FREE`]. It has a cache line of
/// its own, because each thread writes to another one.
#[repr(align(64))]
struct Slot(AtomicU64);

/// What a look shows.
#[derive(Debug, PartialEq)]
enum Look {
    /// No read is at a place.
    Quiet,
    Reading,
    /// At least one read stalls.
    Stalled,
}

/// A place for one read on its caller's thread. It is given back when the read has ended.
pub(crate) struct Place<'a> {
    prompt: &'a Promptness,
    slot: &'a Slot,
    from: Duration,
}

impl Promptness {
    /// Places for as many reads of files in `folder` as there are processors, but for fewer than the
    /// workers of the runtime that this thread belongs to. A runtime of one worker has one place.
    ///
    /// Errors: the operating system gives no thread for the watch.
    pub(crate) fn start(folder: &Path) -> io::Result<Self> {
        let runtime = Handle::try_current().ok();
        let workers = runtime.as_ref().map_or(1, |runtime| runtime.metrics().num_workers());
        let processors = thread::available_parallelism().map_or(1, usize::from);
        let mut prompt = Self::with(processors.min(workers.saturating_sub(1)), runtime.filter(|_| workers > 1))?;
        prompt.is_counted = is_counted(folder);
        Ok(prompt)
    }

    /// At least one place. The watch wakes workers of `runtime`.
    fn with(places: usize, runtime: Option<Handle>) -> io::Result<Self> {
        let reads = Arc::new(Reads {
            begun: Instant::now(),
            slow_until: AtomicU64::new(0),
            slots: (0..places.max(1)).map(|_| Slot(AtomicU64::new(FREE))).collect(),
            is_asleep: AtomicBool::new(false),
            is_ended: AtomicBool::new(false),
        });
        let start = |runtime: Handle| {
            let reads = reads.clone();
            thread::Builder::new().name("watch-reads".to_owned()).spawn(move || reads.watch(&runtime))
        };
        let watch = runtime.map(start).transpose()?;
        Ok(Self { reads, balance: AtomicI64::new(0), is_counted: true, watch })
    }

    /// A place for a read of few rows, if recent reads were prompt and a place is free.
    pub(crate) fn place(&self) -> Option<Place<'_>> {
        let now = self.reads.begun.elapsed();
        if self.reads.is_prompt_at(now) { self.take(now) } else { None }
    }

    /// Whether recent reads were prompt.
    pub(crate) fn is_prompt(&self) -> bool {
        self.reads.is_prompt_at(self.reads.begun.elapsed())
    }

    fn take(&self, now: Duration) -> Option<Place<'_>> {
        let slot = self.reads.take_slot(now)?;
        let is_asleep = &self.reads.is_asleep;
        if is_asleep.load(Ordering::SeqCst)
            && is_asleep.swap(false, Ordering::SeqCst)
            && let Some(watch) = &self.watch
        {
            watch.thread().unpark();
        }
        Some(Place { prompt: self, slot, from: now })
    }

    /// Whether a slow read of this thread waited for the disk, as far as the system reports it.
    fn waited_for_disk(&self) -> bool {
        !self.is_counted || has_read_from_disk()
    }

    /// Learns from the time of a read or a write. One that was slow counts only if it
    /// `waited_for_disk`.
    fn learn_of(&self, from: Duration, to: Duration, waited_for_disk: impl FnOnce() -> bool) {
        if to.saturating_sub(from) < SLOW || waited_for_disk() {
            self.learn(from, to);
        }
    }

    /// A count lost between threads does not matter.
    fn learn(&self, from: Duration, to: Duration) {
        let balance = self.balance.load(Ordering::Relaxed);
        if to.saturating_sub(from) < SLOW {
            if balance > 0 {
                self.balance.store(balance - 1, Ordering::Relaxed);
            }
            return;
        }
        // After this time one more slow read is enough.
        self.balance.store((balance + WEIGHT).min(TOO_MANY), Ordering::Relaxed);
        if balance + WEIGHT >= TOO_MANY {
            self.reads.slow_until.store(micros(to + SLOW_FOR), Ordering::Relaxed);
        }
    }
}

impl Drop for Promptness {
    fn drop(&mut self) {
        self.reads.is_ended.store(true, Ordering::SeqCst);
        if let Some(watch) = self.watch.take() {
            watch.thread().unpark();
            if watch.join().is_err() {
                tracing::error!("the thread that watches reads panicked");
            }
        }
    }
}

impl Place<'_> {
    /// Reads a few rows, and learns from the time that takes.
    pub(crate) fn timed<T>(self, read: impl FnOnce() -> T) -> T {
        self.timed_of(0, read)
    }

    /// Reads at most `bytes_max` bytes, and learns from the time that takes.
    pub(crate) fn timed_of<T>(self, bytes_max: usize, read: impl FnOnce() -> T) -> T {
        let read = read();
        let to = self.prompt.reads.begun.elapsed();
        let kib = u32::try_from(bytes_max >> 10).unwrap_or(u32::MAX);
        let to = to.saturating_sub(SLOW_PER_KIB.saturating_mul(kib));
        self.prompt.learn_of(self.from, to, || self.prompt.waited_for_disk());
        read
    }

    /// Writes a little, and learns from the time that takes. A write may wait for the disk without
    /// reading from it, and what the system counts as written need not be on the disk yet. So a
    /// slow write waited if its thread gave up its processor. To ask takes less than a microsecond.
    pub(crate) fn timed_write<T>(self, write: impl FnOnce() -> T) -> T {
        let waits_before = waits_of_thread();
        let written = write();
        let has_waited = || !self.prompt.is_counted || waits_before.is_none() || waits_of_thread() != waits_before;
        self.prompt.learn_of(self.from, self.prompt.reads.begun.elapsed(), has_waited);
        written
    }

    /// Writes a little, and learns nothing: in a store that syncs, a write may wait for the syncs of
    /// others, which delay no read.
    pub(crate) fn untimed<T>(self, write: impl FnOnce() -> T) -> T {
        write()
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.slot.0.store(FREE, Ordering::Release);
    }
}

impl Reads {
    fn is_prompt_at(&self, now: Duration) -> bool {
        micros(now) >= self.slow_until.load(Ordering::Relaxed)
    }

    fn take_slot(&self, now: Duration) -> Option<&Slot> {
        let begun = micros(now).max(FREE + 1);
        let (before, from_first) = self.slots.split_at(FIRST_SLOT.with(|first| first % self.slots.len()));
        let take = |slot: &&Slot| slot.0.compare_exchange(FREE, begun, Ordering::SeqCst, Ordering::Relaxed).is_ok();
        from_first.iter().chain(before).find(take)
    }

    /// While a read stalls, advises against others, and wakes a worker again and again: one that
    /// was woken may begin a read that stalls too.
    fn watch(&self, runtime: &Handle) {
        let mut quiet_looks = 0;
        while !self.is_ended.load(Ordering::SeqCst) {
            if quiet_looks < QUIET_LOOKS {
                thread::park_timeout(LOOK);
            } else {
                self.sleep();
                quiet_looks = 0;
            }
            match self.look(self.begun.elapsed()) {
                Look::Quiet => quiet_looks += 1,
                Look::Reading => quiet_looks = 0,
                Look::Stalled => {
                    quiet_looks = 0;
                    drop(runtime.spawn(async {}));
                }
            }
        }
    }

    /// Returns when a read has begun, or earlier.
    fn sleep(&self) {
        self.is_asleep.store(true, Ordering::SeqCst);
        // A read that is not seen here sees that the watch sleeps.
        if self.look(self.begun.elapsed()) == Look::Quiet {
            thread::park();
        }
        self.is_asleep.store(false, Ordering::SeqCst);
    }

    /// Looks for reads that stall. While there is one, others are slow.
    fn look(&self, now: Duration) -> Look {
        let begun = self.slots.iter().map(|slot| slot.0.load(Ordering::SeqCst));
        let Some(oldest) = begun.filter(|begun| *begun != FREE).min() else { return Look::Quiet };
        if micros(now).saturating_sub(oldest) < micros(STALLED) {
            return Look::Reading;
        }
        self.slow_until.fetch_max(micros(now + SLOW_AFTER_STALL), Ordering::Relaxed);
        Look::Stalled
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// The longest time that a test waits.
    const PATIENCE: Duration = Duration::from_secs(60);

    fn at(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// So many places without a watch.
    fn places(places: usize) -> Promptness {
        Promptness::with(places, None).unwrap()
    }

    fn until(what: &str, is_so: impl Fn() -> bool) {
        let begun = Instant::now();
        while !is_so() {
            assert!(begun.elapsed() < PATIENCE, "{what}");
            thread::yield_now();
        }
    }

    #[test]
    fn many_slow_reads_advise_against_others_for_a_second() {
        let prompt = places(1);
        for n in 0..3 {
            assert!(prompt.reads.is_prompt_at(at(10 * n)), "{n} slow reads are not many");
            prompt.learn(at(10 * n), at(10 * n + 5));
        }
        assert!(!prompt.reads.is_prompt_at(at(25)));
        assert!(!prompt.reads.is_prompt_at(at(1_024)));
        assert!(prompt.reads.is_prompt_at(at(1_025)));
        prompt.learn(at(1_030), at(1_040));
        assert!(!prompt.reads.is_prompt_at(at(1_040)), "reads are still slow");
    }

    #[test]
    fn a_slow_read_among_many_prompt_ones_does_not_count_as_the_disk_s() {
        let prompt = places(1);
        for n in 0..1_000 {
            prompt.learn(at(n), at(n) + if n % 20 == 0 { at(3) } else { Duration::from_micros(900) });
            assert!(prompt.reads.is_prompt_at(at(n)), "{n}");
        }
    }

    #[test]
    fn slow_reads_that_only_waited_for_a_processor_advise_against_no_others() {
        let prompt = places(1);
        for n in 0..100 {
            prompt.learn_of(at(10 * n), at(10 * n + 5), || false);
            assert!(prompt.reads.is_prompt_at(at(10 * n + 5)), "{n}");
        }
        (100..103).for_each(|n| prompt.learn_of(at(10 * n), at(10 * n + 5), || true));
        assert!(!prompt.reads.is_prompt_at(at(1_025)), "the disk is slow");
    }

    /// Is busy for longer than what is slow.
    fn compute() {
        let begun = Instant::now();
        while begun.elapsed() < 2 * SLOW {
            std::hint::spin_loop();
        }
    }

    /// How much slow writes weigh after this one.
    fn weight_of(prompt: &Promptness, write: impl FnOnce()) -> i64 {
        prompt.take(prompt.reads.begun.elapsed()).unwrap().timed_write(write);
        prompt.balance.load(Ordering::Relaxed)
    }

    #[test]
    fn a_slow_write_that_only_computed_or_was_interrupted_does_not_count_as_the_disk_s() {
        // The thread may still wait for a part of the program.
        until("a write that computes counts again and again", || weight_of(&places(1), compute) == 0);
    }

    #[test]
    fn a_slow_write_that_waited_counts() {
        let wait = || thread::scope(|scope| drop(scope.spawn(compute)));
        // The other thread may have ended before this one begins to wait for it.
        until("a write that waits never counts", || weight_of(&places(1), wait) == WEIGHT);
    }

    #[test]
    fn a_thread_that_reads_nothing_from_a_disk_learns_so() {
        // The system may still read parts of the program.
        until("the thread reads from a disk again and again", || !has_read_from_disk());
    }

    #[test]
    fn where_the_system_does_not_count_reads_each_slow_one_waited_for_the_disk() {
        let mut prompt = places(1);
        prompt.is_counted = is_counted(Path::new("/proc"));
        assert!((0..3).all(|_| prompt.waited_for_disk()));
        assert_eq!(weight_of(&prompt, compute), WEIGHT, "and so did each slow write");
    }

    #[test]
    fn no_more_reads_have_a_place_than_there_are_and_each_gives_its_place_back() {
        let prompt = places(2);
        for _ in 0..3 {
            let (one, other) = (prompt.take(at(0)).unwrap(), prompt.take(at(0)).unwrap());
            assert!(prompt.take(at(0)).is_none());
            assert_eq!(one.timed(|| "row"), "row");
            let again = prompt.take(at(0)).unwrap();
            assert!(prompt.take(at(0)).is_none());
            drop((again, other));
        }
        assert_eq!(places(0).reads.slots.len(), 1);
    }

    #[test]
    fn threads_that_read_at_the_same_time_never_share_a_place() {
        let (prompt, reading) = (places(2), AtomicUsize::new(0));
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..1_000 {
                        let Some(_place) = prompt.take(at(0)) else { continue };
                        assert!(reading.fetch_add(1, Ordering::SeqCst) < 2);
                        thread::yield_now();
                        reading.fetch_sub(1, Ordering::SeqCst);
                    }
                });
            }
        });
        assert_eq!(prompt.reads.look(at(0)), Look::Quiet);
    }

    #[test]
    fn a_read_that_stalls_advises_against_others_until_it_ends() {
        let prompt = places(2);
        assert_eq!(prompt.reads.look(at(0)), Look::Quiet);
        let stalling = prompt.take(at(10)).unwrap();
        let other = prompt.take(at(25)).unwrap();
        assert_eq!(prompt.reads.look(at(29)), Look::Reading);
        assert!(prompt.reads.is_prompt_at(at(29)));
        for now in [30, 1_000, 5_000] {
            assert_eq!(prompt.reads.look(at(now)), Look::Stalled);
            assert!(!prompt.reads.is_prompt_at(at(now + 49)));
        }
        drop((stalling, other));
        assert_eq!(prompt.reads.look(at(5_010)), Look::Quiet);
        assert!(prompt.reads.is_prompt_at(at(5_050)));
    }

    #[test]
    fn a_watch_that_sleeps_sees_the_next_read_and_ends_with_the_places() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
        let prompt = Promptness::with(1, Some(runtime.handle().clone())).unwrap();
        let reads = prompt.reads.clone();
        until("the watch does not sleep", || reads.is_asleep.load(Ordering::SeqCst));
        let stalling = prompt.take(reads.begun.elapsed()).unwrap();
        until("the watch does not wake", || prompt.place().is_none() && !reads.is_prompt_at(reads.begun.elapsed()));
        drop(stalling);
        until("reads stay slow", || prompt.place().is_some());
        drop(prompt);
        assert_eq!(Arc::strong_count(&reads), 1);
    }
}
