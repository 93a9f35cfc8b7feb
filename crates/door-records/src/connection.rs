//! Serves one connection.

use std::sync::Arc;
use std::time::{Duration, Instant};

use budget::{Party, Share};
use bytes::{Bytes, BytesMut};
use store::Deadline;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::Door;
use crate::answer::Answer;
use crate::clients::Ends;
use crate::commands::RecordCommand;
use crate::error::{CommandResult, Refusal};
use crate::listing::{commands, unknown};
use crate::pipeline::Pipeline;
use crate::reply::Reply;
use crate::request::Requests;
use crate::run::{Task, note};
use crate::session::Session;
use crate::transaction::Transaction;
use crate::watch::Watched;

/// Bytes that are read from a connection at once.
const READ_BYTES: usize = 16 << 10;

/// A connection that holds so many bytes of requests takes no share of the memory.
const FREE_BYTES: usize = 2 * READ_BYTES;

/// Answers are sent when so many bytes of them wait, and when no further request is there.
const ANSWER_BYTES: usize = 16 << 10;

/// How long a client waits for the answer to a command that is refused because it has exceeded a
/// limit.
const LIMITED_PAUSE: Duration = Duration::from_millis(10);

/// A connection with what has arrived and what is to be sent.
pub(crate) struct Connection<I> {
    door: Arc<Door>,
    io: I,
    party: Party,
    session: Session,
    transaction: Option<Transaction>,
    watched: Watched,
    pipeline: Pipeline,
    requests: Requests,
    input: BytesMut,
    /// The memory for a request that arrives in many pieces.
    input_share: Option<Share>,
    output: BytesMut,
}

/// The connection cannot go on.
struct Ended;

/// Whether a line begins a request of HTTP. A web page can make a browser send one here, and the
/// lines of its body would be read as commands.
fn is_http(name: &[u8]) -> bool {
    [&b"post"[..], b"put", b"patch", b"host:"].iter().any(|word| word.eq_ignore_ascii_case(name))
}

impl<I: AsyncRead + AsyncWrite + Unpin> Connection<I> {
    pub(crate) fn new(door: Arc<Door>, io: I, party: Party, ends: Ends) -> Self {
        Self {
            session: Session::new(door.clone(), party.clone(), ends),
            requests: Requests::new(door.settings.request),
            door,
            io,
            party,
            transaction: None,
            watched: Watched::default(),
            pipeline: Pipeline::default(),
            input: BytesMut::new(),
            input_share: None,
            output: BytesMut::new(),
        }
    }

    /// Serves requests until the client leaves, is silent for too long, sends what cannot be
    /// understood, or is ended by another one; or until `stop`, which lets the requests that are under
    /// way end.
    pub(crate) async fn serve(mut self, stop: CancellationToken) {
        let killed = self.session.killed();
        tokio::select! {
            biased;
            () = killed.cancelled() => {}
            () = self.serve_all(stop) => {}
        }
    }

    async fn serve_all(&mut self, stop: CancellationToken) {
        while self.go_on(&stop).await.is_ok() {
            if self.session.is_over {
                let _ = self.send().await;
                return;
            }
        }
    }

    /// Begins the next request, or waits for one.
    async fn go_on(&mut self, stop: &CancellationToken) -> Result<(), Ended> {
        match self.requests.next(&mut self.input) {
            Ok(Some(words)) => self.begin(words).await,
            Ok(None) => {
                self.finish().await?;
                self.send().await?;
                self.receive(stop).await
            }
            Err(error) => self.end(Refusal::error(error)).await,
        }
    }

    /// Answers what is under way, then with a refusal, and ends the connection.
    async fn end(&mut self, refusal: Refusal) -> Result<(), Ended> {
        self.finish().await?;
        self.session.is_over = true;
        self.put(Answer::free(Reply::Refused(refusal))).await
    }

    /// Begins a request. Commands on different records run at the same time; every other command
    /// runs alone.
    async fn begin(&mut self, words: Vec<Bytes>) -> Result<(), Ended> {
        if words.first().is_some_and(|name| is_http(name)) {
            return self.end(Refusal::error("this port speaks the Redis protocol, not HTTP")).await;
        }
        let counted = self.session.count(&words);
        let command = words.first().and_then(|name| RecordCommand::find(name));
        if let (Ok(()), Some(command), None) = (&counted, command, &self.transaction)
            && self.session.require(command.writes).and_then(|()| command.check(&words[1..])).is_ok()
        {
            let task = Task::new(command, words, self.deadline());
            while !self.pipeline.admits(&task) {
                self.put_next().await?;
            }
            self.pipeline.push(task, |tasks| self.door.start(&self.party, tasks));
            return Ok(());
        }
        self.finish().await?;
        let answered = match counted {
            Ok(()) => self.answer(&words).await,
            Err(refusal) => {
                self.limited(&words, command).await?;
                Err(refusal)
            }
        };
        let reply = answered.unwrap_or_else(|refusal| {
            self.session.note(&words, &refusal);
            Reply::Refused(refusal)
        });
        self.put(Answer::within(&self.door.memory, &self.party, reply)).await
    }

    /// A command is refused because its client has exceeded a limit. What would have depended on it
    /// does not happen, and the client waits a little, so that refusals cost less than commands.
    async fn limited(&mut self, words: &[Bytes], command: Option<&RecordCommand>) -> Result<(), Ended> {
        let is = |known: &[u8]| words.first().is_some_and(|name| name.eq_ignore_ascii_case(known));
        self.transaction.iter_mut().for_each(Transaction::break_off);
        if is(b"watch") {
            self.watched.break_off();
        }
        if is(b"exec") {
            (self.transaction, self.watched) = (None, Watched::default());
        }
        if let Some(command) = command {
            note("limited", command.writes, Instant::now());
        }
        self.send().await?;
        tokio::time::sleep(LIMITED_PAUSE).await;
        Ok(())
    }

    /// Answers all that is under way.
    async fn finish(&mut self) -> Result<(), Ended> {
        while self.put_next().await? {}
        Ok(())
    }

    /// Answers the oldest command that is under way. Returns whether there was one.
    async fn put_next(&mut self) -> Result<bool, Ended> {
        match self.pipeline.next(|tasks| self.door.start(&self.party, tasks)).await {
            Some(answer) => self.put(answer).await.map(|()| true),
            None => Ok(false),
        }
    }

    /// Waits for more bytes.
    async fn receive(&mut self, stop: &CancellationToken) -> Result<(), Ended> {
        let held = self.input.len() + self.requests.held_bytes() + READ_BYTES;
        if held <= FREE_BYTES {
            self.input_share = None;
        } else if self.input_share.as_ref().is_none_or(|share| share.bytes() < held as u64) {
            // All of the request at once, so that it does not stop half way.
            let bytes = held.max(self.requests.announced_bytes() + READ_BYTES);
            self.input_share = None;
            match self.door.memory.reserve(&self.party, bytes as u64).await {
                Ok(share) => self.input_share = Some(share),
                Err(_) => return self.end(Refusal::overloaded("there is no memory for the request now")).await,
            }
        }
        self.input.reserve(READ_BYTES);
        let mut bounded = (&mut self.io).take(READ_BYTES as u64);
        let read = timeout(self.door.settings.silence_max, bounded.read_buf(&mut self.input));
        tokio::select! {
            read = read => if matches!(read, Ok(Ok(1..))) { Ok(()) } else { Err(Ended) },
            () = stop.cancelled() => Err(Ended),
        }
    }

    async fn put(&mut self, answer: Answer) -> Result<(), Ended> {
        let (before, is_refusal) = (self.output.len(), matches!(answer.reply, Reply::Refused(_)));
        answer.reply.write(self.session.version(), &mut self.output).map_err(|_| Ended)?;
        if !is_refusal {
            self.door.access.sent(&self.session.party(), (self.output.len() - before) as u64);
        }
        if self.output.len() >= ANSWER_BYTES { self.send().await } else { Ok(()) }
    }

    /// Sends what waits. A client that does not read ends its connection. Meanwhile the commands that
    /// are under way go on, so that those of others do not wait for them.
    async fn send(&mut self) -> Result<(), Ended> {
        let Self { io, output, pipeline, door, party, .. } = self;
        let sending = async {
            io.write_all_buf(output).await?;
            io.flush().await
        };
        tokio::select! {
            biased;
            sent = timeout(door.settings.stall_max, sending) => {
                if matches!(sent, Ok(Ok(()))) { Ok(()) } else { Err(Ended) }
            }
            never = pipeline.go_on(|tasks| door.start(party, tasks)) => match never {},
        }
    }

    fn deadline(&self) -> Deadline {
        Deadline::within(self.session.time_limit)
    }

    /// Answers what does not run beside other commands: commands that are in a transaction, that
    /// are not about single records, or that are refused.
    async fn answer(&mut self, words: &[Bytes]) -> CommandResult<Reply> {
        let Some((name, words)) = words.split_first() else { return Err(Refusal::syntax()) };
        match name.to_ascii_lowercase().as_slice() {
            b"multi" if self.transaction.is_some() => return Err(Refusal::error("MULTI calls can not be nested")),
            b"multi" => {
                self.transaction = Some(Transaction::default());
                return Ok(Reply::OK);
            }
            b"exec" => {
                let transaction = self.transaction.take().ok_or_else(|| Refusal::error("EXEC without MULTI"))?;
                let watched = std::mem::take(&mut self.watched);
                self.session.require(transaction.writes())?;
                return transaction.execute(&self.door, &self.party, &watched, self.deadline()).await;
            }
            b"watch" if self.transaction.is_some() => {
                return Err(Refusal::error("WATCH inside MULTI is not allowed"));
            }
            b"watch" => {
                self.session.require(false)?;
                let deadline = self.deadline();
                return self.watched.watch(&self.door, &self.party, words, deadline).await;
            }
            b"unwatch" if self.transaction.is_none() => {
                self.watched = Watched::default();
                return Ok(Reply::OK);
            }
            b"discard" => {
                self.transaction.take().ok_or_else(|| Refusal::error("DISCARD without MULTI"))?;
                self.watched = Watched::default();
                return Ok(Reply::OK);
            }
            b"reset" => (self.transaction, self.watched) = (None, Watched::default()),
            _ => {}
        }
        let command = RecordCommand::find(name);
        if let Some(transaction) = &mut self.transaction {
            let may = command.map_or(Ok(()), |command| self.session.require(command.writes));
            return transaction.add(may, command, words, (&self.door.memory, &self.party));
        }
        if let Some(command) = command {
            // It is no part of the pipeline because it is refused.
            self.session.require(command.writes)?;
            command.check(words)?;
        }
        match self.session.run(name, words) {
            Some(answer) => answer,
            None => self.look(name, words).await,
        }
    }

    /// Commands about all records, and about commands.
    async fn look(&mut self, name: &[u8], words: &[Bytes]) -> CommandResult<Reply> {
        match name.to_ascii_lowercase().as_slice() {
            b"command" => commands(words),
            b"scan" => {
                self.session.require(false)?;
                self.door.scan(self.deadline(), words).await
            }
            b"dbsize" => {
                self.session.require(false)?;
                self.door.count(self.deadline()).await
            }
            _ => Err(unknown(name, words)),
        }
    }
}
