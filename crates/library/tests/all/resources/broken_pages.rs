//! Background passes meet pages of records that cannot be read.

use bytes::Bytes;
use heads::{Chore, Queue, keys};
use store::{Call, Class, Deadline, NewRow, Step, Store, Table};

use super::work::{all_passes, with_work};
use crate::support::Faulty;

/// Breaks a page of a queue, in the bucket before all work.
async fn break_page(faulty: &Faulty, queue: Queue, shard: u8) {
    let buckets = faulty.store.partitions(Table::Work).into_iter();
    let first = buckets.filter_map(|partition| keys::queue_bucket(&partition, queue.name())).min().unwrap();
    let partition = keys::queue(queue.name(), first - 1, shard);
    // A row makes the walk find the partition, as on an engine.
    let call = Call::new(Class::Description, Deadline::within(std::time::Duration::from_secs(30)));
    let rows = vec![NewRow::new(Bytes::from_static(&[0; 32]), Bytes::from_static(b"unreadable"))];
    let put = Step::Put { table: Table::Work, partition: partition.clone(), rows };
    assert!(faulty.store.run(call, vec![put]).await.unwrap().is_applied());
    faulty.store.break_pages(Table::Work, partition);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_records_that_cannot_be_read_is_counted_and_ends_no_pass() {
    let good = with_work().await;
    let expected = all_passes(&good.library).await;

    let faulty = with_work().await;
    let chores = [
        (Queue::Deleting, Chore::Resuming),
        (Queue::Emptying, Chore::Emptying),
        (Queue::Collecting, Chore::Volumes),
        (Queue::Superseded, Chore::Versions),
        (Queue::Growing, Chore::Growing),
    ];
    for (queue, _) in chores {
        break_page(&faulty, queue, 0).await;
    }
    assert_eq!(all_passes(&faulty.library).await, expected);
    for (queue, chore) in chores {
        assert_eq!(faulty.library.heads.failed_records(chore), 1, "{queue:?}");
    }
    // They are not skipped: once they are repaired, their work is done.
    all_passes(&faulty.library).await;
    for (queue, chore) in chores {
        assert_eq!(faulty.library.heads.failed_records(chore), 2, "{queue:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn where_the_low_water_mark_cannot_be_read_all_records_are_found() {
    let good = with_work().await;
    let expected = all_passes(&good.library).await;
    let faulty = with_work().await;
    faulty.store.break_pages(Table::Work, keys::low_water_partition());
    assert_eq!(all_passes(&faulty.library).await, expected);
}
