//! Background passes: an unreadable or failing record ends no pass, and no pass holds all of a
//! large object.

use std::time::Duration;

use bytes::Bytes;
use heads::{Chore, History, Keep, LibraryOptions, Queue, keys};
use library::Library;
use store::{Call, Class, Deadline, NewRow, Step, Store, Table};

use super::tree::{create, descriptions, path, update};
use super::work::{all_passes, with_work};
use crate::support::{Faulty, faulty_with};

const DAY: Duration = Duration::from_secs(24 * 3_600);

async fn put(faulty: &Faulty, table: Table, partition: Bytes, row: NewRow) {
    let call = Call::new(Class::Description, Deadline::within(Duration::from_secs(30)));
    let put = Step::Put { table, partition, rows: vec![row] };
    assert!(faulty.store.run(call, vec![put]).await.unwrap().is_applied());
}

fn failures(library: &Library) -> Vec<(Chore, u64)> {
    Chore::ALL
        .map(|chore| (chore, library.heads.failed_records(chore)))
        .into_iter()
        .filter(|(_, failed)| *failed > 0)
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_record_is_counted_and_ends_no_pass() {
    let good = with_work().await;
    let expected = all_passes(&good.library).await;
    assert!(failures(&good.library).is_empty());

    let faulty = with_work().await;
    // Before all others, meaningless, and not sealed.
    let rubbish = |sort: &[u8]| NewRow::new(Bytes::copy_from_slice(sort), Bytes::from_static(b"rubbish"));
    let bucket = u32::try_from(faulty.library.clock().now().0 / 600_000).unwrap();
    for queue in Queue::ALL {
        let sort = if matches!(queue, Queue::Collecting | Queue::Superseded) { vec![0; 3] } else { vec![0; 32] };
        put(&faulty, Table::Work, keys::queue(queue.name(), bucket, 0), rubbish(&sort)).await;
    }
    let selection = Bytes::from_static(b"s/00000000000000000000000000000000");
    put(&faulty, Table::Selections, selection, rubbish(b"i")).await;
    let due = |queue| faulty.library.heads.due_work(queue).records;
    assert_eq!(Queue::ALL.map(due), [0; 7], "no pass has looked yet");
    assert_eq!(all_passes(&faulty.library).await, expected);
    assert!(Queue::ALL.into_iter().all(|queue| due(queue) > 0), "{:?}", Queue::ALL.map(due));
    let passes = [
        (Chore::Resuming, 1),
        (Chore::Emptying, 1),
        (Chore::Selections, 1),
        (Chore::Volumes, 1),
        (Chore::Versions, 1),
        (Chore::Growing, 2),
        (Chore::Transactions, 1),
    ];
    assert_eq!(failures(&faulty.library), passes);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_object_is_damaged_is_counted_and_ends_no_pass() {
    let good = with_work().await;
    let expected = all_passes(&good.library).await;
    let faulty = with_work().await;
    // One more of each kind, with a damaged head.
    let library = &faulty.library;
    create(library, "damaged", "old").await.unwrap();
    update(library, "damaged", "new").await.unwrap();
    let head = (keys::resource_partition(&path("damaged")), keys::head());
    let sound = faulty.store.row(Table::Objects, &head.0, &head.1).unwrap();
    faulty.store.tamper(|table, _, value| {
        let is_head = table == Table::Objects && value == sound;
        Some(if is_head { Bytes::from_static(b"rubbish") } else { value })
    });
    assert_eq!(all_passes(library).await, expected);
    assert_eq!(failures(library), [(Chore::Versions, 1)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn versions_without_number_are_collected_a_window_at_a_time() {
    const VERSIONS: usize = 1_100;
    for (keep, left) in [(Keep::None, 1), (Keep::Newest(300), 301)] {
        let history = History { resources: keep, ..History::default() };
        let faulty = faulty_with(LibraryOptions { history, ..LibraryOptions::default() }).await;
        let library = &faulty.library;
        create(library, "a", "0").await.unwrap();
        for version in 1..=VERSIONS {
            update(library, "a", &version.to_string()).await.unwrap();
        }
        let descriptions = || descriptions(&faulty, "a").len();
        assert_eq!(descriptions(), VERSIONS + 1);
        assert_eq!(library.repository.collect_versions().await.unwrap(), 0, "condemned");
        faulty.clock.advance(DAY);
        assert_eq!(library.repository.collect_versions().await.unwrap(), 1);
        // The revision that was current when the others were condemned stays for a grace of its
        // own.
        assert_eq!(descriptions(), left, "{keep}");
    }
}
