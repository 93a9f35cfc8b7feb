//! `MULTI` and `EXEC`: commands on one record that happen at one time.

use budget::{Memory, Party, Share};
use bytes::Bytes;
use records::{Draft, Mode};
use store::Deadline;

use crate::Door;
use crate::answer::Answer;
use crate::commands::RecordCommand;
use crate::error::{CommandResult, Refusal};
use crate::reply::Reply;
use crate::run::refusal;
use crate::watch::Watched;

/// A transaction holds at most so many commands.
const COMMANDS_MAX: usize = 1_000;

/// And so many bytes: of its words, and of what each word and each command takes besides.
const BYTES_MAX: usize = 512 << 10;
const COMMAND_BYTES: usize = 64;
const WORD_BYTES: usize = 48;

/// The answer to a command that waits for `EXEC`.
pub(crate) const QUEUED: Reply = Reply::Word("QUEUED");

/// The commands so far, and whether one was refused.
#[derive(Default)]
pub(crate) struct Transaction {
    commands: Vec<(&'static RecordCommand, Vec<Bytes>)>,
    bytes: usize,
    share: Option<Share>,
    is_broken: bool,
}

impl Transaction {
    /// A command was refused that would have been a part of it.
    pub(crate) fn break_off(&mut self) {
        self.is_broken = true;
    }

    /// Adds a command of a client that `may` do what it does; `None`: it is none on records. One that
    /// is refused breaks the transaction.
    pub(crate) fn add(
        &mut self,
        may: CommandResult<()>,
        command: Option<&'static RecordCommand>,
        words: &[Bytes],
        (memory, party): (&Memory, &Party),
    ) -> CommandResult<Reply> {
        let added = may.and_then(|()| self.admit(command, words)).and_then(|command| {
            let why = "there is no memory for the transaction now";
            memory.hold(party, &mut self.share, self.bytes).map_err(|_| Refusal::overloaded(why))?;
            Ok(command)
        });
        self.is_broken |= added.is_err();
        // Copies, because words keep the whole buffer in which they arrived.
        self.commands.push((added?, words.iter().map(|word| Bytes::copy_from_slice(word)).collect()));
        Ok(QUEUED)
    }

    fn admit(
        &mut self,
        command: Option<&'static RecordCommand>,
        words: &[Bytes],
    ) -> CommandResult<&'static RecordCommand> {
        let command = command.ok_or_else(|| Refusal::error("only commands on records can be in a transaction"))?;
        self.bytes += COMMAND_BYTES + words.iter().map(|word| WORD_BYTES + word.len()).sum::<usize>();
        if self.commands.len() >= COMMANDS_MAX || self.bytes > BYTES_MAX {
            let most = format_args!("a transaction has at most {COMMANDS_MAX} commands and {BYTES_MAX} bytes");
            return Err(Refusal::error(most));
        }
        let keys = command.keys(words)?;
        match keys.iter().all(|(id, _)| *id == keys[0].0) {
            true => Ok(command),
            false => Err(on_several_keys()),
        }
    }

    /// Whether it changes records.
    pub(crate) fn writes(&self) -> bool {
        self.each_writes().any(|writes| writes)
    }

    /// Whether each of its commands changes records.
    pub(crate) fn each_writes(&self) -> impl Iterator<Item = bool> {
        self.commands.iter().map(|(command, _)| command.writes)
    }

    /// Runs the commands as one change of one record, or as one read if they only read, unless a
    /// watched one is not as it was, or there is no memory for the answers. They keep it until they
    /// are sent.
    pub(crate) async fn execute(
        self,
        door: &Door,
        party: &Party,
        watched: &Watched,
        deadline: Deadline,
    ) -> CommandResult<Answer> {
        if self.is_broken || watched.is_broken() {
            return Err(Refusal::of_kind("EXECABORT", "Transaction discarded because of previous errors."));
        }
        let mut ids: Vec<Bytes> = Vec::new();
        for (command, words) in &self.commands {
            ids.extend(command.keys(words)?.into_iter().map(|(id, _)| id.clone()));
        }
        if ids.iter().any(|other| *other != ids[0]) {
            return Err(on_several_keys());
        }
        let changed = ids.first().cloned();
        let _place = door.admission.places(1, deadline).await?;
        if let (Mode::Fast, Some(id)) = (door.records.mode(), &changed) {
            return door.execute_fast(party, &self.commands, id, deadline).await;
        }
        ids.extend(watched.ids().cloned());
        ids.sort();
        ids.dedup();
        if ids.is_empty() {
            return Ok(Answer::free(Reply::List(Vec::new())));
        }
        if ids.len() > 1 && !door.records.changes_several_at_once() {
            let why = "on Cassandra, a transaction watches no other key than the one of its commands";
            return Err(Refusal::of_kind("CROSSSLOT", why));
        }
        let run = |drafts: &mut [Draft]| {
            let is_as_seen = |(id, draft): (&Bytes, &Draft)| watched.is_as_seen(id, draft.record());
            if !ids.iter().zip(drafts.iter()).all(is_as_seen) {
                return Answer::free(Reply::NoList);
            }
            let place = changed.as_ref().and_then(|id| ids.binary_search(id).ok());
            let Some(draft) = place.and_then(|place| drafts.get_mut(place)) else {
                return Answer::free(Reply::List(Vec::new()));
            };
            let before = draft.record().cloned();
            let (mut answers, mut bytes, mut share) = (Vec::with_capacity(self.commands.len()), 0, None);
            for (command, words) in &self.commands {
                let each = command.keys(words).and_then(|keys| {
                    keys.into_iter().map(|(_, words)| command.run(draft, words)).collect::<CommandResult<Vec<_>>>()
                });
                let answer = each.map_or_else(Reply::Refused, |answers| command.combined(answers));
                bytes += answer.bytes();
                if door.memory.hold(party, &mut share, bytes).is_err() {
                    *draft = Draft::new(before, draft.now);
                    let why = "there is no memory for the answers of the transaction now";
                    return Answer::refused(Refusal::overloaded(why));
                }
                answers.push(answer);
            }
            Answer::holding(Reply::List(answers), share)
        };
        if let ([id], false) = (&ids[..], self.writes()) {
            let record = door.records.read_current(deadline, id).await.map_err(refusal)?;
            return Ok(run(&mut [Draft::new(record, door.records.now())]));
        }
        door.records.change(deadline, &ids, run).await.map_err(refusal)
    }
}

/// The refusal of a command on several keys, when it would be added, and of commands on different
/// ones, by `EXEC`: a Redis cluster answers both in this way.
fn on_several_keys() -> Refusal {
    Refusal::of_kind("CROSSSLOT", "all commands of a transaction must be on the same key")
}
