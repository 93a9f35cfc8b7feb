//! Turns at a resource that serves only a limited number of requests at once.
//!
//! A free turn goes to a waiting request of the party that has the fewest turns. So a party with
//! many requests delays itself, not others. A party that is alone may have all turns, unless they
//! have a limit for one party ([`Turns::shared`]): where turns last long, it leaves some to others.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::shares::{Overloaded, Party};

/// Turns of one kind. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Turns(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    free: usize,
    /// The most turns of one party.
    each_max: usize,
    /// The parties that have turns, or wait for some.
    parties: HashMap<Party, Has>,
    /// The waiting parties. First comes the one with the fewest turns. Among several with equally
    /// few, first comes the one that was given its last turn, or began to wait, the longest ago.
    waiting: BTreeMap<(usize, u64), Party>,
    /// The last order number. Each party that is given a turn or begins to wait gets a new one.
    order: u64,
}

/// How busy turns of one kind are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Turns that are taken.
    pub taken: usize,
    /// Callers that wait for one.
    pub waiting: usize,
}

/// The turns of a party.
#[derive(Debug, Default)]
struct Has {
    turns: usize,
    /// Its place among parties with as many turns.
    order: u64,
    waiting: VecDeque<oneshot::Sender<Turn>>,
}

/// A turn. Dropping it returns it.
#[derive(Debug)]
pub struct Turn {
    turns: Turns,
    party: Party,
}

impl Turns {
    /// At most `at_once` turns at a time, at least one. One party may have all of them.
    pub fn new(at_once: usize) -> Self {
        Self::shared(at_once, usize::MAX)
    }

    /// The same, of which one party has at most `each_max` at a time, at least one.
    pub fn shared(at_once: usize, each_max: usize) -> Self {
        let (free, each_max) = (at_once.max(1), each_max.max(1));
        let (parties, waiting) = (HashMap::new(), BTreeMap::new());
        Self(Arc::new(Mutex::new(State { free, each_max, parties, waiting, order: 0 })))
    }

    /// How many turns are taken, and how many callers wait for one.
    pub fn load(&self) -> Load {
        let state = self.0.lock();
        let waiting = |has: &Has| has.waiting.iter().filter(|sender| !sender.is_closed()).count();
        Load {
            taken: state.parties.values().map(|has| has.turns).sum(),
            waiting: state.parties.values().map(waiting).sum(),
        }
    }

    /// Waits for a turn. A caller that stops waiting is skipped.
    pub async fn turn(&self, party: &Party) -> Result<Turn, Overloaded> {
        let waiting = {
            let mut state = self.0.lock();
            // No caller waits while there is a free turn that its party may have.
            let has_turns = state.parties.get(party).map_or(0, |has| has.turns);
            if state.free > 0 && has_turns < state.each_max {
                return Ok(self.give(&mut state, party.clone()));
            }
            let (sender, receiver) = oneshot::channel();
            state.change(party, |has, order| {
                while has.waiting.pop_front_if(|sender| sender.is_closed()).is_some() {}
                if has.waiting.is_empty() {
                    has.order = order;
                }
                has.waiting.push_back(sender);
            });
            receiver
        };
        waiting.await.map_err(|_| Overloaded("a turn was never given".to_owned()))
    }

    fn give(&self, state: &mut State, party: Party) -> Turn {
        state.free -= 1;
        state.change(&party, |has, order| (has.turns, has.order) = (has.turns + 1, order));
        Turn { turns: self.clone(), party }
    }

    /// Takes a turn back from a party, and gives it to the next one.
    fn take_back(&self, party: &Party) {
        let given = {
            let mut state = self.0.lock();
            state.free += 1;
            state.change(party, |has, _| has.turns -= 1);
            state.next().map(|(party, sender)| (self.give(&mut state, party), sender))
        };
        // A caller that stops waiting right now returns its turn, which takes the lock.
        if let Some((turn, sender)) = given {
            drop(sender.send(turn));
        }
    }
}

impl State {
    /// Changes the state of a party, and with it the party's place among the waiting ones. `change`
    /// gets an order number above all earlier ones.
    fn change(&mut self, party: &Party, change: impl FnOnce(&mut Has, u64)) {
        self.order += 1;
        let has = self.parties.entry(party.clone()).or_default();
        self.waiting.remove(&(has.turns, has.order));
        change(has, self.order);
        if !has.waiting.is_empty() {
            self.waiting.insert((has.turns, has.order), party.clone());
        } else if has.turns == 0 {
            self.parties.remove(party);
        }
    }

    /// Removes the next waiting caller whose party may have a turn. However many wait, this visits
    /// few: the next one, and callers before it that have gone.
    fn next(&mut self) -> Option<(Party, oneshot::Sender<Turn>)> {
        loop {
            let (&(turns, _), party) = self.waiting.first_key_value()?;
            // The others have at least as many.
            if turns >= self.each_max {
                return None;
            }
            let party = party.clone();
            let mut next = None;
            self.change(&party, |has, _| {
                next = std::iter::from_fn(|| has.waiting.pop_front()).find(|sender| !sender.is_closed());
            });
            if let Some(sender) = next {
                return Some((party, sender));
            }
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.turns.take_back(&self.party);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::pin::Pin;

    use futures::FutureExt;

    use super::*;

    type Waiting<'a> = Pin<Box<dyn Future<Output = Result<Turn, Overloaded>> + 'a>>;

    fn party(number: u8) -> Party {
        Party::Network([192, 0, 2, number].into())
    }

    /// Begins to wait `count` times.
    fn wait<'a>(turns: &'a Turns, party: &'a Party, count: usize) -> Vec<Waiting<'a>> {
        let begin = |_| {
            let mut waiting: Waiting<'a> = Box::pin(turns.turn(party));
            assert!((&mut waiting).now_or_never().is_none(), "there is a free turn");
            waiting
        };
        (0..count).map(begin).collect()
    }

    /// The turns that waiting callers were given.
    fn given(waiting: &mut Vec<Waiting<'_>>) -> Vec<Turn> {
        let mut given = Vec::new();
        waiting.retain_mut(|waiting| match waiting.now_or_never() {
            Some(turn) => {
                given.push(turn.unwrap());
                false
            }
            None => true,
        });
        given
    }

    async fn all(turns: &Turns, party: &Party, count: usize) -> VecDeque<Turn> {
        let mut had = VecDeque::new();
        for _ in 0..count {
            had.push_back(turns.turn(party).await.unwrap());
        }
        had
    }

    #[tokio::test]
    async fn who_comes_last_has_the_next_turn_however_many_of_another_party_wait() {
        let turns = Turns::new(4);
        let (greedy, other) = (party(1), party(2));
        let mut had = all(&turns, &greedy, 4).await;
        let mut first = wait(&turns, &greedy, 1_000);
        let mut last = wait(&turns, &other, 1);
        assert_eq!(turns.load(), Load { taken: 4, waiting: 1_001 });
        drop(had.pop_front());
        let next = given(&mut last);
        assert_eq!((next.len(), given(&mut first).len()), (1, 0));
        drop(next);
        assert_eq!(given(&mut first).len(), 1, "then the others go on");
    }

    #[tokio::test]
    async fn parties_that_want_everything_have_as_many_turns_as_each_other() {
        let turns = Turns::new(6);
        let parties = [party(1), party(2), party(3)];
        let mut had = all(&turns, &parties[0], 6).await;
        let mut waiting: Vec<_> = parties.iter().map(|party| wait(&turns, party, 10)).collect();
        let mut now = [6, 0, 0];
        let mut kept = Vec::new();
        for _ in 0..4 {
            drop(had.pop_front());
            now[0] -= 1;
            for (party, waiting) in waiting.iter_mut().enumerate() {
                let given = given(waiting);
                now[party] += given.len();
                kept.extend(given);
            }
        }
        assert_eq!(now, [2, 2, 2]);
    }

    #[tokio::test]
    async fn a_party_gets_no_more_turns_than_one_may_have_and_the_others_are_free() {
        let turns = Turns::shared(4, 2);
        let (greedy, other) = (party(1), party(2));
        let mut had = all(&turns, &greedy, 2).await;
        let mut waiting = wait(&turns, &greedy, 3);
        let others = all(&turns, &other, 2).await;
        assert_eq!(turns.load(), Load { taken: 4, waiting: 3 });
        drop(others);
        assert_eq!(given(&mut waiting).len(), 0, "it has as many as it may");
        drop(had.pop_front());
        let next = given(&mut waiting);
        assert_eq!(next.len(), 1, "another one takes the place of its own");
        assert_eq!(turns.load(), Load { taken: 2, waiting: 2 });
    }

    #[tokio::test]
    async fn whoever_stops_waiting_is_passed_over_and_no_turn_is_lost() {
        let turns = Turns::new(1);
        let (first, second) = (party(1), party(2));
        let mut had = all(&turns, &first, 1).await;
        let gone = wait(&turns, &second, 3);
        let mut waiting = wait(&turns, &first, 1);
        drop(gone);
        had.clear();
        assert_eq!(given(&mut waiting).len(), 1);
        // A caller that was given a turn and never polled again.
        let mut had = all(&turns, &first, 1).await;
        let unseen = wait(&turns, &second, 1);
        had.clear();
        drop(unseen);
        assert!(turns.turn(&first).now_or_never().is_some());
        let state = turns.0.lock();
        assert!(state.parties.is_empty() && state.waiting.is_empty() && state.free == 1, "{state:?}");
    }
}
