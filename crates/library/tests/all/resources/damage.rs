//! Damaged resources: never returned as sound, marked by readers that find the damage, and unmarked
//! once they are sound.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use budget::Pace;
use bytes::Bytes;
use futures::StreamExt;
use heads::{History, Keep, LibraryOptions, ObjectsError, ObjectsResult, RevisionId, keys};
use library::Library;
use repository::{BytesPlace, DamagedPart, NewKind, NewResource, Part, Update, Uploaded};
use store::faults::{Faults, Rates};
use store::{Call, Class, ContentId, Deadline, NewRow, Scan, Step, Table, ValueKind, envelope};

use super::tree::{container, create, delete, path, update};
use crate::support::{Fixture, faulty, fixture, fixture_with, import, on_cassandra, volume};

const LEN: usize = 1_000_000;

fn call() -> Call {
    Call::new(Class::Description, Deadline::within(std::time::Duration::from_secs(30)))
}

async fn upload(library: &Library, byte: u8) -> Uploaded {
    let source = futures::stream::iter([Ok::<_, std::io::Error>(Bytes::from(vec![byte; LEN]))]);
    library.repository.upload(&path("a"), source, &[]).await.unwrap()
}

/// Stores bytes at `a`, and returns their content's id.
async fn put(library: &Library) -> ContentId {
    let new = NewResource { kind: NewKind::Binary(upload(library, 1).await), ..container() };
    library.repository.create(&path("a"), &new).await.unwrap();
    let resource = library.repository.resource(&path("a")).await.unwrap();
    let Some(BytesPlace::Content(id)) = resource.body().binary().map(|binary| binary.place.clone()) else {
        panic!("it is large")
    };
    id
}

/// Reads bytes of `a`. An error comes before the first byte (`Err`), or ends the bytes.
async fn read(library: &Library, range: Range<u64>) -> ObjectsResult<(usize, ObjectsResult<()>)> {
    let resource = library.repository.resource(&path("a")).await.unwrap();
    let mut pieces = library.repository.content(&resource, resource.body().binary().unwrap(), range).await?;
    let mut len = 0;
    loop {
        match pieces.next().await {
            Some(Ok(piece)) => len += piece.len(),
            Some(Err(error)) => return Ok((len, Err(error))),
            None => return Ok((len, Ok(()))),
        }
    }
}

async fn marked(library: &Library) -> Vec<Part> {
    library.repository.damaged_parts(&library.repository.resource(&path("a")).await.unwrap()).await.unwrap()
}

fn is_damaged<T>(read: &ObjectsResult<T>, part: Part) -> bool {
    matches!(read, Err(ObjectsError::DamagedResource { path: at, part: of, .. }) if *at == path("a") && *of == part)
}

async fn verified(library: &Library) -> Vec<(Option<Part>, String)> {
    let damaged = library.repository.verify_at(&path("a"), Pace::unlimited()).await.unwrap().damaged;
    damaged.into_iter().map(|DamagedPart { part, detail }| (part, detail)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn who_meets_damaged_bytes_marks_them_and_a_new_upload_makes_them_good() {
    let fixture = fixture().await;
    let library = &fixture.library;
    let id = put(library).await;
    fixture.flip_bit(id, 600_000).await;
    assert_eq!(marked(library).await, [], "nobody has met it");
    let (len, end) = read(library, 0..LEN as u64).await.unwrap();
    assert!(len <= 600_000 && is_damaged(&end, Part::Bytes), "{len} bytes, then {end:?}");
    assert_eq!(marked(library).await, [Part::Bytes]);
    assert_eq!(library.statistics().await.unwrap().damaged_resources, 1);

    assert!(is_damaged(&read(library, 0..u64::MAX).await, Part::Bytes), "half of it is sent before it breaks off");
    assert!(is_damaged(&read(library, 600_000..600_001).await, Part::Bytes));
    let (len, end) = read(library, 0..100_000).await.unwrap();
    assert!(len == 100_000 && end.is_ok(), "what is sound of it is refused");

    let resource = library.repository.resource(&path("a")).await.unwrap();
    library.repository.update(&resource, &Update::Binary(upload(library, 2).await)).await.unwrap();
    assert_eq!(marked(library).await, []);
    assert_eq!(library.statistics().await.unwrap().damaged_resources, 0);
    let (len, end) = read(library, 0..LEN as u64).await.unwrap();
    assert!(len == LEN && end.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn verifying_marks_what_is_damaged_and_removes_the_mark_from_what_is_sound_again() {
    let fixture = fixture().await;
    let library = &fixture.library;
    let id = put(library).await;
    assert_eq!(verified(library).await, []);
    fixture.flip_bit(id, LEN - 1).await;
    let found = verified(library).await;
    assert!(matches!(&found[..], [(Some(Part::Bytes), detail)] if detail.contains("checksum")), "{found:?}");
    fixture.flip_bit(id, LEN - 1).await;
    assert!(is_damaged(&read(library, 0..LEN as u64).await, Part::Bytes), "the mark stays until somebody verifies");
    assert_eq!(verified(library).await, []);
    assert_eq!(marked(library).await, []);
    assert_eq!(read(library, 0..LEN as u64).await.unwrap().0, LEN);
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_that_are_missing_are_damaged_before_the_first_of_them_is_sent() {
    let fixture = fixture().await;
    let library = &fixture.library;
    let id = put(library).await;
    fixture.lose_bytes(id).await;
    assert!(is_damaged(&read(library, 500_000..500_001).await, Part::Bytes));
    assert_eq!(marked(library).await, [Part::Bytes]);
    let found = verified(library).await;
    assert!(matches!(&found[..], [(Some(Part::Bytes), detail)] if detail.contains("missing")), "{found:?}");
}

/// Overwrites the only row of a description.
async fn write_over(fixture: &Fixture, value: Bytes) {
    let revision = fixture.library.repository.resource(&path("a")).await.unwrap().description_revision();
    let rows = vec![NewRow::new(keys::description(revision, 0), value)];
    let partition = keys::version(&keys::resource_partition(&path("a")), revision);
    let step = Step::Put { table: Table::Objects, partition, rows };
    assert!(fixture.store.run(call(), vec![step]).await.unwrap().is_applied());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_description_is_marked_and_one_that_is_sound_by_itself_but_another_is_found() {
    let fixture = fixture().await;
    let library = &fixture.library;
    create(library, "a", "said").await.unwrap();
    write_over(&fixture, Bytes::from_static(b"damaged")).await;
    let resource = library.repository.resource(&path("a")).await.unwrap();
    assert!(is_damaged(&library.repository.description(&resource).await, Part::Description));
    assert_eq!(marked(library).await, [Part::Description]);
    write_over(&fixture, envelope::seal(ValueKind::Description, b"another")).await;
    assert_eq!(verified(library).await, [(Some(Part::Description), "its SHA-256 is another".to_owned())]);
    write_over(&fixture, envelope::seal(ValueKind::Description, b"said")).await;
    assert_eq!(verified(library).await, []);
    assert_eq!(marked(library).await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_resources_and_descriptions_are_read_as_each_is_alone() {
    let fixture = fixture().await;
    let (library, long) = (&fixture.library, "x".repeat(100_000));
    for (at, said) in [("b", "of b"), ("e", "of e")] {
        let new = NewResource { description: Bytes::from(said), ..container() };
        library.repository.create(&path(at), &new).await.unwrap();
    }
    for (at, said) in [("a", "said"), ("b/c", "of c"), ("b/d", "d"), ("b/long", &long), ("e/f", "f")] {
        create(library, at, said).await.unwrap();
    }
    delete(library, "b/d").await.unwrap();
    delete(library, "e").await.unwrap();
    write_over(&fixture, Bytes::from_static(b"damaged")).await;
    let paths = ["b/c", "a", "b/d", "", "none", "e/f", "b", "none/g", "b/long", "b/c"].map(path);
    let repository = &library.repository;
    let together = repository.resources_at(&paths).await.unwrap();
    assert_eq!(together.len(), paths.len());
    let mut live = Vec::new();
    for (path, found) in paths.iter().zip(&together) {
        match (found, repository.resource(path).await) {
            (Ok(found), Ok(alone)) => {
                assert_eq!(found, &alone);
                live.push(found);
            }
            (Err(found), Err(alone)) => assert_eq!(found.to_string(), alone.to_string()),
            (found, alone) => panic!("{path}: {found:?}, {alone:?}"),
        }
    }
    assert_eq!(live.len(), 6);
    let descriptions = repository.descriptions(&live).await.unwrap();
    let of = |number: usize| descriptions[number].as_ref().unwrap();
    assert_eq!([of(0), of(3), of(5)], ["of c", "of b", "of c"]);
    assert_eq!(of(4), &long);
    assert!(is_damaged(&descriptions[1], Part::Description));
    assert_eq!(marked(library).await, [Part::Description]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resource_whose_description_and_bytes_are_damaged_counts_once() {
    let fixture = fixture().await;
    let library = &fixture.library;
    let id = put(library).await;
    update(library, "a", "said later").await.unwrap();
    write_over(&fixture, Bytes::from_static(b"damaged")).await;
    fixture.flip_bit(id, LEN - 1).await;
    assert_eq!(verified(library).await.len(), 2);
    assert_eq!(marked(library).await, [Part::Description, Part::Bytes]);
    assert_eq!(library.statistics().await.unwrap().damaged_resources, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_mark_on_a_version_goes_with_the_version() {
    let history = History { resources: Keep::None, ..History::default() };
    let fixture = fixture_with(LibraryOptions { history, ..LibraryOptions::default() }).await;
    let (library, clock) = (&fixture.library, &fixture.clock);
    create(library, "a", "said").await.unwrap();
    write_over(&fixture, Bytes::from_static(b"damaged")).await;
    let resource = library.repository.resource(&path("a")).await.unwrap();
    library.repository.description(&resource).await.unwrap_err();
    update(library, "a", "said anew").await.unwrap();
    assert_eq!(marked(library).await, [], "of the new description nothing is known");
    let marks = async || {
        let all = Scan::prefix(Bytes::new(), 1 << 20);
        let partition = keys::version(&keys::resource_partition(&path("a")), resource.description_revision());
        fixture.store.scan(call(), Table::Damage, &partition, all).await.unwrap().rows.len()
    };
    assert_eq!(marks().await, 1);
    library.repository.collect_versions().await.unwrap();
    clock.advance(library.options().grace);
    library.repository.collect_versions().await.unwrap();
    assert_eq!(marks().await, 0);
}

/// Damages the head of `a`.
async fn damage_head(fixture: &Fixture) {
    let (table, partition) = (Table::Objects, keys::resource_partition(&path("a")));
    let head = fixture.store.get(call().strong(), table, &partition, &keys::head()).await.unwrap().unwrap();
    let step = Step::CompareAndWrite {
        table,
        partition,
        sort: keys::head(),
        expect: store::Expect::Stamp(head.guard.unwrap().stamp),
        guard: store::Guard { stamp: store::Stamp::fresh(), tag: Bytes::new() },
        value: Bytes::from_static(b"no head"),
    };
    assert!(fixture.store.run(call(), vec![step]).await.unwrap().is_applied());
}

#[tokio::test(flavor = "multi_thread")]
async fn all_resources_that_are_there_are_listed_also_those_whose_head_is_damaged() {
    let fixture = fixture().await;
    let library = &fixture.library;
    for at in ["a", "b/c", "gone"] {
        create(library, at, "said").await.unwrap();
    }
    delete(library, "gone").await.unwrap();
    damage_head(&fixture).await;
    let (mut found, mut from) = (Vec::new(), None);
    loop {
        let page = library.repository.resources(from).await.unwrap();
        found.extend(page.paths.iter().map(ToString::to_string));
        from = page.next;
        if from.is_none() {
            break;
        }
    }
    found.sort();
    assert_eq!(found, ["", "a", "b", "b/c"]);
    let verified = library.repository.verify_at(&path("a"), Pace::unlimited()).await.unwrap();
    assert_eq!((verified.revision, verified.damaged.len(), verified.damaged[0].part), (RevisionId::ZERO, 1, None));
}

#[tokio::test(flavor = "multi_thread")]
async fn however_many_resources_there_are_a_page_holds_few_of_them() {
    let library = faulty().await.library;
    let wanted: BTreeSet<String> = (0..1_100).map(|number| format!("c/{number}")).collect();
    let creating = futures::stream::iter(&wanted).map(|at| create(&library, at, ""));
    creating.buffer_unordered(16).for_each(async |created| created.unwrap()).await;
    let (mut found, mut from, mut pages) = (BTreeSet::new(), None, 0);
    loop {
        let page = library.repository.resources(from).await.unwrap();
        assert!(page.paths.len() <= 500);
        for path in &page.paths {
            assert!(found.insert(path.to_string()), "/{path} is listed twice");
        }
        pages += 1;
        from = page.next;
        if from.is_none() {
            break;
        }
    }
    assert!(pages >= 3 && found.is_superset(&wanted), "{pages} pages, {} resources", found.len());
}

#[tokio::test(start_paused = true)]
async fn a_salvage_fails_if_a_resource_cannot_be_read_for_now_and_does_not_pass_over_it() {
    if on_cassandra() {
        return;
    }
    let faulty = faulty().await;
    import(&faulty.library, volume("t.a", &["text"])).await.unwrap();
    create(&faulty.library, "a", "").await.unwrap();
    let faults = Arc::new(Faults::new(faulty.store.clone()));
    let library = Library::open(faults.clone(), faulty.clock.clone(), LibraryOptions::default()).await.unwrap();
    // The volume is verified before the resources.
    let failing = Rates { unavailable: 1.0, ..Rates::default() };
    let failed = library.set_right(false, |_, _| faults.set_rates(0, failing)).await;
    assert!(failed.as_ref().is_err_and(ObjectsError::is_passing), "{failed:?}");
    faults.set_rates(0, Rates::default());
    assert_eq!(library.set_right(false, |_, _| {}).await.unwrap().resources, 2);
}
