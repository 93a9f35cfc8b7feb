//! Changes heads and finds out the outcome. This is the only place where refused and unknown
//! outcomes are resolved.
//!
//! A *switch* gives an object a new revision. Whether it was applied can always be found out later,
//! because the revision is in the head or, once that is replaced, in the head log. An *amendment*
//! (a fence, a condemnation, a count of damage marks) keeps the revision and changes only the
//! stamp. A writer that does not know whether its amendment was applied reads the head and decides
//! again.

use bytes::Bytes;
use store::{Call, Class, Expect, Guard, Outcome, Stamp, Step, Table, UnixMillis, boxed};

use crate::claim::Holder;
use crate::error::{ObjectsError, ObjectsResult};
use crate::handle::Heads;
use crate::head::{Body, Head, HeadRow, ObjectState};
use crate::keys;
use crate::positions::Announcing;
use crate::retries::Tries;
use crate::revision::RevisionId;
use crate::rules::{Rule, Rules};

/// A change that gives an object a new revision, with all steps in one list.
pub struct Switch {
    /// The object.
    pub partition: Bytes,
    /// The head to compare with; `None` if there is none.
    pub base: Option<HeadRow>,
    /// The new head. Its floor, its condemnation and the epochs of its children are ignored: those
    /// of the base stay. A claim of the base ends.
    pub head: Head,
    /// Steps that come first. If some of them can be refused, they are [`Step::Require`]s and come
    /// last among these.
    pub before: Vec<Step>,
    /// Steps that come last, and may be lost.
    pub after: Vec<Step>,
    /// Whether an earlier try of the same change may still arrive.
    pub unsure: bool,
    /// In whose name the head is switched.
    pub holder: Holder,
}

/// The outcome of a switch.
#[derive(Debug)]
pub enum Switched {
    /// It was applied.
    Applied,
    /// A step before the head was refused, and the head was not switched. If `unsure`, an earlier
    /// try may still arrive.
    Required {
        /// Whether an earlier try may still be applied.
        unsure: bool,
    },
    /// Certainly never applied: another writer switched the head first.
    Moved,
    /// Certainly never applied: the revision was fenced, while the state that clients see stayed
    /// the same. The change can be repeated with a new revision and new rows.
    Fenced,
}

/// Whether no try of the switch can still arrive.
fn is_settled(switched: &ObjectsResult<Switched>) -> bool {
    match switched {
        Ok(Switched::Required { unsure }) => !unsure,
        Ok(Switched::Applied | Switched::Moved | Switched::Fenced) => true,
        Err(ObjectsError::Unknown(_)) => false,
        Err(_) => true,
    }
}

impl Switch {
    fn steps(&self, stamp: Stamp, rules: Rules, announcing: Option<&Announcing<'_>>) -> ObjectsResult<Vec<Step>> {
        let mut head = Head { claim: None, ..self.head.clone() };
        if let Some(base) = &self.base {
            head.announced = base.head.announced;
            head.logged = base.head.logged_with_it();
            head.collected = base.head.collected;
            head.floor = base.head.floor;
            head.condemned = base.head.condemned;
            if head.incarnation == base.head.incarnation
                && let (Some(children), Some(stand)) = (head.body.container_mut(), base.head.body.container())
            {
                children.clone_from(stand);
            }
        }
        let mut steps: Vec<Step> = self.log_entry()?.into_iter().collect();
        if let Some(announcing) = announcing {
            head.announced = announcing.position;
            steps.extend(announcing.steps.iter().cloned());
        }
        steps.extend(self.before.iter().cloned());
        steps.push(compare_and_write(&self.partition, self.base.as_ref(), &head, head.guard(stamp, rules))?);
        steps.extend(self.after.iter().cloned());
        Ok(steps)
    }

    /// The step that logs the replaced head. It comes before all others.
    fn log_entry(&self) -> ObjectsResult<Option<Step>> {
        let base = self.base.as_ref().map(|base| &base.head).filter(|base| base.is_logged());
        base.map(|base| base.log_step(&self.partition)).transpose()
    }
}

impl Heads {
    /// Switches a head, and finds out the outcome. Fails with [`ObjectsError::Unknown`] only if
    /// that is impossible. Begins no try once [`LibraryOptions::switch_within`] has passed, so that
    /// others know from when on no writer tries any more; one that is still on its way is fenced by
    /// [`Heads::settle_change`].
    ///
    /// [`LibraryOptions::switch_within`]: crate::LibraryOptions::switch_within
    #[boxed]
    pub async fn switch(&self, switch: Switch) -> ObjectsResult<Switched> {
        let revision = switch.head.revision;
        // Before a position is minted, so that no try begins once readers may pass the position.
        let until = self.now().plus(self.inner.options.switch_within);
        if floor_of(switch.base.as_ref()) >= revision && self.keeps(Rule::CondCas) {
            // The base was read again after the revision was minted (a deleted head was made free),
            // and by then it was fenced. Rows of the revision may be gone.
            let is_in = switch.unsure && matches!(self.look(&switch.partition, revision, true).await?, Fate::Switched);
            return Ok(if is_in { Switched::Applied } else { Switched::Fenced });
        }
        if !self.may_switch(&switch.partition, switch.base.as_ref(), switch.holder).await? {
            let is_in = switch.unsure && matches!(self.look(&switch.partition, revision, true).await?, Fate::Switched);
            return Ok(if is_in { Switched::Applied } else { Switched::Moved });
        }
        let mut announcing = self.announce(&switch.partition, switch.base.as_ref(), &switch.head).await?;
        let switched = self.try_until(switch, until, announcing.as_mut()).await;
        if let Some(announcing) = announcing {
            announcing.ended(is_settled(&switched));
        }
        switched
    }

    /// Tries a switch until it is decided, or it is too late for another try.
    async fn try_until(
        &self,
        mut switch: Switch,
        until: UnixMillis,
        mut announcing: Option<&mut Announcing<'_>>,
    ) -> ObjectsResult<Switched> {
        let revision = switch.head.revision;
        let mut tries = Tries::default();
        // Whether a try may still be on its way. None is, once the stamp that it compares has
        // changed.
        let mut unsure = switch.unsure;
        loop {
            let answer = self.try_switch(&switch, until, announcing.as_deref_mut()).await?;
            unsure |= matches!(answer, TryOutcome::Unknown(_));
            if unsure && !self.keeps(Rule::AckIntent) {
                switch.before.retain(|step| step.table() != Table::Children);
            }
            if matches!(answer, TryOutcome::Refused) && !self.keeps(Rule::Relook) {
                return Ok(Switched::Moved);
            }
            match answer {
                TryOutcome::Applied => return Ok(Switched::Applied),
                TryOutcome::Failed(error) if !unsure && !error.is_passing() => return Err(error),
                _ => {}
            }
            match self.look(&switch.partition, revision, unsure).await? {
                Fate::Switched => {
                    if unsure && !switch.after.is_empty() {
                        // The steps after the head may not have been applied with it. They may be
                        // lost, so nothing waits for them.
                        let _ = self.inner.store.run(self.call_to(&switch.head, switch.holder), switch.after).await;
                    }
                    return Ok(Switched::Applied);
                }
                Fate::Otherwise(current) if same_stamp(current.as_deref(), switch.base.as_ref()) => match answer {
                    TryOutcome::Required => return Ok(Switched::Required { unsure }),
                    TryOutcome::Failed(error) if !error.is_passing() => {
                        return Err(ObjectsError::Unknown(error.to_string()));
                    }
                    _ => {}
                },
                Fate::Otherwise(current) if !same_to_clients(current.as_deref(), switch.base.as_ref()) => {
                    return Ok(Switched::Moved);
                }
                Fate::Otherwise(current) if floor_of(current.as_deref()) >= revision && self.keeps(Rule::CondCas) => {
                    return Ok(Switched::Fenced);
                }
                Fate::Otherwise(current) => {
                    switch.base = current.map(|row| *row);
                    unsure = false;
                    if !self.may_switch(&switch.partition, switch.base.as_ref(), switch.holder).await? {
                        return Ok(Switched::Moved);
                    }
                }
            }
            if !tries.again().await || self.now() >= until {
                return Err(answer.given_up(unsure));
            }
        }
    }

    /// Makes sure that a revision is not switched in from now on if it was not before, whatever its
    /// writer still does. Returns whether it was. Also fences live heads, without a change that
    /// clients see. The writer of a fenced revision starts again or reports an error.
    ///
    /// A reader that must know all changes up to a time settles the changes that were announced
    /// before and whose outcome it does not see. It waits until their writers gave up
    /// ([`Heads::horizon`]), so that it fences none that is still at work.
    pub async fn settle_change(&self, partition: &Bytes, revision: RevisionId) -> ObjectsResult<bool> {
        let fence = |head: Option<&Head>| match head {
            // The head's writer read a head below this revision or at it, and no other writer of
            // the revision can meet the stamp that it compares.
            Some(head) if head.revision >= revision || head.floor >= revision => None,
            Some(head) => Some(Head { floor: revision, ..head.clone() }),
            None => Some(Head { floor: revision, ..Head::free() }),
        };
        self.amend(partition, &fence).await?;
        Ok(matches!(self.look(partition, revision, true).await?, Fate::Switched))
    }

    /// The time before which no writer that began to switch a head is still trying, by any server's
    /// clock.
    pub fn horizon(&self) -> UnixMillis {
        self.horizon_at(self.now())
    }

    /// The horizon at a time.
    pub fn horizon_at(&self, time: UnixMillis) -> UnixMillis {
        let options = &self.inner.options;
        let back = options.switch_within + options.call_timeout + options.clock_skew_max;
        UnixMillis(time.0.saturating_sub(u64::try_from(back.as_millis()).unwrap_or(u64::MAX)))
    }

    /// Settles a creation of which a try may still arrive, by making sure that none can be applied
    /// any more. Returns whether it was applied; fails with [`ObjectsError::Unknown`] if that is
    /// impossible to find out.
    pub async fn settle_creation(&self, partition: &Bytes, incarnation: RevisionId) -> ObjectsResult<bool> {
        self.fence(partition, incarnation).await.map_err(|error| error.if_unsure(true))?;
        // The compared stamp has changed: the creation is fenced, or something else was created
        // since.
        Ok(matches!(self.look(partition, incarnation, true).await?, Fate::Switched))
    }

    /// A call that writes the head of a switch. A transaction was admitted when it was decided.
    fn call_to(&self, head: &Head, holder: Holder) -> Call {
        let call = self.call(Class::Description);
        // Other rows have keys of this revision, and the heads were read for this request. (An import
        // may have read the head of its volume hours ago.)
        let call = if head.body.resource().is_some() { call.having_read() } else { call };
        match holder {
            Holder::Claim(_) => call.owed(),
            Holder::Nobody | Holder::Above if head.state == ObjectState::Live => call,
            Holder::Nobody | Holder::Above => call.removing(),
        }
    }

    async fn try_switch(
        &self,
        switch: &Switch,
        until: UnixMillis,
        mut announcing: Option<&mut Announcing<'_>>,
    ) -> ObjectsResult<TryOutcome> {
        if let Some(announcing) = &mut announcing
            && let Err(error) = self.announce_first(announcing, self.call_to(&switch.head, switch.holder), until).await
        {
            return Ok(TryOutcome::Failed(error));
        }
        let steps = switch.steps(self.stamp(), self.rules(), announcing.as_deref())?;
        let head_at = steps.len() - 1 - switch.after.len();
        let outcome = self.inner.store.run(self.call_to(&switch.head, switch.holder), steps).await;
        Ok(match outcome {
            Ok(Outcome::Applied) => {
                if let Some(announcing) = announcing {
                    announcing.acknowledged();
                }
                TryOutcome::Applied
            }
            Ok(Outcome::Refused { step, .. }) if step < head_at => TryOutcome::Required,
            Ok(Outcome::Refused { .. }) => TryOutcome::Refused,
            Ok(Outcome::Unknown { reason }) => TryOutcome::Unknown(reason),
            Err(error) => TryOutcome::Failed(error.into()),
        })
    }

    /// Whether `revision` was ever switched in. Reads the head first, then its log. The order
    /// matters. If the head does not show the revision, either the revision was replaced before the
    /// head was read, and then its entry is in the log by now; or its writer compares a stamp that
    /// the head still shows, or will never be applied. In the other order, the revision could be
    /// switched in and replaced between the two reads.
    ///
    /// An unsure writer reads the head serially, because a decided write need not have arrived
    /// where a strong read looks. Entries of the log were acknowledged before the head was
    /// replaced, so a strong read finds them.
    async fn look(&self, partition: &Bytes, revision: RevisionId, unsure: bool) -> ObjectsResult<Fate> {
        let look = || async {
            let call = self.call(Class::Description);
            let is_serial = unsure && self.keeps(Rule::LookSerially);
            let call = if is_serial { call.serial() } else { call.strong() };
            let head = self.inner.store.get(call, Table::Objects, partition, &keys::head()).await?;
            let Some(row) = head.as_ref().map(HeadRow::open).transpose()? else { return Ok(Fate::Otherwise(None)) };
            let is_there = row.head.revision == revision
                || self.keeps(Rule::Log) && self.log_before(partition, &row.head).has(revision).await?;
            Ok(if is_there { Fate::Switched } else { Fate::Otherwise(Some(Box::new(row))) })
        };
        match self.retry_transient(look).await {
            Err(error) if unsure => Err(ObjectsError::Unknown(error.to_string())),
            looked => looked,
        }
    }

    /// Writes a head without a new revision, after the steps in `before`. Returns the new head if
    /// it was certainly applied; `None` means that the caller must read again and decide again.
    #[boxed]
    pub async fn try_amend(
        &self,
        partition: &Bytes,
        base: Option<&HeadRow>,
        head: Head,
        before: Vec<Step>,
    ) -> ObjectsResult<Option<HeadRow>> {
        match self.amend_once(partition, base, head, before, Amends::Removing).await? {
            Amended::Applied(row) => Ok(Some(*row)),
            Amended::Refused | Amended::Unknown => Ok(None),
        }
    }

    /// The same, and also returns whether a try that was not applied may still be.
    #[boxed]
    pub async fn amend_once(
        &self,
        partition: &Bytes,
        base: Option<&HeadRow>,
        head: Head,
        mut before: Vec<Step>,
        amends: Amends,
    ) -> ObjectsResult<Amended> {
        let call = amends.call(self.call(Class::Description));
        let stamp = self.stamp();
        before.push(compare_and_write(partition, base, &head, head.guard(stamp, self.rules()))?);
        match self.inner.store.run(call, before).await {
            Ok(Outcome::Applied) => Ok(Amended::Applied(Box::new(HeadRow { head, stamp }))),
            Ok(Outcome::Unknown { .. }) => Ok(Amended::Unknown),
            Ok(Outcome::Refused { .. }) => Ok(Amended::Refused),
            // Nothing of it was applied.
            Err(error) if error.is_passing() => Ok(Amended::Refused),
            Err(error) => Err(error.into()),
        }
    }

    /// Amends a head with `change`, which is called again whenever the head changed meanwhile and
    /// returns `None` when nothing is left to do. Returns the resulting head.
    #[boxed]
    pub async fn amend(
        &self,
        partition: &Bytes,
        change: &(dyn Fn(Option<&Head>) -> Option<Head> + Sync),
    ) -> ObjectsResult<Option<HeadRow>> {
        let mut tries = Tries::default();
        loop {
            let row = self.retry_transient(|| self.head_at(partition)).await?;
            let Some(head) = change(row.as_ref().map(|row| &row.head)) else { return Ok(row) };
            if let Some(amended) = self.try_amend(partition, row.as_ref(), head, Vec::new()).await? {
                return Ok(Some(amended));
            }
            if !tries.again().await {
                return Err(ObjectsError::Overloaded(
                    "a head could not be amended, others change it all the time".to_owned(),
                ));
            }
        }
    }

    /// Makes a deleted head free, so that its name can be used again. Returns the head if it is
    /// free then; `None` if it is not deleted any more, or was deleted again.
    #[boxed]
    pub async fn free(&self, partition: &Bytes, deleted: RevisionId) -> ObjectsResult<Option<HeadRow>> {
        let change = |head: Option<&Head>| {
            let head = head.filter(|head| head.state == ObjectState::Deleted && head.revision == deleted)?;
            Some(Head { state: ObjectState::Free, ..head.clone() })
        };
        let freed = self.amend(partition, &change).await?;
        Ok(freed.filter(|row| row.head.state == ObjectState::Free && row.head.revision == deleted))
    }

    /// Makes sure that no revision at or below `revision` is ever switched in, unless the object is
    /// live.
    #[boxed]
    pub async fn fence(&self, partition: &Bytes, revision: RevisionId) -> ObjectsResult<Option<HeadRow>> {
        if !self.keeps(Rule::Fence) {
            return self.retry_transient(|| self.head_at(partition)).await;
        }
        self.amend(partition, &|head| match head {
            Some(head) if head.state == ObjectState::Live || head.floor >= revision => None,
            Some(head) => Some(Head { floor: revision, ..head.clone() }),
            None => Some(Head { floor: revision, ..Head::free() }),
        })
        .await
    }
}

/// What an amendment is for. It decides how much room it leaves when disk space runs low.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amends {
    /// It adds something, as other writes do.
    Adding,
    /// It fences, condemns, counts or claims, which removing and collecting need.
    Removing,
}

impl Amends {
    /// A call for this.
    pub(crate) fn call(self, call: Call) -> Call {
        match self {
            Self::Adding => call,
            Self::Removing => call.removing(),
        }
    }
}

/// The outcome of one try of an amendment.
#[derive(Debug)]
pub enum Amended {
    /// It was applied, and this is the head.
    Applied(Box<HeadRow>),
    /// It was not, and never will be.
    Refused,
    /// That is not known. It is certainly not applied any more once the stamp that it compares has
    /// changed.
    Unknown,
}

/// The store's result for one try of a switch.
enum TryOutcome {
    Applied,
    /// A step before the head was refused.
    Required,
    /// The head was refused.
    Refused,
    /// The outcome is unknown.
    Unknown(String),
    /// Nothing was applied.
    Failed(ObjectsError),
}

impl TryOutcome {
    /// The error after the last of many tries.
    fn given_up(self, unsure: bool) -> ObjectsError {
        match self {
            TryOutcome::Failed(error) if !unsure => error,
            TryOutcome::Failed(error) => ObjectsError::Unknown(error.to_string()),
            TryOutcome::Unknown(reason) => ObjectsError::Unknown(reason),
            _ if unsure => ObjectsError::Unknown("an earlier try may still arrive".to_owned()),
            _ => ObjectsError::Overloaded("a head is being changed by others all the time".to_owned()),
        }
    }
}

/// What a head and its log show about a revision.
enum Fate {
    /// The revision is or was current.
    Switched,
    /// It never was; this is the current head.
    Otherwise(Option<Box<HeadRow>>),
}

impl Head {
    /// The head of a name that was never used, once a head has to be written.
    pub fn free() -> Self {
        Self {
            state: ObjectState::Free,
            incarnation: RevisionId::ZERO,
            parent_incarnation: RevisionId::ZERO,
            revision: RevisionId::ZERO,
            logged: 0,
            collected: None,
            floor: RevisionId::ZERO,
            condemned: None,
            body: Body::Nothing,
            announced: RevisionId::ZERO,
            claim: None,
            is_group: false,
        }
    }
}

fn compare_and_write(partition: &Bytes, base: Option<&HeadRow>, head: &Head, guard: Guard) -> ObjectsResult<Step> {
    Ok(Step::CompareAndWrite {
        table: Table::Objects,
        partition: partition.clone(),
        sort: keys::head(),
        expect: base.map_or(Expect::Absent, |base| Expect::Stamp(base.stamp)),
        guard,
        value: head.seal()?,
    })
}

fn same_stamp(one: Option<&HeadRow>, other: Option<&HeadRow>) -> bool {
    let stamp = |row: Option<&HeadRow>| -> Option<Stamp> { row.map(|row| row.stamp) };
    stamp(one) == stamp(other)
}

/// Whether two heads differ at most by fences, condemnations and similar amendments.
fn same_to_clients(one: Option<&HeadRow>, other: Option<&HeadRow>) -> bool {
    let seen = |row: Option<&HeadRow>| {
        row.map_or((RevisionId::ZERO, false), |row| (row.head.revision, row.head.state == ObjectState::Live))
    };
    seen(one) == seen(other)
}

fn floor_of(row: Option<&HeadRow>) -> RevisionId {
    row.map_or(RevisionId::ZERO, |row| row.head.floor)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use store::SystemClock;
    use store::null::NullStore;

    use super::*;
    use crate::options::LibraryOptions;
    use crate::resource_body::{Kind, ResourceBody, StoredDescription};
    use crate::surroundings::Surroundings;

    #[test]
    fn an_engine_reads_nothing_again_before_it_writes_a_resource() {
        let surroundings = Surroundings::of_this_machine(Arc::new(SystemClock));
        let heads = Heads::new(Arc::new(NullStore::new()), surroundings, LibraryOptions::default());
        let description = StoredDescription { revision: RevisionId::ZERO, pieces: 0, sha256: [0; 32] };
        let body = Body::Resource(ResourceBody { kind: Kind::RdfSource, description });
        let live = Head { state: ObjectState::Live, body, ..Head::free() };
        for holder in [Holder::Nobody, Holder::Above] {
            assert!(heads.call_to(&live, holder).has_read);
            let deleted = Head { state: ObjectState::Deleted, ..Head::free() };
            assert!(!heads.call_to(&deleted, holder).has_read, "its head may have been read long before");
        }
    }
}
