//! A data center that is not the home of heads: reads lag there, so nothing is repaired from them.
//! These tests have two data centers in memory; the proof `two_datacenters` has real ones.

use std::sync::Arc;
use std::time::Duration;

use audit::{Event, EventKind, EventResult, Requester};
use budget::Party;
use bytes::Bytes;
use hathi::Seq;
use heads::Mark;
use heads::{LibraryOptions, ObjectsError, keys};
use library::Library;
use repository::{DamagedPart, NewResource, Part, Resource, ResourceError, Update};
use store::{Call, Class, Deadline, NewRow, Step, Store, StoreError, Table};
use volumes::{BulkRequest, OnDamage, SelectionInfo, SelectionTerms, Wanted};

use super::contents::{put, upload};
use super::tree::{OLD, children, container, create, delete, path, said, source, update};
use super::work::{all_passes, with_work};
use crate::support::memory::{Fault, Memory};
use crate::support::{Faulty, faulty, faulty_with, id, import, volume};

/// A library in another data center that has all present rows.
async fn away(faulty: &Faulty) -> (Arc<Memory>, Library) {
    let away = faulty.store.away();
    let library = Library::open(away.clone(), faulty.clock.clone(), faulty.library.options().clone()).await.unwrap();
    (away, library)
}

/// Creates a child whose confirmation is lost.
async fn create_unconfirmed(faulty: &Faulty, at: &str) {
    for _ in 0..2 {
        faulty.store.arm(Fault::UnknownLost, |_, step| {
            let Step::Put { table: Table::Children, rows, .. } = step else { return false };
            rows.iter().any(|row| keys::child_of(&row.sort).is_some_and(|(_, _, mark)| mark == Mark::Confirmed))
        });
    }
    create(&faulty.library, at, "").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listing_away_from_home_does_not_write_off_a_child_that_is_live_there() {
    let faulty = faulty().await;
    faulty.library.repository.create(&path("p"), &container()).await.unwrap();
    create(&faulty.library, "p/child", "first").await.unwrap();
    let (away, there) = away(&faulty).await;
    delete(&faulty.library, "p/child").await.unwrap();
    faulty.library.repository.remove_tombstone(&path("p/child")).await.unwrap();
    create_unconfirmed(&faulty, "p/child").await;
    // The marks have arrived; the head has not.
    away.catch_up(|table| table == Table::Children);
    faulty.clock.advance(OLD);
    assert_eq!(children(&there, &path("p")).await, Vec::<String>::new(), "neither incarnation is known to be live");
    assert_eq!(children(&faulty.library, &path("p")).await, ["child"]);
    away.catch_up(|_| true);
    assert_eq!(children(&there, &path("p")).await, ["child"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listing_away_from_home_shows_what_heads_say_and_writes_nothing() {
    let faulty = faulty().await;
    faulty.library.repository.create(&path("p"), &container()).await.unwrap();
    create_unconfirmed(&faulty, "p/child").await;
    faulty.clock.advance(OLD);
    let (away, there) = away(&faulty).await;
    assert_eq!(children(&there, &path("p")).await, ["child"]);
    assert_eq!(away.steps(), 0, "a listing away from home has written");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_pass_in_the_background_changes_anything_away_from_home() {
    let faulty = with_work().await;
    let (away, there) = away(&faulty).await;
    assert_eq!(all_passes(&there).await, vec![0; 9]);
    assert_eq!(away.steps(), 0, "a pass away from home has written");
    let done = all_passes(&faulty.library).await;
    for (pass, what) in [(0, "resuming"), (1, "emptying"), (3, "collecting"), (4, "rewriting"), (7, "growing")] {
        assert!(done[pass] > 0, "there was no work for {what}: {done:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn old_records_of_the_audit_are_not_deleted_away_from_home() {
    let day = Duration::from_secs(24 * 3_600);
    let faulty = faulty_with(LibraryOptions { audit_keep: Some(day), ..LibraryOptions::default() }).await;
    let event = Event::of(EventKind::Change, "PUT", "/rest/a", EventResult::Status(201));
    faulty.library.audit.auditor().event(&event).await.unwrap();
    faulty.clock.advance(3 * day);
    let (_, there) = away(&faulty).await;
    assert_eq!(there.audit.prune().await.unwrap(), None);
    let pruned = faulty.library.audit.prune().await.unwrap();
    assert_eq!(pruned.map(|pruned| pruned.parts), Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_away_from_home_is_refused_before_anything_is_written() {
    let faulty = faulty().await;
    create(&faulty.library, "p/child", "first").await.unwrap();
    let first = faulty.library.repository.resource(&path("p/child")).await.unwrap().revision();
    update(&faulty.library, "p/child", "").await.unwrap();
    import(&faulty.library, volume("t.a", &["old"])).await.unwrap();
    let (away, there) = away(&faulty).await;
    let is_refused = |error: ResourceError| {
        assert!(matches!(&error, ResourceError::Objects(ObjectsError::Store(StoreError::ReadOnly(_)))), "{error}");
    };
    is_refused(there.repository.create(&path("p/new"), &source("")).await.unwrap_err());
    let resource = there.repository.resource(&path("p/child")).await.unwrap();
    is_refused(there.repository.delete(&resource).await.unwrap_err());
    is_refused(there.repository.remove_version(&path("p/child"), first).await.unwrap_err());
    let new = Update::Description {
        description: "new".into(),
        membership: repository::Membership::Basic,
        members_for: None,
        refers_to: Vec::new(),
    };
    is_refused(there.repository.update(&resource, &new).await.unwrap_err());
    // So many references are recorded by more lists than the one with the head.
    let refers_to = (0..300).map(|n| path(&format!("t/{n}"))).collect();
    let new = NewResource { refers_to, ..source("") };
    is_refused(there.repository.create(&path("p/many"), &new).await.unwrap_err());
    for refused in [
        import(&there, volume("t.b", &["new"])).await.map(|_| ()),
        import(&there, volume("t.a", &["new"])).await.map(|_| ()),
        there.volumes.delete(&id("t.a")).await,
    ] {
        assert!(matches!(refused, Err(ObjectsError::Store(StoreError::ReadOnly(_)))), "{refused:?}");
    }
    assert_eq!(away.steps(), 0, "a change that is refused has written");
    assert_eq!(said(&there, "p/child").await.as_deref(), Some(""));
}

/// Makes a selection with a library.
async fn selected(library: &Library) -> SelectionInfo {
    let somebody = Requester { name: None, address: None, request_id: String::new() };
    let request = BulkRequest::volumes(vec![id("t.a")]);
    library.volumes.select(&request, &somebody, SelectionTerms::default()).await.unwrap().info
}

/// Loses the stored plans of all selections at home, and returns their rows.
fn lose_plans(faulty: &Faulty) -> Vec<NewRow> {
    // An owner's list has rows by the id of a selection, which may begin with the same letter.
    let is_chunk = |sort: &[u8]| sort.starts_with(b"c") && sort.len() == b"c".len() + size_of::<u32>();
    let mut lost = Vec::new();
    faulty.store.tamper(|table, sort, value| {
        if table == Table::Selections && is_chunk(sort) {
            lost.push(NewRow::new(sort.to_vec(), value));
            return None;
        }
        Some(value)
    });
    assert!(!lost.is_empty(), "no selection has a plan");
    lost
}

#[tokio::test(flavor = "multi_thread")]
async fn a_selection_made_away_from_home_is_out_of_reach_there_until_its_plan_has_arrived() {
    let faulty = faulty().await;
    import(&faulty.library, volume("t.a", &["text"])).await.unwrap();
    let (_, there) = away(&faulty).await;
    let selection = selected(&there).await.id;
    let rows = lose_plans(&faulty);
    let error = faulty.library.volumes.selection(&selection, &Party::Local).await.unwrap_err();
    assert!(error.is_passing() && !error.is_damage(), "{error}");
    assert!(there.volumes.selection(&selection, &Party::Local).await.is_ok(), "it can be read where it was made");
    let partition = format!("s/{selection}\0\0\0\0\0").into();
    let arrival = Step::Put { table: Table::Selections, partition, rows };
    let call = Call::new(Class::Description, Deadline::within(Duration::from_secs(60)));
    faulty.store.run(call, vec![arrival]).await.unwrap();
    assert!(faulty.library.volumes.selection(&selection, &Party::Local).await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_plan_of_a_selection_that_never_arrives_is_called_damaged_after_a_grace() {
    let faulty = faulty().await;
    import(&faulty.library, volume("t.a", &["text"])).await.unwrap();
    let (_, there) = away(&faulty).await;
    let selection = selected(&there).await.id;
    lose_plans(&faulty);
    faulty.clock.advance(faulty.library.options().grace);
    let error = faulty.library.volumes.selection(&selection, &Party::Local).await.unwrap_err();
    assert!(error.is_damage(), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_plan_of_a_selection_made_at_home_is_called_damaged_there_when_a_chunk_is_missing() {
    let faulty = faulty().await;
    import(&faulty.library, volume("t.a", &["text"])).await.unwrap();
    let selection = selected(&faulty.library).await.id;
    lose_plans(&faulty);
    let error = faulty.library.volumes.selection(&selection, &Party::Local).await.unwrap_err();
    assert!(error.is_damage(), "{error}");
}

/// The first byte of the keys of directories.
const DIRECTORY: Option<u8> = Some(0x02);

/// Loses the directory of the only volume in one data center.
fn lose_directory(of: &Memory) {
    let mut lost = 0;
    of.tamper(|table, sort, value| {
        let is_lost = table == Table::Objects && sort.first() == DIRECTORY.as_ref();
        lost += usize::from(is_lost);
        (!is_lost).then_some(value)
    });
    assert!(lost > 0, "the volume has no directory");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_whose_directory_has_not_arrived_away_from_home_is_out_of_reach_and_not_damaged() {
    let faulty = faulty().await;
    import(&faulty.library, volume("t.a", &["text"])).await.unwrap();
    let (away, there) = away(&faulty).await;
    lose_directory(&away);
    faulty.clock.advance(2 * faulty.library.options().grace);
    let page = async || there.volumes.page(&id("t.a"), Seq::new(1).unwrap()).await;
    let error = page().await.unwrap_err();
    assert!(error.is_passing() && !error.is_damage(), "{error}");
    let wanted = vec![Wanted { volume: id("t.a"), pages: Some(vec![Seq::new(1).unwrap()]) }];
    let request = BulkRequest { wanted, ..BulkRequest::volumes(vec![]) };
    let planned = there.volumes.plan(&request, OnDamage::Report).await;
    assert!(planned.is_err_and(|error| error.is_passing()), "the plan has left the volume out");
    assert_eq!(away.steps(), 0, "a volume was marked");
    away.catch_up(|_| true);
    assert_eq!(&*page().await.unwrap().text().unwrap(), b"text");
}

#[tokio::test(flavor = "multi_thread")]
async fn damage_that_is_found_away_from_home_is_neither_marked_nor_remembered_there() {
    let faulty = faulty().await;
    import(&faulty.library, volume("t.a", &["text"])).await.unwrap();
    let (away, there) = away(&faulty).await;
    let volume = there.volumes.volume(&id("t.a")).await.unwrap();
    there.volumes.mark_damaged(&id("t.a"), volume.revision, 0, "a forged frame").await.unwrap();
    assert_eq!(there.heads.damage_found(), 1, "monitors see it");
    assert_eq!(there.volumes.damaged_members(&id("t.a"), volume.revision).await.unwrap(), Vec::<u32>::new());
    assert_eq!(away.steps(), 0, "a volume was marked");
}

/// Changes all stored descriptions in one data center; `None` loses them.
fn change_descriptions(of: &Memory, to: Option<&'static [u8]>) {
    let mut changed = 0;
    of.tamper(|table, sort, value| {
        if table != Table::Objects || !sort.starts_with(&keys::description_prefix()) {
            return Some(value);
        }
        changed += 1;
        to.map(Bytes::from_static)
    });
    assert!(changed > 0, "nothing is described");
}

async fn resource(library: &Library, at: &str) -> Resource {
    library.repository.resource(&path(at)).await.unwrap()
}

async fn marked(library: &Library, at: &str) -> Vec<Part> {
    library.repository.damaged_parts(&resource(library, at).await).await.unwrap()
}

/// The damaged parts that a verification finds.
async fn found(library: &Library, resource: &Resource) -> Vec<Option<Part>> {
    let damaged = library.repository.verify(resource).await.unwrap().damaged;
    damaged.into_iter().map(|DamagedPart { part, .. }| part).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn verifying_away_from_home_marks_and_unmarks_nothing_and_what_has_not_arrived_is_out_of_reach() {
    let faulty = faulty().await;
    let home = &faulty.library;
    let (away, there) = away(&faulty).await;
    create(home, "text", "said").await.unwrap();
    create(home, "other", "said").await.unwrap();
    put(home, "bytes", upload(home, "bytes", 1).await).await;
    import(home, volume("t.a", &["text"])).await.unwrap();

    // The heads have arrived. A description and the bytes have not.
    away.catch_up(|table| table != Table::Contents);
    change_descriptions(&away, None);
    let (text, bytes) = (resource(&there, "text").await, resource(&there, "bytes").await);
    let read = there.repository.content(&bytes, bytes.body().binary().unwrap(), 0..1).await;
    let (of_text, of_bytes) = tokio::join!(there.repository.verify(&text), there.repository.verify(&bytes));
    let errors = [there.repository.description(&text).await.err(), read.err(), of_text.err(), of_bytes.err()];
    for error in errors {
        assert!(error.as_ref().is_some_and(|error| error.is_passing() && !error.is_damage()), "{error:?}");
    }
    away.catch_up(|_| true);
    assert_eq!((found(&there, &text).await, found(&there, &bytes).await), (vec![], vec![]));

    // A mark that is true at home, on what is sound here.
    change_descriptions(&faulty.store, Some(b"damaged"));
    assert_eq!(found(home, &resource(home, "text").await).await, [Some(Part::Description)]);
    away.catch_up(|table| table == Table::Damage);
    assert_eq!(found(&there, &text).await, []);
    assert_eq!(marked(&there, "text").await, [Part::Description]);
    assert_eq!(marked(home, "text").await, [Part::Description]);

    // What is damaged here is reported, and marked nowhere.
    change_descriptions(&away, Some(b"damaged"));
    away.tamper(|table, _, value| Some(if table == Table::Packs { Bytes::from_static(b"damaged") } else { value }));
    assert_eq!(found(&there, &resource(&there, "other").await).await, [Some(Part::Description)]);
    let verified = there.volumes.verify(&id("t.a")).await.unwrap();
    assert!(!verified.damaged.is_empty(), "the damaged pages are not reported");
    assert!(there.heads.damage_found() > 1, "monitors do not see it");
    assert_eq!(marked(home, "other").await, []);
    assert_eq!(home.volumes.damaged_members(&id("t.a"), verified.revision).await.unwrap(), Vec::<u32>::new());
    assert_eq!(away.steps(), 0, "a verification away from home has written");
}
