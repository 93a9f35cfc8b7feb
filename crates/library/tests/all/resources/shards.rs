//! Listings, their change times, and descriptions of any size.

use bytes::Bytes;
use heads::{LibraryOptions, RevisionId};
use repository::{Child, NewResource};

use super::tree::{children, container, create, delete, path, said, source};
use crate::support::{faulty, faulty_with, fixture};

#[tokio::test(flavor = "multi_thread")]
async fn a_description_of_any_size_comes_back_whole() {
    let fixture = fixture().await;
    for (n, len) in [0, 1, 60 << 10, (60 << 10) + 1, 5 << 20].into_iter().enumerate() {
        let description: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
        let new = NewResource { description: Bytes::from(description.clone()), ..source("") };
        let at = path(&format!("d{n}"));
        fixture.library.repository.create(&at, &new).await.unwrap();
        let resource = fixture.library.repository.resource(&at).await.unwrap();
        assert_eq!(fixture.library.repository.description(&resource).await.unwrap(), description, "{len} bytes");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_change_of_a_listing_is_told_and_nothing_else_is() {
    let faulty = faulty().await;
    faulty.library.repository.create(&path("c"), &container()).await.unwrap();
    let change = async || {
        let container = faulty.library.repository.resource(&path("c")).await.unwrap();
        faulty.library.repository.last_change(&container).await.unwrap()
    };
    assert_eq!(change().await, None);
    let mut before = RevisionId::ZERO;
    for n in 0..8 {
        create(&faulty.library, &format!("c/{n}"), "").await.unwrap();
        let after = change().await.unwrap();
        assert!(after > before);
        before = after;
    }
    super::tree::update(&faulty.library, "c/1", "other").await.unwrap();
    create(&faulty.library, "elsewhere", "").await.unwrap();
    assert_eq!(change().await, Some(before));
    delete(&faulty.library, "c/1").await.unwrap();
    assert!(change().await.unwrap() > before);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_member_that_a_child_was_created_with_is_listed_with_it() {
    let faulty = faulty().await;
    faulty.library.repository.create(&path("c"), &container()).await.unwrap();
    let new = NewResource { member: Some("http://example.org/m".to_owned()), ..source("") };
    faulty.library.repository.create(&path("c/1"), &new).await.unwrap();
    let listed = faulty
        .library
        .repository
        .children(&faulty.library.repository.resource(&path("c")).await.unwrap(), None, 10)
        .await
        .unwrap();
    let expected = Child { name: "1".to_owned(), member: Some("http://example.org/m".to_owned()) };
    assert_eq!((listed.children, listed.next), (vec![expected], None));
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_begin_alike_and_odd_ones_are_each_listed_once() {
    let faulty = faulty_with(LibraryOptions { resource_shards: 1, ..LibraryOptions::default() }).await;
    let names = [" ", "a", "a b", "aa", "a\u{a0}", "ü", "\u{10ffff}", "!"];
    for name in names {
        create(&faulty.library, name, name).await.unwrap();
    }
    let mut expected = names.to_vec();
    expected.sort_unstable();
    assert_eq!(children(&faulty.library, &heads::ResourcePath::root()).await, expected);
    for name in names {
        assert_eq!(said(&faulty.library, name).await.as_deref(), Some(name));
    }
}
