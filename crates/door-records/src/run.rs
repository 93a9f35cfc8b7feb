//! Runs commands on records.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use budget::{Party, Share};
use bytes::Bytes;
use futures::future::{join_all, join3};
use futures::{StreamExt, stream};
use indexmap::IndexMap;
use records::{Draft, ID_BYTES_MAX, Mode, Record, RecordsError};
use store::{Deadline, StoreError};

use crate::Door;
use crate::answer::{Answer, Answering, is_small, share_of};
use crate::commands::{RecordCommand, Says};
use crate::error::{CommandResult, Refusal};
use crate::meters::Outcome;
use crate::reply::Reply;

/// So many records are read at once. Before more of them are read, the memory for these is counted.
pub(crate) const READ_AT_ONCE: usize = 64;

/// So many records of one command are changed at once, if they do not change together.
pub(crate) const CHANGED_AT_ONCE: usize = 8;

/// A command of so few words after its name takes no share of the memory for them.
const FREE_WORDS: usize = 64;

/// Memory for each word of a command while it is at work: the word, its place among the keys that are
/// under way, the record of the key, and the answer for it.
const WORD_BYTES: usize = 320;

/// The most ids of a command that met damage in the log.
const LOGGED_IDS_MAX: usize = 8;

/// A command that is to run.
pub(crate) struct Task {
    pub(crate) command: &'static RecordCommand,
    /// Its name, and the words after it.
    words: Vec<Bytes>,
    deadline: Deadline,
    began: Instant,
    /// The memory for its words, until it has its answer.
    _share: Option<Share>,
}

impl Task {
    /// A command with its name and the words after it, which [`RecordCommand::check`] accepts. Its
    /// time began with their arrival.
    pub(crate) fn new(command: &'static RecordCommand, words: Vec<Bytes>, deadline: Deadline, began: Instant) -> Self {
        Self { command, words, deadline, began, _share: None }
    }

    /// The same command, with the memory for its words.
    pub(crate) fn within(self, share: Option<Share>) -> Self {
        Self { _share: share, ..self }
    }

    /// The number of its words, with its name.
    pub(crate) fn words_in_all(&self) -> usize {
        self.words.len()
    }

    /// The words after the name.
    fn words(&self) -> &[Bytes] {
        &self.words[1..]
    }

    /// The keys that it names.
    pub(crate) fn ids(&self) -> impl Iterator<Item = &Bytes> {
        self.command.ids(self.words())
    }

    /// Whether it has one key and may change its record.
    fn changes_one(&self) -> bool {
        self.command.has_one_key() && self.command.writes
    }

    /// The words after the key of a command on one key.
    fn words_after_key(&self) -> &[Bytes] {
        self.words().get(1..).unwrap_or_default()
    }
}

/// What becomes of a command that ran as one with others, which were refused and may not be tried
/// one by one; `None`: it may, because it only reads and nothing was changed.
fn refused_with(task: &Task, tasks: &[(usize, &Task)], refusal: &Refusal) -> Option<CommandResult<Answer>> {
    let only_read = !tasks.iter().any(|(_, task)| task.command.writes);
    match refusal.outcome() {
        _ if task.command.writes || only_read => Some(Err(refusal.clone())),
        // It could see a change that comes behind it.
        Outcome::Unknown => Some(Err(Refusal::deadline())),
        _ => None,
    }
}

/// Those commands that have the same first key, by their places, for each of these keys.
fn by_first_id<'a>(tasks: &[(usize, &'a Task)]) -> Vec<(&'a Bytes, Vec<usize>)> {
    let mut of_each: IndexMap<&Bytes, Vec<usize>> = IndexMap::with_capacity(tasks.len());
    for (place, (_, task)) in tasks.iter().enumerate() {
        if let Some(id) = task.ids().next() {
            of_each.entry(id).or_default().push(place);
        }
    }
    of_each.into_iter().collect()
}

/// The keys of commands on one key each.
fn ids_of(tasks: &[(usize, &Task)]) -> Vec<Bytes> {
    tasks.iter().flat_map(|(_, task)| task.ids()).cloned().collect()
}

/// The answers of commands that ran as one; `None`: the command did not run.
type Answers = Vec<Option<CommandResult<Answer>>>;

/// The answers of a command for some of its keys, with their places among the keys.
pub(crate) type Placed = Vec<(usize, Answer)>;

impl Door {
    /// Whether commands that are started together run as one. Then those with one key each run in
    /// their order where they have the same key.
    pub(crate) fn runs_as_one(&self) -> bool {
        self.records.changes_several_at_once()
    }

    /// Runs commands of a party, which may run at the same time: as one if the store belongs to this
    /// process, and otherwise each by itself.
    pub(crate) fn start(self: &Arc<Self>, party: &Party, tasks: Vec<Task>) -> Vec<Answering> {
        if !self.runs_as_one() {
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
        let answer = run.await.unwrap_or_else(Answer::refused);
        if let Reply::Refused(refusal) = &answer.reply
            && refusal.outcome() == Outcome::Damaged
        {
            // Whoever is alarmed by the count finds the record here.
            let ids: Vec<String> = task.ids().take(LOGGED_IDS_MAX).map(|id| id.escape_ascii().to_string()).collect();
            tracing::error!(?ids, error = refusal.text(), "a command met a damaged record");
        }
        self.note(answer.reply.outcome(), task.command.writes, task.began);
        answer
    }

    /// Runs commands. The records of those with one key each are read at once, and written at once.
    /// What reads a record that another one changes runs with that. No other command changes a key
    /// of a command with several keys, and such a command changes no key of another.
    async fn run_as_one(&self, party: &Party, tasks: &[Task]) -> Vec<Answer> {
        let changed: HashSet<&Bytes> = tasks.iter().filter(|task| task.changes_one()).flat_map(Task::ids).collect();
        let (mut changes, mut reads, mut others) = (Vec::new(), Vec::new(), Vec::new());
        for task in tasks.iter().enumerate() {
            match task.1 {
                Task { command, .. } if !command.has_one_key() => others.push(task),
                one if one.ids().any(|id| changed.contains(id)) => changes.push(task),
                _ => reads.push(task),
            }
        }
        let (changed, found, done) = join3(
            self.as_one(party, &changes, |deadline| self.change_as_one(party, &changes, deadline)),
            self.as_one(party, &reads, |deadline| self.read_as_one(party, &reads, deadline)),
            self.each(party, &others),
        )
        .await;
        let mut answers: Vec<(usize, Answer)> = changed.into_iter().chain(found).chain(done).collect();
        answers.sort_by_key(|(place, _)| *place);
        answers.into_iter().map(|(_, answer)| answer).collect()
    }

    /// Runs commands as one. Those that have no answer then, or all if that is refused, run each by
    /// itself: others may not be refused, or have more time. So do all if there are places for some.
    async fn as_one<F: Future<Output = CommandResult<Answers>>>(
        &self,
        party: &Party,
        tasks: &[(usize, &Task)],
        run: impl FnOnce(Deadline) -> F,
    ) -> Vec<(usize, Answer)> {
        let Some(deadline) = tasks.iter().map(|(_, task)| task.deadline).min() else { return Vec::new() };
        let answered = {
            let Ok(_places) = self.admission.places(tasks.len(), deadline).await else {
                return self.each(party, tasks).await;
            };
            run(deadline).await
        };
        let answered = match answered {
            Ok(answered) => answered,
            Err(refusal) if refusal.allows_each() => return self.each(party, tasks).await,
            Err(refusal) => tasks.iter().map(|(_, task)| refused_with(task, tasks, &refusal)).collect(),
        };
        let (mut answers, mut left) = (Vec::with_capacity(tasks.len()), Vec::new());
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        for ((place, task), answer) in tasks.iter().zip(answered) {
            let Some(answer) = answer else {
                left.push((*place, *task));
                continue;
            };
            let answer = answer.unwrap_or_else(Answer::refused);
            if task.command.writes { &mut writes } else { &mut reads }.push(answer.reply.outcome());
            answers.push((*place, answer));
        }
        for (writes, outcomes) in [(false, reads), (true, writes)] {
            // They arrived together.
            if let Some((_, first)) = tasks.first().filter(|_| !outcomes.is_empty()) {
                self.meters.count(writes, first.began, outcomes);
            }
        }
        answers.extend(self.each(party, &left).await);
        answers
    }

    /// Runs commands, each by itself. If some of them change single records, those on one record run
    /// in their order.
    async fn each(&self, party: &Party, tasks: &[(usize, &Task)]) -> Vec<(usize, Answer)> {
        let keeps_order = tasks.iter().any(|(_, task)| task.changes_one());
        let places: Vec<Vec<usize>> = match keeps_order {
            true => by_first_id(tasks).into_iter().map(|(_, places)| places).collect(),
            false => (0..tasks.len()).map(|place| vec![place]).collect(),
        };
        let in_turn = places.into_iter().map(async |places| {
            let mut answers = Vec::with_capacity(places.len());
            for (place, task) in places.into_iter().map(|place| tasks[place]) {
                answers.push((place, self.run(party, task).await));
            }
            answers
        });
        join_all(in_turn).await.into_iter().flatten().collect()
    }

    /// Runs those commands on a record each whose turns are free: a change that has to wait for
    /// others of its record keeps none waiting. Those on one record run in their order, and are one
    /// change.
    async fn change_as_one(
        &self,
        party: &Party,
        tasks: &[(usize, &Task)],
        deadline: Deadline,
    ) -> CommandResult<Answers> {
        let of_each = by_first_id(tasks);
        let ids: Vec<Bytes> = of_each.iter().map(|(id, _)| (*id).clone()).collect();
        let (turns, are_free) = self.records.free_turns(&ids);
        let free = of_each.into_iter().zip(are_free).filter(|(_, is_free)| *is_free).map(|(of_one, _)| of_one);
        let (ids, places): (Vec<Bytes>, Vec<Vec<usize>>) = free.map(|(id, places)| (id.clone(), places)).unzip();
        let run = |drafts: &mut [Draft]| -> Vec<(usize, CommandResult<Answer>)> {
            let mut answers = Vec::with_capacity(tasks.len());
            for (draft, places) in drafts.iter_mut().zip(&places) {
                for place in places {
                    let (_, task) = tasks[*place];
                    answers.push((*place, self.run_one(party, task.command, draft, task.words_after_key())));
                }
            }
            answers
        };
        let answered = self.records.change_in_turn(deadline, turns, &ids, run).await.map_err(refusal)?;
        let mut answers: Answers = tasks.iter().map(|_| None).collect();
        answered.into_iter().for_each(|(place, answer)| answers[place] = Some(answer));
        Ok(answers)
    }

    /// Runs a command on a record, with the memory for its answer. Without that the record stays as
    /// it is.
    fn run_one(
        &self,
        party: &Party,
        command: &RecordCommand,
        draft: &mut Draft,
        words: &[Bytes],
    ) -> CommandResult<Answer> {
        let is_short = match command.says {
            Says::Little => command.writes,
            Says::Numbers => is_small(words.len() * Reply::PART_BYTES),
            Says::Values => false,
        };
        if is_short {
            return command.run(draft, words).map(Answer::free);
        }
        let before = command.writes.then(|| draft.clone());
        let reply = command.run(draft, words)?;
        let answer = Answer::within(&self.memory, party, reply);
        if let (Err(_), Some(before)) = (&answer, before) {
            *draft = before;
        }
        answer
    }

    /// Runs commands, each of which reads one record.
    async fn read_as_one(&self, party: &Party, tasks: &[(usize, &Task)], deadline: Deadline) -> CommandResult<Answers> {
        let now = self.records.now();
        let found = self.records.read_many(deadline, &ids_of(tasks)).await.map_err(refusal)?;
        let answers = tasks.iter().zip(found).map(|((_, task), record)| {
            let reply = task.command.run(&mut Draft::read_once(record, now), task.words_after_key())?;
            Answer::within(&self.memory, party, reply)
        });
        Ok(answers.map(Some).collect())
    }

    async fn attempt(&self, party: &Party, task: &Task) -> CommandResult<Answer> {
        let (command, deadline) = (task.command, task.deadline);
        let keys = command.keys(task.words())?;
        let ids: Vec<Bytes> = keys.iter().map(|(id, _)| (*id).clone()).collect();
        if !command.writes {
            let now = self.records.now();
            let (found, _held) = self.read(party, &ids, deadline).await?;
            let answers = keys
                .iter()
                .zip(found)
                .map(|((_, words), record)| command.run(&mut Draft::read_once(record, now), words));
            let reply = command.combined(answers.collect::<CommandResult<_>>()?);
            return Answer::within(&self.memory, party, reply);
        }
        // A key that is named twice is one record.
        let mut distinct = ids;
        distinct.sort();
        distinct.dedup();
        if distinct.len() > READ_AT_ONCE {
            return Err(Refusal::error(format_args!("a command changes at most {READ_AT_ONCE} records")));
        }
        // Otherwise the others would change, where each changes by itself.
        if let Some(id) = distinct.iter().find(|id| !(1..=ID_BYTES_MAX).contains(&id.len())) {
            return Err(refusal(RecordsError::Id(id.len())));
        }
        if self.records.mode() == Mode::Fast {
            let answers = self.attempt_fast(party, command, &keys, distinct, deadline).await?;
            return Ok(combined(command, answers));
        }
        let together = if self.records.changes_several_at_once() { distinct.len().max(1) } else { 1 };
        let changes: Vec<Vec<Bytes>> = distinct.chunks(together).map(<[Bytes]>::to_vec).collect();
        let changes = stream::iter(changes).map(|ids| self.change(party, command, &keys, ids, deadline));
        let answers = all_of(changes.buffered(CHANGED_AT_ONCE).collect().await)?;
        Ok(combined(command, answers))
    }

    /// Runs a command on some of its keys, which are one change. Several records take a share of the
    /// memory until they have changed.
    pub(crate) async fn change(
        &self,
        party: &Party,
        command: &'static RecordCommand,
        keys: &[(&Bytes, &[Bytes])],
        ids: Vec<Bytes>,
        deadline: Deadline,
    ) -> CommandResult<Placed> {
        let run = |drafts: &mut [Draft]| -> CommandResult<(Placed, Option<Share>)> {
            let share = match drafts {
                [_] => None,
                _ => self.share(party, drafts.iter().filter_map(Draft::record))?,
            };
            let answers = keys.iter().enumerate().filter_map(|(place, (id, words))| {
                let draft = &mut drafts[ids.binary_search(id).ok()?];
                Some(self.run_one(party, command, draft, words).map(|answer| (place, answer)))
            });
            Ok((answers.collect::<CommandResult<Placed>>()?, share))
        };
        let (answers, _share) = self.records.change(deadline, &ids, run).await.map_err(refusal)??;
        Ok(answers)
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
            held.extend(self.share(party, records.iter().flatten())?);
            found.extend(records);
        }
        Ok((found, held))
    }

    /// A share of the memory for records that are held, unless they are small.
    pub(crate) fn share<'a>(
        &self,
        party: &Party,
        records: impl Iterator<Item = &'a Record>,
    ) -> CommandResult<Option<Share>> {
        let refusal = |_| Refusal::overloaded("there is no memory for so many records now");
        share_of(&self.memory, party, records.map(Record::bytes).sum()).map_err(refusal)
    }

    /// A share of the memory for a request of so many words, unless they are few.
    pub(crate) fn share_of_words(&self, party: &Party, words: usize) -> CommandResult<Option<Share>> {
        if words <= 1 + FREE_WORDS {
            return Ok(None);
        }
        let refusal = |_| Refusal::overloaded("there is no memory for so many words now");
        self.memory.try_reserve(party, (words * WORD_BYTES) as u64).map(Some).map_err(refusal)
    }

    /// Counts a command.
    pub(crate) fn note(&self, outcome: Outcome, writes: bool, began: Instant) {
        self.meters.count(writes, began, [outcome]);
    }
}

/// The answers of a command whose keys change each by itself. If one of them is refused, others may
/// have changed.
pub(crate) fn all_of(changes: Vec<CommandResult<Placed>>) -> CommandResult<Placed> {
    let (mut made, mut refused) = (Vec::new(), Vec::new());
    for change in changes {
        match change {
            Ok(answers) => made.extend(answers),
            Err(refusal) => refused.push(refusal),
        }
    }
    let is_unknown = |refusal: &&Refusal| refusal.outcome() == Outcome::Unknown;
    match refused.iter().find(is_unknown).or(refused.first()) {
        None => Ok(made),
        Some(refusal) if made.is_empty() || is_unknown(&refusal) => Err(refusal.clone()),
        Some(refusal) => Err(refusal.in_part()),
    }
}

/// The answer for all keys, from those for each and their places. Of several it is a number or a
/// word, which takes no share.
fn combined(command: &RecordCommand, mut answers: Placed) -> Answer {
    answers.sort_by_key(|(place, _)| *place);
    let (replies, shares): (Vec<_>, Vec<_>) = answers.into_iter().map(|(_, answer)| answer.parts()).unzip();
    Answer::holding(command.combined(replies), shares.into_iter().flatten().next())
}

/// The refusal if the store has no answer.
pub(crate) fn refusal(error: RecordsError) -> Refusal {
    match error {
        RecordsError::Store(StoreError::DeadlinePassed) => Refusal::deadline(),
        RecordsError::Store(StoreError::Overloaded(why)) => Refusal::overloaded(why),
        RecordsError::Store(StoreError::ReadOnly(why)) => Refusal::of_kind("READONLY", why),
        RecordsError::Store(StoreError::Full(why)) => Refusal::of_kind("OOM", why),
        error @ RecordsError::Unknown(_) => Refusal::of_kind("UNKNOWN", error),
        error @ (RecordsError::Damaged(_) | RecordsError::Store(StoreError::Corrupt { .. })) => {
            Refusal::of_kind("DAMAGED", error)
        }
        error => Refusal::error(error),
    }
}
