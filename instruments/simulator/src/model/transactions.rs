//! Transactions: what each staged, and what must have happened of it in the end.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::Model;

/// The digest of what an operation writes. No other operation writes the same.
pub(crate) type Mark = [u8; 32];

/// What must have happened of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Must {
    All,
    Nothing,
    AllOrNothing,
}

/// A transaction of a client.
#[derive(Clone, Debug)]
pub(crate) struct Transacted {
    /// What it staged last of each object. `None`: something that leaves no mark.
    staged: BTreeMap<Bytes, Option<Mark>>,
    /// What its requests would have written that were refused.
    refused: Vec<(Bytes, Mark)>,
    must: Must,
    /// The archival groups in which it changes something, each with the step at which it surely
    /// held it.
    held: BTreeMap<Bytes, u64>,
    /// The step at which its commit was requested.
    committed_at: u64,
}

impl Model {
    /// Notes a transaction that begins; returns its number.
    pub(crate) fn transacts(&mut self) -> usize {
        self.transacted.push(Transacted {
            staged: BTreeMap::new(),
            refused: Vec::new(),
            must: Must::Nothing,
            held: BTreeMap::new(),
            committed_at: 0,
        });
        self.transacted.len() - 1
    }

    /// Notes what was staged of an object.
    pub(crate) fn staged(&mut self, nth: usize, object: Bytes, mark: Option<Mark>) {
        self.transacted[nth].staged.insert(object, mark);
    }

    /// What was staged of an object, so far as is known. From now on that is not known.
    pub(crate) fn take_staged(&mut self, nth: usize, object: &Bytes) -> Option<Mark> {
        self.transacted[nth].staged.insert(object.clone(), None).flatten()
    }

    /// Notes a refused request.
    pub(crate) fn refused_to_stage(&mut self, nth: usize, object: Bytes, mark: Mark) {
        self.transacted[nth].refused.push((object, mark));
    }

    /// Notes that a transaction changes an object, and so holds the group that it is or is in.
    pub(crate) fn holds(&mut self, nth: usize, object: &Bytes, step: u64) {
        if let Some(group) = self.group_of(object) {
            self.transacted[nth].held.entry(group).or_insert(step);
        }
    }

    /// Notes that a commit is requested.
    pub(crate) fn commits(&mut self, nth: usize, step: u64) {
        let of = &mut self.transacted[nth];
        (of.must, of.committed_at) = (Must::AllOrNothing, step);
    }

    /// Transactions that were surely committed: the groups that they held, and from which step to
    /// which. None of them ended in between.
    pub(crate) fn holdings(&self) -> impl Iterator<Item = (usize, &Bytes, u64, u64)> {
        let committed = self.transacted.iter().enumerate().filter(|(_, of)| of.must == Must::All);
        committed.flat_map(|(nth, of)| of.held.iter().map(move |(group, from)| (nth, group, *from, of.committed_at)))
    }

    /// Notes what must have happened.
    pub(crate) fn must(&mut self, nth: usize, must: Must) {
        self.transacted[nth].must = must;
    }

    /// What is wrong with the transactions, once everything has come to rest.
    pub(crate) fn wrong_transactions(&self) -> Vec<String> {
        let wrong = |(nth, of): (usize, &Transacted)| {
            let marked = of.staged.iter().filter_map(|(object, mark)| Some((object, (*mark)?)));
            let (made, missing): (Vec<_>, Vec<_>) = marked.partition(|(object, mark)| self.was_made(object, *mark));
            let is_wrong = match of.must {
                Must::All => !missing.is_empty(),
                Must::Nothing => !made.is_empty(),
                Must::AllOrNothing => !made.is_empty() && !missing.is_empty(),
            };
            let names = |of: &[(&Bytes, Mark)]| {
                of.iter().map(|(object, _)| object.escape_ascii().to_string()).collect::<Vec<_>>().join(", ")
            };
            let refused: Vec<_> = of.refused.iter().map(|(object, mark)| (object, *mark)).collect();
            if let Some((object, _)) = refused.into_iter().find(|(object, mark)| self.was_made(object, *mark)) {
                return Some(format!("transaction {nth} made of {} what it had refused", object.escape_ascii()));
            }
            is_wrong.then(|| {
                let (made, missing) = (names(&made), names(&missing));
                format!("transaction {nth} ({:?}) made {made}, and not {missing}", of.must)
            })
        };
        self.transacted.iter().enumerate().filter_map(wrong).collect()
    }

    /// Whether a head of an object ever named what was written with this mark.
    fn was_made(&self, object: &Bytes, mark: Mark) -> bool {
        self.versions.get(object).is_some_and(|versions| {
            versions.iter().filter_map(|version| version.head.body.resource()).any(|resource| {
                resource.description.sha256 == mark || resource.binary().is_some_and(|binary| binary.sha256 == mark)
            })
        })
    }
}
