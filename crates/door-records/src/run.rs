//! Runs commands on records.

use std::sync::Arc;
use std::time::Instant;

use budget::{Memory, Party, Share};
use bytes::Bytes;
use futures::future::{join_all, join3};
use futures::{StreamExt, TryStreamExt, stream};
use metrics::{counter, histogram};
use records::{Draft, Mode, Record, RecordsError};
use store::{Deadline, StoreError};

use crate::answer::{Answer, Answering};
use crate::commands::{Keys, RecordCommand};
use crate::error::{CommandResult, Refusal};
use crate::reply::Reply;
use crate::{Door, METRICS};

/// So many records are read at once. Before more of them are read, the memory for these is counted.
pub(crate) const READ_AT_ONCE: usize = 64;

/// So many records of one command are changed at once, if they do not change together.
pub(crate) const CHANGED_AT_ONCE: usize = 8;

/// A command that is to run.
pub(crate) struct Task {
    pub(crate) command: &'static RecordCommand,
    /// Its name, and the words after it.
    words: Vec<Bytes>,
    deadline: Deadline,
    began: Instant,
}

impl Task {
    /// A command with its name and the words after it, which [`RecordCommand::check`] accepts.
    pub(crate) fn new(command: &'static RecordCommand, words: Vec<Bytes>, deadline: Deadline) -> Self {
        Self { command, words, deadline, began: Instant::now() }
    }

    /// The words after the name.
    fn words(&self) -> &[Bytes] {
        &self.words[1..]
    }

    /// The keys that it names.
    pub(crate) fn ids(&self) -> impl Iterator<Item = &Bytes> {
        self.command.ids(self.words())
    }

    /// Runs a command on one key on the record of that key.
    fn run(&self, draft: &mut Draft) -> CommandResult<Reply> {
        self.command.run(draft, self.words().get(1..).unwrap_or_default())
    }
}

/// The keys of commands on one key each.
fn ids_of(tasks: &[(usize, &Task)]) -> Vec<Bytes> {
    tasks.iter().flat_map(|(_, task)| task.ids()).cloned().collect()
}

/// The replies of commands that ran as one; `None`: the command did not run.
type Replies = Vec<Option<CommandResult<Reply>>>;

impl Door {
    /// Runs commands of a party, which may run at the same time: as one if the store belongs to this
    /// process, and otherwise each by itself.
    pub(crate) fn start(self: &Arc<Self>, party: &Party, tasks: Vec<Task>) -> Vec<Answering> {
        if !self.records.changes_several_at_once() {
            let run = |task| -> Answering {
                let (door, party) = (self.clone(), party.clone());
                Box::pin(async move { vec![door.run(&party, &task).await] })
            };
            return tasks.into_iter().map(run).collect();
        }
        let (door, party) = (self.clone(), party.clone());
        vec![Box::pin(async move {
            match &tasks[..] {
                [task] => vec![door.run(&party, task).await],
                _ => door.run_as_one(&party, &tasks).await,
            }
        })]
    }

    /// Runs a command, by its deadline.
    async fn run(&self, party: &Party, task: &Task) -> Answer {
        let run = async {
            let _place = self.admission.places(1, task.deadline).await?;
            self.attempt(party, task).await
        };
        let reply = run.await.unwrap_or_else(Reply::Refused);
        self.answer(party, task, reply)
    }

    /// Runs commands that have different keys, or read. Those on one key are read at once, and
    /// written at once.
    async fn run_as_one(&self, party: &Party, tasks: &[Task]) -> Vec<Answer> {
        let (mut changes, mut reads, mut others) = (Vec::new(), Vec::new(), Vec::new());
        for task in tasks.iter().enumerate() {
            match task.1.command {
                command if command.keys != Keys::One => others.push(task),
                command if command.writes => changes.push(task),
                _ => reads.push(task),
            }
        }
        let (changed, found, done) = join3(
            self.as_one(party, &changes, |deadline| self.change_as_one(&changes, deadline)),
            self.as_one(party, &reads, |deadline| self.read_as_one(&reads, deadline)),
            self.each(party, &others),
        )
        .await;
        let mut answers: Vec<(usize, Answer)> = changed.into_iter().chain(found).chain(done).collect();
        answers.sort_by_key(|(place, _)| *place);
        answers.into_iter().map(|(_, answer)| answer).collect()
    }

    /// Runs commands as one. Those that have no reply then, or all if that is refused, run each by
    /// itself: others may not be refused, or have more time.
    async fn as_one<F: Future<Output = CommandResult<Replies>>>(
        &self,
        party: &Party,
        tasks: &[(usize, &Task)],
        run: impl FnOnce(Deadline) -> F,
    ) -> Vec<(usize, Answer)> {
        let Some(deadline) = tasks.iter().map(|(_, task)| task.deadline).min() else { return Vec::new() };
        let run = async {
            let _places = self.admission.places(tasks.len(), deadline).await?;
            run(deadline).await
        };
        let replies = match run.await {
            Ok(replies) => replies,
            Err(refusal) if refusal.allows_each() => return self.each(party, tasks).await,
            Err(refusal) => tasks.iter().map(|_| Some(Err(refusal.clone()))).collect(),
        };
        let (mut answers, mut left) = (Vec::with_capacity(tasks.len()), Vec::new());
        for ((place, task), reply) in tasks.iter().zip(replies) {
            match reply {
                Some(reply) => answers.push((*place, self.answer(party, task, reply.unwrap_or_else(Reply::Refused)))),
                None => left.push((*place, *task)),
            }
        }
        answers.extend(self.each(party, &left).await);
        answers
    }

    /// Runs commands, each by itself.
    async fn each(&self, party: &Party, tasks: &[(usize, &Task)]) -> Vec<(usize, Answer)> {
        join_all(tasks.iter().map(async |(place, task)| (*place, self.run(party, task).await))).await
    }

    /// Runs those commands, each of which changes another record, whose turns are free: a change that
    /// has to wait for others of its record keeps none waiting.
    async fn change_as_one(&self, tasks: &[(usize, &Task)], deadline: Deadline) -> CommandResult<Replies> {
        let (turns, are_free) = self.records.free_turns(&ids_of(tasks));
        let free: Vec<_> =
            tasks.iter().zip(&are_free).filter(|(_, is_free)| **is_free).map(|(task, _)| *task).collect();
        let run = |drafts: &mut [Draft]| -> Vec<CommandResult<Reply>> {
            free.iter().zip(drafts).map(|((_, task), draft)| task.run(draft)).collect()
        };
        let mut replies =
            self.records.change_in_turn(deadline, turns, &ids_of(&free), run).await.map_err(refusal)?.into_iter();
        Ok(are_free.into_iter().map(|is_free| if is_free { replies.next() } else { None }).collect())
    }

    /// Runs commands, each of which reads one record.
    async fn read_as_one(&self, tasks: &[(usize, &Task)], deadline: Deadline) -> CommandResult<Replies> {
        let now = self.records.now();
        let found = self.records.read_many(deadline, &ids_of(tasks)).await.map_err(refusal)?;
        let replies = tasks.iter().zip(found).map(|((_, task), record)| task.run(&mut Draft::new(record, now)));
        Ok(replies.map(Some).collect())
    }

    /// The answer of a command, which is counted.
    fn answer(&self, party: &Party, task: &Task, reply: Reply) -> Answer {
        let answer = Answer::within(&self.memory, party, reply);
        let outcome = match &answer.reply {
            Reply::Refused(refusal) => refusal.outcome(),
            _ => "answered",
        };
        note(outcome, task.command.writes, task.began);
        answer
    }

    async fn attempt(&self, party: &Party, task: &Task) -> CommandResult<Reply> {
        let (command, deadline) = (task.command, task.deadline);
        let keys = command.keys(task.words())?;
        let ids: Vec<Bytes> = keys.iter().map(|(id, _)| (*id).clone()).collect();
        if !command.writes {
            let now = self.records.now();
            let (found, _held) = self.read(party, &ids, deadline).await?;
            let answers =
                keys.iter().zip(found).map(|((_, words), record)| command.run(&mut Draft::new(record, now), words));
            return Ok(command.combined(answers.collect::<CommandResult<_>>()?));
        }
        // A key that is named twice is one record.
        let mut distinct = ids;
        distinct.sort();
        distinct.dedup();
        if distinct.len() > READ_AT_ONCE {
            return Err(Refusal::error(format_args!("a command changes at most {READ_AT_ONCE} records")));
        }
        if self.records.mode() == Mode::Fast {
            let answers = self.attempt_fast(command, &keys, distinct, deadline).await?;
            return Ok(combined(command, answers));
        }
        let together = if self.records.changes_several_at_once() { distinct.len().max(1) } else { 1 };
        let changes: Vec<Vec<Bytes>> = distinct.chunks(together).map(<[Bytes]>::to_vec).collect();
        let changes = stream::iter(changes).map(|ids| self.change(command, &keys, ids, deadline));
        let changes: Vec<_> = changes.buffered(CHANGED_AT_ONCE).try_collect().await?;
        Ok(combined(command, changes.concat()))
    }

    /// Runs a command on some of its keys, which are one change. Returns the answer of each with its
    /// place among the keys.
    pub(crate) async fn change(
        &self,
        command: &'static RecordCommand,
        keys: &[(&Bytes, &[Bytes])],
        ids: Vec<Bytes>,
        deadline: Deadline,
    ) -> CommandResult<Vec<(usize, Reply)>> {
        let run = |drafts: &mut [Draft]| {
            let answers = keys.iter().enumerate().filter_map(|(place, (id, words))| {
                let draft = &mut drafts[ids.binary_search(id).ok()?];
                Some(command.run(draft, words).map(|answer| (place, answer)))
            });
            answers.collect::<CommandResult<Vec<_>>>()
        };
        self.records.change(deadline, &ids, run).await.map_err(refusal)?
    }

    /// Reads records, with shares of the memory for all but a few of them.
    pub(crate) async fn read(
        &self,
        party: &Party,
        ids: &[Bytes],
        deadline: Deadline,
    ) -> CommandResult<(Vec<Option<Record>>, Vec<Share>)> {
        if let [id] = ids {
            return Ok((vec![self.records.read(deadline, id).await.map_err(refusal)?], Vec::new()));
        }
        let (mut found, mut held) = (Vec::new(), Vec::new());
        for ids in ids.chunks(READ_AT_ONCE) {
            let records = self.records.read_many(deadline, ids).await.map_err(refusal)?;
            held.push(share(&self.memory, party, &records)?);
            found.extend(records);
        }
        Ok((found, held))
    }
}

/// The answer for all keys, from those for each and their places.
fn combined(command: &RecordCommand, mut answers: Vec<(usize, Reply)>) -> Reply {
    answers.sort_by_key(|(place, _)| *place);
    command.combined(answers.into_iter().map(|(_, answer)| answer).collect())
}

fn share(memory: &Memory, party: &Party, records: &[Option<Record>]) -> CommandResult<Share> {
    let bytes: usize = records.iter().flatten().map(Record::bytes).sum();
    let refusal = |_| Refusal::overloaded("there is no memory for so many records now");
    memory.try_reserve(party, bytes as u64).map_err(refusal)
}

/// Counts a command.
pub(crate) fn note(outcome: &'static str, writes: bool, began: Instant) {
    let kind = if writes { "write" } else { "read" };
    counter!(METRICS.commands, "kind" => kind, "outcome" => outcome).increment(1);
    histogram!(METRICS.duration, "kind" => kind).record(began.elapsed().as_secs_f64());
}

/// The refusal if the store has no answer.
pub(crate) fn refusal(error: RecordsError) -> Refusal {
    match error {
        RecordsError::Store(StoreError::DeadlinePassed) => Refusal::deadline(),
        RecordsError::Store(StoreError::Overloaded(why)) => Refusal::overloaded(why),
        RecordsError::Store(StoreError::ReadOnly(why)) => Refusal::of_kind("READONLY", why),
        RecordsError::Store(StoreError::Full(why)) => Refusal::of_kind("OOM", why),
        error @ RecordsError::Unknown(_) => Refusal::of_kind("UNKNOWN", error),
        error => Refusal::error(error),
    }
}
