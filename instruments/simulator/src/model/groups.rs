//! Archival groups: nobody else changes what is in a group that a transaction holds.

use bytes::Bytes;
use heads::keys;

use super::{Model, Operation};
use crate::work::{GROUPS, parsed};

/// A change without a transaction of a group, or of something in one.
#[derive(Clone, Debug)]
pub(crate) struct GroupChange {
    group: Bytes,
    /// The step at which its request began.
    began: u64,
    /// The step at which it was decided.
    decided: u64,
    what: String,
}

impl Model {
    /// The archival group that an object is or is in, if that is one now.
    pub(crate) fn group_of(&self, object: &Bytes) -> Option<Bytes> {
        let groups = GROUPS.iter().map(|group| keys::resource_partition(&parsed(group)));
        let is_in = |group: &Bytes| match object.strip_prefix(&group[..]) {
            Some(rest) => rest.is_empty() || rest.starts_with(b"/"),
            None => false,
        };
        groups.into_iter().find(is_in).filter(|group| self.head(group).is_some_and(|head| head.is_group))
    }

    /// Notes a change by an operation that is no transaction.
    pub(crate) fn changed_in_group(&mut self, object: &Bytes, step: u64, operation: &Operation) {
        if let Some(group) = self.group_of(object) {
            let what = operation.what.clone();
            self.changed_in_groups.push(GroupChange { group, began: operation.began, decided: step, what });
        }
    }

    /// What is wrong with the groups that transactions held. A request that began before a
    /// transaction held the group may have looked before, and so may be decided later.
    pub(crate) fn wrong_holdings(&self) -> Vec<String> {
        let holdings: Vec<_> = self.holdings().collect();
        let mut wrong = Vec::new();
        for (at, (nth, group, from, until)) in holdings.iter().enumerate() {
            let name = group.escape_ascii();
            for change in self.changed_in_groups.iter().filter(|change| change.group == **group) {
                if change.began > *from && change.decided < *until {
                    wrong.push(format!("{} changed {name}, which transaction {nth} held", change.what));
                }
            }
            for (other, of, other_from, other_until) in &holdings[at + 1..] {
                if of == group && from < other_until && other_from < until {
                    wrong.push(format!("transactions {nth} and {other} held {name} at the same time"));
                }
            }
        }
        wrong
    }
}
