//! Versions that clients sent with times of their own: what was sent, and what is listed.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use heads::received::{ReceivedState, ReceivedVersion, ReceivedVersions};
use heads::{RevisionId, head, keys};
use repository::{ResourceBody, Uploaded};
use sha2::{Digest, Sha256};
use store::{NewRow, Table};

use super::{Model, Reply};

/// What a state of a resource says: SHA-256 of its description and, if it has bytes, of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Sums {
    description: [u8; 32],
    bytes: Option<[u8; 32]>,
}

impl Sums {
    /// Those of a state that is stored.
    pub(crate) fn of(body: &ResourceBody) -> Self {
        Self { description: body.description.sha256, bytes: body.binary().map(|binary| binary.sha256) }
    }

    /// Those of a state that a client sends.
    pub(crate) fn of_sent(description: &Bytes, bytes: Option<&Uploaded>) -> Self {
        Self { description: Sha256::digest(description).into(), bytes: bytes.map(|bytes| bytes.sha256) }
    }
}

/// The steps from which on each strong read finds a version in its list, and finds it removed.
#[derive(Clone, Copy, Debug, Default)]
struct Visible {
    listed: Option<u64>,
    removed: Option<u64>,
}

/// The received versions of all objects. A version is at a place in its list, the revision that
/// has its time.
#[derive(Default)]
pub(crate) struct ReceivedPast {
    /// What clients sent, by object and place, without what was refused. It is noted before it is
    /// sent.
    sent: BTreeMap<(Bytes, RevisionId), BTreeSet<Sums>>,
    /// The states that were put, by object and the revision that wrote them.
    states: BTreeMap<(Bytes, RevisionId), Sums>,
    /// The lists, as they were decided last.
    lists: BTreeMap<Bytes, ReceivedVersions>,
    /// By object and place.
    visible: BTreeMap<(Bytes, RevisionId), Visible>,
}

impl ReceivedPast {
    /// Each strong read from a step on finds the list of an object as it was decided last, or a
    /// later one.
    pub(super) fn settled(&mut self, object: &Bytes, step: u64) {
        for version in self.lists.get(object).into_iter().flat_map(|list| &list.versions) {
            let visible = self.visible.entry((object.clone(), version.revision())).or_default();
            visible.listed.get_or_insert(step);
            if version.is_removed {
                visible.removed.get_or_insert(step);
            }
        }
    }

    /// The same for all objects.
    pub(super) fn all_settled(&mut self, step: u64) {
        let objects: Vec<Bytes> = self.lists.keys().cloned().collect();
        objects.iter().for_each(|object| self.settled(object, step));
    }
}

impl Model {
    /// Notes that a client is about to send a version.
    pub(crate) fn sends_version(&mut self, object: &Bytes, place: RevisionId, sums: Sums) {
        self.received.sent.entry((object.clone(), place)).or_default().insert(sums);
    }

    /// Notes what came of that.
    pub(crate) fn sent_version(&mut self, object: &Bytes, place: RevisionId, sums: Sums, reply: &Reply) {
        let is_listed = self.received_state(object, place) == Some(sums);
        match reply {
            Reply::Done(_) if !is_listed => {
                self.wrong(format!("{place} of {} was acknowledged, and is not listed", object.escape_ascii()));
            }
            Reply::Refused(why) => {
                if is_listed {
                    self.wrong(format!("{place} of {} was refused ({why}), and is listed", object.escape_ascii()));
                }
                // Nor is it listed later.
                if let Some(sent) = self.received.sent.get_mut(&(object.clone(), place)) {
                    sent.remove(&sums);
                }
            }
            Reply::Done(_) | Reply::Unknown(_) => {}
        }
    }

    /// Notes the states of received versions among rows that are put.
    pub(super) fn put_received(&mut self, partition: &Bytes, rows: &[NewRow]) {
        let Some(written) = keys::version_of(partition) else { return };
        let sort = keys::received_version(written);
        for row in rows.iter().filter(|row| row.sort == sort) {
            if let Ok(state) = head::open::<ReceivedState>(Table::Objects, &row.value) {
                self.received.states.insert((keys::object_of(partition), written), Sums::of(&state.body));
            }
        }
    }

    /// Notes a list that is decided. It has what the list before had, and otherwise only what
    /// clients sent.
    pub(super) fn decided_received(&mut self, step: u64, partition: &Bytes, value: &Bytes, is_sure: bool) {
        let object = keys::object_of(partition);
        let at = object.escape_ascii();
        let Ok(list) = head::open::<ReceivedVersions>(Table::Objects, value) else {
            return self.wrong(format!("the received versions of {at} cannot be read"));
        };
        let before = self.received.lists.insert(object.clone(), list.clone()).unwrap_or_default();
        let is_lost = |old: &&ReceivedVersion| {
            let new = list.at(old.revision()).copied();
            new != Some(**old) && new != Some(ReceivedVersion { is_removed: true, ..**old })
        };
        if let Some(lost) = before.versions.iter().find(is_lost) {
            self.wrong(format!("{} of {at} was received, and is lost", lost.revision()));
        }
        for new in list.versions.iter().filter(|version| !before.has(version.written)) {
            let state = self.received.states.get(&(object.clone(), new.written));
            let sent = self.received.sent.get(&(object.clone(), new.revision()));
            if !state.zip(sent).is_some_and(|(state, sent)| sent.contains(state)) {
                self.wrong(format!("{} of {at} is listed, and was not sent, or was refused", new.revision()));
            }
            if let Some(id) = new.content {
                self.naming.entry(id).or_default().insert(object.clone());
            }
        }
        if is_sure {
            self.received.settled(&object, step);
        }
    }

    /// The received version of an object at a place, removed or not.
    fn received_at(&self, object: &Bytes, place: RevisionId) -> Option<&ReceivedVersion> {
        self.received.lists.get(object)?.at(place)
    }

    /// Whether a version of an object is one that was received.
    pub(crate) fn is_received(&self, object: &Bytes, revision: RevisionId) -> bool {
        self.received_at(object, revision).is_some()
    }

    /// The state of the received version at a place.
    pub(super) fn received_state(&self, object: &Bytes, place: RevisionId) -> Option<Sums> {
        let written = self.received_at(object, place)?.written;
        self.received.states.get(&(object.clone(), written)).copied()
    }

    /// The received versions of an object that are not removed.
    pub(crate) fn received_versions(&self, object: &Bytes) -> impl Iterator<Item = &ReceivedVersion> {
        let all = self.received.lists.get(object).into_iter().flat_map(|list| &list.versions);
        all.filter(|version| !version.is_removed)
    }

    /// What is wrong with the received versions in a list that was read from a step on, if
    /// anything.
    pub(super) fn wrong_received(
        &self,
        object: &Bytes,
        listed: &[RevisionId],
        all_are_kept: bool,
        began: u64,
    ) -> Option<String> {
        let is_before = |step: Option<u64>| step.is_some_and(|step| step < began);
        let list = self.received.lists.get(object)?;
        list.versions.iter().find_map(|version| {
            let place = version.revision();
            let visible = self.received.visible.get(&(object.clone(), place)).copied().unwrap_or_default();
            match listed.contains(&place) {
                true if is_before(visible.removed) => Some(format!("{place} was removed, and is listed")),
                false if all_are_kept && !version.is_removed && is_before(visible.listed) => {
                    Some(format!("{place} was received, and is not listed"))
                }
                _ => None,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use store::UnixMillis;

    use super::*;

    const PLACE: UnixMillis = UnixMillis(1_000);

    fn object() -> Bytes {
        Bytes::from_static(b"r/a")
    }

    fn sums() -> Sums {
        Sums::of_sent(&Bytes::from_static(b"text"), None)
    }

    fn list(is_removed: bool) -> ReceivedVersions {
        let [written, incarnation] = [5, 1].map(|byte| RevisionId([byte; 16]));
        let version = ReceivedVersion { at: PLACE, written, incarnation, is_binary: false, content: None, is_removed };
        ReceivedVersions { floor: RevisionId::ZERO, versions: vec![version] }
    }

    fn decide(model: &mut Model, step: u64, list: &ReceivedVersions) {
        let (partition, value) = (keys::received(&object()), head::seal(list).unwrap());
        model.decided_received(step, &partition, &value, true);
    }

    /// A model of an object with a list that was decided at step 1.
    fn model(list: &ReceivedVersions) -> Model {
        let mut model = Model::new();
        model.sends_version(&object(), RevisionId::first_at(PLACE), sums());
        model.received.states.insert((object(), list.versions[0].written), sums());
        decide(&mut model, 1, list);
        assert_eq!(model.violation, None);
        model
    }

    #[test]
    fn a_received_version_that_is_lost_or_comes_back_is_a_violation() {
        for (before, after) in [(list(false), ReceivedVersions::default()), (list(true), list(false))] {
            let mut model = model(&before);
            decide(&mut model, 2, &after);
            assert!(model.violation.is_some_and(|what| what.contains("is lost")));
        }
        let mut model = model(&list(false));
        decide(&mut model, 2, &list(true));
        assert_eq!(model.violation, None);
    }

    #[test]
    fn a_version_that_is_listed_and_was_not_sent_or_was_refused_is_a_violation() {
        let mut unsent = Model::new();
        decide(&mut unsent, 1, &list(false));
        let mut refused = Model::new();
        refused.sends_version(&object(), RevisionId::first_at(PLACE), sums());
        refused.received.states.insert((object(), list(false).versions[0].written), sums());
        refused.sent_version(&object(), RevisionId::first_at(PLACE), sums(), &Reply::Refused("why".to_owned()));
        decide(&mut refused, 1, &list(false));
        for model in [unsent, refused] {
            assert!(model.violation.is_some_and(|what| what.contains("was not sent, or was refused")));
        }
    }

    #[test]
    fn a_reader_finds_what_was_listed_before_and_nothing_that_was_removed_before() {
        let place = RevisionId::first_at(PLACE);
        let wrong = |model: &Model, listed: &[RevisionId], began| model.wrong_received(&object(), listed, true, began);
        let mut model = model(&list(false));
        assert_eq!((wrong(&model, &[place], 2), wrong(&model, &[], 1)), (None, None));
        assert!(wrong(&model, &[], 2).is_some_and(|what| what.contains("is not listed")));
        assert_eq!(model.wrong_received(&object(), &[], false, 2), None, "it need not be kept");
        decide(&mut model, 3, &list(true));
        assert_eq!((wrong(&model, &[place], 3), wrong(&model, &[], 4)), (None, None));
        assert!(wrong(&model, &[place], 4).is_some_and(|what| what.contains("was removed")));
    }
}
