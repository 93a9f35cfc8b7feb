//! Commands of one connection that are under way. They run at the same time, and their answers come
//! in the order of the commands.
//!
//! Commands that arrive one after the other are gathered. In a store that belongs to this process
//! they then run as one: they are read at once, and written at once. That costs a fraction of what
//! each of them would cost by itself. Several of them may be about one record, such as `HSET` and
//! then `EXPIRE`.

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::FuturesOrdered;

use crate::answer::{Answer, Answering};
use crate::run::Task;

/// So many commands of one connection are under way at most.
const COMMANDS_MAX: usize = 64;

/// So many commands run as one at most.
const GATHERED_MAX: usize = 32;

/// So many words have those that are under way at most, unless it is only one command.
const WORDS_MAX: usize = 1_024;

/// A map with places for more keys than this is given back once no command is under way.
const KEYS_KEPT: usize = 8 * COMMANDS_MAX;

/// Runs commands: all as one, or each by itself.
pub(crate) trait Start: Fn(Vec<Task>) -> Vec<Answering> {}

impl<F: Fn(Vec<Task>) -> Vec<Answering>> Start for F {}

/// What the commands under way do with a key.
struct Use {
    is_written: bool,
    /// The group in which all of them are gathered; `None`: one of them has several keys, or they
    /// are of several groups.
    group: Option<u64>,
}

/// The commands.
pub(crate) struct Pipeline {
    /// Whether commands that run as one on a record do so in their order.
    keeps_order: bool,
    gathered: Vec<Task>,
    /// The number of the group that is being gathered.
    group: u64,
    running: FuturesOrdered<Answering>,
    answers: VecDeque<Answer>,
    /// The number of words of each command that is not answered.
    under_way: VecDeque<usize>,
    /// Their sum.
    words: usize,
    /// The keys of all of them.
    keys: HashMap<Bytes, Use>,
}

impl Pipeline {
    /// An empty one. `keeps_order` says whether commands that are started together, each with one
    /// key, run in their order where they have the same key.
    pub(crate) fn new(keeps_order: bool) -> Self {
        Self {
            keeps_order,
            gathered: Vec::new(),
            group: 0,
            running: FuturesOrdered::new(),
            answers: VecDeque::new(),
            under_way: VecDeque::new(),
            words: 0,
            keys: HashMap::new(),
        }
    }

    /// Whether a command may be added before those that are under way have ended: none of them
    /// changes what it reads, or reads what it changes, unless they run as one in their order.
    pub(crate) fn admits(&self, task: &Task) -> bool {
        let meets = |key: &Bytes| {
            let Some(used) = self.keys.get(key) else { return false };
            let joins = self.keeps_order && used.group == self.group_of(task) && used.group.is_some();
            (task.command.writes || used.is_written) && !joins
        };
        let are_few = self.words + task.words_in_all() <= WORDS_MAX || self.under_way.is_empty();
        self.under_way.len() < COMMANDS_MAX && are_few && !task.ids().any(meets)
    }

    /// The group that a command would be gathered in; `None`: it has several keys.
    fn group_of(&self, task: &Task) -> Option<u64> {
        task.command.has_one_key().then_some(self.group)
    }

    /// Adds a command that it admits.
    pub(crate) fn push(&mut self, task: Task, start: impl Start) {
        let group = self.group_of(&task);
        for id in task.ids() {
            let used = self.keys.entry(id.clone()).or_insert(Use { is_written: false, group });
            used.is_written |= task.command.writes;
            used.group = used.group.filter(|used| Some(*used) == group);
        }
        self.words += task.words_in_all();
        self.under_way.push_back(task.words_in_all());
        self.gathered.push(task);
        if self.gathered.len() == GATHERED_MAX {
            self.start(start);
        }
    }

    fn start(&mut self, start: impl Start) {
        if !self.gathered.is_empty() {
            self.running.extend(start(std::mem::take(&mut self.gathered)));
            self.group += 1;
        }
    }

    /// Runs what is gathered, goes on with what runs, and keeps the answers.
    pub(crate) async fn go_on(&mut self, start: impl Start) -> Infallible {
        self.start(start);
        while let Some(answers) = self.running.next().await {
            self.answers.extend(answers);
        }
        std::future::pending().await
    }

    /// The next answer; `None`: there is none to wait for.
    pub(crate) async fn next(&mut self, start: impl Start) -> Option<Answer> {
        if self.answers.is_empty() {
            self.start(start);
            self.answers.extend(self.running.next().await?);
        }
        self.words -= self.under_way.pop_front().unwrap_or(0);
        if self.under_way.is_empty() {
            self.keys.clear();
            // A map that is cleared keeps its places.
            if self.keys.capacity() > KEYS_KEPT {
                self.keys = HashMap::new();
            }
        }
        self.answers.pop_front()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::time::{Duration, Instant};

    use parking_lot::Mutex;
    use store::Deadline;

    use super::*;
    use crate::commands::RecordCommand;
    use crate::reply::Reply;

    fn task(words: &'static str) -> Task {
        task_of(words.split(' ').map(|word| Bytes::from_static(word.as_bytes())).collect())
    }

    fn task_of(words: Vec<Bytes>) -> Task {
        let deadline = Deadline::within(Duration::from_secs(60));
        Task::new(RecordCommand::find(&words[0]).unwrap(), words, deadline, Instant::now())
    }

    /// The second word of each command is its answer. The first commands end last.
    fn slow_answers(tasks: Vec<Task>) -> Vec<Answering> {
        let count = tasks.len();
        let answer = |(place, task): (usize, Task)| -> Answering {
            Box::pin(async move {
                for _ in place..count {
                    tokio::task::yield_now().await;
                }
                let said = task.ids().next().cloned().unwrap();
                vec![Answer::free(Reply::Bytes(said))]
            })
        };
        tasks.into_iter().enumerate().map(answer).collect()
    }

    #[test]
    fn commands_on_one_key_wait_for_each_other_unless_both_read() {
        let mut pipeline = Pipeline::new(false);
        pipeline.push(task("get read"), slow_answers);
        pipeline.push(task("mset written 1 other 2"), slow_answers);
        assert!(pipeline.admits(&task("set third 1")));
        assert!(pipeline.admits(&task("mget read third")));
        assert!(!pipeline.admits(&task("mset third 1 read 2")));
        assert!(!pipeline.admits(&task("get other")));
        // The value of one is the key of the other.
        assert!(pipeline.admits(&task("set 1 2")));
    }

    #[test]
    fn commands_on_one_key_are_gathered_together_if_they_run_in_their_order() {
        let mut pipeline = Pipeline::new(true);
        pipeline.push(task("hset a f 1"), slow_answers);
        pipeline.push(task("mget b c"), slow_answers);
        for (words, is_admitted) in [
            ("expire a 5", true),
            ("hgetall a", true),
            ("hset b f 1", false),
            ("del a", false),
            ("mget a b", false),
            ("get b", true),
        ] {
            assert_eq!(pipeline.admits(&task(words)), is_admitted, "{words}");
        }
        pipeline.push(task("get b"), slow_answers);
        assert!(!pipeline.admits(&task("set b 1")), "one of those that read it has several keys");
        pipeline.push(task("expire a 5"), slow_answers);
        pipeline.start(slow_answers);
        assert!(!pipeline.admits(&task("hgetall a")), "those before it have begun");
    }

    #[tokio::test]
    async fn answers_come_in_the_order_of_the_commands() {
        let mut pipeline = Pipeline::new(false);
        const COMMANDS: [&str; 3] = ["get a", "get b", "get c"];
        COMMANDS.iter().for_each(|command| pipeline.push(task(command), slow_answers));
        for expected in ["a", "b", "c"] {
            let answer = pipeline.next(slow_answers).await.unwrap();
            assert_eq!(answer.reply, Reply::Bytes(Bytes::from_static(expected.as_bytes())));
        }
        assert!(pipeline.next(slow_answers).await.is_none());
        assert!(pipeline.admits(&task("set a 1")));
    }

    #[tokio::test]
    async fn the_commands_under_way_are_bounded_and_so_are_those_that_run_as_one() {
        let (mut pipeline, started) = (Pipeline::new(false), Mutex::new(Vec::new()));
        let start = |tasks: Vec<Task>| {
            started.lock().push(tasks.len());
            slow_answers(tasks)
        };
        for _ in 0..COMMANDS_MAX {
            assert!(pipeline.admits(&task("get a")));
            pipeline.push(task("get a"), start);
        }
        assert!(!pipeline.admits(&task("get b")));
        assert_eq!(*started.lock(), [GATHERED_MAX; COMMANDS_MAX / GATHERED_MAX]);
        pipeline.next(start).await.unwrap();
        assert!(pipeline.admits(&task("get b")));
    }

    /// A command that reads many keys.
    fn reading(keys: usize) -> Task {
        let keys = (0..keys).map(|key| Bytes::from(key.to_string()));
        task_of(std::iter::once(Bytes::from_static(b"mget")).chain(keys).collect())
    }

    #[tokio::test]
    async fn a_command_with_many_keys_leaves_no_memory_for_them_behind() {
        let mut pipeline = Pipeline::new(false);
        pipeline.push(reading(10_000), slow_answers);
        assert!(pipeline.keys.capacity() >= 10_000);
        pipeline.next(slow_answers).await.unwrap();
        assert!(pipeline.keys.capacity() < 1_000, "{}", pipeline.keys.capacity());
        // Places for those of small commands are kept.
        pipeline.push(task("get a"), slow_answers);
        let places = pipeline.keys.capacity();
        pipeline.next(slow_answers).await.unwrap();
        assert_eq!(pipeline.keys.capacity(), places);
    }

    #[tokio::test]
    async fn the_words_of_the_commands_under_way_are_bounded() {
        let mut pipeline = Pipeline::new(false);
        assert!(pipeline.admits(&reading(10_000)), "it is alone");
        pipeline.push(reading(1_000), slow_answers);
        assert!(pipeline.admits(&reading(20)));
        assert!(!pipeline.admits(&reading(30)));
        pipeline.next(slow_answers).await.unwrap();
        assert!(pipeline.admits(&reading(1_000)));
    }
}
