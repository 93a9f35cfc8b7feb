//! The behaviour suite: a function for each promise in the comments of [`crate::Store`], written
//! once against the trait.
//!
//! The test file of an engine makes [`Subject`]s and names the suites that it must pass:
//!
//! ```text
//! store::engine_suite!(fresh().await);      // every engine
//! store::behaviour_suite!(wrapped().await); // every wrapper
//! store::limits_suite!(limited().await);    // a store that enforces its limits
//! ```
//!
//! What a store declares as its [`Capabilities`](crate::Capabilities) selects the promises that
//! apply to it: a test of one that does not ends at once.
//!
//! Each suite makes a `#[tokio::test]` of each function, with a subject of its own, whose store is
//! empty.

#![allow(clippy::unwrap_used)] // These are tests: a broken promise panics.

pub mod by_clock;
pub mod contents;
pub mod copying;
pub mod damage;
pub mod expiry;
pub mod limits;
pub mod lists;
pub mod read_only;
pub mod reopening;
pub mod replacing;
pub mod rows;
pub mod steps;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use crate::{
    Call, Class, ContentId, Deadline, Direction, Expect, Guard, ManualClock, NewRow, Outcome, Removal, Row, Rows, Scan,
    Stamp, Step, Store, StoreResult, Table,
};

/// A store under test, empty at first, and its clock.
pub trait Subject: Send + Sync {
    /// The store.
    fn store(&self) -> Arc<dyn Store>;

    /// The clock with which it was opened.
    fn clock(&self) -> &ManualClock;
}

/// A subject whose store can be closed and opened again.
#[async_trait]
pub trait Reopening: Subject {
    /// Closes the store and opens it again, on the same data.
    async fn reopen(&mut self);

    /// Opens another store on the same data while the first is open.
    async fn open_another(&self) -> StoreResult<Arc<dyn Store>>;
}

/// A subject whose large contents can be damaged on disk.
#[async_trait]
pub trait Damaging: Subject {
    /// Flips a bit of the byte at `at`.
    async fn flip_bit(&self, id: ContentId, at: u64);

    /// Removes the bytes, but not the header that says that they are there.
    async fn lose_bytes(&self, id: ContentId);

    /// Exchanges the stored bytes of two contents of the same length.
    async fn exchange(&self, one: ContentId, other: ContentId);
}

/// How long a call of the suite may take: a bound against hanging, not a promise of speed.
const PATIENCE: Duration = Duration::from_secs(30);

fn call() -> Call {
    Call::new(Class::Description, Deadline::within(PATIENCE))
}

fn bytes(bytes: impl AsRef<[u8]>) -> Bytes {
    Bytes::copy_from_slice(bytes.as_ref())
}

fn guard(tag: &str) -> Guard {
    Guard { stamp: Stamp::fresh(), tag: bytes(tag) }
}

fn row(sort: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> NewRow {
    NewRow::new(bytes(sort), bytes(value))
}

fn put(partition: impl AsRef<[u8]>, rows: Vec<NewRow>) -> Step {
    Step::Put { table: Table::Objects, partition: bytes(partition), rows }
}

fn write_head(partition: impl AsRef<[u8]>, expect: Expect, guard: &Guard, value: impl AsRef<[u8]>) -> Step {
    Step::CompareAndWrite {
        table: Table::Objects,
        partition: bytes(partition),
        sort: bytes("head"),
        expect,
        guard: guard.clone(),
        value: bytes(value),
    }
}

fn remove(partition: impl AsRef<[u8]>, rows: Removal) -> Step {
    Step::Remove { table: Table::Objects, partition: bytes(partition), rows }
}

/// Common operations of the tests.
#[async_trait]
trait Shortcuts {
    /// Runs steps that must apply.
    async fn applied(&self, steps: Vec<Step>);
    /// Runs steps that must be refused. Returns the index of the refused one and the row stored
    /// there.
    async fn refused(&self, steps: Vec<Step>) -> (usize, Option<Row>);
    /// The row at a key of the objects.
    async fn row(&self, partition: &str, sort: &str) -> Option<Row>;
    /// The value at a key of the objects.
    async fn value(&self, partition: &str, sort: &str) -> Option<Bytes>;
    /// A page of the objects.
    async fn page(&self, partition: &[u8], scan: Scan) -> Rows;
    /// All sort keys of a partition of the objects.
    async fn sorts(&self, partition: &[u8]) -> Vec<Bytes>;
}

#[async_trait]
impl Shortcuts for Arc<dyn Store> {
    async fn applied(&self, steps: Vec<Step>) {
        let outcome = self.run(call(), steps).await.unwrap();
        assert!(outcome.is_applied(), "{outcome:?}");
    }

    async fn refused(&self, steps: Vec<Step>) -> (usize, Option<Row>) {
        match self.run(call(), steps).await.unwrap() {
            Outcome::Refused { step, current } => (step, current),
            outcome => panic!("not refused, but {outcome:?}"),
        }
    }

    async fn row(&self, partition: &str, sort: &str) -> Option<Row> {
        self.get(call().strong(), Table::Objects, &bytes(partition), &bytes(sort)).await.unwrap()
    }

    async fn value(&self, partition: &str, sort: &str) -> Option<Bytes> {
        self.row(partition, sort).await.map(|row| row.value)
    }

    async fn page(&self, partition: &[u8], scan: Scan) -> Rows {
        self.scan(call().strong(), Table::Objects, &bytes(partition), scan).await.unwrap()
    }

    async fn sorts(&self, partition: &[u8]) -> Vec<Bytes> {
        let everything = whole(Direction::Forward, 1 << 20);
        all_rows(self, partition, everything).await.into_iter().map(|row| row.sort).collect()
    }
}

/// A scan of a whole partition.
fn whole(direction: Direction, max_bytes: usize) -> Scan {
    Scan { from: Bytes::new(), to: None, direction, max_bytes }
}

/// The rows of all pages of a scan.
async fn all_rows(store: &Arc<dyn Store>, partition: &[u8], scan: Scan) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut rest = Some(scan);
    while let Some(scan) = rest {
        let page = store.page(partition, scan.clone()).await;
        assert!(page.next.is_none() || !page.rows.is_empty(), "an empty page says that there is more");
        rest = scan.resumed(page.next);
        rows.extend(page.rows);
    }
    rows
}

/// Repeats `ask` until it returns something that another task brings about. Fails after
/// [`PATIENCE`].
async fn eventually<T>(mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = Deadline::within(PATIENCE);
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(!deadline.passed(), "it did not happen within {PATIENCE:?}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Keys that engines get wrong: empty, zeroes, ones, long, and keys that are prefixes of one
/// another.
fn odd_keys() -> Vec<Bytes> {
    let mut keys: Vec<Bytes> = [
        &b""[..],
        b"\x00",
        b"\x00\x00",
        b"\x00\x01",
        b"\x00\xFF",
        b"\x01",
        b"a",
        b"a\x00",
        b"a\x00b",
        b"ab",
        b"a/b|c%d\n",
        "ä€𝄞".as_bytes(),
        b"\xFE\xFF",
        b"\xFF",
        b"\xFF\x00",
        b"\xFF\xFF",
    ]
    .iter()
    .map(bytes)
    .collect();
    keys.push(bytes([0x00; 1000]));
    keys.push(bytes([b'z'; 4000]));
    keys.push(bytes([0xFF; 1000]));
    keys
}

/// Makes a `#[tokio::test]` of each named function of the suite. Used by the suites below.
#[doc(hidden)]
#[macro_export]
macro_rules! suite_tests {
    ($subject:expr; $($module:ident { $($name:ident)* })*) => {
        $($(
            #[tokio::test]
            async fn $name() {
                let mut subject = $subject;
                $crate::suite::$module::$name(&mut subject).await;
            }
        )*)*
    };
}

/// The promises of every engine and every wrapper. `$subject` makes a
/// [`Subject`](crate::suite::Subject); it may await.
#[macro_export]
macro_rules! behaviour_suite {
    ($subject:expr) => {
        $crate::suite_tests! { $subject;
            rows {
                many_ranges_are_returned_in_the_order_asked_for
                a_row_that_was_put_is_read_back
                values_are_kept_byte_for_byte
                tables_are_separate
                rows_come_in_the_order_of_their_sort_keys
                rows_come_backwards_when_asked
                a_range_begins_with_its_first_key_and_ends_before_its_last
                a_range_without_keys_is_empty
                a_prefix_finds_every_key_that_begins_with_it
                a_page_ends_with_the_row_that_reaches_its_bytes
                a_page_holds_a_row_however_few_its_bytes
                pages_visit_each_row_once_forward_and_backward
                the_last_page_says_that_nothing_is_left
                odd_keys_are_kept_apart_and_in_order
                a_partition_ends_where_the_next_begins
                many_rows_are_returned_in_the_order_asked_for
                a_walk_visits_each_partition_once
                a_walk_passes_over_emptied_partitions
                a_walk_with_rows_shows_each_row_at_the_empty_sort_key_once
                a_read_whose_deadline_has_passed_says_so
            }
            steps {
                putting_a_row_again_changes_nothing
                a_put_replaces_the_row_in_a_table_of_replaced_rows
                a_row_that_is_written_once_is_never_a_mixture
                removed_rows_are_gone
                removing_a_range_removes_the_rows_in_it
                removing_an_absent_row_is_no_error
                a_removed_row_can_be_put_again
                removals_leave_guarded_rows
                a_head_is_made_where_there_is_none
                a_head_is_not_made_twice
                a_head_changes_only_from_the_expected_stamp
                a_head_expected_where_there_is_none_is_refused
                a_plain_row_does_not_pass_for_a_head
                require_absent_and_present
                require_a_stamp
                require_a_tag
                contended_writers_count_exactly
                a_serial_read_finds_all_that_was_decided_before
                one_of_many_creators_wins
            }
            lists {
                an_empty_list_is_applied
                a_step_sees_the_steps_before_it
                a_list_stops_at_the_first_refused_step
                many_lists_at_once_are_all_applied
                a_write_after_its_deadline_reports_a_true_outcome
                a_healthy_store_refuses_no_writes
                a_write_is_as_durable_as_it_wants_or_refused_by_name
                a_write_that_lets_its_sync_wait_is_seen_at_once
                tables_of_one_lane_change_in_one_list
                a_list_across_lanes_is_refused_and_applies_nothing
                a_refused_list_leaves_nothing
                a_list_across_partitions_is_seen_whole
                a_refused_list_leaves_nothing_in_any_table_of_its_lane
            }
            replacing {
                a_row_is_replaced_only_if_it_is_as_it_was_read
                a_row_that_was_put_is_replaced
                an_expired_row_is_replaced_as_if_it_were_absent
                contended_replacements_count_exactly
            }
            by_clock {
                each_step_counts_more_than_the_one_before_it
                a_list_replaces_what_is_as_it_was_read_or_changes_nothing
                a_row_that_is_replaced_by_the_clock_expires
                a_list_by_the_clock_has_one_partition
            }
            expiry {
                a_row_is_gone_at_its_deadline_without_a_sweep
                a_row_is_there_until_its_deadline
                a_row_says_when_it_expires
                expired_rows_do_not_end_a_scan
                a_walk_passes_over_partitions_that_have_expired
                an_expired_row_is_absent_for_conditions
                a_row_that_is_replaced_expires_as_its_last_put_says
                a_sweep_changes_no_read_and_leaves_nothing_for_the_next
            }
            contents {
                a_content_comes_back_byte_for_byte
                a_content_keeps_the_id_that_it_is_given
                an_id_that_is_taken_is_refused
                an_empty_content_is_a_content
                a_range_of_a_content_is_clipped_at_its_end
                a_sealed_content_has_an_owner_and_a_length
                an_unknown_content_is_none
                nothing_of_a_failed_upload_is_readable
                an_upload_under_its_lease_is_not_condemned
                a_silent_upload_is_condemned_and_cannot_be_sealed
                an_upload_that_ends_during_a_sweep_stays
                the_lease_is_renewed_while_bytes_come_in
                a_condemned_content_is_not_readable
                only_a_condemned_content_is_deleted
                a_header_that_cannot_be_read_keeps_no_other_content_from_being_swept
            }
        }
    };
}

/// The promises of every engine: those of [`behaviour_suite!`](crate::behaviour_suite), and those
/// about closing, opening again and damage. `$subject` makes a subject that is
/// [`Reopening`](crate::suite::Reopening) and [`Damaging`](crate::suite::Damaging).
#[macro_export]
macro_rules! engine_suite {
    ($subject:expr) => {
        $crate::behaviour_suite!($subject);
        $crate::suite_tests! { $subject;
            reopening {
                reopening_keeps_every_acknowledged_row
                closing_syncs_what_was_acknowledged
                reopening_keeps_removals
                reopening_keeps_contents
                reopening_keeps_expiries
                a_second_opener_is_refused_unless_the_store_is_shared
                a_closed_store_refuses_calls
            }
            damage {
                a_flipped_bit_of_a_content_is_reported_and_never_handed_out
                a_content_whose_bytes_are_missing_is_damaged_and_not_absent
                the_bytes_of_another_content_do_not_pass
            }
        }
    };
}

/// The promises of a read-only store above every engine.
#[macro_export]
macro_rules! read_only_suite {
    ($subject:expr) => {
        $crate::suite_tests! { $subject;
            read_only {
                a_read_only_store_refuses_changes_and_says_why
                the_audit_of_a_read_only_store_goes_on
                other_processes_learn_that_it_is_read_only
                a_change_that_is_under_way_is_waited_for
                a_look_that_finds_nothing_new_waits_for_no_change
                a_lease_ends_by_itself_unless_it_is_renewed
                a_store_whose_state_is_unknown_refuses_changes_even_after_a_lease
            }
        }
    };
}

/// The promises of copying from one engine into another. `$source` and `$target` make a
/// [`Subject`](crate::suite::Subject) each.
#[macro_export]
macro_rules! copying_suite {
    ($source:expr, $target:expr) => {
        $crate::copying_tests! { $source, $target;
            everything_arrives_unchanged
            the_next_pass_finds_what_changed_meanwhile
            an_interrupted_copy_goes_on
            a_pass_that_goes_on_where_another_stopped_does_not_show_that_nothing_is_left
            packs_that_are_all_removed_beside_rows_that_stay_are_removed_at_the_end
            many_partitions_arrive_whether_they_are_small_or_large
            a_finished_copy_is_known_as_such
            a_target_that_holds_something_else_is_refused
            an_unfinished_copy_of_another_store_is_refused
            the_target_takes_no_changes_before_the_copy_ends
            a_row_that_arrives_changed_is_reported
            a_head_can_be_changed_from_the_stamp_it_had
            what_is_named_is_copied_alone
        }
    };
}

/// Makes a `#[tokio::test]` of each function about copying. Used by the suite above.
#[doc(hidden)]
#[macro_export]
macro_rules! copying_tests {
    ($source:expr, $target:expr; $($name:ident)*) => {
        $(
            #[tokio::test]
            async fn $name() {
                let (mut source, mut target) = ($source, $target);
                $crate::suite::copying::$name(&mut source, &mut target).await;
            }
        )*
    };
}

/// The promises of a store that enforces its [`Limits`](crate::Limits).
#[macro_export]
macro_rules! limits_suite {
    ($subject:expr) => {
        $crate::suite_tests! { $subject;
            limits {
                a_size_at_its_limit_is_accepted
                a_value_over_its_limit_is_refused_and_named
                a_key_over_its_limit_is_refused
                a_tag_over_its_limit_is_refused
                a_step_of_too_many_bytes_is_refused
                a_step_of_too_many_rows_is_refused
                a_list_of_too_many_steps_is_refused
                a_list_over_a_limit_applies_nothing
                an_expiry_in_a_table_of_lasting_rows_is_refused
            }
            replacing {
                a_row_that_is_written_once_is_not_replaced
            }
        }
    };
}
