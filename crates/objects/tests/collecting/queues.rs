//! Queues of work: what was emptied is left behind, and whatever becomes of marks and clocks, no record is.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use objects::{CollectLimits, Queue, keys};
use store::{Call, Class, Clock, Deadline, NewRow, Removal, Step, Store, Table, UnixMillis, envelope};

use crate::support::{Faulty, START, faulty, fixture, import, volume};
use crate::{HOUR, collect, generations, records};

const MINUTE: Duration = Duration::from_secs(60);

fn bucket(time: UnixMillis) -> u32 {
    u32::try_from(time.0 / 600_000).unwrap()
}

/// The buckets of the queue that were read since this was asked last.
fn buckets_read(faulty: &Faulty) -> BTreeSet<u32> {
    let scanned = faulty.store.take_scanned().into_iter().filter(|(table, _)| *table == Table::Work);
    scanned.filter_map(|(_, partition)| keys::queue_bucket(&partition, Queue::Collecting.name())).collect()
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
    // It takes half an hour until the record arrives, while passes look for it.
    let run = async |step| faulty.store.run(call(), vec![step]).await.unwrap();
    let rows = Removal::Rows(vec![sort.clone()]);
    run(Step::Remove { table: Table::Work, partition: record.clone(), rows }).await;
    for _ in 0..30 {
        faulty.clock.advance(MINUTE);
        assert_eq!(collect(&faulty.library).await.condemned, 0);
    }
    let rows = vec![NewRow::new(sort, envelope::seal(&[]))];
    run(Step::Put { table: Table::Work, partition: record, rows }).await;
    assert_eq!(collect(&faulty.library).await.condemned, 1);
}

fn call() -> Call {
    Call::new(Class::Description, Deadline::within(Duration::from_secs(10)))
}

#[tokio::test(flavor = "multi_thread")]
async fn where_the_low_water_mark_is_lost_or_damaged_records_are_found_by_a_walk() {
    for is_lost in [true, false] {
        let faulty = faulty().await;
        // Days go by without work, so that the mark stands behind them, and then without a pass.
        for _ in 0..3 {
            faulty.clock.advance(24 * HOUR);
            collect(&faulty.library).await;
            collect(&faulty.library).await;
        }
        import(&faulty.library, volume("t.a", &["old"])).await.unwrap();
        import(&faulty.library, volume("t.a", &["new"])).await.unwrap();
        faulty.clock.advance(100 * 24 * HOUR);
        let mark = keys::low_water("collecting");
        faulty.store.tamper(|_, sort, value| match sort == &mark[..] {
            true => (!is_lost).then(|| Bytes::from_static(b"rubbish")),
            false => Some(value),
        });
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
async fn after_a_hundred_thousand_imports_of_a_day_the_collector_finds_the_one_that_left_something() {
    const IMPORTS: usize = 100_000;
    let fixture = fixture().await;
    let shards = usize::from(Queue::Collecting.shards());
    let buckets = 24 * 6;
    let mut removals = Vec::new();
    for n in 0..buckets * shards {
        let (bucket, shard) = (bucket(START) + u32::try_from(n / shards).unwrap(), u8::try_from(n % shards).unwrap());
        let partition = keys::queue(Queue::Collecting.name(), bucket, shard);
        let sorts: Vec<_> =
            (0..IMPORTS.div_ceil(buckets * shards)).map(|m| Bytes::from(format!("{m:016} mdp.{n}"))).collect();
        let rows = sorts.iter().map(|sort| NewRow::new(sort.clone(), envelope::seal(&[]))).collect();
        let put = Step::Put { table: Table::Work, partition: partition.clone(), rows };
        removals.push(Step::Remove { table: Table::Work, partition, rows: Removal::Rows(sorts) });
        fixture.store.run(call(), vec![put]).await.unwrap();
    }
    for steps in removals.chunks(100) {
        assert!(fixture.store.run(call(), steps.to_vec()).await.unwrap().is_applied());
    }
    fixture.clock.advance(12 * HOUR);
    import(&fixture.library, volume("t.a", &["old"])).await.unwrap();
    import(&fixture.library, volume("t.a", &["new"])).await.unwrap();
    fixture.clock.advance(12 * HOUR);
    let collected = fixture.library.collect_once(CollectLimits::default()).await.unwrap();
    assert_eq!((collected.condemned, collected.failed), (1, 0));
}
