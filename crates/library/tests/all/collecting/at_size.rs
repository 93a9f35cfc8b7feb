//! A day of imports, over any engine.

use std::time::Duration;

use bytes::Bytes;
use heads::{Queue, keys};
use store::{Call, Class, Deadline, NewRow, Removal, Step, Table, UnixMillis, ValueKind, envelope};
use volumes::CollectLimits;

use super::common::HOUR;
use crate::support::{START, import, lone_fixture, volume};

fn bucket(time: UnixMillis) -> u32 {
    u32::try_from(time.0 / 600_000).unwrap()
}

fn call() -> Call {
    Call::new(Class::Description, Deadline::within(Duration::from_secs(60)))
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_hundred_thousand_imports_of_a_day_the_collector_finds_the_one_that_left_something() {
    const IMPORTS: usize = 100_000;
    let fixture = lone_fixture().await;
    let shards = usize::from(Queue::Collecting.shards());
    let buckets = 24 * 6;
    let mut removals = Vec::new();
    for n in 0..buckets * shards {
        let (bucket, shard) = (bucket(START) + u32::try_from(n / shards).unwrap(), u8::try_from(n % shards).unwrap());
        let partition = keys::queue(Queue::Collecting.name(), bucket, shard);
        let sorts: Vec<_> =
            (0..IMPORTS.div_ceil(buckets * shards)).map(|m| Bytes::from(format!("{m:016} mdp.{n}"))).collect();
        let rows =
            sorts.iter().map(|sort| NewRow::new(sort.clone(), envelope::seal(ValueKind::VolumeWork, &[]))).collect();
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
    let collected = fixture.library.volumes.collect_once(CollectLimits::default()).await.unwrap();
    assert_eq!((collected.condemned, collected.failed), (1, 0));
}
