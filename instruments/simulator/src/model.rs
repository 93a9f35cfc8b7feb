//! The expected state: every version of every head, its writer, and all results that clients got.
//! Every result is compared with it.

mod fast;
mod groups;
mod past;
mod received;
mod records;
mod transactions;
mod versions;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use heads::{Head, ObjectState, ResourcePath, RevisionId, head, keys};
use store::{ContentId, NewRow, PlainRows, Table};

pub(crate) use self::fast::{FastPast, RanFast};
pub(crate) use self::past::kept_of;
pub(crate) use self::received::Sums;
pub(crate) use self::records::{Ran, RecordsPast};
pub(crate) use self::transactions::{Mark, Must};
pub(crate) use self::versions::Standing;
use crate::store::world::{Key, Proposal};
use crate::trace::Op;

/// A version of a head.
#[derive(Clone, Debug)]
pub(crate) struct Version {
    /// The step at which it was decided.
    pub(crate) step: u64,
    /// The step from which every strong read finds it, or a later version.
    pub(crate) settled: Option<u64>,
    pub(crate) head: Head,
}

/// The result that a client got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// It was done, with its revision if it made one.
    Done(Option<(Bytes, RevisionId)>),
    /// It was not done, and never will be.
    Refused(String),
    /// The outcome is unknown, or there was no response.
    Unknown(String),
}

/// The object that an operation changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// Nothing.
    Nothing,
    /// The object of this partition.
    Object(Bytes),
    /// Some object with a new name.
    Fresh,
}

/// An operation, running or ended.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    pub(crate) target: Subject,
    pub(crate) what: String,
    pub(crate) reply: Option<Reply>,
    /// The step at which it began.
    pub(crate) began: u64,
    /// The versions that it made of its target: partition and revision.
    switched: Vec<(Bytes, RevisionId)>,
    /// Whether it asks for a version.
    asks_for_version: bool,
    /// The version that it restores.
    restores: Option<RevisionId>,
    /// Whether it brings back something deleted.
    brings_back: bool,
}

/// A promise of a selection.
#[derive(Clone, Debug)]
pub(crate) struct Promise {
    pub(crate) selection: String,
    /// The true time until which it holds, in milliseconds.
    pub(crate) until_ms: u64,
    /// The volumes and their generations.
    pub(crate) volumes: Vec<(Bytes, RevisionId)>,
}

/// The whole model.
pub(crate) struct Model {
    pub(crate) versions: BTreeMap<Bytes, Vec<Version>>,
    pub(crate) operations: BTreeMap<Op, Operation>,
    /// Rows of each revision of each object, with their partitions, without the entries of its head
    /// log.
    pub(crate) rows: BTreeMap<(Bytes, RevisionId), BTreeSet<Key>>,
    /// Objects whose heads ever named a content.
    pub(crate) naming: BTreeMap<ContentId, BTreeSet<Bytes>>,
    /// The values of rows that are written once.
    written: BTreeMap<Key, Bytes>,
    pub(crate) promises: Vec<Promise>,
    pub(crate) records: RecordsPast,
    /// The same in mode fast.
    pub(crate) fast: FastPast,
    transacted: Vec<transactions::Transacted>,
    changed_in_groups: Vec<groups::GroupChange>,
    of_versions: versions::VersionsPast,
    received: received::ReceivedPast,
    /// The first violation.
    pub(crate) violation: Option<String>,
}

impl Model {
    pub(crate) fn new() -> Self {
        Self {
            versions: BTreeMap::new(),
            operations: BTreeMap::new(),
            rows: BTreeMap::new(),
            naming: BTreeMap::new(),
            written: BTreeMap::new(),
            promises: Vec::new(),
            records: RecordsPast::default(),
            fast: FastPast::default(),
            transacted: Vec::new(),
            changed_in_groups: Vec::new(),
            of_versions: versions::VersionsPast::default(),
            received: received::ReceivedPast::default(),
            violation: None,
        }
    }

    /// Reports a violation; the first one is kept.
    pub(crate) fn wrong(&mut self, what: String) {
        self.violation.get_or_insert(what);
    }

    /// Notes rows that are put.
    pub(crate) fn put(&mut self, table: Table, partition: &Bytes, rows: &[NewRow]) {
        if table.info().plain_rows == PlainRows::WrittenOnce {
            for row in rows {
                let key = (table, partition.clone(), row.sort.clone());
                if *self.written.entry(key).or_insert_with(|| row.value.clone()) != row.value {
                    let (partition, sort) = (partition.escape_ascii(), row.sort.escape_ascii());
                    self.wrong(format!("row {table} {partition} {sort} is written again with other bytes"));
                }
            }
        }
        match table {
            Table::Objects | Table::Packs => {
                let is_entry = |sort: &Bytes| sort.starts_with(&keys::log_prefix());
                for row in rows.iter().filter(|row| keys::table_of(&row.sort) == table && !is_entry(&row.sort)) {
                    if let Some(revision) = keys::revision_of(&row.sort) {
                        let of = self.rows.entry((keys::object_of(partition), revision)).or_default();
                        of.insert((table, partition.clone(), row.sort.clone()));
                    }
                }
                self.put_received(partition, rows);
            }
            Table::Damage => self.wrong(format!("{} is marked as damaged", partition.escape_ascii())),
            _ => {}
        }
    }

    /// Notes a head, or a list of received versions, that is decided.
    pub(crate) fn decided(&mut self, step: u64, proposal: &Proposal, is_sure: bool) {
        let (table, partition, _) = &proposal.key;
        let (Table::Objects, Some((_, value))) = (table, &proposal.then) else { return };
        if keys::is_received(partition) {
            return self.decided_received(step, partition, value, is_sure);
        }
        let Ok(head) = head::open::<Head>(Table::Objects, value) else {
            return self.wrong(format!("the head of {} cannot be read", partition.escape_ascii()));
        };
        if let Some(binary) = head.body.resource().and_then(|resource| resource.binary())
            && let repository::BytesPlace::Content(id) = binary.place
        {
            self.naming.entry(id).or_default().insert(partition.clone());
        }
        let versions = self.versions.entry(partition.clone()).or_default();
        let before = versions.last().map(|version| &version.head);
        let is_switch = head.revision != before.map_or(RevisionId::ZERO, |before| before.revision);
        // No client learns that a container that is being deleted is deleted in the end.
        let is_seen = is_switch && before.is_none_or(|before| before.state != ObjectState::Deleting);
        let settled = is_sure.then_some(step);
        let revision = head.revision;
        versions.push(Version { step, settled, head });
        if is_seen && let Some(by) = proposal.by {
            self.switched(by, step, partition, revision);
        }
    }

    fn switched(&mut self, by: Op, step: u64, partition: &Bytes, revision: RevisionId) {
        let Some(operation) = self.operations.get_mut(&by) else { return };
        let is_target = match &operation.target {
            Subject::Nothing => false,
            Subject::Object(target) => target == partition,
            Subject::Fresh => true,
        };
        if !is_target {
            return;
        }
        operation.switched.push((partition.clone(), revision));
        if operation.asks_for_version {
            self.of_versions.asked.insert((partition.clone(), revision));
        }
        let operation = operation.clone();
        self.changed_in_group(partition, step, &operation);
        let Operation { what, reply, switched, restores, brings_back, .. } = operation;
        let count = switched.len();
        let at = partition.escape_ascii();
        if let Some(version) = restores.filter(|version| !self.are_alike(partition, *version, revision)) {
            self.wrong(format!("{what} restored {version} of {at}, and {revision}, which it made, is another state"));
        }
        let is_new = |head: &Head| head.state == ObjectState::Live && head.incarnation == revision;
        if brings_back && !self.head(partition).is_some_and(is_new) {
            self.wrong(format!("{what} brought back {at} as {revision}, which is no new incarnation"));
        }
        match reply {
            Some(Reply::Refused(why)) => {
                self.wrong(format!("{what} was refused ({why}), and was applied at {at} afterwards"))
            }
            Some(Reply::Done(_)) => self.wrong(format!("{what} was done, and was applied at {at} once more")),
            Some(Reply::Unknown(_)) | None if count > 1 => {
                self.wrong(format!("{what} was applied {count} times, at last at {at}"));
            }
            Some(Reply::Unknown(_)) | None => {}
        }
    }

    /// Notes an operation that begins.
    pub(crate) fn begins(&mut self, op: Op, target: Subject, what: String, step: u64) {
        let operation = Operation {
            target,
            what,
            reply: None,
            began: step,
            switched: Vec::new(),
            asks_for_version: false,
            restores: None,
            brings_back: false,
        };
        self.operations.insert(op, operation);
    }

    /// Notes the result that a client got.
    pub(crate) fn replied(&mut self, op: Op, reply: Reply) {
        let Some(operation) = self.operations.get_mut(&op) else { return };
        operation.reply = Some(reply.clone());
        let (what, switched) = (operation.what.clone(), operation.switched.clone());
        let asks_for_version = operation.asks_for_version;
        match reply {
            Reply::Done(Some((partition, revision))) => {
                let is_known =
                    |versions: &Vec<Version>| versions.iter().any(|version| version.head.revision == revision);
                if !self.versions.get(&partition).is_some_and(is_known) {
                    let at = partition.escape_ascii();
                    self.wrong(format!("{what} was acknowledged with {revision} at {at}, and was never applied"));
                }
                if asks_for_version {
                    self.of_versions.acknowledged.insert((partition, revision));
                }
            }
            Reply::Refused(why) => {
                if let Some((partition, _)) = switched.first() {
                    self.wrong(format!("{what} was refused ({why}), and was applied at {}", partition.escape_ascii()));
                }
            }
            Reply::Done(None) | Reply::Unknown(_) => {}
        }
    }

    /// The decisions on an object have arrived where strong reads find them.
    pub(crate) fn settled(&mut self, partition: &Bytes, step: u64) {
        if let Some(last) = self.versions.get_mut(partition).and_then(|versions| versions.last_mut()) {
            last.settled.get_or_insert(step);
        }
        if keys::is_received(partition) {
            self.received.settled(&keys::object_of(partition), step);
        }
    }

    /// Everything has arrived everywhere.
    pub(crate) fn all_settled(&mut self, step: u64) {
        self.received.all_settled(step);
        for versions in self.versions.values_mut() {
            if let Some(last) = versions.last_mut() {
                last.settled.get_or_insert(step);
            }
        }
    }

    /// The current head.
    pub(crate) fn head(&self, partition: &Bytes) -> Option<&Head> {
        self.versions.get(partition).and_then(|versions| versions.last()).map(|version| &version.head)
    }

    /// The heads that a strong read may have found that ran from one step to another; `None` among
    /// them means that it may have found no head.
    pub(crate) fn readable(&self, partition: &Bytes, began: u64, ended: u64) -> Vec<Option<&Head>> {
        let Some(versions) = self.versions.get(partition) else { return vec![None] };
        let decided: Vec<&Version> = versions.iter().filter(|version| version.step <= ended).collect();
        let surely = decided.iter().rposition(|version| version.settled.is_some_and(|settled| settled < began));
        let mut readable: Vec<_> = decided[surely.unwrap_or(0)..].iter().map(|version| Some(&version.head)).collect();
        if surely.is_none() {
            readable.push(None);
        }
        readable
    }

    /// Whether a strong read in that time may have found the object live, and whether it must have.
    pub(crate) fn live(&self, partition: &Bytes, began: u64, ended: u64) -> (bool, bool) {
        let heads = self.readable(partition, began, ended);
        let is_live = |head: &Option<&Head>| head.is_some_and(|head| head.state == ObjectState::Live);
        (heads.iter().any(is_live), heads.iter().all(is_live))
    }
}

impl Model {
    /// Whether all objects of a chain are live, each in the one above.
    pub(crate) fn is_reachable(&self, chain: &[Bytes]) -> bool {
        let heads: Option<Vec<&Head>> = chain.iter().map(|partition| self.head(partition)).collect();
        heads.is_some_and(|heads| {
            let in_one_another = heads.windows(2).all(|pair| pair[1].parent_incarnation == pair[0].incarnation);
            in_one_another && heads.iter().all(|head| head.state == ObjectState::Live)
        })
    }

    /// What is wrong with a listing that ran from one step to another, if anything. It must have
    /// every child that existed all the time, and none that never existed.
    pub(crate) fn wrong_listing(
        &self,
        container: &Bytes,
        incarnation: Option<RevisionId>,
        names: &BTreeSet<String>,
        began: u64,
        ended: u64,
    ) -> Option<String> {
        let is_volumes = container.starts_with(b"c/");
        let prefix = match (is_volumes, container.len()) {
            (true, _) => b"v/".to_vec(),
            (false, 2) => b"r/".to_vec(),
            (false, _) => [&container[..], b"/"].concat(),
        };
        let (parents, children) = (self.readable(container, began, ended), self.versions.keys());
        let stood = parents.iter().all(|head| {
            head.is_some_and(|head| {
                head.state == ObjectState::Live && incarnation.is_none_or(|incarnation| head.incarnation == incarnation)
            })
        });
        for child in children.filter(|child| child.starts_with(&prefix)) {
            let name = String::from_utf8_lossy(&child[prefix.len()..]).into_owned();
            if name.is_empty() || !is_volumes && name.contains('/') {
                continue;
            }
            let heads = self.readable(child, began, ended);
            // The root and the container of volumes have only one incarnation.
            let is_held = |head: &Head| {
                is_volumes || container.len() == 2 || incarnation.is_none_or(|of| head.parent_incarnation == of)
            };
            let is_there =
                |head: &Option<&Head>| head.is_some_and(|head| head.state == ObjectState::Live && is_held(head));
            let is_listed = names.contains(&name);
            if stood && !is_listed && heads.iter().all(is_there) {
                return Some(format!("{name} is missing"));
            }
            if is_listed && !heads.iter().any(is_there) {
                return Some(format!("{name} was not there"));
            }
        }
        None
    }

    /// Whether all that was deleted at a path during that time belonged to an earlier incarnation
    /// of the present container.
    pub(crate) fn is_of_an_earlier_container(&self, path: &ResourcePath, began: u64, ended: u64) -> bool {
        let Some(above) = path.parent().filter(|above| !above.is_root()) else { return false };
        let parents = self.readable(&keys::resource_partition(&above), began, ended);
        let children = self.readable(&keys::resource_partition(path), began, ended);
        let [Some(parent)] = parents[..] else { return false };
        let is_earlier = |child: &Option<&Head>| {
            child.is_some_and(|child| {
                matches!(child.state, ObjectState::Deleted | ObjectState::Deleting)
                    && child.parent_incarnation != parent.incarnation
            })
        };
        parent.state == ObjectState::Live && children.iter().all(is_earlier)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_that_is_written_once_and_put_with_other_bytes_is_a_violation() {
        let put = |model: &mut Model, table, value: &'static str| {
            model.put(table, &Bytes::from_static(b"p"), &[NewRow::new("a", value)]);
        };
        let mut model = Model::new();
        for value in ["one", "another"] {
            put(&mut model, Table::Work, value);
        }
        put(&mut model, Table::Children, "one");
        put(&mut model, Table::Children, "one");
        assert_eq!(model.violation, None);
        put(&mut model, Table::Children, "another");
        assert!(model.violation.is_some_and(|what| what.contains("row children p a")));
    }
}
