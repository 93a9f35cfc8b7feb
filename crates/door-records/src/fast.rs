//! Commands that change records in mode fast.

use budget::Party;
use bytes::Bytes;
use futures::{StreamExt, stream};
use records::Overwrite;
use store::Deadline;

use crate::Door;
use crate::answer::Answer;
use crate::commands::{Fast, RecordCommand};
use crate::error::{CommandResult, Refusal};
use crate::reply::Reply;
use crate::run::{CHANGED_AT_ONCE, Placed, all_of, refusal};

impl Door {
    /// Runs a command that changes records. Each of them changes by itself.
    pub(crate) async fn attempt_fast(
        &self,
        party: &Party,
        command: &'static RecordCommand,
        keys: &[(&Bytes, &[Bytes])],
        ids: Vec<Bytes>,
        deadline: Deadline,
    ) -> CommandResult<Placed> {
        match command.fast {
            Fast::Overwrites(_) => {
                let changes = stream::iter(ids).map(|id| self.overwrite(command, keys, id, deadline));
                all_of(changes.buffered(CHANGED_AT_ONCE).collect().await)
            }
            Fast::Refreshes => {
                let changes = stream::iter(ids).map(|id| self.change(party, command, keys, vec![id], deadline));
                all_of(changes.buffered(CHANGED_AT_ONCE).collect().await)
            }
            Fast::Reads | Fast::Refused => Err(Refusal::not_fast(command.name)),
        }
    }

    /// Overwrites the record of an id. A key may be named twice. The answers are numbers and words, so
    /// they take no shares.
    async fn overwrite(
        &self,
        command: &'static RecordCommand,
        keys: &[(&Bytes, &[Bytes])],
        id: Bytes,
        deadline: Deadline,
    ) -> CommandResult<Placed> {
        let mut change = Overwrite::new(self.records.now());
        let of_id = keys.iter().enumerate().filter(|(_, (key, _))| **key == id);
        let answers = of_id.map(|(place, (_, words))| {
            let reply = command.overwrite(&mut change, words)?;
            Ok((place, Answer::free(reply)))
        });
        let answers = answers.collect::<CommandResult<Placed>>()?;
        self.records.overwrite(deadline, &id, change).await.map_err(refusal)?;
        Ok(answers)
    }

    /// Runs the commands of a transaction as one write. Each of them must write without reading;
    /// otherwise nothing is written. Nor is anything without the memory for the answers. A command
    /// that is wrong is an error among the answers, as in Redis.
    pub(crate) async fn execute_fast(
        &self,
        party: &Party,
        commands: &[(&'static RecordCommand, Vec<Bytes>)],
        id: &Bytes,
        deadline: Deadline,
    ) -> CommandResult<Answer> {
        let mut change = Overwrite::new(self.records.now());
        let mut answers = Vec::with_capacity(commands.len());
        for (command, words) in commands {
            let of_keys = command.keys(words)?.into_iter().map(|(_, words)| command.overwrite(&mut change, words));
            answers.push(match of_keys.collect::<CommandResult<Vec<Reply>>>() {
                Ok(replies) => command.combined(replies),
                // Mode fast does not do it, and the other commands may depend on it.
                Err(refusal) if refusal.is_of_mode_fast() => return Err(refusal),
                Err(refusal) => Reply::Refused(refusal),
            });
        }
        let answer = Answer::within(&self.memory, party, Reply::List(answers))?;
        self.records.overwrite(deadline, id, change).await.map_err(refusal)?;
        Ok(answer)
    }
}
