//! Listings that are read backward: the pages are those of the way there, whatever their size.

use std::collections::BTreeSet;

use heads::{LibraryOptions, ListToken, RevisionId};
use library::Library;
use proptest::prelude::*;
use repository::{Child, ChildPage, NewResource};

use super::tree::{container, create, delete, path, source};
use crate::support::{Faulty, faulty_with, on_cassandra};

fn names(page: ChildPage) -> Vec<String> {
    page.children.into_iter().map(|child| child.name).collect()
}

/// The names on all pages of a container, and where the last page begins.
pub async fn forward(library: &Library, at: &str, max: usize) -> (Vec<Vec<String>>, Option<ListToken>) {
    let resource = library.repository.resource(&path(at)).await.unwrap();
    let (mut pages, mut after) = (Vec::new(), None);
    loop {
        let page = library.repository.children(&resource, after.as_ref(), max).await.unwrap();
        assert_eq!(page.begins, after);
        let next = page.next.clone();
        pages.push(names(page));
        match next {
            // A token survives conversion to text.
            Some(next) => after = Some(next.to_string().parse().unwrap()),
            None => return (pages, after),
        }
    }
}

/// The page before the one that begins at `before`, and where it begins.
async fn page_before(library: &Library, at: &str, before: &ListToken, max: usize) -> (Vec<String>, Option<ListToken>) {
    let resource = library.repository.resource(&path(at)).await.unwrap();
    let page = library.repository.children_before(&resource, Some(before), max).await.unwrap();
    assert_eq!(page.next.as_ref(), Some(before));
    let begins = page.begins.as_ref().map(|token| token.to_string().parse().unwrap());
    (names(page), begins)
}

/// The names on the page that begins at `last`, and on all before it, the first page first.
pub async fn back(library: &Library, at: &str, last: Option<ListToken>, max: usize) -> Vec<Vec<String>> {
    let resource = library.repository.resource(&path(at)).await.unwrap();
    let mut pages = vec![names(library.repository.children(&resource, last.as_ref(), max).await.unwrap())];
    let mut begins = last;
    while let Some(before) = begins {
        let (page, earlier) = page_before(library, at, &before, max).await;
        pages.push(page);
        begins = earlier;
    }
    pages.reverse();
    pages
}

async fn container_with(children: usize) -> Faulty {
    let faulty = faulty_with(LibraryOptions { resource_shards: 3, ..LibraryOptions::default() }).await;
    faulty.library.repository.create(&path("c"), &container()).await.unwrap();
    for n in 0..children {
        create(&faulty.library, &format!("c/n{n:02}"), "").await.unwrap();
    }
    faulty
}

/// Bytes of names and members on a page, in one of the tests below.
const LISTING_BYTES: usize = 200;

fn bytes(child: &Child) -> usize {
    child.name.len() + child.member.as_deref().map_or(0, str::len)
}

/// Whether a page has as much as it may have.
fn is_full(page: &[Child], max: usize) -> bool {
    page.len() == max || page.iter().map(bytes).sum::<usize>() >= LISTING_BYTES
}

/// Whether a page would be full without the child that was added last.
fn is_overfull<'a>(page: impl DoubleEndedIterator<Item = &'a Child>) -> bool {
    page.rev().skip(1).map(bytes).sum::<usize>() >= LISTING_BYTES
}

fn run(work: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(work);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if on_cassandra() { 2 } else { 24 }, ..ProptestConfig::default() })]

    #[test]
    fn the_way_back_has_the_pages_of_the_way_there(children in 0..20usize, gone in 0..6usize, max in 1..6usize) {
        run(async move {
            let faulty = container_with(children).await;
            for n in 0..children.min(gone) {
                delete(&faulty.library, &format!("c/n{n:02}")).await.unwrap();
            }
            let (there, last) = forward(&faulty.library, "c", max).await;
            assert_eq!(back(&faulty.library, "c", last, max).await, there);
        });
    }

    #[test]
    fn pages_of_children_that_name_long_members_end_early_and_have_each_child_once(
        members in prop::collection::vec(0..150usize, 0..16),
        max in 1..8usize,
    ) {
        run(async move {
            let options = LibraryOptions { listing_bytes: LISTING_BYTES, ..LibraryOptions::default() };
            let library = faulty_with(options).await.library;
            library.repository.create(&path("c"), &container()).await.unwrap();
            for (n, bytes) in members.iter().enumerate() {
                let member = (*bytes > 0).then(|| "m".repeat(*bytes));
                let new = NewResource { member, ..source("") };
                library.repository.create(&path(&format!("c/n{n:02}")), &new).await.unwrap();
            }
            let resource = library.repository.resource(&path("c")).await.unwrap();
            let (mut there, mut after) = (Vec::new(), None);
            loop {
                let page = library.repository.children(&resource, after.as_ref(), max).await.unwrap();
                let is_last = page.next.is_none();
                assert!(page.children.len() <= max && (is_last || is_full(&page.children, max)), "{page:?}");
                assert!(!is_overfull(page.children.iter()), "{page:?}");
                there.extend(page.children);
                after = page.next;
                if is_last {
                    break;
                }
            }
            let names: Vec<_> = there.iter().map(|child| child.name.clone()).collect();
            let each: BTreeSet<_> = names.iter().cloned().collect();
            assert_eq!((names.len(), each.len()), (members.len(), members.len()));

            let (mut back, mut before) = (Vec::new(), None);
            loop {
                let page = library.repository.children_before(&resource, before.as_ref(), max).await.unwrap();
                assert_eq!(page.next, before);
                let is_first = page.begins.is_none();
                assert!(page.children.len() <= max && (is_first || is_full(&page.children, max)), "{page:?}");
                assert!(!is_overfull(page.children.iter().rev()), "{page:?}");
                back.extend(page.children.into_iter().rev());
                before = page.begins;
                if is_first {
                    break;
                }
            }
            back.reverse();
            assert_eq!(back, there);

            let mut then = library.repository.members_as_of(&resource, RevisionId::LAST).await.unwrap();
            let mut all = Vec::new();
            while let Some(page) = then.more(max).await.unwrap() {
                assert!(page.len() <= max && !is_overfull(page.iter()), "{page:?}");
                all.extend(page);
            }
            assert_eq!(all, there);
        });
    }

    #[test]
    fn children_that_come_and_go_on_the_way_back_neither_repeat_others_nor_hide_them(
        changes in prop::collection::vec((any::<bool>(), 0..16usize), 0..24),
        max in 1..4usize,
    ) {
        run(async move {
            let faulty = container_with(16).await;
            let library = &faulty.library;
            let (there, last) = forward(library, "c", max).await;
            let mut seen = there.last().unwrap().clone();
            let (mut created, mut deleted) = (BTreeSet::new(), BTreeSet::new());
            let (mut begins, mut changes) = (last, changes.chunks(3));
            while let Some(before) = begins {
                for (comes, n) in changes.next().unwrap_or_default() {
                    let (set, prefix) = if *comes { (&mut created, 'm') } else { (&mut deleted, 'n') };
                    let name = format!("{prefix}{n:02}");
                    let at = format!("c/{name}");
                    if set.insert(name) {
                        let changed = if *comes { create(library, &at, "").await } else { delete(library, &at).await };
                        changed.unwrap();
                    }
                }
                let (page, earlier) = page_before(library, "c", &before, max).await;
                assert!(page.len() == max || earlier.is_none(), "only the first page may have fewer");
                seen.extend(page);
                begins = earlier;
            }
            let once: BTreeSet<_> = seen.iter().cloned().collect();
            assert_eq!(once.len(), seen.len(), "{seen:?}");
            let at_first: BTreeSet<_> = there.into_iter().flatten().collect();
            assert!(at_first.difference(&deleted).all(|stayed| once.contains(stayed)), "{seen:?}");
            assert!(once.iter().all(|name| at_first.contains(name) || created.contains(name)), "{seen:?}");
        });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn before_a_page_of_which_all_earlier_children_were_deleted_there_is_an_empty_first_page() {
    let faulty = container_with(8).await;
    let (there, last) = forward(&faulty.library, "c", 3).await;
    for name in there[..there.len() - 1].iter().flatten() {
        delete(&faulty.library, &format!("c/{name}")).await.unwrap();
    }
    assert_eq!(page_before(&faulty.library, "c", &last.unwrap(), 3).await, (Vec::new(), None));
}
