//! Commands that change records in mode fast.

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use records::Overwrite;
use store::Deadline;

use crate::Door;
use crate::commands::{Fast, RecordCommand};
use crate::error::{CommandResult, Refusal};
use crate::reply::Reply;
use crate::run::{CHANGED_AT_ONCE, refusal};

impl Door {
    /// Runs a command that changes records. Each of them changes by itself.
    pub(crate) async fn attempt_fast(
        &self,
        command: &'static RecordCommand,
        keys: &[(&Bytes, &[Bytes])],
        ids: Vec<Bytes>,
        deadline: Deadline,
    ) -> CommandResult<Vec<(usize, Reply)>> {
        let answers = match command.fast {
            Fast::Overwrites(_) => {
                let changes = stream::iter(ids).map(|id| self.overwrite(command, keys, id, deadline));
                changes.buffered(CHANGED_AT_ONCE).try_collect::<Vec<_>>().await?
            }
            Fast::Refreshes => {
                let changes = stream::iter(ids).map(|id| self.change(command, keys, vec![id], deadline));
                changes.buffered(CHANGED_AT_ONCE).try_collect::<Vec<_>>().await?
            }
            Fast::Reads | Fast::Refused => return Err(Refusal::not_fast(command.name)),
        };
        Ok(answers.concat())
    }

    /// Overwrites the record of an id. Returns the answers with their places among the keys. A key
    /// may be named twice.
    async fn overwrite(
        &self,
        command: &'static RecordCommand,
        keys: &[(&Bytes, &[Bytes])],
        id: Bytes,
        deadline: Deadline,
    ) -> CommandResult<Vec<(usize, Reply)>> {
        let mut change = Overwrite::new(self.records.now());
        let of_id = keys.iter().enumerate().filter(|(_, (key, _))| **key == id);
        let answers = of_id.map(|(place, (_, words))| Ok((place, command.overwrite(&mut change, words)?)));
        let answers = answers.collect::<CommandResult<Vec<_>>>()?;
        self.records.overwrite(deadline, &id, change).await.map_err(refusal)?;
        Ok(answers)
    }

    /// Runs the commands of a transaction as one write. Each of them must write without reading;
    /// otherwise nothing is written.
    pub(crate) async fn execute_fast(
        &self,
        commands: &[(&'static RecordCommand, Vec<Bytes>)],
        id: &Bytes,
        deadline: Deadline,
    ) -> CommandResult<Reply> {
        let mut change = Overwrite::new(self.records.now());
        let mut answers = Vec::with_capacity(commands.len());
        for (command, words) in commands {
            let of_keys = command.keys(words)?.into_iter().map(|(_, words)| command.overwrite(&mut change, words));
            answers.push(command.combined(of_keys.collect::<CommandResult<_>>()?));
        }
        self.records.overwrite(deadline, id, change).await.map_err(refusal)?;
        Ok(Reply::List(answers))
    }
}
