//! What a thread has allocated, as jemalloc counts it.

use tikv_jemalloc_ctl::thread::{allocatedp, deallocatedp};

/// A function that returns the bytes that the calling thread holds: all that it allocated less what
/// it freed. None: another allocator serves this process, as in most tests, and jemalloc counts
/// nothing.
///
/// What one thread allocates and another one frees makes the number of the first too high and that
/// of the second too low. Of an update, one thread allocates everything while it is computed, and
/// nothing of that is freed elsewhere before its end. So the number is never too high, and no update
/// is refused for what it does not hold. The thread frees the text of the update, which another one
/// allocated. So the number can be too low by that: at most 64 MiB, with all names written out. In the
/// budget of memory it is counted apart (`rdf/src/update/meter.rs`).
pub(crate) fn held() -> Option<fn() -> i64> {
    let held: fn() -> i64 = held_bytes;
    // Every thread has allocated something before it comes here.
    let is_counted = allocatedp::read().is_ok_and(|bytes| bytes.get() > 0);
    is_counted.then_some(held)
}

/// The bytes that this thread holds. The counters are there, since one of them was read before.
fn held_bytes() -> i64 {
    let allocated_bytes = allocatedp::read().map_or(0, |bytes| bytes.get());
    let freed_bytes = deallocatedp::read().map_or(0, |bytes| bytes.get());
    allocated_bytes.wrapping_sub(freed_bytes).cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_says_what_a_thread_holds_where_jemalloc_is_not_the_allocator() {
        assert!(held().is_none());
        assert_eq!(held_bytes(), 0);
    }
}
