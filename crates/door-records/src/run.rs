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

use crate::answer::Answer;
use crate::commands::{Keys, RecordCommand};
use crate::error::{CommandResult, Refusal};
use crate::pipeline::Answering;
use crate::reply::Reply;
use crate::{Door, METRICS};

/// So many records are read at once. Before more of them are read, the memory for these is counted.
const READ_AT_ONCE: usize = 64;

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

    /// The key of a command on one key, and the words after it.
    fn alone(&self) -> Option<(&Bytes, &[Bytes])> {
        self.words().split_first().filter(|_| self.command.keys == Keys::One)
    }
}

impl Door {
    /// Runs commands of a party, which may run at the same time: as one if the store belongs to this
    /// process, and otherwise each by itself.
    pub(crate) fn start(self: &Arc<Self>, party: &Party, tasks: Vec<Task>) -> Vec<Answering> {
        if !self.records.changes_several_at_once() {
            let run = |task| -> Answering {
                let (door, party) = (self.clone(), party.clone());
                Box::pin(async move { vec![door.run(&party, task).await] })
            };
            return tasks.into_iter().map(run).collect();
        }
        let (door, party) = (self.clone(), party.clone());
        vec![Box::pin(async move { door.run_as_one(&party, tasks).await })]
    }

    /// Runs a command, by its deadline.
    async fn run(&self, party: &Party, task: Task) -> Answer {
        let run = async {
            let _place = self.admission.place(task.deadline).await?;
            self.attempt(party, &task).await
        };
        let reply = run.await.unwrap_or_else(Reply::Refused);
        self.answer(party, &task, reply)
    }

    /// Runs commands that have different keys, or read. Those on one key are read at once, and
    /// written at once. All of them end by the earliest deadline.
    async fn run_as_one(&self, party: &Party, mut tasks: Vec<Task>) -> Vec<Answer> {
        if tasks.len() == 1 {
            return match tasks.pop() {
                Some(task) => vec![self.run(party, task).await],
                None => Vec::new(),
            };
        }
        let Some(deadline) = tasks.iter().map(|task| task.deadline).min_by_key(|deadline| deadline.0) else {
            return Vec::new();
        };
        let replies = match self.admission.place(deadline).await {
            Ok(_place) => self.attempt_as_one(party, &tasks, deadline).await,
            Err(refusal) => vec![Err(refusal.into()); tasks.len()],
        };
        let answer = |(task, reply): (&Task, CommandResult<Reply>)| {
            self.answer(party, task, reply.unwrap_or_else(Reply::Refused))
        };
        tasks.iter().zip(replies).map(answer).collect()
    }

    async fn attempt_as_one(&self, party: &Party, tasks: &[Task], deadline: Deadline) -> Vec<CommandResult<Reply>> {
        let places = |writes: bool| -> Vec<usize> {
            let is_wanted = |task: &Task| task.alone().is_some() && task.command.writes == writes;
            (0..tasks.len()).filter(|place| is_wanted(&tasks[*place])).collect()
        };
        let (changes, reads) = (places(true), places(false));
        let others: Vec<usize> = (0..tasks.len()).filter(|place| tasks[*place].alone().is_none()).collect();
        let (changed, found, done) = join3(
            self.as_one(party, tasks, &changes, self.change_as_one(tasks, &changes, deadline)),
            self.as_one(party, tasks, &reads, self.read_as_one(party, tasks, &reads, deadline)),
            self.each(party, tasks, &others),
        )
        .await;
        let mut replies: Vec<_> =
            [changes, reads, others].concat().into_iter().zip([changed, found, done].concat()).collect();
        replies.sort_by_key(|(place, _)| *place);
        replies.into_iter().map(|(_, reply)| reply).collect()
    }

    /// Runs the commands at some places as one. If that is refused because of one of them, each runs
    /// by itself.
    async fn as_one(
        &self,
        party: &Party,
        tasks: &[Task],
        places: &[usize],
        run: impl Future<Output = CommandResult<Vec<CommandResult<Reply>>>>,
    ) -> Vec<CommandResult<Reply>> {
        if places.is_empty() {
            return Vec::new();
        }
        match run.await {
            Ok(replies) => replies,
            Err(refusal) if refusal.is_of_command() => self.each(party, tasks, places).await,
            Err(refusal) => vec![Err(refusal); places.len()],
        }
    }

    /// Runs the commands at some places, each by itself.
    async fn each(&self, party: &Party, tasks: &[Task], places: &[usize]) -> Vec<CommandResult<Reply>> {
        join_all(places.iter().map(|place| self.attempt(party, &tasks[*place]))).await
    }

    /// Runs the commands at some places, each of which changes another record.
    async fn change_as_one(
        &self,
        tasks: &[Task],
        places: &[usize],
        deadline: Deadline,
    ) -> CommandResult<Vec<CommandResult<Reply>>> {
        let (ids, commands) = alone(tasks, places);
        let run = |drafts: &mut [Draft]| {
            let each = commands.iter().zip(drafts).map(|((command, words), draft)| command.run(draft, words));
            each.collect()
        };
        self.records.change(deadline, &ids, run).await.map_err(refusal)
    }

    /// Runs the commands at some places, each of which reads one record.
    async fn read_as_one(
        &self,
        party: &Party,
        tasks: &[Task],
        places: &[usize],
        deadline: Deadline,
    ) -> CommandResult<Vec<CommandResult<Reply>>> {
        let (ids, commands) = alone(tasks, places);
        let now = self.records.now();
        let (found, _held) = self.read(party, &ids, deadline).await?;
        let run =
            |((command, words), record): (&Alone<'_>, Option<Record>)| command.run(&mut Draft::new(record, now), words);
        Ok(commands.iter().zip(found).map(run).collect())
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

/// A command on one key, and the words after the key.
type Alone<'a> = (&'static RecordCommand, &'a [Bytes]);

/// The keys of the commands at some places, which have one each, and the commands.
fn alone<'a>(tasks: &'a [Task], places: &[usize]) -> (Vec<Bytes>, Vec<Alone<'a>>) {
    let alone = places.iter().filter_map(|place| {
        let (id, words) = tasks[*place].alone()?;
        Some((id.clone(), (tasks[*place].command, words)))
    });
    alone.unzip()
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
