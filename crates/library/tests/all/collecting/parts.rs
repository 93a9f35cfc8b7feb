//! Volumes with so many packs that they span several partitions, and with so many generations that
//! their list is full.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use audit::Requester;
use bytes::Bytes;
use futures::StreamExt;
use heads::{ObjectsError, RevisionId, keys};
use library::Library;
use library::bounds::{PARTITION_BYTES_MAX, Partition};
use pack::{Layout, Level};
use store::{Call, Class, Deadline, NewRow, Removal, Step, Store, Table, ValueKind, envelope};
use volumes::{BulkRequest, CollectLimits, Imported, OnDamage, Unchanged, Wanted};

use super::common::{HOUR, collect, generations, revision};
use crate::support::memory::{Fault, Gate};
use crate::support::{Faulty, faulty, id, import, texts, volume};

/// Text that hardly compresses: no piece of it recurs within the 32 KiB of DEFLATE's window.
fn text(seed: u64, bytes: usize) -> String {
    let mut state = seed;
    let letter = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(b'!' + (state >> 33) as u8 % 94)
    };
    let block: String = (0..128 << 10).map(letter).collect();
    block.repeat(bytes.div_ceil(block.len()))
}

/// A volume of about 630 packs in two parts. The third of its pages is in both parts.
fn large() -> Vec<String> {
    vec![text(1, 15 << 20), text(2, 15 << 20), text(3, 15 << 20), "the end".to_owned()]
}

/// The parts of the only generation of t.a, with the bytes of their rows.
fn parts(faulty: &Faulty) -> BTreeMap<u32, u64> {
    let mut parts = BTreeMap::new();
    for partition in faulty.store.partitions(Table::Packs) {
        let (_, part) = keys::part_of(&partition).unwrap();
        let sorts = faulty.store.sorts(Table::Packs, &partition);
        let rows =
            sorts.iter().map(|sort| faulty.store.row(Table::Packs, &partition, sort).unwrap().len() + sort.len());
        assert_eq!(parts.insert(part, rows.sum::<usize>() as u64), None, "two generations");
    }
    parts
}

async fn archive_is_whole(library: &Library) {
    let wanted = vec![Wanted::all(id("t.a"))];
    let request = BulkRequest { wanted, layout: Layout::Pages, level: Level::Frames, mets: true, as_of: None };
    let plan = library.volumes.plan(&request, OnDamage::Break).await.unwrap();
    let requester = Requester { name: None, address: None, request_id: "r1".to_owned() };
    let pieces = library.volumes.stream(&plan, pack::WHOLE, requester).await.unwrap();
    let bytes: Vec<usize> = pieces.map(|piece| piece.unwrap().len()).collect().await;
    assert_eq!(bytes.iter().sum::<usize>() as u64, plan.len_bytes.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_of_many_packs_is_in_bounded_parts_reads_back_whole_and_goes_part_by_part() {
    let faulty = faulty().await;
    let pages = large();
    import(&faulty.library, volume("t.a", &pages.iter().map(String::as_str).collect::<Vec<_>>())).await.unwrap();
    let stored = parts(&faulty);
    assert_eq!(stored.keys().copied().collect::<Vec<_>>(), [0, 1]);
    assert!(stored.values().all(|bytes| *bytes < PARTITION_BYTES_MAX / 2), "{stored:?}");
    assert!(texts(&faulty.library, &id("t.a")).await.unwrap() == pages);
    archive_is_whole(&faulty.library).await;
    assert!(faulty.library.volumes.verify(&id("t.a")).await.unwrap().damaged.is_empty());

    import(&faulty.library, volume("t.a", &["small"])).await.unwrap();
    let current = revision(&faulty.library).await;
    assert_eq!(collect(&faulty.library).await.condemned, 1);
    faulty.clock.advance(25 * HOUR);
    let mut library = faulty.library.clone();
    // A collector dies before each part.
    for part in [1, 0] {
        faulty.store.arm(Fault::Crash, move |_, step| {
            let Step::Remove { table: Table::Packs, partition, .. } = step else { return false };
            keys::part_of(partition).is_some_and(|(_, of)| of == part)
        });
        let _ = library.volumes.collect_once(CollectLimits::default()).await;
        library = faulty.reopened().await;
        assert_eq!(generations(&faulty).len(), 2, "the rest is still listed");
    }
    assert_eq!(collect(&library).await.removed, 1);
    assert_eq!(generations(&faulty).into_iter().collect::<Vec<_>>(), [current]);
    assert_eq!(parts(&faulty).len(), 1);
    assert!(faulty.store.largest_removal() <= 256);
    assert_eq!(texts(&library, &id("t.a")).await.unwrap(), ["small"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_of_as_many_generations_as_may_be_takes_another_only_once_one_is_gone() {
    let faulty = faulty().await;
    import(&faulty.library, volume("t.a", &["old"])).await.unwrap();
    let partition = keys::volume_partition(&id("t.a"));
    let generation = |n: u32| RevisionId(u128::from(n).to_be_bytes());
    let entries: Vec<Bytes> = (1..1 << 16).map(|n| keys::generation(generation(n))).collect();
    let call = || Call::new(Class::Description, Deadline::within(std::time::Duration::from_secs(60)));
    for entries in entries.chunks(16 << 10) {
        let rows =
            entries.iter().map(|sort| NewRow::new(sort.clone(), envelope::seal(ValueKind::Generation, &[]))).collect();
        let put = Step::Put { table: Table::Objects, partition: partition.clone(), rows };
        assert!(faulty.store.run(call(), vec![put]).await.unwrap().is_applied());
    }
    let full = import(&faulty.library, volume("t.a", &["new"])).await;
    assert!(matches!(&full, Err(ObjectsError::OverLimit(why)) if why.contains("65536 versions of t.a")), "{full:?}");
    let volume_a = faulty.library.volumes.volume(&id("t.a")).await.unwrap();
    let text = volumes::Replacement::Page(hathi::Seq::new(1).unwrap(), b"new".to_vec());
    let full = faulty.library.volumes.replace_member(&volume_a, text).await;
    assert!(matches!(full, Err(ObjectsError::OverLimit(_))), "{full:?}");
    // An import without changes needs no room.
    let same = faulty.library.volumes.import(volume("t.a", &["old"]), Unchanged::Skip, |_| {}).await;
    assert!(matches!(same, Ok(Imported::Unchanged { .. })), "{same:?}");
    let list = faulty.store.sorts(Table::Objects, &partition);
    let Some(largest) = bytes_of(Partition::Volume) else { panic!("it has a bound") };
    assert!(list.iter().map(|sort| sort.len() as u64).sum::<u64>() < largest);

    let rows = Removal::Rows(entries[..1].to_vec());
    let remove = Step::Remove { table: Table::Objects, partition, rows };
    assert!(faulty.store.run(call(), vec![remove]).await.unwrap().is_applied());
    import(&faulty.library, volume("t.a", &["new"])).await.unwrap();
}

fn bytes_of(partition: Partition) -> Option<u64> {
    match partition.largest(&heads::LibraryOptions::default()) {
        library::bounds::Largest::Bytes(bytes) => Some(bytes),
        library::bounds::Largest::OfServer(_) | library::bounds::Largest::Each(..) => None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn generations_whose_entries_a_salvage_lost_are_listed_again_and_collected() {
    let faulty = faulty().await;
    let library = &faulty.library;
    for text in ["old", "new"] {
        import(library, volume("t.a", &[text])).await.unwrap();
    }
    let (all, current) = (generations(&faulty), revision(library).await);
    let is_entry = |table, sort: &[u8]| table == Table::Objects && sort.starts_with(&keys::generation_prefix());
    faulty.store.tamper(|table, sort, value| (!is_entry(table, sort)).then_some(value));
    library.set_right(true, |_, _| {}).await.unwrap();
    assert_eq!(generations(&faulty), all);
    assert_eq!(collect(library).await.condemned, 1);
    faulty.clock.advance(25 * HOUR);
    assert_eq!(collect(library).await.removed, 1);
    assert_eq!(generations(&faulty).into_iter().collect::<Vec<_>>(), [current]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_over_a_deleted_volume_that_is_collected_meanwhile_begins_anew() {
    let faulty = faulty().await;
    import(&faulty.library, volume("t.a", &["old"])).await.unwrap();
    faulty.library.volumes.delete(&id("t.a")).await.unwrap();
    let (gate, lists) = (Gate::new(), AtomicUsize::new(0));
    let puts_packs = |step: &Step| matches!(step, Step::Put { table: Table::Packs, .. });
    faulty
        .store
        .arm(Fault::Hold(gate.clone()), move |_, step| puts_packs(step) && lists.fetch_add(1, Ordering::Relaxed) == 1);
    let pages = [text(1, 6 << 20), text(2, 6 << 20)];
    let (library, new) = (faulty.library.clone(), pages.clone());
    let slow = tokio::spawn(async move { import(&library, volume("t.a", &[&new[0], &new[1]])).await });
    gate.reached().await;
    // The import sleeps for two days. Its first rows are taken for those of a dead one.
    faulty.clock.advance(24 * HOUR);
    assert_eq!(collect(&faulty.library).await.condemned, 1);
    faulty.clock.advance(24 * HOUR);
    assert_eq!(collect(&faulty.library).await.removed, 2, "what was deleted, and what was begun");
    gate.open();
    slow.await.unwrap().unwrap();
    assert_eq!(texts(&faulty.library, &id("t.a")).await.unwrap(), pages);
    assert!(faulty.library.volumes.verify(&id("t.a")).await.unwrap().damaged.is_empty());
}
