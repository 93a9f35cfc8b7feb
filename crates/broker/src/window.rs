//! Which of some messages are under way: several at once, but never two with the same key.

use std::collections::HashSet;
use std::time::Duration;

use tokio::time::Instant;

use crate::connection::Sent;
use crate::error::SendError;
use crate::message::Message;

/// Messages that are under way at once.
const UNDER_WAY_MAX: usize = 16;

#[derive(Clone, Copy)]
enum State {
    Waiting,
    UnderWay(Instant),
    Confirmed,
}

/// Some messages that are being sent.
pub(crate) struct Window {
    pub(crate) messages: Vec<Message>,
    states: Vec<State>,
    /// No message is begun after it.
    begins_until: Instant,
    attempt_max: Duration,
    failed: Option<(usize, SendError)>,
}

impl Window {
    /// No message is begun after `round`, and each has `attempt_max` from its begin.
    pub(crate) fn new(messages: Vec<Message>, round: Duration, attempt_max: Duration) -> Self {
        let states = vec![State::Waiting; messages.len()];
        Self { messages, states, begins_until: Instant::now() + round, attempt_max, failed: None }
    }

    /// The next message that may be sent. It is under way from now on.
    pub(crate) fn begin(&mut self) -> Option<usize> {
        let now = Instant::now();
        if self.failed.is_some() || now >= self.begins_until || self.under_way().count() >= UNDER_WAY_MAX {
            return None;
        }
        let mut keys = HashSet::new();
        let states = self.states.iter().zip(&self.messages).enumerate();
        let next = states.filter(|(_, (state, _))| !matches!(state, State::Confirmed)).find(|(_, (state, message))| {
            let is_first = keys.insert(message.key.as_str());
            is_first && matches!(state, State::Waiting)
        });
        let index = next?.0;
        self.states[index] = State::UnderWay(now);
        Some(index)
    }

    fn under_way(&self) -> impl Iterator<Item = (usize, Instant)> + '_ {
        let begun = |state: &State| if let State::UnderWay(begun) = state { Some(*begun) } else { None };
        self.states.iter().enumerate().filter_map(move |(index, state)| Some((index, begun(state)?)))
    }

    /// The broker has confirmed a message.
    pub(crate) fn confirm(&mut self, index: usize) {
        self.states[index] = State::Confirmed;
    }

    /// The broker refuses a message. Others that are under way may still be confirmed.
    pub(crate) fn refuse(&mut self, index: usize, error: SendError) {
        self.states[index] = State::Waiting;
        if self.failed.as_ref().is_none_or(|(earlier, _)| index < *earlier) {
            self.failed = Some((index, error));
        }
    }

    /// Nothing more is confirmed. The first message that is not confirmed has failed, if none before
    /// it was refused.
    pub(crate) fn fail(&mut self, error: SendError) {
        let first = self.states.iter().position(|state| !matches!(state, State::Confirmed));
        let is_earlier = |first: &usize| self.failed.as_ref().is_none_or(|(refused, _)| first < refused);
        if let Some(first) = first.filter(is_earlier) {
            self.failed = Some((first, error));
        }
    }

    /// When the message that has been under way for longest counts as not confirmed. Long after now
    /// if none is.
    pub(crate) fn deadline(&self) -> Instant {
        let begun = self.under_way().map(|(_, begun)| begun).min();
        begun.unwrap_or_else(Instant::now) + self.attempt_max
    }

    /// Whether none is under way.
    pub(crate) fn is_quiet(&self) -> bool {
        self.under_way().next().is_none()
    }

    /// What came of it.
    pub(crate) fn ended(self) -> Sent {
        let confirmed = self.states.iter().map(|state| matches!(state, State::Confirmed)).collect();
        Sent { confirmed, failed: self.failed }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn window(keys: &str) -> Window {
        let message = |key: char| Message {
            key: key.to_string(),
            id: String::new(),
            properties: Vec::new(),
            text: String::new(),
        };
        Window::new(keys.chars().map(message).collect(), Duration::from_secs(15), Duration::from_secs(20))
    }

    #[tokio::test]
    async fn messages_of_one_key_are_under_way_one_after_the_other() {
        let mut window = window("abac");
        assert_eq!([(); 4].map(|()| window.begin()), [Some(0), Some(1), Some(3), None]);
        window.confirm(1);
        assert_eq!(window.begin(), None);
        window.confirm(0);
        assert_eq!([window.begin(), window.begin()], [Some(2), None]);
        window.confirm(3);
        window.fail(SendError::Closed);
        let sent = window.ended();
        assert_eq!(sent.confirmed, [true, true, false, true]);
        assert_eq!(sent.failed.unwrap().0, 2);
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_refusal_or_a_round_no_message_is_begun_and_each_has_its_time() {
        let mut refused = window("abc");
        assert_eq!(refused.begin(), Some(0));
        assert_eq!(refused.begin(), Some(1));
        refused.refuse(1, SendError::refused("no"));
        assert_eq!(refused.begin(), None);
        refused.confirm(0);
        assert!(refused.is_quiet());
        assert_eq!(refused.ended().failed.unwrap().0, 1);

        let mut lost = window("abc");
        assert_eq!([lost.begin(), lost.begin()], [Some(0), Some(1)]);
        lost.refuse(1, SendError::refused("no"));
        lost.fail(SendError::Closed);
        assert!(matches!(lost.ended().failed, Some((0, SendError::Closed))), "the earliest is named");

        let mut slow = window("ab");
        slow.begin();
        let begun = Instant::now();
        tokio::time::advance(Duration::from_secs(15)).await;
        assert_eq!(slow.begin(), None);
        assert_eq!(slow.deadline() - begun, Duration::from_secs(20));
        slow.fail(SendError::Closed);
        assert!(matches!(slow.ended().failed, Some((0, SendError::Closed))));
    }

    #[tokio::test]
    async fn only_so_many_are_under_way() {
        let mut window = window(&('a'..='z').collect::<String>());
        let begun = std::iter::from_fn(|| window.begin()).count();
        assert_eq!(begun, UNDER_WAY_MAX);
    }
}
