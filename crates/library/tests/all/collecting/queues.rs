//! Queues of work: passes skip emptied buckets, and whatever happens to marks and clocks, no record
//! is skipped.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use heads::{Queue, keys};
use store::{
    Call, Class, Clock, Deadline, Expect, Guard, NewRow, Removal, Step, Store, Table, UnixMillis, ValueKind, envelope,
};

use super::common::{HOUR, collect, generations, records};
use crate::support::{Faulty, START, faulty, import, volume};

const MINUTE: Duration = Duration::from_secs(60);

fn bucket(time: UnixMillis) -> u32 {
    u32::try_from(time.0 / 600_000).unwrap()
}

/// The buckets of the queue that were read since the last call.
fn buckets_read(faulty: &Faulty) -> BTreeSet<u32> {
    let scanned = faulty.store.take_scanned().into_iter().filter(|(table, _)| *table == Table::Work);
    scanned.filter_map(|(_, partition)| keys::queue_bucket(&partition, Queue::Collecting.name())).collect()
}

/// Puts a low-water mark of the queue, unless there is one.
async fn put_mark(faulty: &Faulty, bucket: u32) {
    let step = Step::CompareAndWrite {
        table: Table::Work,
        partition: keys::low_water_partition(),
        sort: keys::low_water(Queue::Collecting.name()),
        expect: Expect::Absent,
        guard: Guard { stamp: faulty.library.heads.stamp(), tag: Bytes::new() },
        value: envelope::seal(ValueKind::LowWater, &bucket.to_be_bytes()),
    };
    faulty.store.run(call(), vec![step]).await.unwrap();
}

/// The bucket that the low-water mark of the queue names.
fn marked(faulty: &Faulty) -> u32 {
    let (partition, sort) = (keys::low_water_partition(), keys::low_water(Queue::Collecting.name()));
    let value = faulty.store.row(Table::Work, &partition, &sort).unwrap();
    u32::from_be_bytes(envelope::open(ValueKind::LowWater, &value).unwrap()[..].try_into().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_that_was_emptied_is_never_read_again() {
    let faulty = faulty().await;
    for n in 0..3 {
        import(&faulty.library, volume("t.a", &[&n.to_string()])).await.unwrap();
        faulty.clock.advance(MINUTE);
    }
    let mut latest_first = 0;
    for _ in 0..5 * 24 {
        faulty.clock.advance(HOUR);
        collect(&faulty.library).await;
        let read = buckets_read(&faulty);
        let first = *read.first().unwrap();
        assert!(first >= latest_first, "a pass went back to {first}");
        latest_first = first;
        assert_eq!(read.last(), Some(&bucket(faulty.clock.now())));
    }
    assert_eq!((records(&faulty), generations(&faulty).len()), (0, 1));
    let first = UnixMillis(faulty.clock.now().0 - 2 * 3_600_000);
    assert!(latest_first >= bucket(first), "all but the last buckets are left behind");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_is_put_late_into_a_bucket_that_passes_found_empty_is_found() {
    let faulty = faulty().await;
    import(&faulty.library, volume("t.a", &["old"])).await.unwrap();
    import(&faulty.library, volume("t.a", &["new"])).await.unwrap();
    let gone: Vec<_> = faulty.store.partitions(Table::Work);
    let record = gone.iter().find(|partition| keys::queue_bucket(partition, "collecting").is_some()).unwrap().clone();
    let sort = faulty.store.sorts(Table::Work, &record)[0].clone();
    // The record arrives half an hour later, while passes look for it.
    let run = async |step| faulty.store.run(call(), vec![step]).await.unwrap();
    let rows = Removal::Rows(vec![sort.clone()]);
    run(Step::Remove { table: Table::Work, partition: record.clone(), rows }).await;
    for _ in 0..30 {
        faulty.clock.advance(MINUTE);
        assert_eq!(collect(&faulty.library).await.condemned, 0);
    }
    let rows = vec![NewRow::new(sort, envelope::seal(ValueKind::VolumeWork, &[]))];
    run(Step::Put { table: Table::Work, partition: record, rows }).await;
    assert_eq!(collect(&faulty.library).await.condemned, 1);
}

fn call() -> Call {
    Call::new(Class::Description, Deadline::within(Duration::from_secs(60)))
}

#[tokio::test(flavor = "multi_thread")]
async fn where_the_low_water_mark_is_lost_or_damaged_records_are_found_by_a_walk() {
    for is_lost in [true, false] {
        let faulty = faulty().await;
        // Days pass without work, and the mark follows. No engine takes a mark away, so no pass
        // writes the one that is lost.
        for _ in 0..3 {
            faulty.clock.advance(24 * HOUR);
            if !is_lost {
                collect(&faulty.library).await;
            }
        }
        import(&faulty.library, volume("t.a", &["old"])).await.unwrap();
        import(&faulty.library, volume("t.a", &["new"])).await.unwrap();
        // A walk finds the buckets with records, so no pass reads those of all these days.
        faulty.clock.advance(100 * 24 * HOUR);
        let mark = keys::low_water("collecting");
        if !is_lost {
            let rubbish = || Some(Bytes::from_static(b"rubbish"));
            faulty.store.tamper(|_, sort, value| if sort == &mark[..] { rubbish() } else { Some(value) });
        }
        assert_eq!(collect(&faulty.library).await.condemned, 1, "{is_lost}");
        faulty.store.take_scanned();
        for _ in 0..3 {
            faulty.clock.advance(24 * HOUR);
            collect(&faulty.library).await;
        }
        faulty.store.take_scanned();
        collect(&faulty.library).await;
        assert!(buckets_read(&faulty).len() < 24, "there is a mark again");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn once_a_clock_that_was_ahead_is_right_records_are_found_and_the_mark_is_put_back() {
    let faulty = faulty().await;
    put_mark(&faulty, bucket(START)).await;
    faulty.clock.advance(24 * HOUR);
    collect(&faulty.library).await;
    assert!(marked(&faulty) > bucket(UnixMillis(START.0 + 23 * 3_600_000)), "the mark follows the clock");
    faulty.clock.set(START);
    import(&faulty.library, volume("t.a", &["old"])).await.unwrap();
    import(&faulty.library, volume("t.a", &["new"])).await.unwrap();
    assert_eq!(collect(&faulty.library).await.condemned, 1);
    assert!(marked(&faulty) <= bucket(START), "the next pass would skip records");
    // The mark moves as before.
    faulty.clock.advance(2 * HOUR);
    collect(&faulty.library).await;
    assert!((bucket(START) + 1..bucket(faulty.clock.now())).contains(&marked(&faulty)));
    faulty.store.take_scanned();
    collect(&faulty.library).await;
    assert!(buckets_read(&faulty).len() < 12, "a pass reads what was empty");
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_clock_that_was_far_behind_a_pass_does_not_read_all_buckets_since() {
    let faulty = faulty().await;
    put_mark(&faulty, bucket(START)).await;
    faulty.clock.set(UnixMillis(START.0 - 60 * 24 * 3_600_000));
    collect(&faulty.library).await;
    assert!(marked(&faulty) < bucket(START), "the mark follows the clock");
    faulty.clock.set(UnixMillis(START.0 + 3_600_000));
    faulty.store.take_scanned();
    collect(&faulty.library).await;
    let read = buckets_read(&faulty);
    assert!(read.len() < 12, "{read:?}");
    assert!(marked(&faulty) >= bucket(START));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mark_of_a_server_whose_clock_is_ahead_as_far_as_is_allowed_stays() {
    let faulty = faulty().await;
    put_mark(&faulty, bucket(START)).await;
    let skew = faulty.library.options().clock_skew_max;
    faulty.clock.advance(HOUR);
    // At each minute of a bucket.
    for _ in 0..10 {
        faulty.clock.advance(MINUTE);
        let behind = faulty.clock.now();
        faulty.clock.advance(skew);
        collect(&faulty.library).await;
        let mark = marked(&faulty);
        faulty.clock.set(behind);
        collect(&faulty.library).await;
        assert_eq!(marked(&faulty), mark, "it was taken for a mark of the future");
    }
    import(&faulty.library, volume("t.a", &["old"])).await.unwrap();
    import(&faulty.library, volume("t.a", &["new"])).await.unwrap();
    faulty.clock.advance(skew);
    assert_eq!(collect(&faulty.library).await.condemned, 1);
}
