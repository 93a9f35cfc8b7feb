//! What an evaluation may use, and how it ends beyond that.
//!
//! The evaluator drops errors: an error inside of `EXISTS` counts as a solution, and one on the right
//! side of `MINUS` as none. So a meter does not return errors. It unwinds the stack to
//! [`stoppable`], and no operator between them can go on.
//!
//! The evaluator calls a meter wherever it reads, copies or compares a term of the graph or of its
//! own (`view.rs`), and at the gates that `cost/` puts into a pattern.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use oxrdf::{Literal, NamedNode, Term};
use rustix::time::{ClockId, clock_gettime};

use super::regex::{ALL_MATCHES, MATCH};
use super::room::HELD;
use super::{Cancellation, Room, UpdateError, too_much};
use crate::parse::Limits;

#[cfg(panic = "abort")]
compile_error!("an update that uses too much is stopped by unwinding its stack");

/// Work between two looks at the clock, in units of about a microsecond at most.
const WORK_PER_CHECK: usize = 4_096;

/// Bytes that are copied or compared in one unit of work.
const BYTES_PER_WORK: usize = 1_024;

/// Reads of the graph that are allowed for each solution.
const READS_PER_SOLUTION: usize = 10;

/// The error for which an evaluation was stopped.
struct Stopped(UpdateError);

/// Stops the evaluation, unless it is being stopped.
pub(super) fn stop(error: UpdateError) {
    if !std::thread::panicking() {
        resume_unwind(Box::new(Stopped(error)));
    }
}

/// Runs an evaluation, and returns the error for which it was stopped.
///
/// # Errors
/// That one, and those of the evaluation.
pub(super) fn stoppable<T>(evaluation: impl FnOnce() -> Result<T, UpdateError>) -> Result<T, UpdateError> {
    // What the evaluation changed is dropped with it, and a meter counts correctly at any time.
    match catch_unwind(AssertUnwindSafe(evaluation)) {
        Ok(result) => result,
        Err(payload) => match payload.downcast::<Stopped>() {
            Ok(stopped) => Err(stopped.0),
            Err(other) => resume_unwind(other),
        },
    }
}

/// Counts what the operations of an update use together. Only the thread that made it may use it.
pub(super) struct Meter {
    limits: Limits,
    cancellation: Cancellation,
    room: Room,
    /// Bytes that the update held before. This thread frees them, also if another allocated them.
    read_bytes: usize,
    /// Processor time of the thread before.
    cpu_before: Duration,
    /// Bytes that the thread held before.
    held_before: i64,
    /// Work since the last look at the clock.
    work: AtomicUsize,
    reads: AtomicUsize,
    /// Bytes of values that aggregates keep.
    kept: AtomicUsize,
    /// Bytes of matched texts times bytes of patterns.
    matched: AtomicUsize,
}

impl Meter {
    /// A meter of an update on this thread, from now on. So many bytes of it were read before.
    pub(super) fn new(limits: &Limits, cancellation: &Cancellation, room: &Room, read_bytes: usize) -> Self {
        Self {
            limits: *limits,
            cancellation: cancellation.clone(),
            room: room.clone(),
            read_bytes,
            cpu_before: cpu_time(),
            held_before: limits.held.map_or(0, |held| held()),
            work: AtomicUsize::new(0),
            reads: AtomicUsize::new(0),
            kept: AtomicUsize::new(0),
            matched: AtomicUsize::new(0),
        }
    }

    /// The limits of the update.
    pub(super) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Whether the update may go on.
    ///
    /// # Errors
    /// If it was cancelled, used more time or memory than allowed, or finds no memory.
    pub(super) fn check(&self) -> Result<(), UpdateError> {
        self.cancellation.check()?;
        let Limits { cpu, held_bytes, held, .. } = self.limits;
        if cpu_time().saturating_sub(self.cpu_before) >= cpu {
            let limit = usize::try_from(cpu.as_millis()).unwrap_or(usize::MAX);
            return Err(UpdateError::TooLarge { of: "milliseconds of computing", limit });
        }
        let more = held.map_or(0, |held| held().saturating_sub(self.held_before));
        if more > i64::try_from(held_bytes).unwrap_or(i64::MAX) {
            return Err(UpdateError::TooLarge { of: HELD, limit: held_bytes });
        }
        let all = more.saturating_add(i64::try_from(self.read_bytes).unwrap_or(i64::MAX));
        self.room.hold(usize::try_from(all).unwrap_or(0))
    }

    /// Counts units of work, and stops the evaluation if it may not go on.
    pub(super) fn work(&self, units: usize) {
        let is_due = !add(&self.work, units, WORK_PER_CHECK);
        if is_due {
            self.work.store(0, Ordering::Relaxed);
        }
        let may_go_on = if is_due { self.check() } else { self.cancellation.check() };
        may_go_on.unwrap_or_else(stop);
    }

    /// Counts bytes that are copied or compared.
    pub(super) fn copy(&self, bytes: usize) {
        self.work(1 + bytes / BYTES_PER_WORK);
    }

    /// Counts reads. Solutions of a path are found by following it in all ways, which can be very many
    /// more.
    pub(super) fn read(&self, reads: usize) {
        self.work(reads);
        let limit = self.limits.solutions;
        if !add(&self.reads, reads, limit.saturating_mul(READS_PER_SOLUTION)) {
            stop(UpdateError::TooLarge { of: "solutions that a path could have on its way", limit });
        }
    }

    fn keep(&self, bytes: usize) {
        self.copy(bytes);
        if !add(&self.kept, bytes, self.limits.expanded_bytes) {
            stop(too_much(&self.limits));
        }
    }

    fn match_text(&self, steps: usize) {
        self.work(1);
        if steps > MATCH || !add(&self.matched, steps, ALL_MATCHES) {
            stop(UpdateError::TooLarge { of: "steps of matching regular expressions", limit: ALL_MATCHES });
        }
    }
}

/// Adds to a sum, and returns whether that is within a limit.
fn add(sum: &AtomicUsize, more: usize, limit: usize) -> bool {
    // One thread alone adds.
    let sum_now = sum.load(Ordering::Relaxed).saturating_add(more);
    sum.store(sum_now, Ordering::Relaxed);
    sum_now <= limit
}

/// Processor time of this thread.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// A function in a pattern at which the evaluator calls the meter.
#[derive(Debug)]
pub(super) struct Gate {
    /// Its name.
    pub(super) name: NamedNode,
    /// What it counts.
    pub(super) guard: Guard,
}

/// What a gate counts before it lets its value pass.
#[derive(Clone, Copy, Debug)]
pub(super) enum Guard {
    /// A text is matched with a pattern.
    Match {
        /// Bytes of the compiled pattern.
        compiled_bytes: usize,
        /// Whether the rest of the text can be searched again after each match.
        is_repeated: bool,
    },
    /// An aggregate keeps the value.
    Keep {
        /// Bytes that come between this value and the next.
        separator_bytes: usize,
    },
    /// An expression is evaluated. It has no value, and `true` passes.
    Work {
        /// What that costs.
        units: usize,
    },
}

impl Guard {
    /// The function.
    pub(super) fn pass(self, meter: &Meter, arguments: &[Term]) -> Option<Term> {
        let text_bytes = match arguments.first() {
            Some(Term::Literal(literal)) => literal.value().len(),
            Some(Term::NamedNode(node)) => node.as_str().len(),
            Some(Term::BlankNode(_)) | None => 0,
        };
        match self {
            Self::Match { compiled_bytes, is_repeated } => {
                // A search costs a quarter of a step for each byte at least.
                let bytes = if is_repeated { compiled_bytes.max(text_bytes.saturating_mul(4)) } else { compiled_bytes };
                meter.match_text(text_bytes.saturating_mul(bytes));
            }
            Self::Keep { separator_bytes } => meter.keep(text_bytes.saturating_add(separator_bytes)),
            Self::Work { units } => {
                meter.work(units);
                return Some(Literal::from(true).into());
            }
        }
        arguments.first().cloned()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::atomic::AtomicI64;

    use super::*;

    fn text(bytes: usize) -> [Term; 1] {
        [Literal::new_simple_literal("x".repeat(bytes)).into()]
    }

    /// Whether texts pass a gate one after the other.
    fn passes(guard: Guard, texts: &[[Term; 1]]) -> Result<(), UpdateError> {
        let limits = Limits { expanded_bytes: 1_000, ..Limits::default() };
        let meter = Meter::new(&limits, &Cancellation::default(), &Room::default(), 0);
        stoppable(|| {
            texts.iter().for_each(|text| assert_eq!(guard.pass(&meter, text).as_ref(), text.first()));
            Ok(())
        })
    }

    #[test]
    fn a_replacement_in_a_long_text_costs_the_square_of_its_length() {
        let guard = |is_repeated| Guard::Match { compiled_bytes: 4 << 10, is_repeated };
        assert_eq!(passes(guard(false), &[text(100_000)]), Ok(()));
        assert_eq!(passes(guard(true), &[text(10_000)]), Ok(()));
        assert!(passes(guard(true), &[text(100_000)]).unwrap_err().is_too_large());
    }

    #[test]
    fn values_that_aggregates_keep_are_counted_together() {
        let guard = Guard::Keep { separator_bytes: 100 };
        assert_eq!(passes(guard, &[text(400), text(400)]), Ok(()));
        assert!(passes(guard, &[text(400), text(401)]).unwrap_err().is_too_large());
    }

    #[test]
    fn time_and_memory_are_looked_at_after_some_work() {
        let stopped = |limits: Limits, units: usize| {
            let meter = Meter::new(&limits, &Cancellation::default(), &Room::default(), 0);
            stoppable(|| {
                (0..units).for_each(|_| meter.work(1));
                Ok(())
            })
        };
        let no_time = Limits { cpu: Duration::ZERO, ..Limits::default() };
        assert_eq!(stopped(no_time, WORK_PER_CHECK), Ok(()));
        let error = stopped(no_time, WORK_PER_CHECK + 1).unwrap_err();
        assert_eq!(error.to_string(), "too large: more than 0 milliseconds of computing");
        // What a thread holds is counted from the start of the update.
        static HELD: AtomicI64 = AtomicI64::new(-500);
        let held: fn() -> i64 = || HELD.fetch_add(1, Ordering::Relaxed);
        let no_memory = Limits { held_bytes: 1, held: Some(held), ..Limits::default() };
        assert_eq!(stopped(no_memory, WORK_PER_CHECK + 1), Ok(()));
        let error = stopped(no_memory, 2 * (WORK_PER_CHECK + 1)).unwrap_err();
        assert_eq!(error.to_string(), "too large: more than 1 bytes held while it is evaluated");
        // It frees what another thread allocated.
        let freeing: fn() -> i64 = || -HELD.fetch_add(1, Ordering::Relaxed);
        let less = Limits { held_bytes: 0, held: Some(freeing), ..Limits::default() };
        assert_eq!(stopped(less, 3 * WORK_PER_CHECK), Ok(()));
    }

    #[test]
    fn an_evaluation_that_breaks_down_is_not_a_refusal() {
        let broken = catch_unwind(|| stoppable::<()>(|| resume_unwind(Box::new("broken"))));
        assert_eq!(broken.unwrap_err().downcast_ref::<&str>(), Some(&"broken"));
    }
}
