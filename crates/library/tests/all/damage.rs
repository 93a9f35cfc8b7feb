//! Flipped values are found, reported and marked; marks are removed when everything is sound again.
use std::sync::Arc;

use crate::support::memory::Fault;
use crate::support::{Faulty, faulty, id, import, listed, on_cassandra, volume};
use audit::Requester;
use bytes::Bytes;
use futures::StreamExt;
use hathi::Seq;
use heads::{Body, Head, LibraryOptions, ObjectsError, RevisionId, keys};
use library::Library;
use pack::{Layout, Level};
use store::limited::Limited;
use store::{Limits, Table, ValueKind, envelope};
use volumes::damage::WHOLE_VOLUME;
use volumes::{BulkRequest, Imported, Missing, MissingPart, MissingReason, OnDamage, Verified, Wanted};

/// Kinds of rows as `keys.rs` numbers them.
const DIRECTORY: u8 = 2;
const FIXITY: u8 = 3;
const PACK: u8 = 4;

/// Changes the values of all rows of one kind.
fn tamper(faulty: &Faulty, kind: u8, change: impl Fn(Bytes) -> Option<Bytes>) {
    faulty.store.tamper(|table, sort, value| match table == keys::table_of(sort) && sort[0] == kind {
        true => change(value),
        false => Some(value),
    });
}

/// Flips the last bit of a value; its envelope's checksum detects that.
fn flipped(value: Bytes) -> Bytes {
    let mut value = value.to_vec();
    *value.last_mut().unwrap() ^= 1;
    value.into()
}

/// Changes the payload and seals it again; only the digests detect that.
fn forged(value: Bytes, at: usize) -> Bytes {
    let kind = ValueKind::of_number(value[1]).unwrap();
    let mut payload = envelope::open(kind, &value).unwrap().to_vec();
    payload[at] ^= 1;
    envelope::seal(kind, &payload)
}

async fn stored() -> Faulty {
    let faulty = faulty().await;
    import(&faulty.library, volume("t.a", &["one", "two", "three"])).await.unwrap();
    faulty
}

async fn damaged(library: &Library) -> (Vec<u32>, u32) {
    let volume = library.volumes.volume(&id("t.a")).await.unwrap();
    let members = library.volumes.damaged_members(&id("t.a"), volume.revision).await.unwrap();
    (members, volume.body.damaged)
}

async fn verify(library: &Library) -> Verified {
    library.volumes.verify(&id("t.a")).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sound_volume_verifies_with_all_its_members() {
    let faulty = stored().await;
    let verified = verify(&faulty.library).await;
    assert_eq!((verified.members, verified.damaged.len()), (5, 0), "three pages, METS, record");
    assert!(verified.bytes > 11);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flipped_pack_is_never_served_and_all_its_members_are_marked_until_it_is_sound_again() {
    let faulty = stored().await;
    let library = &faulty.library;
    tamper(&faulty, PACK, |value| Some(flipped(value)));
    for seq in 1..=3 {
        let error = library.volumes.page(&id("t.a"), Seq::new(seq).unwrap()).await.unwrap_err();
        assert!(matches!(error, ObjectsError::Damaged { member: Some(index), .. } if index == seq - 1), "{error}");
    }
    assert!(library.volumes.mets(&id("t.a")).await.unwrap_err().is_damage());
    let members: Vec<_> = verify(library).await.damaged.iter().map(|damage| damage.member).collect();
    assert_eq!(members, [0, 1, 2, 3, 4]);
    assert_eq!(damaged(library).await, (vec![0, 1, 2, 3, 4], 5));
    assert_eq!(library.statistics().await.unwrap().damaged_members, 5);
    assert_eq!(listed(library, 10).await, ["t.a"]);

    tamper(&faulty, PACK, |value| Some(flipped(value)));
    assert!(verify(library).await.damaged.is_empty());
    assert_eq!(damaged(library).await, (vec![], 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_with_more_damaged_pages_than_a_step_has_rows_is_marked_and_cleared() {
    let faulty = faulty().await;
    // A real engine takes long for so many pages.
    let pages = if on_cassandra() { 100 } else { Limits::default().step_rows + 100 };
    import(&faulty.library, volume("t.a", &vec!["x"; pages])).await.unwrap();
    let limited = Arc::new(Limited::new(faulty.store.clone(), Limits::default()));
    let library = Library::open(limited, faulty.clock.clone(), LibraryOptions::default()).await.unwrap();
    tamper(&faulty, FIXITY, |value| Some(flipped(value)));
    assert_eq!(verify(&library).await.damaged.len(), pages);
    let (members, count) = damaged(&library).await;
    assert_eq!((members.len(), count as usize), (pages, pages));

    tamper(&faulty, FIXITY, |value| Some(flipped(value)));
    assert!(verify(&library).await.damaged.is_empty());
    assert_eq!(damaged(&library).await, (vec![], 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forged_frame_is_found_by_its_page_alone() {
    let faulty = stored().await;
    let second = faulty.library.volumes.page(&id("t.a"), Seq::new(2).unwrap()).await.unwrap().entry;
    // In the middle of the frame of page 2.
    let at = second.place.offset as usize + second.member.frame_len as usize / 2;
    tamper(&faulty, PACK, |value| Some(forged(value, at)));
    assert!(
        faulty.library.volumes.page(&id("t.a"), Seq::new(2).unwrap()).await.unwrap().text().unwrap_err().is_damage()
    );
    let members: Vec<_> = verify(&faulty.library).await.damaged.iter().map(|damage| damage.member).collect();
    assert_eq!(members, [1]);
    assert_eq!(damaged(&faulty.library).await, (vec![1], 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_that_is_lost_or_does_not_add_up_damages_the_whole_volume() {
    for change in [|_| None, |value| Some(flipped(value)), |value| Some(forged(value, 7))] {
        let faulty = stored().await;
        tamper(&faulty, DIRECTORY, change);
        assert!(verify(&faulty.library).await.damaged.iter().any(|damage| damage.member == WHOLE_VOLUME));
        assert!(damaged(&faulty.library).await.0.contains(&WHOLE_VOLUME));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_that_does_not_add_up_ends_a_stream_and_is_named_to_who_asks_again() {
    let faulty = stored().await;
    let library = &faulty.library;
    // The length of the first frame: the archive would differ in length from its plan.
    let generation = library.volumes.volume(&id("t.a")).await.unwrap().body.generation;
    let of_directory = [keys::directory(generation, 0), keys::directory_copy(generation, 0)];
    faulty.store.tamper(move |_, sort, value| match of_directory.iter().any(|key| key[..] == *sort) {
        true => Some(forged(value, 11)),
        false => Some(value),
    });
    let wanted = vec![Wanted::all(id("t.a"))];
    let request = BulkRequest { wanted, layout: Layout::Pages, level: Level::Frames, mets: false, as_of: None };
    let plan = library.volumes.plan(&request, OnDamage::Break).await.unwrap();
    let requester = Requester { name: None, address: None, request_id: "r1".to_owned() };
    let pieces: Vec<_> = library.volumes.stream(&plan, pack::WHOLE, requester).await.unwrap().collect().await;
    let error = pieces.into_iter().find_map(Result::err).expect("such a stream must not end well");
    assert!(matches!(error, ObjectsError::Damaged { .. }), "{error}");
    let again = library.volumes.plan(&request, OnDamage::Break).await.unwrap();
    assert_eq!(again.missing.iter().map(|missing| missing.part).collect::<Vec<_>>(), [MissingPart::Volume]);
}

#[tokio::test(flavor = "multi_thread")]
async fn damage_that_is_found_while_an_archive_is_measured_leaves_out_its_volume_alone() {
    let faulty = stored().await;
    import(&faulty.library, volume("t.b", &["one"])).await.unwrap();
    // So long that the archive passes 4 GiB within it, where the plan has to read its directory.
    faulty.store.tamper(|table, sort, value| {
        if table != Table::Objects || sort[..] != keys::head()[..] {
            return Some(value);
        }
        let mut head: Head = heads::head::open(table, &value).unwrap();
        if let Body::Volume(volume) = &mut head.body
            && volume.pages.count == 3
        {
            volume.pages.frame_bytes += 5 << 30;
        }
        Some(head.seal().unwrap())
    });
    let of_a = faulty.library.volumes.volume(&id("t.a")).await.unwrap().body.generation;
    faulty.store.tamper(|_, sort, value| (sort[..] != keys::directory(of_a, 0)[..]).then_some(value));
    let wanted = ["t.a", "t.b"].map(|name| Wanted::all(id(name))).to_vec();
    let request = BulkRequest { wanted, layout: Layout::Pages, level: Level::Frames, mets: false, as_of: None };
    let plan = faulty.library.volumes.plan(&request, OnDamage::Break).await.unwrap();
    assert_eq!(plan.missing, [Missing::volume(id("t.a"), MissingReason::Damaged)]);
    assert_eq!(plan.volumes.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_digests_damage_the_pages_they_are_of() {
    let faulty = stored().await;
    tamper(&faulty, FIXITY, |_| None);
    let members: Vec<_> = verify(&faulty.library).await.damaged.iter().map(|damage| damage.member).collect();
    assert_eq!(members, [0, 1, 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_volume_is_not_unchanged_and_a_new_import_heals_it() {
    let faulty = stored().await;
    let library = &faulty.library;
    let revision = library.volumes.volume(&id("t.a")).await.unwrap().revision;
    library.volumes.mark_damaged(&id("t.a"), revision, 2, "seen while streaming").await.unwrap();
    let imported = import(library, volume("t.a", &["one", "two", "three"])).await.unwrap();
    assert!(matches!(imported, Imported::Replaced { .. }), "{imported:?}");
    assert_eq!(damaged(library).await, (vec![], 0));
    library.volumes.mark_damaged(&id("t.a"), revision, 1, "by a stream of the old revision").await.unwrap();
    assert_eq!(damaged(library).await, (vec![], 0), "the new revision is not damaged");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mark_that_cannot_be_written_is_kept_in_mind_until_the_member_is_found_sound() {
    let faulty = stored().await;
    let library = &faulty.library;
    let revision = library.volumes.volume(&id("t.a")).await.unwrap().revision;
    faulty.store.arm(Fault::Full, |_, _| true);
    library.volumes.mark_damaged(&id("t.a"), revision, 1, "seen while streaming").await.unwrap_err();
    assert_eq!(damaged(library).await, (vec![1], 0));
    let wanted = vec![Wanted::all(id("t.a"))];
    let request = BulkRequest { wanted, layout: Layout::Pages, level: Level::Frames, mets: false, as_of: None };
    let plan = library.volumes.plan(&request, OnDamage::Break).await.unwrap();
    assert_eq!(plan.missing.iter().map(|missing| missing.part).collect::<Vec<_>>(), [MissingPart::Page(2)]);

    faulty.store.recover();
    library.volumes.mark_damaged(&id("t.a"), revision, 2, "seen while streaming").await.unwrap();
    assert_eq!(damaged(library).await, (vec![1, 2], 1), "one is in the store, one in mind");
    assert!(verify(library).await.damaged.is_empty());
    assert_eq!(damaged(library).await, (vec![], 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_with_damage_in_mind_is_imported_anew() {
    let faulty = stored().await;
    let revision = faulty.library.volumes.volume(&id("t.a")).await.unwrap().revision;
    faulty.store.arm(Fault::Full, |_, _| true);
    faulty.library.volumes.mark_damaged(&id("t.a"), revision, 1, "seen while streaming").await.unwrap_err();
    faulty.store.recover();
    let imported = import(&faulty.library, volume("t.a", &["one", "two", "three"])).await.unwrap();
    assert!(matches!(imported, Imported::Replaced { .. }), "{imported:?}");
    assert_eq!(damaged(&faulty.library).await, (vec![], 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_that_cannot_be_read_is_a_finding_and_not_an_error() {
    let faulty = stored().await;
    faulty.store.tamper(|table, sort, value| match table == Table::Objects && sort[..] == keys::head()[..] {
        true => Some(flipped(value)),
        false => Some(value),
    });
    let verified = verify(&faulty.library).await;
    assert_eq!(verified.revision, RevisionId::ZERO);
    assert_eq!(verified.damaged.iter().map(|damage| damage.member).collect::<Vec<_>>(), [WHOLE_VOLUME]);
    let error = faulty.library.volumes.volume(&id("t.a")).await.unwrap_err();
    assert!(matches!(error, ObjectsError::Damaged { .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unsettled_child_with_a_damaged_head_does_not_keep_the_others_from_being_listed() {
    let faulty = stored().await;
    for name in ["t.b", "t.c", "t.d"] {
        import(&faulty.library, volume(name, &["one"])).await.unwrap();
    }
    let of_a = keys::volume_partition(&id("t.a"));
    let head = faulty.store.row(Table::Objects, &of_a, &keys::head());
    // Without the confirmation mark the head has to be read.
    faulty.store.tamper(|table, sort, value| match table {
        Table::Children if sort.starts_with(b"t.a") && sort.ends_with(b"c") => None,
        Table::Objects if head.as_ref() == Some(&value) => Some(flipped(value)),
        _ => Some(value),
    });
    assert_eq!(listed(&faulty.library, 10).await, ["t.b", "t.c", "t.d"]);
    assert_eq!(listed(&faulty.library, 1).await, ["t.b", "t.c", "t.d"]);
    faulty.store.tamper(|table, sort, value| match table == Table::Objects && sort[..] == keys::head()[..] {
        true if head == Some(flipped(value.clone())) => head.clone(),
        _ => Some(value),
    });
    assert_eq!(listed(&faulty.library, 10).await, ["t.a", "t.b", "t.c", "t.d"], "nothing was marked meanwhile");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_marks_at_once_are_all_counted_once() {
    let faulty = stored().await;
    let revision = faulty.library.volumes.volume(&id("t.a")).await.unwrap().revision;
    let marks = (0..12).map(|n| {
        let library = faulty.library.clone();
        tokio::spawn(async move { library.volumes.mark_damaged(&id("t.a"), revision, n % 3, "seen").await })
    });
    for mark in marks.collect::<Vec<_>>() {
        mark.await.unwrap().unwrap();
    }
    assert_eq!(damaged(&faulty.library).await, (vec![0, 1, 2], 3));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_clearing_never_counts_too_few_and_is_made_good() {
    for fault in [Fault::Crash, Fault::UnknownApplied, Fault::UnknownLost] {
        for at in 0..2 {
            let faulty = stored().await;
            let revision = faulty.library.volumes.volume(&id("t.a")).await.unwrap().revision;
            faulty.library.volumes.mark_damaged(&id("t.a"), revision, 1, "seen").await.unwrap();
            faulty.store.arm(fault.clone(), move |number, _| number == at);
            let _ = faulty.library.volumes.verify(&id("t.a")).await;
            let library = faulty.reopened().await;
            let (members, count) = damaged(&library).await;
            assert!(count as usize >= members.len(), "{fault:?} at {at}: {members:?} counted as {count}");
            verify(&library).await;
            assert_eq!(damaged(&library).await, (vec![], 0), "{fault:?} at {at}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_does_not_answer_is_never_damage() {
    let faulty = stored().await;
    faulty.store.arm(Fault::Crash, |_, _| true);
    // The process dies at its first write.
    faulty.library.volumes.delete(&id("t.a")).await.unwrap_err();
    let error = faulty.library.volumes.verify(&id("t.a")).await.unwrap_err();
    assert!(!error.is_damage(), "{error}");
    let library = faulty.reopened().await;
    assert_eq!(damaged(&library).await, (vec![], 0));
}
