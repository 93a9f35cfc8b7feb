//! Runs a command on records.

use std::sync::Arc;
use std::time::Instant;

use budget::{Memory, Party, Share};
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use metrics::{counter, histogram};
use records::{Draft, Mode, Record, RecordsError};
use store::{Deadline, StoreError};

use crate::answer::Answer;
use crate::commands::RecordCommand;
use crate::error::{CommandResult, Refusal};
use crate::reply::Reply;
use crate::{Door, METRICS};

/// So many records are read at once. Before more of them are read, the memory for these is counted.
const READ_AT_ONCE: usize = 64;

/// So many records of one command are changed at once, if they do not change together.
pub(crate) const CHANGED_AT_ONCE: usize = 8;

impl Door {
    /// Runs a command, by its deadline. The client may do this.
    pub(crate) async fn run(
        self: Arc<Self>,
        party: Party,
        command: &'static RecordCommand,
        words: Vec<Bytes>,
        deadline: Deadline,
    ) -> Answer {
        let began = Instant::now();
        let reply = self.attempt(&party, command, &words, deadline).await.unwrap_or_else(Reply::Refused);
        let answer = Answer::within(&self.memory, &party, reply);
        let outcome = match &answer.reply {
            Reply::Refused(refusal) => refusal.outcome(),
            _ => "answered",
        };
        note(outcome, command.writes, began);
        answer
    }

    async fn attempt(
        &self,
        party: &Party,
        command: &'static RecordCommand,
        words: &[Bytes],
        deadline: Deadline,
    ) -> CommandResult<Reply> {
        let _place = self.admission.place(deadline).await?;
        let keys = command.keys(words)?;
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
