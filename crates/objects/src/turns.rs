//! Turns at what only so many can do at once.
//!
//! A turn that becomes free goes to whoever waits of the party that has the fewest: who comes with much that it wants makes
//! itself wait, not others. Nothing is kept free: a party that is alone has all turns.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::error::{ObjectsError, ObjectsResult};
use crate::shares::Party;

/// Turns of one kind. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Turns(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    free: usize,
    /// How many turns each party has; none that has none.
    had: HashMap<Party, usize>,
    /// Who waits, by party, the party first that was given a turn the longest ago.
    waiting: VecDeque<(Party, VecDeque<oneshot::Sender<Turn>>)>,
}

/// A turn; given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    turns: Turns,
    party: Party,
}

impl Turns {
    /// So many at once, at least one.
    pub(crate) fn new(at_once: usize) -> Self {
        let state = State { free: at_once.max(1), had: HashMap::new(), waiting: VecDeque::new() };
        Self(Arc::new(Mutex::new(state)))
    }

    /// Waits for a turn. Whoever stops waiting is passed over.
    pub(crate) async fn turn(&self, party: &Party) -> ObjectsResult<Turn> {
        let waiting = {
            let mut state = self.0.lock();
            // Nobody waits while there is a free turn.
            if state.free > 0 {
                return Ok(self.give(&mut state, party.clone()));
            }
            let (sender, receiver) = oneshot::channel();
            match state.waiting.iter_mut().find(|(waiting, _)| waiting == party) {
                Some((_, senders)) => senders.push_back(sender),
                None => state.waiting.push_back((party.clone(), VecDeque::from([sender]))),
            }
            receiver
        };
        waiting.await.map_err(|_| ObjectsError::Internal("a turn was never given".to_owned()))
    }

    fn give(&self, state: &mut State, party: Party) -> Turn {
        state.free -= 1;
        *state.had.entry(party.clone()).or_default() += 1;
        Turn { turns: self.clone(), party }
    }

    /// Takes back a turn of a party, and gives it to the next one.
    fn take_back(&self, party: &Party) {
        let given = {
            let mut state = self.0.lock();
            state.free += 1;
            if let Some(had) = state.had.get_mut(party) {
                *had -= 1;
                if *had == 0 {
                    state.had.remove(party);
                }
            }
            state.next().map(|(party, sender)| (self.give(&mut state, party), sender))
        };
        // Whoever stops waiting just now gives it back, which takes the lock.
        if let Some((turn, sender)) = given {
            drop(sender.send(turn));
        }
    }
}

impl State {
    /// Who is next, taken out of those who wait.
    fn next(&mut self) -> Option<(Party, oneshot::Sender<Turn>)> {
        for (_, senders) in &mut self.waiting {
            while senders.pop_front_if(|sender| sender.is_closed()).is_some() {}
        }
        self.waiting.retain(|(_, senders)| !senders.is_empty());
        let fewest = |(_, (party, _)): &(usize, &(Party, _))| self.had.get(party).copied().unwrap_or_default();
        let (index, _) = self.waiting.iter().enumerate().min_by_key(fewest)?;
        let (party, mut senders) = self.waiting.remove(index)?;
        let sender = senders.pop_front()?;
        if !senders.is_empty() {
            self.waiting.push_back((party.clone(), senders));
        }
        Some((party, sender))
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

    type Waiting<'a> = Pin<Box<dyn Future<Output = ObjectsResult<Turn>> + 'a>>;

    fn party(number: u8) -> Party {
        Party::Network([192, 0, 2, number].into())
    }

    /// Begins to wait, `count` times.
    fn wait<'a>(turns: &'a Turns, party: &'a Party, count: usize) -> Vec<Waiting<'a>> {
        let begin = |_| {
            let mut waiting: Waiting<'a> = Box::pin(turns.turn(party));
            assert!((&mut waiting).now_or_never().is_none(), "there is a free turn");
            waiting
        };
        (0..count).map(begin).collect()
    }

    /// The turns that were given to those who wait.
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
    async fn whoever_stops_waiting_is_passed_over_and_no_turn_is_lost() {
        let turns = Turns::new(1);
        let (first, second) = (party(1), party(2));
        let mut had = all(&turns, &first, 1).await;
        let gone = wait(&turns, &second, 3);
        let mut waiting = wait(&turns, &first, 1);
        drop(gone);
        had.clear();
        assert_eq!(given(&mut waiting).len(), 1);
        // One that was given a turn and never looked.
        let mut had = all(&turns, &first, 1).await;
        let unseen = wait(&turns, &second, 1);
        had.clear();
        drop(unseen);
        assert!(turns.turn(&first).now_or_never().is_some());
        let state = turns.0.lock();
        assert!(state.had.is_empty() && state.waiting.is_empty() && state.free == 1, "{state:?}");
    }
}
