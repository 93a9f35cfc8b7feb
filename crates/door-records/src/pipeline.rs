//! Commands of one connection that are under way. They run at the same time, and their answers come
//! in the order of the commands.

use std::collections::HashMap;
use std::pin::Pin;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::FuturesOrdered;

use crate::answer::Answer;

/// So many commands of one connection are under way at most.
const COMMANDS_MAX: usize = 64;

/// An answer that is being made.
pub(crate) type Answering = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// The commands.
#[derive(Default)]
pub(crate) struct Pipeline {
    answers: FuturesOrdered<Answering>,
    /// The keys of all of them, and whether one of them writes there.
    keys: HashMap<Bytes, bool>,
}

impl Pipeline {
    /// Whether a command may begin before those that are under way have ended: none of them changes
    /// what it reads, or reads what it changes.
    pub(crate) fn admits(&self, keys: &[Bytes], writes: bool) -> bool {
        let meets = |key: &Bytes| self.keys.get(key).is_some_and(|is_written| writes || *is_written);
        self.answers.len() < COMMANDS_MAX && !keys.iter().any(meets)
    }

    /// Adds a command that it admits.
    pub(crate) fn push(&mut self, keys: Vec<Bytes>, writes: bool, answer: Answering) {
        for key in keys {
            *self.keys.entry(key).or_default() |= writes;
        }
        self.answers.push_back(answer);
    }

    /// The next answer; `None`: there is none to wait for.
    pub(crate) async fn next(&mut self) -> Option<Answer> {
        let answer = self.answers.next().await;
        if self.answers.is_empty() {
            self.keys.clear();
        }
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reply::Reply;

    fn key(text: &'static str) -> Bytes {
        Bytes::from_static(text.as_bytes())
    }

    fn answering(number: i64) -> Answering {
        Box::pin(async move {
            // The first one ends last.
            for _ in number..3 {
                tokio::task::yield_now().await;
            }
            Answer::free(Reply::Integer(number))
        })
    }

    #[test]
    fn commands_on_one_key_wait_for_each_other_unless_both_read() {
        let mut pipeline = Pipeline::default();
        pipeline.push(vec![key("read")], false, answering(0));
        pipeline.push(vec![key("written"), key("read")], false, answering(1));
        pipeline.push(vec![key("written")], true, answering(2));
        assert!(pipeline.admits(&[key("other")], true));
        assert!(pipeline.admits(&[key("read")], false));
        assert!(!pipeline.admits(&[key("other"), key("read")], true));
        assert!(!pipeline.admits(&[key("written")], false));
    }

    #[tokio::test]
    async fn answers_come_in_the_order_of_the_commands() {
        let mut pipeline = Pipeline::default();
        for number in 0..3 {
            pipeline.push(vec![key("a")], true, answering(number));
        }
        for number in 0..3 {
            assert_eq!(pipeline.next().await.map(|answer| answer.reply), Some(Reply::Integer(number)));
        }
        assert!(pipeline.next().await.is_none());
        assert!(pipeline.admits(&[key("a")], true));
    }

    #[test]
    fn the_commands_under_way_are_bounded() {
        let mut pipeline = Pipeline::default();
        for _ in 0..COMMANDS_MAX {
            assert!(pipeline.admits(&[key("a")], false));
            pipeline.push(vec![key("a")], false, answering(0));
        }
        assert!(!pipeline.admits(&[key("b")], false));
    }
}
