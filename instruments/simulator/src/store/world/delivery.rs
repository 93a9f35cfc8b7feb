//! Delivers mutations to replicas: at once, late, or with a repair; not while a replica is down.

use std::sync::Arc;

use store::{Step, UnixMillis};

use super::{Decided, Key, Proposal, Replacement, World};
use crate::setup::REPLICAS;
use crate::store::replica::{Mutation, Shared};
use crate::trace::Op;

/// An item on its way.
pub(super) enum Late {
    Mutation { replica: usize, mutation: Shared },
    Proposal(Box<Proposal>),
    Replacement(Box<Replacement>),
    List { steps: Vec<Step>, by: Option<Op>, time: i64 },
}

impl World {
    /// Sends a mutation to all replicas. The required replicas get it now, the others now, late, or
    /// not at all.
    pub(super) fn spread(&mut self, mutation: Mutation, surely: &[usize], center: usize) {
        let mutation = Arc::new(mutation);
        let near = self.of_center(center);
        for replica in 0..self.replicas.len() {
            let (is_near, is_up) = (near.contains(&replica), self.is_up(replica));
            let is_reached = is_up && (is_near || !self.is_cut);
            let at_once = if is_near { self.setup.spread.near } else { self.setup.spread.far };
            let draw = self.chance.below(100);
            if surely.contains(&replica) || is_reached && draw < at_once {
                self.apply(replica, &mutation);
            } else if is_up && draw < 85 {
                self.send_late(Late::Mutation { replica, mutation: mutation.clone() });
            } else {
                self.lost.push((replica, mutation.clone()));
            }
        }
    }

    fn send_late(&mut self, late: Late) {
        let at = self.step + self.chance.between(1, self.setup.spread.late_max);
        self.late.push((at, late));
    }

    /// The same, but all of it late: no replica has anything for `after` steps.
    pub(crate) fn change_late(&mut self, mutation: Mutation, after: u64) {
        let mutation = Arc::new(mutation);
        for replica in 0..self.replicas.len() {
            let at = self.step + after + self.chance.below(self.setup.spread.late_max);
            self.late.push((at, Late::Mutation { replica, mutation: mutation.clone() }));
        }
    }

    /// Decides a compare-and-write later, if its condition holds then.
    pub(crate) fn decide_late(&mut self, proposal: Proposal, after: u64) {
        self.late.push((self.step + after, Late::Proposal(Box::new(proposal))));
    }

    /// Commits a list later, if nothing in it is refused then.
    pub(crate) fn commit_late(&mut self, steps: Vec<Step>, by: Option<Op>, time: i64, after: u64) {
        self.late.push((self.step + after, Late::List { steps, by, time }));
    }

    /// Delivers what is due; with `all`, also what is not due yet.
    pub(crate) fn arrivals(&mut self, now: UnixMillis, all: bool) {
        if self.down.is_some_and(|(_, until)| until <= self.step) {
            self.down = None;
        }
        let mut still = Vec::new();
        let mut due = Vec::new();
        for (at, late) in std::mem::take(&mut self.late) {
            let is_due = all || at <= self.step;
            match late {
                Late::Mutation { replica, .. }
                    if is_due && (!self.is_up(replica) || self.is_cut && replica >= REPLICAS) =>
                {
                    still.push((self.step + 50, late));
                }
                late if is_due => due.push(late),
                late => still.push((at, late)),
            }
        }
        self.late.extend(still);
        for late in due {
            match late {
                Late::Mutation { replica, mutation } => self.apply(replica, &mutation),
                Late::Proposal(proposal) => {
                    if self.can_decide(0) {
                        let is_applied = matches!(self.decide(&proposal, 0, false), Decided::Applied);
                        self.trace.note(format!(
                            "{:>6} late head of {} applied: {is_applied}",
                            self.step,
                            proposal.key.1.escape_ascii()
                        ));
                    }
                }
                Late::Replacement(replacement) => {
                    if self.can_decide(0) {
                        self.replace(&replacement, 0, false);
                    }
                }
                Late::List { steps, by, time } => {
                    let is_applied = self.commit(&steps, by, now, time).is_applied();
                    self.trace.note(format!("{:>6} late list of {by:?} applied: {is_applied}", self.step));
                }
            }
        }
    }

    /// Pending decisions arrive: none of them takes longer than a request.
    pub(crate) fn decide_all_late(&mut self, now: UnixMillis) {
        let (proposals, rest) =
            std::mem::take(&mut self.late).into_iter().partition(|(_, late)| !matches!(late, Late::Mutation { .. }));
        self.late = proposals;
        self.arrivals(now, true);
        self.late.extend(rest);
    }

    /// All replicas that are up get their missing mutations.
    pub(crate) fn repair(&mut self) {
        for (replica, mutation) in std::mem::take(&mut self.lost) {
            match self.is_up(replica) {
                true => self.apply(replica, &mutation),
                false => self.lost.push((replica, mutation)),
            }
        }
    }

    /// Everything arrives at all replicas.
    pub(crate) fn heal(&mut self, now: UnixMillis) {
        self.is_cut = false;
        self.down = None;
        self.decide_all_late(now);
        self.arrivals(now, true);
        self.repair();
        let keys: Vec<Key> = self.registers.keys().cloned().collect();
        for key in keys {
            let undelivered = self.registers.get_mut(&key).map(|register| std::mem::take(&mut register.undelivered));
            for mutation in undelivered.into_iter().flatten() {
                for replica in self.everywhere() {
                    self.apply(replica, &mutation);
                }
            }
        }
        self.model.all_settled(self.step);
    }

    /// Takes a replica down for that many steps, unless one is down already. It misses the writes
    /// meanwhile, and does not answer reads.
    pub(crate) fn take_down(&mut self, steps: u64) {
        if self.down.is_none() && self.replicas.len() >= REPLICAS {
            let replica = self.chance.place(self.replicas.len());
            self.trace.note(format!("{:>6} replica {replica} goes down", self.step));
            self.down = Some((replica, self.step + steps));
        }
    }

    pub(super) fn is_up(&self, replica: usize) -> bool {
        self.down.is_none_or(|(down, _)| down != replica)
    }
}
