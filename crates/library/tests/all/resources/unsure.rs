//! Lost responses: a writer whose write was applied never learns that another writer made it or
//! that no one did, and no bytes are named twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use heads::{LibraryOptions, ObjectState, keys};
use library::Library;
use repository::ResourceError;
use repository::{NewKind, NewResource, Update, Uploaded};
use store::{Step, Table};

use super::tree::{children, container, create, path, said, update};
use crate::support::memory::{Fault, Gate};
use crate::support::{Faulty, faulty};

const CHILD: &str = "p/child";

/// The step that changes the head of a resource.
fn head_of(at: &str) -> impl Fn(usize, &Step) -> bool + Send + 'static {
    let partition = format!("r/{at}").into_bytes();
    move |_, step| matches!(step, Step::CompareAndWrite { partition: of, .. } if **of == *partition)
}

async fn upload(library: &Library, at: &str) -> Uploaded {
    let bytes = Bytes::from(vec![7; LibraryOptions::default().small_content_bytes + 1]);
    library.repository.upload(&path(at), futures::stream::iter([Ok::<_, std::io::Error>(bytes)]), &[]).await.unwrap()
}

fn binary(uploaded: &Uploaded) -> NewResource {
    NewResource { kind: NewKind::Binary(uploaded.clone()), ..container() }
}

/// Whether all bytes of a resource can be read.
async fn is_whole(library: &Library, at: &str) -> bool {
    let resource = library.repository.resource(&path(at)).await.unwrap();
    let binary = resource.body().binary().unwrap();
    let mut content = library.repository.content(&resource, binary, 0..binary.len_bytes).await.unwrap();
    let mut len = 0;
    while let Some(piece) = content.next().await {
        len += piece.unwrap().len() as u64;
    }
    len == binary.len_bytes
}

/// The first write of a head below `p` arrives `further` steps later, and each requirement of `p`
/// is refused as often as a writer retries.
async fn with_late_head(further: usize) -> Faulty {
    let faulty = faulty().await;
    faulty.library.repository.create(&path("p"), &container()).await.unwrap();
    late_head(&faulty, further, b"r/p/", 12);
    faulty
}

/// The first write of a head whose partition begins with `prefix` arrives `further` steps later.
/// After it, `refusals` requirements are refused.
fn late_head(faulty: &Faulty, further: usize, prefix: &'static [u8], refusals: usize) {
    let is_late = Arc::new(AtomicBool::new(false));
    for _ in 0..refusals {
        let is_late = is_late.clone();
        let required = move |_: usize, step: &Step| is_late.load(SeqCst) && matches!(step, Step::Require { .. });
        faulty.store.arm(Fault::Refused, required);
    }
    faulty.store.arm(Fault::UnknownLate(further), move |_, step| {
        let is_head = matches!(step, Step::CompareAndWrite { partition, .. } if partition.starts_with(prefix));
        is_late.fetch_or(is_head, SeqCst);
        is_head
    });
}

#[tokio::test(start_paused = true)]
async fn a_first_write_that_arrives_late_is_not_taken_for_somebody_elses() {
    for further in (0..60).chain([usize::MAX]) {
        let faulty = with_late_head(further).await;
        let library = &faulty.library;
        let uploaded = upload(library, CHILD).await;
        let created = library.repository.create(&path(CHILD), &binary(&uploaded)).await;
        let written = created.unwrap_or_else(|error| panic!("nobody else was there, {further} steps late: {error}"));
        assert_eq!(library.repository.resource(&path(CHILD)).await.unwrap().incarnation(), written.revision);
        faulty.store.recover();
        assert_eq!(
            library.repository.resource(&path(CHILD)).await.unwrap().incarnation(),
            written.revision,
            "{further}"
        );
        assert!(is_whole(library, CHILD).await);
        assert_eq!(children(library, &path("p")).await, ["child"]);
    }
}

#[tokio::test(start_paused = true)]
async fn bytes_that_are_posted_once_are_named_once_however_late_a_write_arrives() {
    for further in (0..60).chain([usize::MAX]) {
        let faulty = with_late_head(further).await;
        let library = &faulty.library;
        let uploaded = upload(library, "p").await;
        let created =
            library.repository.create_in::<ResourceError>(&path("p"), None, |_, _| Ok(binary(&uploaded))).await;
        let written = created.unwrap_or_else(|error| panic!("{further} steps late: {error}"));
        faulty.store.recover();
        faulty.clock.advance(Duration::from_secs(120));
        let name = written.path.name().to_owned();
        assert_eq!(children(library, &path("p")).await, [name], "{further} steps late");
        assert!(is_whole(library, written.path.as_str()).await);
    }
}

#[tokio::test(start_paused = true)]
async fn a_deletion_whose_first_write_arrives_late_is_not_told_that_somebody_else_deleted_it() {
    for further in (0..40).chain([usize::MAX]) {
        let faulty = crate::support::faulty().await;
        let library = &faulty.library;
        let id = crate::support::id("t.a");
        crate::support::import(library, crate::support::volume("t.a", &["text"])).await.unwrap();
        late_head(&faulty, further, b"v/", 6);
        library.volumes.delete(&id).await.unwrap_or_else(|error| panic!("{further} steps late: {error}"));
        faulty.store.recover();
        assert!(crate::support::listed(library, 10).await.is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_was_decided_but_has_not_arrived_everywhere_is_known() {
    let faulty = faulty().await;
    create(&faulty.library, CHILD, "first").await.unwrap();
    let read = faulty.library.repository.resource(&path(CHILD)).await.unwrap();
    let gate = Gate::new();
    faulty.store.arm(Fault::HoldUnknown(gate.clone()), head_of(CHILD));
    let library = faulty.library.clone();
    // Usual and strong reads find the head that it replaces.
    faulty.store.leave_undecided(Table::Objects, keys::resource_partition(&path(CHILD)), keys::head());
    let writing = tokio::spawn(async move {
        let mine = Update::Description {
            description: "mine".into(),
            membership: repository::Membership::Basic,
            members_for: None,
            refers_to: Vec::new(),
        };
        library.repository.update(&read, &mine).await
    });
    gate.reached().await;
    assert_eq!(said(&faulty.library, CHILD).await.as_deref(), Some("first"));
    gate.open();
    let written = writing.await.unwrap().unwrap_or_else(|error| panic!("it was applied: {error}"));
    let resource = faulty.library.repository.resource(&path(CHILD)).await.unwrap();
    assert_eq!(written.revision, resource.description_revision());
    assert_eq!(said(&faulty.library, CHILD).await.as_deref(), Some("mine"));
}

#[tokio::test(start_paused = true)]
async fn a_write_that_arrives_and_is_superseded_between_the_reads_of_head_and_log_is_known() {
    // The write arrives before any one of the reads of the writer that does not know its outcome.
    for before in 0..6 {
        let faulty = faulty().await;
        create(&faulty.library, CHILD, "first").await.unwrap();
        let read = faulty.library.repository.resource(&path(CHILD)).await.unwrap();
        faulty.store.arm(Fault::UnknownLate(usize::MAX), head_of(CHILD));
        let turns = faulty.store.take_turns();
        let library = faulty.library.clone();
        let writing = tokio::spawn(async move {
            let mine = Update::Description {
                description: "mine".into(),
                membership: repository::Membership::Basic,
                members_for: None,
                refers_to: Vec::new(),
            };
            library.repository.update(&read, &mine).await
        });
        let writer = writing.id();
        tokio::time::sleep(Duration::from_millis(1)).await;
        // The description, the late head, and `before` reads.
        for _ in 0..2 + before {
            turns.next(Some(writer), None).await;
        }
        faulty.store.deliver();
        faulty.store.end_turns();
        if said(&faulty.library, CHILD).await.as_deref() == Some("mine") {
            update(&faulty.library, CHILD, "theirs").await.unwrap();
        }
        while turns.next(None, None).await {}
        let written = writing.await.unwrap();
        let head = faulty.store.row(Table::Objects, &keys::resource_partition(&path(CHILD)), &keys::head()).unwrap();
        let head: heads::Head = heads::head::open(Table::Objects, &head).unwrap();
        assert_eq!(head.state, ObjectState::Live);
        assert!(written.is_ok(), "it was applied before read {before}, and is denied: {written:?}");
    }
}
