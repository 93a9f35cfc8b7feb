//! Orphaned contents are collected; contents that a head names, or an earlier head named, stay.

use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use heads::LibraryOptions;
use library::Library;
use repository::{DamagedPart, NewKind, NewResource, Part, Update, Uploaded};
use store::copying::{Copier, Patience};
use store::{Call, Class, ContentId, Deadline, Table};

use super::tree::{container, delete, path};
use crate::support::{Fixture, fixture, fixture_with, lone_engine};

const GRACE: Duration = Duration::from_secs(25 * 3_600);

pub async fn upload(library: &Library, at: &str, byte: u8) -> Uploaded {
    let bytes = Bytes::from(vec![byte; LibraryOptions::default().small_content_bytes + 1]);
    let source = futures::stream::iter([Ok::<_, std::io::Error>(bytes)]);
    library.repository.upload(&path(at), source, &[]).await.unwrap()
}

pub async fn put(library: &Library, at: &str, uploaded: Uploaded) {
    let new = NewResource { kind: NewKind::Binary(uploaded), ..container() };
    library.repository.create(&path(at), &new).await.unwrap();
}

async fn first_byte(library: &Library, at: &str) -> u8 {
    let resource = library.repository.resource(&path(at)).await.unwrap();
    let binary = resource.body().binary().unwrap();
    library.repository.content(&resource, binary, 0..1).await.unwrap().next().await.unwrap().unwrap()[0]
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_nothing_names_is_collected_after_the_grace_and_no_other() {
    let Fixture { library, clock, .. } = &fixture().await;
    put(library, "a", upload(library, "a", 1).await).await;
    // As POST does: the name is chosen after the bytes have arrived.
    let posted = upload(library, "", 2).await;
    put(library, "fresh", posted).await;
    upload(library, "a", 3).await;
    assert_eq!(library.repository.collect_contents().await.unwrap(), 0, "it may be about to be named");
    clock.advance(GRACE);
    assert_eq!(library.repository.collect_contents().await.unwrap(), 1);
    assert_eq!(library.repository.collect_contents().await.unwrap(), 0);
    assert_eq!((first_byte(library, "a").await, first_byte(library, "fresh").await), (1, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_stays_while_its_request_may_be_about_to_name_it_however_short_the_grace_is() {
    let (second, clock_skew_max) = (Duration::from_secs(1), Duration::ZERO);
    let short = LibraryOptions { grace: 2 * second, plan_life: second, clock_skew_max, ..LibraryOptions::default() };
    let Fixture { library, clock, store, .. } = &fixture_with(short).await;
    let uploaded = upload(library, "a", 1).await;
    let call = || Call::new(Class::Content, Deadline::within(60 * second));
    let contents = store.walk(call(), Table::Contents, None, 2).await.unwrap().partitions;
    let content = ContentId(contents[0][..].try_into().unwrap());
    let lease_until = store.content_header(call(), content).await.unwrap().unwrap().lease_until;
    clock.set(lease_until.plus(60 * second));
    assert_eq!(library.repository.collect_contents().await.unwrap(), 0, "its request tries for a minute");
    put(library, "a", uploaded).await;
    assert_eq!(first_byte(library, "a").await, 1);
    upload(library, "b", 2).await;
    clock.advance(3_600 * second);
    assert_eq!(library.repository.collect_contents().await.unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_earlier_head_names_is_history_and_stays() {
    let Fixture { library, clock, .. } = &fixture().await;
    put(library, "a", upload(library, "a", 1).await).await;
    let resource = library.repository.resource(&path("a")).await.unwrap();
    let replaced = Update::Binary(upload(library, "a", 2).await);
    library.repository.update(&resource, &replaced).await.unwrap();
    delete(library, "a").await.unwrap();
    clock.advance(GRACE);
    assert_eq!(library.repository.collect_contents().await.unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_has_the_history_too_and_collects_what_its_source_would() {
    let Fixture { library, clock, store, .. } = &fixture().await;
    put(library, "a", upload(library, "a", 1).await).await;
    let resource = library.repository.resource(&path("a")).await.unwrap();
    library.repository.update(&resource, &Update::Binary(upload(library, "a", 2).await)).await.unwrap();
    put(library, "gone", upload(library, "", 3).await).await;
    delete(library, "gone").await.unwrap();
    upload(library, "nowhere", 4).await;

    let folder = tempfile::tempdir().unwrap();
    // Contents have the same ids in the copy, so it must not share the source's keyspace.
    let target = lone_engine(&folder, clock.clone()).await;
    let copier = Copier::begin(store.clone(), target.clone(), "the source", Patience::default()).await.unwrap();
    copier.pass().await.unwrap();
    copier.verify().await.unwrap();
    copier.end().await.unwrap();
    let copy = Library::open(target.clone(), clock.clone(), library.options().clone()).await.unwrap();
    let (copied, there) =
        (copy.repository.resource(&path("a")).await.unwrap(), library.repository.resource(&path("a")).await.unwrap());
    assert_eq!(copied.body(), there.body());
    clock.advance(GRACE);
    assert_eq!(copy.repository.collect_contents().await.unwrap(), 1, "all but one are named by a head, or were");
    assert_eq!(first_byte(&copy, "a").await, 2);
    let call = store::Call::new(store::Class::Content, store::Deadline::within(Duration::from_secs(60)));
    assert_eq!(target.walk(call, Table::Contents, None, 10).await.unwrap().partitions.len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_a_resource_is_found_by_reading_it() {
    let Fixture { library, .. } = &fixture().await;
    put(library, "sound", upload(library, "sound", 1).await).await;
    put(library, "lost", upload(library, "lost", 2).await).await;
    let lost = library.repository.resource(&path("lost")).await.unwrap();
    let Some(repository::BytesPlace::Content(id)) = lost.body().binary().map(|binary| &binary.place) else {
        panic!("it is large")
    };
    let call = || store::Call::new(store::Class::Content, store::Deadline::within(Duration::from_secs(60)));
    assert!(library.store().condemn_content(call(), *id).await.unwrap());
    let sound = library.repository.resource(&path("sound")).await.unwrap();
    assert_eq!(library.repository.verify(&sound).await.unwrap().damaged, []);
    let damaged = library.repository.verify(&lost).await.unwrap().damaged;
    let [DamagedPart { part: Some(Part::Bytes), detail }] = &damaged[..] else { panic!("{damaged:?}") };
    assert!(detail.contains("missing"), "{detail}");
}
