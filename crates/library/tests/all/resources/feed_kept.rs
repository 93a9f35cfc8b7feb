//! Where the change feed begins: what was dropped, what was not announced, and what was lost.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use feed::{Change, Cursor, FeedError, ObjectKind};
use heads::announce::{LISTED_BUCKETS, feed_bucket_of};
use heads::queue::BUCKET;
use heads::{LibraryOptions, RevisionId, keys};
use library::Library;
use store::{Class, Clock, Expect, Guard, ManualClock, NewRow, Step, Store, Table, ValueKind, envelope};

use super::tree::{beyond_the_horizon, create, events, reported, update};
use crate::support::memory::Fault;
use crate::support::{START, faulty, faulty_with, on_cassandra};

#[tokio::test(flavor = "multi_thread")]
async fn old_changes_are_dropped_whole_and_a_reader_that_still_needs_them_is_told() {
    let options = || LibraryOptions { feed_keep: Duration::from_secs(24 * 3_600), ..LibraryOptions::default() };
    let faulty = faulty_with(options()).await;
    let library = &faulty.library;
    assert_eq!(library.feed.drop_old().await.unwrap(), 0);
    create(library, "old", "").await.unwrap();
    beyond_the_horizon(library, &faulty.clock);
    let old = events(library, 10).await[0].cursor;
    faulty.clock.advance(options().feed_keep);
    create(library, "new", "").await.unwrap();
    beyond_the_horizon(library, &faulty.clock);
    let dropped = |page: Result<_, _>| matches!(page, Err(FeedError::Dropped { kept_days: 1 }));
    assert_eq!(library.feed.after(old, 10).await.unwrap().events.len(), 2, "nothing is dropped yet");
    faulty.clock.advance(Duration::from_secs(1_200));
    // The process dies in the middle of a pass.
    faulty.store.arm(Fault::Crash, |_, step| matches!(step, Step::Remove { table: Table::Work, .. }));
    library.feed.drop_old().await.unwrap_err();
    let library = faulty.reopened().await;
    assert_eq!(library.feed.drop_old().await.unwrap(), 1);
    assert_eq!(library.feed.drop_old().await.unwrap(), 0);
    assert!(dropped(library.feed.after(old, 10).await));
    assert_eq!(reported(&events(&library, 10).await), [(Change::Created, ObjectKind::RdfSource, "/new".to_owned())]);
    // A longer time, set later, brings nothing back, and no reader takes what is left for all.
    let longer = LibraryOptions { feed_keep: Duration::from_secs(90 * 24 * 3_600), ..options() };
    let library = Library::open(faulty.store.clone(), faulty.clock.clone(), longer).await.unwrap();
    assert!(matches!(library.feed.after(old, 10).await, Err(FeedError::Dropped { .. })));
    if !on_cassandra() {
        let left = faulty.store.partitions(Table::Work).into_iter().filter(|at| at.starts_with(b"feed\0c")).count();
        assert_eq!(left, 1, "only the newer bucket has rows");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_of_a_quiet_store_keeps_its_place_however_long_nothing_happens() {
    let options = LibraryOptions { feed_keep: Duration::from_secs(24 * 3_600), ..LibraryOptions::default() };
    let faulty = faulty_with(options).await;
    let library = &faulty.library;
    library.feed.drop_old().await.unwrap();
    create(library, "a", "").await.unwrap();
    beyond_the_horizon(library, &faulty.clock);
    let read = events(library, 10).await.last().unwrap().cursor;
    faulty.clock.advance(Duration::from_secs(3 * 24 * 3_600));
    assert_eq!(library.feed.after(read, 10).await.unwrap().events, []);
    assert_eq!(library.feed.drop_old().await.unwrap(), 1);
    assert_eq!(library.feed.after(read, 10).await.unwrap().events, []);
    create(library, "b", "").await.unwrap();
    beyond_the_horizon(library, &faulty.clock);
    let later = library.feed.after(read, 10).await.unwrap().events;
    assert_eq!(reported(&later), [(Change::Created, ObjectKind::RdfSource, "/b".to_owned())]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_that_lags_by_a_day_gets_each_change_once_and_in_order() {
    let hour = Duration::from_secs(3_600);
    let faulty = faulty_with(LibraryOptions { feed_keep: 48 * hour, ..LibraryOptions::default() }).await;
    let library = &faulty.library;
    create(library, "a", "").await.unwrap();
    beyond_the_horizon(library, &faulty.clock);
    let read = events(library, 10).await.last().unwrap().cursor;
    let mut made = Vec::new();
    // Each round has a bucket of its own.
    for (round, pause) in [BUCKET, BUCKET, 25 * hour, BUCKET].into_iter().enumerate() {
        faulty.clock.advance(pause);
        assert_eq!(library.feed.drop_old().await.unwrap(), 0);
        create(library, &format!("r{round}"), "").await.unwrap();
        made.push((Change::Created, ObjectKind::RdfSource, format!("/r{round}")));
        update(library, "a", &format!("in round {round}")).await.unwrap();
        made.push((Change::Updated, ObjectKind::RdfSource, "/a".to_owned()));
    }
    beyond_the_horizon(library, &faulty.clock);
    let mut consumer = library.feed.follow(read).await.unwrap();
    let mut followed = Vec::new();
    while followed.len() < made.len() {
        followed.extend_from_slice(consumer.next().await.unwrap().as_slice());
    }
    assert_eq!(reported(&followed), made);
    // Pages of three end within a round.
    let (mut paged, mut cursor) = (Vec::new(), read);
    loop {
        let page = library.feed.after(cursor, 3).await.unwrap();
        paged.extend(page.events);
        if page.is_last {
            break;
        }
        cursor = page.end.unwrap();
    }
    assert_eq!(paged, followed);
}

/// Such marks were written until the feed could forget the beginning of a bucket.
#[tokio::test(flavor = "multi_thread")]
async fn a_mark_that_names_a_bucket_is_read_and_moved() {
    let options = LibraryOptions { feed_keep: Duration::from_secs(24 * 3_600), ..LibraryOptions::default() };
    let faulty = faulty_with(options).await;
    create(&faulty.library, "a", "").await.unwrap();
    beyond_the_horizon(&faulty.library, &faulty.clock);
    let old = events(&faulty.library, 10).await[0].cursor;
    let bucket = feed_bucket_of(RevisionId::first_at(faulty.clock.now())) + 1;
    let mark = Step::CompareAndWrite {
        table: Table::Work,
        partition: keys::feed_ends(),
        sort: keys::feed_dropped(),
        expect: Expect::Absent,
        guard: Guard { stamp: faulty.library.heads.stamp(), tag: Bytes::new() },
        value: envelope::seal(ValueKind::FeedBucket, &bucket.to_be_bytes()),
    };
    faulty.store.run(faulty.library.heads.call(Class::Description), vec![mark]).await.unwrap();
    assert!(matches!(faulty.library.feed.after(old, 10).await, Err(FeedError::Dropped { .. })));
    faulty.clock.advance(BUCKET);
    create(&faulty.library, "b", "").await.unwrap();
    beyond_the_horizon(&faulty.library, &faulty.clock);
    let read = events(&faulty.library, 10).await;
    assert_eq!(reported(&read), [(Change::Created, ObjectKind::RdfSource, "/b".to_owned())]);
    faulty.clock.advance(Duration::from_secs(2 * 24 * 3_600));
    create(&faulty.library, "c", "").await.unwrap();
    assert_eq!(faulty.library.feed.drop_old().await.unwrap(), 2);
    beyond_the_horizon(&faulty.library, &faulty.clock);
    assert_eq!(reported(&faulty.library.feed.after(read[0].cursor, 10).await.unwrap().events).len(), 1);
    assert!(matches!(faulty.library.feed.after(old, 10).await, Err(FeedError::Dropped { .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_happened_while_the_feed_was_off_is_no_silent_gap() {
    let faulty = faulty().await;
    create(&faulty.library, "a", "").await.unwrap();
    beyond_the_horizon(&faulty.library, &faulty.clock);
    let read = events(&faulty.library, 10).await.last().unwrap().cursor;
    let off = LibraryOptions { feed_keep: Duration::ZERO, ..LibraryOptions::default() };
    let off = Library::open(faulty.store.clone(), faulty.clock.clone(), off).await.unwrap();
    create(&off, "b", "").await.unwrap();
    off.feed.drop_old().await.unwrap();
    faulty.clock.advance(Duration::from_secs(1));
    let on = faulty.reopened().await;
    assert!(matches!(on.feed.after(read, 10).await, Err(FeedError::Dropped { .. })));
    create(&on, "c", "").await.unwrap();
    beyond_the_horizon(&on, &faulty.clock);
    assert_eq!(reported(&events(&on, 10).await), [(Change::Created, ObjectKind::RdfSource, "/c".to_owned())]);
}

/// When the feed is turned off, the mark jumps over them.
#[tokio::test(flavor = "multi_thread")]
async fn old_changes_are_removed_however_far_behind_the_mark_they_are() {
    let day = Duration::from_secs(24 * 3_600);
    let faulty = faulty_with(LibraryOptions { feed_keep: 400 * day, ..LibraryOptions::default() }).await;
    create(&faulty.library, "old", "").await.unwrap();
    faulty.clock.advance(100 * day);
    create(&faulty.library, "new", "").await.unwrap();
    assert_eq!(faulty.library.feed.drop_old().await.unwrap(), 0);
    let off = LibraryOptions { feed_keep: Duration::ZERO, ..LibraryOptions::default() };
    let off = Library::open(faulty.store.clone(), faulty.clock.clone(), off).await.unwrap();
    assert_eq!(off.feed.drop_old().await.unwrap(), 1);
    if !on_cassandra() {
        let left = faulty.store.partitions(Table::Work).into_iter().filter(|at| at.starts_with(b"feed\0c")).count();
        assert_eq!(left, 1, "only the present bucket has rows");
    }
    // Later passes begin where this one has ended.
    faulty.store.take_scanned();
    assert_eq!(off.feed.drop_old().await.unwrap(), 0);
    let looked_at = faulty.store.take_scanned().into_iter().filter(|(_, at)| at.starts_with(b"feed\0b")).count();
    assert!(looked_at <= 1, "{looked_at} lists of buckets");

    // A salvage brings a bucket back.
    let bucket = feed_bucket_of(RevisionId::first_at(START));
    let value = envelope::seal(ValueKind::FeedBucket, &bucket.to_be_bytes());
    let listed = Step::Put {
        table: Table::Work,
        partition: keys::feed_buckets(bucket / LISTED_BUCKETS),
        rows: vec![NewRow::new(keys::feed_bucket(bucket), value)],
    };
    faulty.store.run(off.heads.call(Class::Description), vec![listed]).await.unwrap();
    assert_eq!(off.feed.drop_old().await.unwrap(), 0);
    off.feed.forget().await.unwrap();
    assert_eq!(off.feed.drop_old().await.unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_announced_if_the_feed_is_off() {
    let faulty = faulty_with(LibraryOptions { feed_keep: Duration::ZERO, ..LibraryOptions::default() }).await;
    create(&faulty.library, "a", "").await.unwrap();
    assert!(matches!(faulty.library.feed.after(Cursor::BEGINNING, 1).await, Err(FeedError::Off)));
    let on = Library::open(faulty.store.clone(), faulty.clock.clone(), LibraryOptions::default()).await.unwrap();
    create(&on, "b", "").await.unwrap();
    beyond_the_horizon(&on, &faulty.clock);
    let read = events(&on, 10).await;
    assert_eq!(reported(&read), [(Change::Created, ObjectKind::RdfSource, "/b".to_owned())]);
}

#[tokio::test]
async fn a_reader_that_began_now_misses_nothing_although_the_clock_was_set_back_before_a_restart() {
    use store_embedded::{EmbeddedOptions, EmbeddedStore};
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new(START));
    let options = EmbeddedOptions { headroom_bytes: 0, ..EmbeddedOptions::default() };
    let opened = async || {
        let store = EmbeddedStore::open(folder.path(), options.clone(), clock.clone()).unwrap();
        Library::open(store, clock.clone(), LibraryOptions::default()).await.unwrap()
    };
    let library = opened().await;
    create(&library, "a", "").await.unwrap();
    clock.advance(Duration::from_secs(60));
    let began = library.feed.now().await.unwrap();
    assert_eq!(library.feed.after(began, 10).await.unwrap().events, []);
    library.store().close().await.unwrap();
    drop(library);
    clock.set(START);
    let library = opened().await;
    create(&library, "b", "").await.unwrap();
    let later = library.feed.after(began, 10).await.unwrap().events;
    assert_eq!(reported(&later), [(Change::Created, ObjectKind::RdfSource, "/b".to_owned())]);
    // The same behind a mark.
    clock.advance(Duration::from_secs(60));
    library.feed.forget().await.unwrap();
    let began = library.feed.now().await.unwrap();
    library.store().close().await.unwrap();
    drop(library);
    clock.set(START);
    let library = opened().await;
    create(&library, "c", "").await.unwrap();
    let later = library.feed.after(began, 10).await.unwrap().events;
    assert_eq!(reported(&later), [(Change::Created, ObjectKind::RdfSource, "/c".to_owned())]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_salvaged_store_that_lacks_rows_refuses_earlier_cursors() {
    let faulty = faulty().await;
    // A bucket begins; all of the following is in it.
    faulty.clock.advance(Duration::from_millis(600_000 - START.0 % 600_000));
    create(&faulty.library, "a", "").await.unwrap();
    beyond_the_horizon(&faulty.library, &faulty.clock);
    let earlier = events(&faulty.library, 10).await.pop().unwrap().cursor;
    create(&faulty.library, "lost", "").await.unwrap();
    faulty.library.set_right(false, |_, _| {}).await.unwrap();
    faulty.library.feed.after(earlier, 10).await.expect("nothing is lost");
    faulty.library.set_right(true, |_, _| {}).await.unwrap();
    assert!(matches!(faulty.library.feed.after(earlier, 10).await, Err(FeedError::Dropped { .. })));
    create(&faulty.library, "b", "").await.unwrap();
    beyond_the_horizon(&faulty.library, &faulty.clock);
    let read = events(&faulty.library, 10).await;
    assert_eq!(reported(&read), [(Change::Created, ObjectKind::RdfSource, "/b".to_owned())]);
}
