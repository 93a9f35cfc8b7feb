//! Checks what holds at every step: listings agree with heads, and everything that heads and
//! selections name exists.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use heads::mark::{Marks, Settled};
use heads::{Head, ObjectState, RevisionId, Rule, keys};
use repository::BytesPlace as ContentPlace;
use store::{Class, ContentId, ContentState, Table};

use crate::store::replica::Place;
use crate::store::world::World;

/// The partition of a container's head, from a partition of its children's marks.
fn container_of_marks(children: &Bytes) -> Option<Bytes> {
    let end = children.len().checked_sub(23)?;
    let prefix = children.slice(..end);
    Some(if prefix == *heads::VOLUMES { keys::container_partition(heads::VOLUMES) } else { prefix })
}

/// The prefix of the partitions of marks of a container's children.
fn marks_prefix(container: &Bytes) -> String {
    match container.strip_prefix(b"c/") {
        Some(name) => String::from_utf8_lossy(name).into_owned(),
        None => String::from_utf8_lossy(container).into_owned(),
    }
}

/// The container of an object; `None` if it is in no container.
fn container_of(object: &Bytes) -> Option<Bytes> {
    if object.starts_with(b"v/") {
        return Some(keys::container_partition(heads::VOLUMES));
    }
    let path = object.strip_prefix(b"r/").filter(|path| !path.is_empty())?;
    let parent = path.iter().rposition(|byte| *byte == b'/').map_or(&b""[..], |at| &path[..at]);
    Some(Bytes::from([b"r/", parent].concat()))
}

/// The child object with this name.
fn child(container: &Bytes, name: &str) -> Bytes {
    match (container.starts_with(b"c/"), container.len()) {
        (true, _) => Bytes::from([b"v/", name.as_bytes()].concat()),
        (false, 2) => Bytes::from([b"r/", name.as_bytes()].concat()),
        (false, _) => Bytes::from([&container[..], b"/", name.as_bytes()].concat()),
    }
}

/// Whether a child with this head is in its container. `parent` is the container's head.
fn is_held(container: &Bytes, parent: &Head, child: &Head) -> bool {
    container.starts_with(b"c/") || container.len() == 2 || child.parent_incarnation == parent.incarnation
}

impl World {
    /// Checks everything that changes since the last call concern.
    pub(crate) fn check_touched(&mut self, true_ms: u64) {
        let touched = std::mem::take(&mut self.touched);
        let mut objects: BTreeSet<Bytes> = BTreeSet::new();
        let mut containers: BTreeSet<Bytes> = BTreeSet::new();
        for (table, partition) in touched {
            match table {
                Table::Children => containers.extend(container_of_marks(&partition)),
                Table::Objects | Table::Packs => {
                    let object = keys::object_of(&partition);
                    let is_container = self.model.head(&object).is_some_and(|head| head.body.container().is_some());
                    containers.extend(container_of(&object));
                    if is_container {
                        containers.insert(object.clone());
                    }
                    objects.insert(object);
                }
                Table::Contents => {
                    let id = <[u8; 16]>::try_from(&partition[..]).map(ContentId);
                    let named = id.ok().and_then(|id| self.model.naming.get(&id));
                    objects.extend(named.into_iter().flatten().cloned());
                }
                _ => {}
            }
        }
        let problems: Vec<String> = containers
            .iter()
            .flat_map(|container| self.listing_problems(container))
            .chain(objects.iter().flat_map(|object| self.missing_rows(object)))
            .chain(objects.iter().flat_map(|object| self.missing_received(object)))
            .chain(objects.iter().filter_map(|object| self.missing_entry(object)))
            .chain(objects.iter().flat_map(|object| self.outliving(object)))
            .chain(self.broken_promises(&objects, true_ms))
            .collect();
        problems.into_iter().for_each(|problem| self.model.wrong(problem));
    }

    /// Checks everything.
    pub(crate) fn check_all(&mut self, true_ms: u64) {
        let all: BTreeSet<Place> = self.model.versions.keys().map(|object| (Table::Objects, object.clone())).collect();
        self.touched.extend(all);
        self.check_touched(true_ms);
    }

    /// Finds children for which a strong reader may find a listing that differs from the heads.
    fn listing_problems(&self, container: &Bytes) -> Vec<String> {
        let Some(parent) = self.model.head(container) else { return Vec::new() };
        let Some(body) = parent.live_container() else { return Vec::new() };
        let prefix = marks_prefix(container);
        let mut places: Vec<Bytes> = Vec::new();
        for shard in 0..body.shards {
            for (shard, epoch) in body.places(shard, body.shards) {
                let incarnation = self.setup.marks_of(parent.incarnation);
                places.push(keys::children_partition(&prefix, incarnation, shard, epoch));
            }
        }
        // For each child, the marks on each replica.
        let replicas = self.everywhere();
        let mut marks: BTreeMap<(String, RevisionId), Vec<Marks>> = BTreeMap::new();
        for place in places {
            for replica in &replicas {
                let held = self.held(*replica, &(Table::Children, place.clone()));
                let from = Bytes::from_static(b" ");
                for (sort, _) in held.into_iter().flat_map(|cells| cells.range(from.clone()..)) {
                    let Some((name, incarnation, mark)) = keys::child_of(sort) else { continue };
                    let of_child = marks.entry((name.to_owned(), incarnation));
                    of_child.or_insert_with(|| vec![Marks::default(); replicas.len()])[*replica].add(mark);
                }
            }
        }
        let views = self.setup.strong_views(Class::Description);
        let mut problems = Vec::new();
        let is_live = |name: &str, incarnation: RevisionId| {
            let head = self.model.head(&child(container, name));
            head.is_some_and(|head| {
                head.state == ObjectState::Live && head.incarnation == incarnation && is_held(container, parent, head)
            })
        };
        for ((name, incarnation), known) in &marks {
            let live = is_live(name, *incarnation);
            for view in &views {
                let mut seen = Marks::default();
                let answering = known.iter().enumerate().filter(|(replica, _)| view & (1 << replica) != 0);
                answering.flat_map(|(_, marks)| marks.iter()).for_each(|mark| seen.add(mark));
                let (at, child) = (container.escape_ascii(), format!("{name} {incarnation}"));
                match seen.settled() {
                    Settled::Live if !live => {
                        problems.push(format!("in {at}, {child} is listed, but is gone ({seen:?})"))
                    }
                    Settled::Dead if live => {
                        problems.push(format!("in {at}, {child} is there, but is not listed ({seen:?})"))
                    }
                    _ => {}
                }
            }
        }
        // Children without any marks.
        for (object, versions) in self.model.versions.range(child(container, "")..) {
            let Some(name) = object.strip_prefix(&child(container, "")[..]) else { break };
            let name = String::from_utf8_lossy(name);
            let Some(head) = versions.last().map(|version| &version.head) else { continue };
            let is_child = !name.contains('/') || container.starts_with(b"c/");
            if !name.is_empty()
                && is_child
                && is_live(&name, head.incarnation)
                && !marks.contains_key(&(name.clone().into_owned(), head.incarnation))
            {
                problems.push(format!("in {}, {name} is there, but has no marks", container.escape_ascii()));
            }
        }
        problems
    }

    /// Finds rows that an object's head names and that some strong reader does not find.
    fn missing_rows(&self, object: &Bytes) -> Vec<String> {
        let Some(head) = self.model.head(object).filter(|head| head.state == ObjectState::Live) else {
            return Vec::new();
        };
        let mut problems = Vec::new();
        let mut revisions = BTreeSet::new();
        if let Some(volume) = head.live_volume() {
            revisions.insert(volume.generation);
            if volume.damaged > 0 {
                problems.push(format!("{} is said to be damaged", object.escape_ascii()));
            }
        }
        if let Some(resource) = head.live_resource() {
            revisions.insert(resource.description.revision);
            if let Some(binary) = resource.binary() {
                revisions.insert(binary.revision);
                if let ContentPlace::Content(id) = binary.place {
                    problems.extend(self.missing_content(object, id));
                }
            }
        }
        for revision in revisions {
            // An unchanged description, or the bytes of a version, are rows of the named revision.
            let named = |sort: &Bytes| head.live_volume().is_some() || is_named(head, revision, sort);
            problems.extend(self.missing_of(object, revision, named));
        }
        problems
    }

    /// Finds rows and contents of received versions that are listed, and that some strong reader
    /// does not find.
    fn missing_received(&self, object: &Bytes) -> Vec<String> {
        let mut problems = Vec::new();
        for version in self.model.received_versions(object) {
            let written = version.written;
            let (partition, sort) = (keys::version(object, written), keys::received_version(written));
            let holds = self.holding(Table::Objects, &partition, &sort);
            let mut views = self.setup.strong_views(Table::Objects.class()).into_iter();
            if let Some(view) = views.find(|view| view & holds == 0) {
                let at = object.escape_ascii();
                problems.push(format!("{at}: the received version of {written} is not found by replicas {view:06b}"));
            }
            problems.extend(self.missing_of(object, written, |_| true));
            problems.extend(version.content.and_then(|id| self.missing_content(object, id)));
        }
        problems
    }

    /// The last replaced head, if some strong reader does not find it in the log.
    fn missing_entry(&self, object: &Bytes) -> Option<String> {
        if self.setup.left_out == Some(Rule::LookSerially) {
            // Then it is decided with the head, and this is not promised.
            return None;
        }
        let versions = self.model.versions.get(object)?;
        let current = versions.last()?.head.revision;
        let replaced = versions.iter().rev().map(|version| &version.head).find(|head| head.revision != current)?;
        if replaced.revision == RevisionId::ZERO {
            return None;
        }
        let page = keys::log_page(object, replaced.logged / keys::LOG_PAGE_ENTRIES);
        let holds = self.holding(Table::Objects, &page, &keys::log(replaced.revision));
        let view = self.setup.strong_views(Class::Description).into_iter().find(|view| view & holds == 0)?;
        let (at, revision) = (object.escape_ascii(), replaced.revision);
        Some(format!("{at}: the entry of {revision} in the head log is not found by replicas {view:06b}"))
    }

    /// Finds this object and its contents if they still exist although their container is gone:
    /// they would be unreachable forever.
    fn outliving(&self, object: &Bytes) -> Vec<String> {
        let prefix = child(object, "");
        let is_container = object.starts_with(b"r/") && object.len() > 2;
        let below = self.model.versions.range(prefix.clone()..).map(|(below, _)| below);
        let below = below.take_while(|below| is_container && below.starts_with(&prefix));
        std::iter::once(object).chain(below).filter_map(|object| self.outlives(object)).collect()
    }

    fn outlives(&self, object: &Bytes) -> Option<String> {
        let is_over = |head: &&Head| !matches!(head.state, ObjectState::Live | ObjectState::Deleting);
        let head = self.model.head(object).filter(|head| !is_over(head))?;
        // The root is never deleted, nor is the container of volumes.
        let above = container_of(object).filter(|above| above.starts_with(b"r/") && above.len() > 2)?;
        let current = self.model.head(&above).filter(|current| !is_over(current));
        let is_in_it = current.is_some_and(|current| current.incarnation == head.parent_incarnation);
        (!is_in_it).then(|| format!("{} is {:?}, and what it is in is gone", object.escape_ascii(), head.state))
    }

    fn missing_of(&self, object: &Bytes, revision: RevisionId, named: impl Fn(&Bytes) -> bool) -> Option<String> {
        let rows = self.model.rows.get(&(object.clone(), revision))?;
        for (table, partition, sort) in rows.iter().filter(|(_, _, sort)| named(sort)) {
            let holds = self.holding(*table, partition, sort);
            if let Some(view) = self.setup.strong_views(table.class()).into_iter().find(|view| view & holds == 0) {
                let (at, sort) = (partition.escape_ascii(), sort.escape_ascii());
                return Some(format!("{at}: row {table} {sort} of {revision} is not found by replicas {view:06b}"));
            }
        }
        None
    }

    /// The replicas that have a row, as bits.
    fn holding(&self, table: Table, partition: &Bytes, sort: &Bytes) -> u8 {
        let place = (table, partition.clone());
        let holds = |replica: &usize| self.held(*replica, &place).is_some_and(|cells| cells.contains_key(sort));
        self.everywhere().iter().filter(|replica| holds(replica)).map(|replica| 1_u8 << replica).sum()
    }

    /// Whether a content exists, in any state. Bytes that arrive after its deletion belong to no
    /// content.
    pub(crate) fn has_header(&self, id: ContentId) -> bool {
        self.decided(&(Table::Contents, Bytes::copy_from_slice(&id.0), Bytes::from_static(b"header"))).is_some()
    }

    fn missing_content(&self, object: &Bytes, id: ContentId) -> Option<String> {
        let header = self.decided(&(Table::Contents, Bytes::copy_from_slice(&id.0), Bytes::from_static(b"header")));
        let state = header.and_then(|(_, value)| crate::store::contents::decode(value)).map(|header| header.state);
        (state != Some(ContentState::Sealed))
            .then(|| format!("{} names content {id}, which is {state:?}", object.escape_ascii()))
    }

    /// Finds rows that selections name and that are gone.
    fn broken_promises(&self, objects: &BTreeSet<Bytes>, true_ms: u64) -> Vec<String> {
        let standing = self.model.promises.iter().filter(|promise| promise.until_ms >= true_ms);
        let named = standing.flat_map(|promise| promise.volumes.iter().map(move |volume| (promise, volume)));
        let touched = named.filter(|(_, (object, _))| objects.contains(object));
        let missing = touched.filter_map(|(promise, (object, generation))| {
            let missing = self.missing_of(object, *generation, |sort| keys::table_of(sort) != Table::Damage)?;
            Some(format!("selection {}: {missing}", promise.selection))
        });
        missing.collect()
    }
}

/// Whether a head of a resource names a row of a revision.
pub(crate) fn is_named(head: &Head, revision: RevisionId, sort: &Bytes) -> bool {
    let Some(resource) = head.body.resource() else { return false };
    let is_description = sort.starts_with(&keys::description_prefix());
    let of_description = resource.description.revision == revision && resource.description.pieces > 0;
    let of_bytes =
        resource.binary().is_some_and(|binary| binary.revision == revision && binary.place == ContentPlace::Row);
    if is_description { of_description } else { of_bytes }
}
