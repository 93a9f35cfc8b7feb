//! A copy that follows a library by its change feed: what it has when it takes the place of its
//! source, and what not, how much is read for that, and whose damage ends it. Both stores are in
//! memory.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use feed::{Cursor, Page, Subject};
use heads::containment::Container;
use heads::{History, Keep, LibraryOptions, ResourcePath, RevisionId, keys};
use library::Library;
use library::following::{self, Changed, Following};
use repository::Update;
use store::copying::{self, Copier, CopyError, Followed, Patience};
use store::{Call, Class, Clock, Deadline, NewRow, Removal, Step, Store, StoreError, Table};

use super::explicit::listed;
use super::received::receive;
use super::tree::{beyond_the_horizon, container, create, delete, path, said, update};
use crate::support::memory::{Fault, Gate, Memory};
use crate::support::{Faulty, faulty_with, id, import, volume};

const ORIGIN: &str = "the source";

/// Time between two changes whose order matters.
const TICK: Duration = Duration::from_millis(10);

/// A copy that follows a source.
struct Standby {
    copier: Copier,
    store: Arc<Memory>,
    following: Following,
    cursor: Cursor,
}

/// Each object that a page of the feed names, with the first of its revisions.
fn changed_in(page: &Page) -> Vec<Changed> {
    let events = page.events.iter().map(|event| match &event.subject {
        Subject::Volume(id) => (keys::volume_partition(id), event.revision),
        Subject::Resource(path) => (keys::resource_partition(path), event.revision),
    });
    let removed = page.removed.iter().map(|removed| (removed.object.clone(), removed.revision));
    let mut first: BTreeMap<Bytes, RevisionId> = BTreeMap::new();
    for (object, revision) in events.chain(removed) {
        let since = first.entry(object).or_insert(revision);
        *since = revision.min(*since);
    }
    first.into_iter().map(|(object, since)| Changed { object, since }).collect()
}

impl Standby {
    /// Copies everything that is there.
    async fn of(source: &Faulty) -> Self {
        beyond_the_horizon(&source.library, &source.clock);
        let cursor = source.library.feed.now().await.unwrap();
        let store = Arc::new(Memory::default());
        let target = following::standby(store.clone());
        let copier = Copier::begin(source.store.clone(), target, ORIGIN, Patience::default()).await.unwrap();
        copier.pass().await.unwrap();
        Self { copier, store, following: Following::default(), cursor }
    }

    /// Copies all that changed since, in pages of so many changes.
    async fn follow(&mut self, source: &Faulty, max: usize) {
        beyond_the_horizon(&source.library, &source.clock);
        loop {
            let page = source.library.feed.after(self.cursor, max).await.unwrap();
            let damaged = self.following.copy_changed(&self.copier, &changed_in(&page)).await.unwrap();
            assert!(damaged.is_empty(), "{damaged:?}");
            self.cursor = page.end.unwrap_or(self.cursor).max(self.cursor);
            if page.is_last {
                return;
            }
        }
    }

    /// Takes the place of the source, which is lost.
    async fn promoted(self, source: &Faulty) -> Library {
        let options = source.library.options().clone();
        let library = Library::open(self.store.clone(), source.clock.clone(), options).await.unwrap();
        library.agree(true).await.unwrap();
        copying::end_without_source(self.store.as_ref(), ORIGIN).await.unwrap();
        library
    }
}

fn keeping(resources: Keep) -> LibraryOptions {
    LibraryOptions { history: History { resources, ..History::default() }, ..LibraryOptions::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_came_and_went_meanwhile_comes_back_with_all_its_children() {
    let children: Vec<String> = (0..100).map(|n| format!("n{n:03}")).collect();
    for max in [1_000, 30] {
        let source = faulty_with(keeping(Keep::All)).await;
        let mut standby = Standby::of(&source).await;
        source.library.repository.create(&path("c"), &container()).await.unwrap();
        for name in &children {
            create(&source.library, &format!("c/{name}"), name).await.unwrap();
        }
        delete(&source.library, "c").await.unwrap();
        standby.follow(&source, max).await;

        let repository = standby.promoted(&source).await.repository;
        let versions = repository.versions(&path("c")).await.unwrap();
        let container = versions.newest_below(RevisionId::LAST).await.unwrap().unwrap();
        let deleted = repository.end_of(&container).await.unwrap().unwrap();
        let mut members = repository.last_members(&container, deleted).await.unwrap();
        let mut names = Vec::new();
        while let Some(page) = members.more_incarnations(40).await.unwrap() {
            for (name, incarnation) in page {
                let versions = repository.versions(&path(&format!("c/{name}"))).await.unwrap();
                let child = versions.newest_of(incarnation).await.unwrap().unwrap();
                assert_eq!(repository.description(&child).await.unwrap().to_vec(), name.as_bytes());
                names.push(name);
            }
        }
        names.sort();
        assert_eq!(names, children, "pages of {max}");
    }
}

/// How past members are moved to partitions of their own.
#[derive(Clone, Copy, Debug)]
enum Moved {
    ByRewriting,
    ByGrowing,
}

/// Containers grow and are rewritten when they have a few children.
fn moving() -> LibraryOptions {
    LibraryOptions {
        shards: 2,
        resource_shards: 2,
        shard_bytes_max: 100,
        sample_one_of: 1,
        rewrite_dead_rows_min: 1,
        history: History { resources: Keep::All, volumes: Keep::All },
        ..LibraryOptions::default()
    }
}

async fn make(library: &Library, container: &Container, name: &str) {
    match container {
        Container::Volumes => _ = import(library, volume(&format!("t.{name}"), &["a page"])).await.unwrap(),
        Container::At(at) => create(library, &format!("{at}/{name}"), "").await.unwrap(),
    }
}

async fn remove(library: &Library, container: &Container, name: &str) {
    match container {
        Container::Volumes => library.volumes.delete(&id(&format!("t.{name}"))).await.unwrap(),
        Container::At(at) => delete(library, &format!("{at}/{name}")).await.unwrap(),
    }
}

async fn fill(library: &Library, of: &Container) {
    if let Container::At(at) = of {
        library.repository.create(at, &container()).await.unwrap();
    }
    for n in 0..8 {
        make(library, of, &format!("n{n}")).await;
    }
}

async fn move_past(library: &Library, container: &Container, moved: Moved) {
    let before = library.heads.parent(container).await.unwrap();
    match moved {
        Moved::ByGrowing => assert!(library.heads.grow_containers().await.unwrap() > 0),
        Moved::ByRewriting => {
            for shard in 0..before.shards() {
                let parent = library.heads.parent(container).await.unwrap();
                library.heads.tend_shard(&parent, shard).await.unwrap();
            }
        }
    }
    let after = library.heads.parent(container).await.unwrap();
    assert_ne!(before.body(), after.body());
}

async fn members(library: &Library, of: &Container, incarnation: RevisionId, below: RevisionId) -> Vec<String> {
    let mut listing = library.heads.members_as_of(of, incarnation, below).await.unwrap();
    let mut names = Vec::new();
    while let Some(page) = listing.more(2).await.unwrap() {
        names.extend(page.into_iter().map(|member| member.found.name));
    }
    names.sort();
    names
}

#[tokio::test(flavor = "multi_thread")]
async fn members_as_of_a_time_are_the_same_after_a_promotion_wherever_past_ones_were_moved() {
    let at = || Container::At(path("c"));
    for moved in [Moved::ByRewriting, Moved::ByGrowing] {
        // Whether the copy knows the container before, and whether it is deleted meanwhile.
        for (of, is_known, is_deleted) in [
            (Container::Volumes, true, false),
            (at(), true, false),
            (at(), false, false),
            (at(), true, true),
            (at(), false, true),
        ] {
            let source = faulty_with(moving()).await;
            let library = &source.library;
            let now = || {
                source.clock.advance(TICK);
                let now = RevisionId::first_at(source.clock.now());
                source.clock.advance(TICK);
                now
            };
            if is_known {
                fill(library, &of).await;
            }
            let mut standby = Standby::of(&source).await;
            if !is_known {
                fill(library, &of).await;
            }
            let mut times = vec![now()];
            for n in 0..4 {
                remove(library, &of, &format!("n{n}")).await;
                times.push(now());
            }
            move_past(library, &of, moved).await;
            make(library, &of, "new").await;
            times.push(now());
            let incarnation = library.heads.parent(&of).await.unwrap().incarnation();
            if is_deleted {
                delete(library, "c").await.unwrap();
            }
            let mut before = Vec::new();
            for below in &times {
                before.push(members(library, &of, incarnation, *below).await);
            }
            assert_eq!((before[0].len(), before[4].len(), before[5].len()), (8, 4, 5));
            standby.follow(&source, 1_000).await;
            let promoted = standby.promoted(&source).await;
            for (below, before) in times.iter().zip(&before) {
                let after = members(&promoted, &of, incarnation, *below).await;
                assert_eq!(after, *before, "{of:?} {moved:?}, known: {is_known}, deleted: {is_deleted}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_change_of_a_resource_is_copied_once_however_many_pages_of_the_feed_name_it() {
    const CHANGES: usize = 2_500;
    let source = faulty_with(keeping(Keep::All)).await;
    create(&source.library, "a", "0").await.unwrap();
    let mut standby = Standby::of(&source).await;
    for n in 1..=CHANGES {
        update(&source.library, "a", &n.to_string()).await.unwrap();
    }
    source.store.take_scanned();
    standby.follow(&source, 100).await;
    let scanned = source.store.take_scanned();
    let of_versions = scanned.iter().filter(|(_, partition)| keys::version_of(partition).is_some()).count();
    assert!(of_versions <= 5 * CHANGES, "{of_versions} scans of {CHANGES} versions");

    let repository = standby.promoted(&source).await.repository;
    let versions = repository.versions(&path("a")).await.unwrap();
    let all = versions.page(RevisionId::ZERO, RevisionId::LAST, usize::MAX).await.unwrap();
    assert_eq!(all.len(), CHANGES + 1);
    for n in [0, 1, 99, 100, 101, 1_024, 2_499, CHANGES] {
        let version = versions.oldest_from(all[n].revision).await.unwrap().unwrap();
        assert_eq!(repository.description(&version).await.unwrap().to_vec(), n.to_string().as_bytes());
    }
}

/// The mark is in the page of the log that will have the entry of the version.
#[tokio::test(flavor = "multi_thread")]
async fn the_mark_of_the_current_version_is_copied_although_its_page_of_the_log_has_no_entry_yet() {
    let source = faulty_with(keeping(Keep::Explicit)).await;
    create(&source.library, "a", "0").await.unwrap();
    let mut standby = Standby::of(&source).await;
    for n in 1..keys::LOG_PAGE_ENTRIES {
        update(&source.library, "a", &n.to_string()).await.unwrap();
    }
    let resource = source.library.repository.resource(&path("a")).await.unwrap();
    let asked = source.library.repository.update(&resource, &Update::Snapshot).await.unwrap().revision;
    let row = source.library.heads.head_at(&keys::resource_partition(&path("a"))).await.unwrap().unwrap();
    assert_eq!(row.head.logged, keys::LOG_PAGE_ENTRIES);
    standby.follow(&source, 1_000).await;
    let versions = standby.promoted(&source).await.repository.versions(&path("a")).await.unwrap();
    let newest = versions.newest_below(RevisionId::LAST).await.unwrap();
    assert_eq!(newest.map(|version| version.revision()), Some(asked));
}

#[tokio::test(flavor = "multi_thread")]
async fn received_versions_come_to_a_standby_and_go_before_its_next_whole_pass() {
    let source = faulty_with(keeping(Keep::All)).await;
    create(&source.library, "a", "0").await.unwrap();
    let mut standby = Standby::of(&source).await;
    update(&source.library, "a", "1").await.unwrap();
    standby.follow(&source, 1_000).await;
    for second in [1_000_000_000, 1_100_000_000] {
        receive(&source.library, "a", second, "received").await.unwrap();
    }
    standby.follow(&source, 1_000).await;
    let removed = listed(&source.library, "a").await[1];
    source.library.repository.remove_version(&path("a"), removed).await.unwrap();
    standby.follow(&source, 1_000).await;
    let left = listed(&source.library, "a").await;

    let store = standby.store.clone();
    let promoted = standby.promoted(&source).await;
    assert_eq!((left.len(), listed(&promoted, "a").await), (3, left));
    let list = promoted.heads.received(&keys::resource_partition(&path("a"))).await.unwrap();
    let written = keys::version(&keys::resource_partition(&path("a")), list.at(removed).unwrap().written);
    assert_eq!(store.sorts(Table::Objects, &written).len(), 2, "who began to read may be reading");
    for _ in 0..3 {
        source.clock.advance(promoted.options().grace + Duration::from_secs(60));
        promoted.repository.collect_versions().await.unwrap();
    }
    assert_eq!(store.sorts(Table::Objects, &written).len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_received_version_is_copied_although_a_pass_has_copied_the_list_that_names_it() {
    let source = faulty_with(keeping(Keep::All)).await;
    create(&source.library, "a", "0").await.unwrap();
    let mut standby = Standby::of(&source).await;
    receive(&source.library, "a", 1_000_000_000, "received").await.unwrap();
    let list = keys::received(&keys::resource_partition(&path("a")));
    assert!(standby.copier.copy_named(Table::Objects, &list).await.unwrap());
    standby.follow(&source, 1_000).await;
    assert_eq!(listed(&standby.promoted(&source).await, "a").await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_follows_a_received_version_is_copied_whole_also_if_its_revision_is_older() {
    let source = faulty_with(keeping(Keep::All)).await;
    create(&source.library, "a", "0").await.unwrap();
    let mut standby = Standby::of(&source).await;
    // The change has drawn its revision, and no position yet.
    let gate = Gate::new();
    source.store.arm(Fault::Hold(gate.clone()), |_, step| step.partition().starts_with(b"b/"));
    let library = source.library.clone();
    let slow = tokio::spawn(async move {
        let resource = library.repository.resource(&path("a")).await.unwrap();
        let update = Update::Description {
            description: Bytes::from_static(b"1"),
            membership: repository::Membership::Basic,
            members_for: None,
            // So many that some are put before the head.
            refers_to: (0..1_000).map(|n| path(&format!("t{n}"))).collect(),
        };
        library.repository.update(&resource, &update).await.unwrap().revision
    });
    gate.reached().await;
    receive(&source.library, "a", 1_000_000_000, "received").await.unwrap();
    beyond_the_horizon(&source.library, &source.clock);
    let page = source.library.feed.after(standby.cursor, 1_000).await.unwrap();
    gate.open();
    let changed = slow.await.unwrap();
    let list = source.library.heads.received(&keys::resource_partition(&path("a"))).await.unwrap();
    assert!(page.removed.len() == 1 && changed < list.versions[0].written, "{page:?}");
    standby.following.copy_changed(&standby.copier, &changed_in(&page)).await.unwrap();
    standby.cursor = page.end.unwrap();
    standby.follow(&source, 1_000).await;
    assert_eq!(said(&standby.promoted(&source).await, "a").await.as_deref(), Some("1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_that_was_removed_is_not_in_a_standby_that_takes_over_before_its_next_whole_pass() {
    // The removed versions are in different pages of the log if the follower has copied the object
    // itself; otherwise the pass over everything has.
    for changes in [keys::LOG_PAGE_ENTRIES as usize + 4, 4] {
        let is_followed = changes > 4;
        let source = faulty_with(keeping(Keep::All)).await;
        create(&source.library, "a", "0").await.unwrap();
        let begun = if is_followed { Some(Standby::of(&source).await) } else { None };
        for n in 1..=changes {
            update(&source.library, "a", &n.to_string()).await.unwrap();
        }
        let mut standby = match begun {
            Some(standby) => standby,
            None => Standby::of(&source).await,
        };
        if is_followed {
            standby.follow(&source, 1_000).await;
        }
        let repository = &source.library.repository;
        let versions = repository.versions(&path("a")).await.unwrap();
        let all = versions.page(RevisionId::ZERO, RevisionId::LAST, usize::MAX).await.unwrap();
        let mut left: Vec<_> = all.iter().map(|version| version.revision).collect();
        let removed = [left.remove(changes - 1), left.remove(1)];
        for revision in removed {
            repository.remove_version(&path("a"), revision).await.unwrap();
        }
        standby.follow(&source, 1_000).await;

        let store = standby.store.clone();
        let promoted = standby.promoted(&source).await;
        let versions = promoted.repository.versions(&path("a")).await.unwrap();
        let listed = versions.page(RevisionId::ZERO, RevisionId::LAST, usize::MAX).await.unwrap();
        assert_eq!(listed.iter().map(|version| version.revision).collect::<Vec<_>>(), left, "{changes}");
        let rows_of = |revision| {
            let partition = keys::version(&keys::resource_partition(&path("a")), revision);
            store.sorts(Table::Objects, &partition).len()
        };
        assert_eq!(removed.map(rows_of), [1, 1], "who began to read may be reading");
        for _ in 0..3 {
            source.clock.advance(promoted.options().grace + Duration::from_secs(60));
            promoted.repository.collect_versions().await.unwrap();
        }
        assert_eq!(removed.map(rows_of), [0, 0]);
        assert_eq!(rows_of(left[0]), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn damage_of_the_source_leaves_an_object_out_and_damage_of_the_standby_ends_the_follower() {
    for place in 0..4 {
        for is_of_standby in [false, true] {
            let source = faulty_with(keeping(Keep::All)).await;
            create(&source.library, "a", "one").await.unwrap();
            let standby = Standby::of(&source).await;
            update(&source.library, "a", "two").await.unwrap();
            beyond_the_horizon(&source.library, &source.clock);
            let changed = changed_in(&source.library.feed.after(standby.cursor, 10).await.unwrap());

            let (object, root) = (keys::resource_partition(&path("a")), Container::At(ResourcePath::root()));
            let marks = source.library.heads.parent(&root).await.unwrap().target("a");
            let places = [
                (Table::Objects, object.clone()),
                (Table::Objects, keys::log_page(&object, 0)),
                (Table::Objects, root.partition()),
                (Table::Children, marks),
            ];
            let (table, partition) = places[place].clone();
            let damaged = if is_of_standby { &standby.store } else { &source.store };
            damaged.break_pages(table, partition);
            let copied = standby.following.copy_changed(&standby.copier, &changed).await;
            if is_of_standby {
                let error = copied.unwrap_err().to_string();
                assert!(error.contains("the standby is damaged, and not its source"), "{place}: {error}");
            } else {
                let left_out: Vec<_> = copied.unwrap().into_iter().map(|(object, _)| object).collect();
                assert_eq!(left_out, [object], "{place}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pass_over_everything_says_whether_the_source_or_the_standby_is_damaged() {
    // Rows of tokens are read many partitions at a time.
    let tables = [(Table::Objects, keys::resource_partition(&path("a"))), (Table::Tokens, Bytes::from_static(b"one"))];
    for (is_of_standby, (table, partition)) in
        [false, true].into_iter().flat_map(|is_of_standby| tables.clone().map(|place| (is_of_standby, place)))
    {
        let source = faulty_with(keeping(Keep::All)).await;
        create(&source.library, "a", "one").await.unwrap();
        let call = Call::new(Class::Description, Deadline::within(Duration::from_secs(60)));
        for token in ["one", "two"].map(Bytes::from) {
            let rows = vec![NewRow::new(token.clone(), Bytes::from_static(b"a hash"))];
            let put = vec![Step::Put { table: Table::Tokens, partition: token, rows }];
            assert!(source.store.run(call, put).await.unwrap().is_applied());
        }
        let standby = Standby::of(&source).await;
        let damaged = if is_of_standby { &standby.store } else { &source.store };
        damaged.break_pages(table, partition);
        let error = standby.copier.pass().await.unwrap_err();
        let is_blamed = error.to_string().contains("the standby is damaged, and not its source");
        assert_eq!(is_blamed, is_of_standby, "{error}");
        let is_damage = matches!(error, CopyError::Store(StoreError::Corrupt { .. }));
        assert_eq!(is_damage, !is_of_standby, "a follower goes on if the source is damaged: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pass_that_begins_anew_on_its_way_compares_what_it_had_passed_too() {
    let source = faulty_with(keeping(Keep::All)).await;
    create(&source.library, "a", "one").await.unwrap();
    let standby = Standby::of(&source).await;
    let mut pages = 0;
    let between = async || {
        pages += 1;
        // Objects are behind it.
        if pages == 5 {
            update(&source.library, "a", "two").await.unwrap();
            standby.copier.begin_pass_anew().await?;
        }
        Ok::<_, CopyError>(())
    };
    assert!(standby.copier.pass_with(between).await.unwrap().is_whole);
    assert_eq!(said(&standby.promoted(&source).await, "a").await.as_deref(), Some("two"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pass_that_is_interrupted_after_each_page_deletes_what_is_gone() {
    let source = faulty_with(keeping(Keep::All)).await;
    let token = Bytes::from_static(b"token");
    let change = async |step: Step| {
        let call = Call::new(Class::Description, Deadline::within(Duration::from_secs(60)));
        assert!(source.store.run(call, vec![step]).await.unwrap().is_applied());
    };
    let rows = vec![NewRow::new(token.clone(), Bytes::from_static(b"a hash"))];
    change(Step::Put { table: Table::Tokens, partition: token.clone(), rows }).await;
    let standby = Standby::of(&source).await;
    assert_eq!(standby.store.sorts(Table::Tokens, &token), std::slice::from_ref(&token));
    let rows = Removal::Rows(vec![token.clone()]);
    change(Step::Remove { table: Table::Tokens, partition: token.clone(), rows }).await;

    let away = || CopyError::Store(StoreError::Unavailable("the source is away".to_owned()));
    let mut interruptions = 0;
    while standby.copier.pass_with(async || Err::<(), _>(away())).await.is_err() {
        interruptions += 1;
        assert!(interruptions < 1_000, "it does not go on where it was");
    }
    assert!(interruptions >= Table::ALL.len());
    assert!(standby.store.sorts(Table::Tokens, &token).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_with_another_name_is_recognised_by_its_lineage_and_another_store_is_not() {
    let source = faulty_with(keeping(Keep::All)).await;
    let standby = Standby::of(&source).await;
    let store = standby.store.clone();
    let lineage = following::lineage(source.store.as_ref()).await.unwrap().unwrap().to_string();
    let recognise = async |lineage| copying::recognise(store.as_ref(), lineage, "moved").await.unwrap();
    let begin = async || {
        let copier = Copier::begin(source.store.clone(), store.clone(), "moved", Patience::default()).await;
        copier.map(drop)
    };
    assert!(recognise(Some(lineage.as_str())).await);
    assert!(matches!(begin().await, Err(CopyError::NotVacant { .. })), "it was never followed");

    let place = Followed { lineage: lineage.clone(), cursor: standby.cursor.to_string(), whole: None, until: None };
    standby.copier.set_followed(&place).await.unwrap();
    for other in [Some("another"), None] {
        assert!(!recognise(other).await);
    }
    assert!(matches!(begin().await, Err(CopyError::NotVacant { .. })));
    assert!(recognise(Some(lineage.as_str())).await);
    begin().await.unwrap();
    assert_eq!(copying::unfinished(store.as_ref()).await.unwrap().as_deref(), Some("moved"));
    assert_eq!(copying::followed(store.as_ref()).await.unwrap(), Some(place));
}
