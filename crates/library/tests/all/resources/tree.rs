//! Operations of the tests on a tree of resources, and what must always hold for a tree.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use feed::{Change, Cursor, Event, ObjectKind, Subject};
use heads::{LibraryOptions, ListToken, ObjectState, ObjectsError, ResourcePath, RevisionId, keys};
use library::Library;
use repository::{NewKind, NewResource, Update};
use repository::{ResourceError, ResourceResult};
use store::{Clock, ManualClock, Table};

use crate::support::memory::Memory;
use crate::support::{Faulty, START};

/// The age at which everything unsettled is swept, and at which a sweep may fence an intent.
pub const OLD: Duration = Duration::from_secs(120);

pub fn path(text: &str) -> ResourcePath {
    text.parse().unwrap()
}

pub fn container() -> NewResource {
    NewResource::empty_container()
}

pub fn source(description: &str) -> NewResource {
    NewResource { kind: NewKind::RdfSource, description: Bytes::from(description.to_owned()), ..container() }
}

/// Creates an RDF source.
pub async fn create(library: &Library, at: &str, description: &str) -> ResourceResult<()> {
    library.repository.create(&path(at), &source(description)).await.map(|_| ())
}

/// Replaces the description of a resource, and retries as often as other writers are faster.
pub async fn update(library: &Library, at: &str, description: &str) -> ResourceResult<()> {
    loop {
        let resource = library.repository.resource(&path(at)).await?;
        let update = Update::Description {
            description: Bytes::from(description.to_owned()),
            membership: repository::Membership::Basic,
            members_for: None,
            refers_to: Vec::new(),
        };
        match library.repository.update(&resource, &update).await {
            Err(ResourceError::Moved(_)) => {}
            done => return done.map(|_| ()),
        }
    }
}

/// Deletes a resource, and retries as often as other writers are faster.
pub async fn delete(library: &Library, at: &str) -> ResourceResult<()> {
    loop {
        let resource = library.repository.resource(&path(at)).await?;
        match library.repository.delete(&resource).await {
            Err(ResourceError::Moved(_)) => {}
            done => return done,
        }
    }
}

/// The description of a resource; `None` if it does not exist.
pub async fn said(library: &Library, at: &str) -> Option<String> {
    match library.repository.resource(&path(at)).await {
        Ok(resource) => {
            Some(String::from_utf8(library.repository.description(&resource).await.unwrap().to_vec()).unwrap())
        }
        Err(ResourceError::Absent(_) | ResourceError::Gone { .. }) => None,
        Err(error) => panic!("{at}: {error}"),
    }
}

/// The further partitions that hold rows of an object.
pub fn beside(faulty: &Faulty, object: &[u8]) -> Vec<Bytes> {
    let mut partitions = faulty.store.partitions(Table::Objects);
    partitions.retain(|partition| partition.strip_prefix(object).is_some_and(|rest| rest.starts_with(b"\0")));
    partitions
}

/// The partitions and sort keys of all stored descriptions of a resource, current or not, oldest
/// first.
pub fn descriptions(faulty: &Faulty, at: &str) -> Vec<(Bytes, Bytes)> {
    let beside = beside(faulty, &keys::resource_partition(&path(at))).into_iter();
    let rows = beside.flat_map(|partition| {
        let sorts = faulty.store.sorts(Table::Objects, &partition).into_iter();
        sorts.map(move |sort| (partition.clone(), sort)).collect::<Vec<_>>()
    });
    rows.filter(|(_, sort)| sort.starts_with(&keys::description_prefix())).collect()
}

/// The names of all children of a container, sorted, read in pages of two.
pub async fn children(library: &Library, at: &ResourcePath) -> Vec<String> {
    try_children(library, at).await.unwrap()
}

/// The same for a container that may be deleted meanwhile.
pub async fn try_children(library: &Library, at: &ResourcePath) -> ResourceResult<Vec<String>> {
    let resource = library.repository.resource(at).await?;
    let mut names = Vec::new();
    let mut after: Option<ListToken> = None;
    loop {
        let page = library.repository.children(&resource, after.as_ref(), 2).await?;
        names.extend(page.children.into_iter().map(|child| child.name));
        after = page.next;
        if after.is_none() {
            names.sort();
            return Ok(names);
        }
    }
}

/// All paths that can be reached by listing from the root. Asserts that each listed child exists
/// and is listed once.
pub async fn reachable(library: &Library) -> Vec<String> {
    let mut found = Vec::new();
    let mut containers = vec![ResourcePath::root()];
    while let Some(at) = containers.pop() {
        let names = children(library, &at).await;
        let mut unique = names.clone();
        unique.dedup();
        assert_eq!(names, unique, "listed twice in /{at}");
        for name in names {
            let child = at.child(&name).unwrap();
            let resource =
                library.repository.resource(&child).await.unwrap_or_else(|error| panic!("/{child} is listed: {error}"));
            found.push(child.to_string());
            if resource.body().container().is_some() {
                containers.push(child);
            }
        }
    }
    found.sort();
    found
}

/// Asserts that, of these paths, exactly those that exist are listed, now and once everything
/// unsettled is old enough to be swept.
pub async fn assert_sound(library: &Library, clock: &ManualClock, paths: &[&str]) {
    for _ in 0..2 {
        assert_listed_is_there(library, paths).await;
        clock.advance(OLD);
    }
    assert_feed_is_true(library, clock, paths).await;
}

/// The events of the whole feed, read in pages of `max`.
pub async fn events(library: &Library, max: usize) -> Vec<Event> {
    let (mut events, mut cursor) = (Vec::new(), Cursor::BEGINNING);
    loop {
        let page = library.feed.after(cursor, max).await.unwrap();
        assert!(page.events.len() <= max);
        events.extend(page.events);
        if page.is_last {
            return events;
        }
        cursor = page.end.unwrap();
    }
}

/// What happened to a resource, by its head and its head log: what and by which revision.
pub async fn changes(library: &Library, at: &str) -> Vec<(Change, RevisionId)> {
    let object = keys::resource_partition(&path(at));
    let Some(row) = library.heads.head_at(&object).await.unwrap() else { return Vec::new() };
    let log = library.heads.log_before(&object, &row.head);
    let mut entries = log.from(RevisionId::ZERO).await.unwrap();
    let (mut changes, mut was_live) = (Vec::new(), false);
    let mut current = Some(row.head);
    loop {
        let Some(head) = entries.next_head().await.unwrap().or_else(|| current.take()) else { return changes };
        let change = match (was_live, head.state == ObjectState::Live) {
            (false, true) => Some(Change::Created),
            (true, true) => Some(Change::Updated),
            (true, false) => Some(Change::Deleted),
            (false, false) => None,
        };
        changes.extend(change.map(|change| (change, head.revision)));
        was_live = head.state == ObjectState::Live;
    }
}

/// Asserts that the feed has each change of these resources once and in order, and nothing else of
/// them, once no writer tries any more.
pub async fn assert_feed_is_true(library: &Library, clock: &ManualClock, paths: &[&str]) {
    beyond_the_horizon(library, clock);
    let events = events(library, 3).await;
    for at in paths {
        let of_it = events.iter().filter(|event| event.subject == Subject::Resource(path(at)));
        let of_it: Vec<_> = of_it.map(|event| (event.change, event.revision)).collect();
        assert_eq!(of_it, changes(library, at).await, "/{at}");
    }
}

/// Asserts that, of these paths, exactly those that exist are listed, and returns them.
pub async fn assert_listed_is_there(library: &Library, paths: &[&str]) -> Vec<String> {
    let reachable = reachable(library).await;
    for at in paths {
        let is_there = said(library, at).await.is_some();
        assert_eq!(is_there, reachable.contains(&(*at).to_owned()), "/{at}: {reachable:?}");
    }
    reachable
}

/// Those of these paths that exist at a moment. Asserts that the same ones are listed before
/// anything is swept and after everything is swept that can be.
pub async fn there_at(moment: Arc<Memory>, options: &LibraryOptions, paths: &[&str]) -> BTreeSet<String> {
    let mut looks = Vec::new();
    for now in [START, START.plus(Duration::from_secs(86_400))] {
        let library = Library::open(moment.clone(), Arc::new(ManualClock::new(now)), options.clone()).await.unwrap();
        looks.push(assert_listed_is_there(&library, paths).await);
    }
    assert_eq!(looks[0], looks[1], "a sweep changes nothing that is seen");
    looks.swap_remove(0).into_iter().collect()
}

/// Whether an error means that nothing was changed.
pub fn is_refusal(error: &ResourceError) -> bool {
    !matches!(error, ResourceError::Objects(ObjectsError::Unknown(_)) | ResourceError::Deleting { .. })
}

/// Advances the clock until no writer that has begun tries any more.
pub fn beyond_the_horizon(library: &Library, clock: &ManualClock) {
    clock.advance(Duration::from_millis(clock.now().0 - library.heads.horizon().0 + 1));
}

/// What events say, without their cursors and times.
pub fn reported(events: &[Event]) -> Vec<(Change, ObjectKind, String)> {
    let name = |subject: &Subject| match subject {
        Subject::Volume(id) => id.to_string(),
        Subject::Resource(path) => format!("/{path}"),
    };
    events.iter().map(|event| (event.change, event.kind, name(&event.subject))).collect()
}
