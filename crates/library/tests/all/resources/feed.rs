//! The change feed: each change once, in order, whatever happens to its writer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use feed::{Change, Cursor, ObjectKind, Subject};
use heads::claim::Holder;
use heads::queue::BUCKET;
use heads::switch::{Switch, Switched};
use heads::{LibraryOptions, RevisionId, keys};
use library::Library;
use repository::{NewKind, NewResource};
use store::faults::{Faults, Rates};
use store::{Clock, ManualClock, Step, Table, UnixMillis};

use super::tree::{
    assert_feed_is_true, beyond_the_horizon, container, create, delete, events, path, reported, said, update,
};
use crate::support::memory::{Fault, Gate};
use crate::support::{Faulty, START, faulty, fixture, id, import, on_cassandra, volume};

/// The step that switches the head of a resource.
fn switches(at: &'static str) -> impl Fn(usize, &Step) -> bool + Send + 'static {
    let object = keys::resource_partition(&path(at));
    move |_, step| matches!(step, Step::CompareAndWrite { partition, .. } if *partition == object)
}

/// The step that announces a change of a resource.
fn announces(at: &'static str) -> impl Fn(usize, &Step) -> bool + Send + 'static {
    let object = keys::resource_partition(&path(at));
    move |_, step| {
        let Step::Put { table: Table::Work, partition, rows } = step else { return false };
        let names_it = |row: &store::NewRow| row.value.windows(object.len()).any(|part| part == object);
        partition.starts_with(b"feed\0c") && rows.iter().any(names_it)
    }
}

async fn make_changes(library: &Library) -> Vec<(Change, ObjectKind, String)> {
    library.repository.create(&path("c"), &container()).await.unwrap();
    create(library, "c/a", "one").await.unwrap();
    update(library, "c/a", "two").await.unwrap();
    let bytes = futures::stream::iter([Ok::<_, std::io::Error>(Bytes::from_static(b"bytes"))]);
    let uploaded = library.repository.upload(&path("c/b"), bytes, &[]).await.unwrap();
    let binary = NewResource { kind: NewKind::Binary(uploaded), ..container() };
    library.repository.create(&path("c/b"), &binary).await.unwrap();
    import(library, volume("t.a", &["one"])).await.unwrap();
    import(library, volume("t.a", &["two"])).await.unwrap();
    library.volumes.delete(&id("t.a")).await.unwrap();
    delete(library, "c/a").await.unwrap();
    library.repository.remove_tombstone(&path("c/a")).await.unwrap();
    create(library, "c/a", "three").await.unwrap();
    delete(library, "c").await.unwrap();
    let reported = |change, kind, name: &str| (change, kind, name.to_owned());
    vec![
        reported(Change::Created, ObjectKind::BasicContainer, "/"),
        reported(Change::Created, ObjectKind::BasicContainer, "/c"),
        reported(Change::Created, ObjectKind::RdfSource, "/c/a"),
        reported(Change::Updated, ObjectKind::RdfSource, "/c/a"),
        reported(Change::Created, ObjectKind::Binary, "/c/b"),
        reported(Change::Created, ObjectKind::Volume, "t.a"),
        reported(Change::Updated, ObjectKind::Volume, "t.a"),
        reported(Change::Deleted, ObjectKind::Volume, "t.a"),
        reported(Change::Deleted, ObjectKind::RdfSource, "/c/a"),
        reported(Change::Created, ObjectKind::RdfSource, "/c/a"),
        reported(Change::Deleted, ObjectKind::BasicContainer, "/c"),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn each_change_is_an_event_and_on_a_store_of_one_process_at_once() {
    let fixture = fixture().await;
    let expected = make_changes(&fixture.library).await;
    if fixture.store.capabilities().is_shared {
        assert_eq!(events(&fixture.library, 100).await, [], "a writer may still be at work");
        beyond_the_horizon(&fixture.library, &fixture.clock);
    }
    let events = events(&fixture.library, 100).await;
    let reported = reported(&events);
    // The children of a deleted container are deleted one after the other, in any order.
    assert_eq!(reported[..expected.len()], expected);
    let mut rest = reported[expected.len()..].to_vec();
    rest.sort_by(|one, other| one.2.cmp(&other.2));
    let deleted = |kind, name: &str| (Change::Deleted, kind, name.to_owned());
    assert_eq!(rest, [deleted(ObjectKind::RdfSource, "/c/a"), deleted(ObjectKind::Binary, "/c/b")]);
    assert!(events.windows(2).all(|pair| pair[0].cursor < pair[1].cursor));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_resumes_anywhere_on_any_server_forward_and_back() {
    let faulty = faulty().await;
    make_changes(&faulty.library).await;
    // Changes of another bucket of time.
    faulty.clock.advance(Duration::from_secs(9 * 24 * 3_600));
    for name in ["d/1", "d/2", "d/3", "d/4"] {
        create(&faulty.library, name, "").await.unwrap();
    }
    beyond_the_horizon(&faulty.library, &faulty.clock);
    let other = faulty.reopened().await;
    let all = events(&faulty.library, 100).await;
    assert!(all.len() > 15, "{all:?}");
    for max in [1, 2, 3, 7] {
        assert_eq!(events(&other, max).await, all, "pages of {max}");
        let (mut back, mut end) = (Vec::new(), None);
        loop {
            let page = other.feed.before(end, max).await.unwrap();
            back.splice(0..0, page.events);
            if page.is_last {
                break;
            }
            end = page.end;
        }
        assert_eq!(back, all, "pages of {max}, back");
    }
    for (read, event) in all.iter().enumerate() {
        let cursor = Cursor::parse(&event.cursor.to_string()).unwrap();
        assert_eq!(other.feed.after(cursor, 100).await.unwrap().events, all[read + 1..]);
    }
}

/// The versions of a resource that are listed.
async fn versions_of(library: &Library, at: &str) -> Vec<RevisionId> {
    let versions = library.repository.versions(&path(at)).await.unwrap();
    let listed = versions.page(RevisionId::ZERO, RevisionId::LAST, 100).await.unwrap();
    listed.into_iter().map(|version| version.revision).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_version_is_no_event_and_who_copies_the_store_learns_of_it_once() {
    let faulty = faulty().await;
    let library = &faulty.library;
    create(library, "a", "0").await.unwrap();
    for text in ["1", "2"] {
        update(library, "a", text).await.unwrap();
    }
    let versions = versions_of(library, "a").await;
    library.repository.remove_version(&path("a"), versions[1]).await.unwrap();
    create(library, "b", "").await.unwrap();
    library.repository.remove_version(&path("a"), versions[0]).await.unwrap();
    beyond_the_horizon(library, &faulty.clock);
    let seen = |change, name: &str| (change, ObjectKind::RdfSource, name.to_owned());
    let (created, updated) = (seen(Change::Created, "/a"), seen(Change::Updated, "/a"));
    let expected = [created, updated.clone(), updated, seen(Change::Created, "/b")];
    for max in [1, 2, 3, 100] {
        assert_eq!(reported(&events(library, max).await)[1..], expected, "pages of {max}");
        let (mut removed, mut cursor) = (Vec::new(), Cursor::BEGINNING);
        loop {
            let page = library.feed.after(cursor, max).await.unwrap();
            removed.extend(page.removed.into_iter().map(|removed| (removed.object, removed.revision)));
            cursor = page.end.unwrap();
            if page.is_last {
                break;
            }
        }
        let object = keys::resource_partition(&path("a"));
        assert_eq!(removed, [(object.clone(), versions[1]), (object, versions[0])], "pages of {max}");
        assert_eq!(library.feed.after(cursor, max).await.unwrap().removed, [], "pages of {max}");
    }
    let back = library.feed.before(None, 100).await.unwrap();
    assert_eq!((reported(&back.events)[1..].to_vec(), back.removed), (expected.to_vec(), vec![]));
}

/// Followers that pass the announcement copy the marks that are there by then.
#[tokio::test(flavor = "multi_thread")]
async fn a_removal_is_announced_before_its_mark_is_put() {
    let faulty = faulty().await;
    create(&faulty.library, "a", "0").await.unwrap();
    update(&faulty.library, "a", "1").await.unwrap();
    let version = versions_of(&faulty.library, "a").await[0];
    let page = keys::log_page(&keys::resource_partition(&path("a")), 0);
    faulty.store.arm(Fault::Crash, move |_, step| *step.partition() == page);
    faulty.library.repository.remove_version(&path("a"), version).await.unwrap_err();
    let library = faulty.reopened().await;
    beyond_the_horizon(&library, &faulty.clock);
    let removed = library.feed.after(Cursor::BEGINNING, 100).await.unwrap().removed;
    assert_eq!(removed.iter().map(|removed| removed.revision).collect::<Vec<_>>(), [version]);
    assert_eq!(versions_of(&library, "a").await.len(), 2, "a repeated request is needed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stalled_writer_hides_nothing_longer_than_the_horizon_and_its_change_comes_later() {
    let faulty = faulty().await;
    create(&faulty.library, "a", "old").await.unwrap();
    let gate = Gate::new();
    faulty.store.arm(Fault::Hold(gate.clone()), switches("a"));
    let library = faulty.library.clone();
    let stalled = tokio::spawn(async move { update(&library, "a", "stalled").await });
    gate.reached().await;
    create(&faulty.library, "b", "").await.unwrap();
    beyond_the_horizon(&faulty.library, &faulty.clock);
    let read = events(&faulty.library, 10).await;
    let created = |name: &str| (Change::Created, ObjectKind::RdfSource, name.to_owned());
    assert_eq!(reported(&read)[1..], [created("/a"), created("/b")]);
    gate.open();
    stalled.await.unwrap().unwrap();
    assert_eq!(said(&faulty.library, "a").await.as_deref(), Some("stalled"));
    beyond_the_horizon(&faulty.library, &faulty.clock);
    let later = faulty.library.feed.after(read.last().unwrap().cursor, 10).await.unwrap().events;
    assert_eq!(reported(&later), [(Change::Updated, ObjectKind::RdfSource, "/a".to_owned())]);
}

/// Readers pass the position of a writer that stalls before its announcement is acknowledged: its
/// machine is suspended, say.
#[tokio::test(flavor = "multi_thread")]
async fn a_writer_that_stalls_before_it_has_announced_its_change_does_not_make_it() {
    let faulty = faulty().await;
    create(&faulty.library, "a", "old").await.unwrap();
    let gate = Gate::new();
    faulty.store.arm(Fault::Hold(gate.clone()), announces("a"));
    let library = faulty.library.clone();
    let stalled = tokio::spawn(async move { update(&library, "a", "stalled").await });
    gate.reached().await;
    beyond_the_horizon(&faulty.library, &faulty.clock);
    let read = events(&faulty.library, 10).await.last().unwrap().cursor;
    let passed = faulty.library.feed.after(read, 10).await.unwrap().end.unwrap();
    gate.open();
    let refused = stalled.await.unwrap().unwrap_err();
    assert!(refused.to_string().contains("try again"), "{refused}");
    assert_eq!(said(&faulty.library, "a").await.as_deref(), Some("old"));
    update(&faulty.library, "a", "again").await.unwrap();
    beyond_the_horizon(&faulty.library, &faulty.clock);
    let later = faulty.library.feed.after(passed, 10).await.unwrap().events;
    assert_eq!(reported(&later), [(Change::Updated, ObjectKind::RdfSource, "/a".to_owned())]);
    assert_feed_is_true(&faulty.library, &faulty.clock, &["a"]).await;
}

/// A try that fails before its first step lists no bucket, even if an earlier try of the same
/// change turns out to be applied.
#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_counts_as_listed_only_once_the_list_has_it() {
    let faulty = faulty().await;
    create(&faulty.library, "a", "").await.unwrap();
    faulty.clock.advance(BUCKET);
    let partition = keys::resource_partition(&path("a"));
    let head = faulty.library.heads.head_at(&partition).await.unwrap().unwrap().head;
    faulty.store.arm(Fault::Overloaded, |_, _| true);
    let holder = Holder::Nobody;
    let again = Switch { partition, base: None, head, before: Vec::new(), after: Vec::new(), unsure: true, holder };
    assert!(matches!(faulty.library.heads.switch(again).await.unwrap(), Switched::Applied));
    create(&faulty.library, "b", "").await.unwrap();
    beyond_the_horizon(&faulty.library, &faulty.clock);
    let names: Vec<_> = reported(&events(&faulty.library, 10).await).into_iter().map(|reported| reported.2).collect();
    assert_eq!(names, ["/", "/a", "/b"]);
}

/// A clock that goes on whenever it is read.
struct Ticking(AtomicU64);

impl Clock for Ticking {
    fn now(&self) -> UnixMillis {
        UnixMillis(START.0 + self.0.fetch_add(1, Ordering::SeqCst))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_from_the_time_of_an_event_on_gets_that_event() {
    let (faulty, clock) = (faulty().await, Arc::new(Ticking(AtomicU64::new(0))));
    let library = Library::open(faulty.store.clone(), clock.clone(), LibraryOptions::default()).await.unwrap();
    create(&library, "a", "").await.unwrap();
    clock.0.fetch_add(1_000_000, Ordering::SeqCst);
    let event = events(&library, 10).await.pop().unwrap();
    assert!(event.at <= event.cursor.time(), "{event:?}");
}

/// The way back of a reader that was refused: note the time, read everything, follow from that time.
#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_reads_everything_and_follows_from_before_misses_no_change_that_was_on_its_way() {
    let faulty = faulty().await;
    create(&faulty.library, "a", "old").await.unwrap();
    let gate = Gate::new();
    faulty.store.arm(Fault::Hold(gate.clone()), switches("a"));
    let library = faulty.library.clone();
    let slow = tokio::spawn(async move { update(&library, "a", "new").await });
    gate.reached().await;
    faulty.clock.advance(faulty.library.options().switch_within);
    let began = faulty.clock.now();
    assert_eq!(said(&faulty.library, "a").await.as_deref(), Some("old"));
    gate.open();
    slow.await.unwrap().unwrap();
    beyond_the_horizon(&faulty.library, &faulty.clock);
    let from = faulty.library.feed.since(began).await.unwrap();
    let followed = faulty.library.feed.after(from, 10).await.unwrap().events;
    let updated = (Change::Updated, ObjectKind::RdfSource, "/a".to_owned());
    assert!(reported(&followed).contains(&updated), "{followed:?}");
    // The same right after earlier cursors were refused.
    faulty.library.feed.forget().await.unwrap();
    let from = faulty.library.feed.since(faulty.clock.now()).await.unwrap();
    update(&faulty.library, "a", "newer").await.unwrap();
    beyond_the_horizon(&faulty.library, &faulty.clock);
    assert_eq!(reported(&faulty.library.feed.after(from, 10).await.unwrap().events), [updated]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_dies_between_announcement_and_switch_leaves_no_event() {
    let faulty = faulty().await;
    create(&faulty.library, "a", "old").await.unwrap();
    faulty.store.arm(Fault::Crash, switches("a"));
    update(&faulty.library, "a", "new").await.unwrap_err();
    let library = faulty.reopened().await;
    assert_feed_is_true(&library, &faulty.clock, &["a"]).await;
    assert_eq!(said(&library, "a").await.as_deref(), Some("old"));
    update(&library, "a", "again").await.unwrap();
    assert_feed_is_true(&library, &faulty.clock, &["a"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_whose_announcement_is_lost_is_not_made_without_it() {
    let faulty = faulty().await;
    for fault in [Fault::UnknownLost, Fault::UnknownApplied, Fault::UnknownLate(2), Fault::Overloaded] {
        faulty.store.arm(fault, announces("a"));
        let _ = create(&faulty.library, "a", "one").await;
        faulty.store.recover();
        assert_feed_is_true(&faulty.library, &faulty.clock, &["a"]).await;
        let _ = delete(&faulty.library, "a").await;
        let _ = faulty.library.repository.remove_tombstone(&path("a")).await;
    }
}

/// Two servers whose clocks differ by as much as they may: the later change of a resource comes
/// from the server whose clock lags.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_whose_clock_lags_announces_its_change_behind_the_one_that_it_replaces() {
    let faulty = faulty().await;
    let lagging = std::sync::Arc::new(ManualClock::new(faulty.clock.now()));
    faulty.clock.advance(faulty.library.options().clock_skew_max);
    import(&faulty.library, volume("t.a", &["one"])).await.unwrap();
    create(&faulty.library, "a", "one").await.unwrap();
    let options = faulty.library.options().clone();
    let other = Library::open(faulty.store.clone(), lagging.clone(), options).await.unwrap();
    update(&other, "a", "two").await.unwrap();
    import(&other, volume("t.a", &["two"])).await.unwrap();
    update(&faulty.library, "a", "three").await.unwrap();
    // What the lagging server wrote last is read by both once both horizons are beyond it.
    lagging.set(faulty.clock.now());
    assert_feed_is_true(&faulty.library, &faulty.clock, &["a"]).await;
    let of_volume = reported(&events(&faulty.library, 100).await);
    let of_volume: Vec<_> = of_volume.iter().filter(|(_, _, name)| name == "t.a").map(|reported| reported.0).collect();
    assert_eq!(of_volume, [Change::Created, Change::Updated]);
}

#[tokio::test]
async fn positions_rise_although_the_clock_was_set_back_before_a_restart() {
    use store_embedded::{EmbeddedOptions, EmbeddedStore};
    let folder = tempfile::tempdir().unwrap();
    let clock = std::sync::Arc::new(ManualClock::new(crate::support::START));
    let options = EmbeddedOptions { headroom_bytes: 0, ..EmbeddedOptions::default() };
    let opened = async || {
        let store = EmbeddedStore::open(folder.path(), options.clone(), clock.clone()).unwrap();
        Library::open(store, clock.clone(), LibraryOptions::default()).await.unwrap()
    };
    let library = opened().await;
    clock.advance(Duration::from_secs(365 * 24 * 3_600));
    create(&library, "a", "").await.unwrap();
    let read = events(&library, 10).await.last().unwrap().cursor;
    library.store().close().await.unwrap();
    drop(library);
    clock.set(crate::support::START);
    let library = opened().await;
    create(&library, "b", "").await.unwrap();
    let later = library.feed.after(read, 10).await.unwrap().events;
    assert_eq!(reported(&later), [(Change::Created, ObjectKind::RdfSource, "/b".to_owned())]);
}

/// On a store of one process the feed does not wait for the horizon.
#[tokio::test(flavor = "multi_thread")]
async fn a_switch_whose_request_was_cancelled_half_way_holds_nothing_up() {
    let fixture = fixture().await;
    if fixture.store.capabilities().is_shared {
        return;
    }
    let library = &fixture.library;
    create(library, "a", "one").await.unwrap();
    // However far it comes before it is cancelled, the feed says what then stands.
    for polls in 0..40 {
        let text = format!("{polls}");
        let mut cancelled = Box::pin(update(library, "a", &text));
        for _ in 0..polls {
            if futures::poll!(&mut cancelled).is_ready() {
                break;
            }
        }
        drop(cancelled);
        create(library, &format!("b{polls}"), "").await.unwrap();
        let read = events(library, 100).await;
        let last = read.last().unwrap();
        assert_eq!(last.subject, Subject::Resource(path(&format!("b{polls}"))), "{polls}");
        let of_it = read.iter().filter(|event| event.subject == Subject::Resource(path("a")));
        let of_it: Vec<_> = of_it.map(|event| (event.change, event.revision)).collect();
        assert_eq!(of_it, super::tree::changes(library, "a").await, "{polls}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_consumers_cost_the_store_about_as_much_as_one() {
    let faulty: Faulty = faulty().await;
    if on_cassandra() {
        return;
    }
    let mut consumers = Vec::new();
    for _ in 0..100 {
        consumers.push(faulty.library.feed.follow(Cursor::BEGINNING).await.unwrap());
    }
    // Each reads for itself until it has met the others.
    for consumer in &mut consumers {
        consumer.next().await.unwrap();
    }
    faulty.store.take_scanned();
    for number in 0..50 {
        create(&faulty.library, &format!("r{number}"), "").await.unwrap();
    }
    beyond_the_horizon(&faulty.library, &faulty.clock);
    let mut read = vec![Vec::new(); consumers.len()];
    for (consumer, read) in consumers.iter_mut().zip(&mut read) {
        // The root, and what was created since.
        while read.len() < 51 {
            read.extend_from_slice(consumer.next().await.unwrap().as_slice());
        }
    }
    assert!(read.iter().all(|events| events == &read[0]));
    assert_eq!(read[0], events(&faulty.library, 100).await);
    let scanned = faulty.store.take_scanned();
    let of_feed = scanned.iter().filter(|(_, partition)| partition.starts_with(b"feed\0c")).count();
    assert!(of_feed < 16 * 30, "{of_feed} scans");
}

/// It misses batches, and reads pages until it meets them again.
#[tokio::test(start_paused = true)]
async fn a_consumer_that_is_held_back_over_many_batches_gets_each_event_once_and_in_order() {
    // Drivers do not work with paused time.
    if on_cassandra() {
        return;
    }
    let faulty = faulty().await;
    let library = &faulty.library;
    let mut quick = library.feed.follow(Cursor::BEGINNING).await.unwrap();
    let mut slow = library.feed.follow(Cursor::BEGINNING).await.unwrap();
    let mut read_by_quick = quick.next().await.unwrap().as_slice().to_vec();
    let mut read_by_slow = slow.next().await.unwrap().as_slice().to_vec();
    // Each round has a batch of its own; 16 batches wait for a consumer.
    for round in 0..40 {
        for number in 0..4 {
            create(library, &format!("r{round}-{number}"), "").await.unwrap();
        }
        beyond_the_horizon(library, &faulty.clock);
        // The root, and what was created since.
        while read_by_quick.len() < 1 + 4 * (round + 1) {
            read_by_quick.extend_from_slice(quick.next().await.unwrap().as_slice());
        }
    }
    while read_by_slow.len() < read_by_quick.len() {
        read_by_slow.extend_from_slice(slow.next().await.unwrap().as_slice());
    }
    let all = events(library, 100).await;
    assert_eq!(read_by_quick, all);
    assert_eq!(read_by_slow, all);
}

/// The reader of the batches begins again with the present, so that there is a gap between batches.
#[tokio::test(start_paused = true)]
async fn a_consumer_misses_nothing_that_happened_while_the_batches_could_not_be_read() {
    if on_cassandra() {
        return;
    }
    let faulty = faulty().await;
    let faults = Arc::new(Faults::new(faulty.store.clone()));
    let reader = Library::open(faults.clone(), faulty.clock.clone(), LibraryOptions::default()).await.unwrap();
    let mut consumer = reader.feed.follow(Cursor::BEGINNING).await.unwrap();
    let mut read = consumer.next().await.unwrap().as_slice().to_vec();
    create(&faulty.library, "a", "").await.unwrap();
    beyond_the_horizon(&faulty.library, &faulty.clock);
    while read.len() < 2 {
        read.extend_from_slice(consumer.next().await.unwrap().as_slice());
    }
    faults.set_rates(0, Rates { unavailable: 1.0, ..Rates::default() });
    // Each returns after three seconds, and a read fails in less.
    for _ in 0..3 {
        assert_eq!(consumer.next().await.unwrap().as_slice(), []);
    }
    create(&faulty.library, "b", "").await.unwrap();
    beyond_the_horizon(&faulty.library, &faulty.clock);
    faults.set_rates(0, Rates::default());
    for _ in 0..5 {
        read.extend_from_slice(consumer.next().await.unwrap().as_slice());
    }
    assert_eq!(read, events(&faulty.library, 100).await);
    assert_eq!(read.len(), 3);
}
