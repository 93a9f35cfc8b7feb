//! Serves one connection.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use budget::{Party, Share};
use bytes::{Buf, Bytes, BytesMut};
use store::Deadline;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::Door;
use crate::access::RequestPace;
use crate::answer::Answer;
use crate::arity;
use crate::clients::Ends;
use crate::commands::RecordCommand;
use crate::error::{CommandResult, Refusal};
use crate::listing::{commands, unknown};
use crate::meters::Outcome;
use crate::pipeline::Pipeline;
use crate::reply::Reply;
use crate::request::Requests;
use crate::run::Task;
use crate::session::Session;
use crate::transaction::{QUEUED, Transaction};
use crate::watch::Watched;

/// Bytes that are read from a connection at once.
const READ_BYTES: usize = 16 << 10;

/// A connection that holds so many bytes of requests takes no share of the memory.
const FREE_BYTES: usize = 2 * READ_BYTES;

/// Answers are sent when so many bytes of them wait, and when no further request is there.
const ANSWER_BYTES: usize = 16 << 10;

/// A buffer for answers that has had so many bytes is given back once they are sent.
const KEPT_BYTES: usize = 4 * ANSWER_BYTES;

/// How much later a connection goes on for each command that is refused because its client has
/// exceeded a limit. The answer comes at once, by its deadline. So refusals cost less than commands.
const LIMITED_PAUSE: Duration = Duration::from_millis(10);

/// The longest pause, however many were refused since the last one.
const LIMITED_PAUSE_MAX: Duration = Duration::from_secs(1);

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
    /// When the last bytes of it were received. The time of a command begins then.
    arrived: tokio::time::Instant,
    /// The memory for a request that arrives in many pieces.
    input_share: Option<Share>,
    /// What has arrived of that.
    arriving: Arriving,
    output: BytesMut,
    /// The pause before it goes on.
    owed_pause: Duration,
    began: tokio::time::Instant,
    /// Whether it has sent a request.
    has_asked: bool,
    /// Whether it has sent one as a client that may do anything.
    is_known: bool,
}

/// The part of a request that has arrived. It starts again each time that enough has arrived.
#[derive(Default)]
struct Arriving {
    /// The time in which the server has waited for it.
    waited: Duration,
    bytes: u64,
}

impl Arriving {
    /// How long the server waits for the next bytes.
    fn wait_max(&self, pace: RequestPace) -> Duration {
        if self.bytes < pace.least_bytes { pace.pause.saturating_sub(self.waited) } else { pace.pause }
    }

    /// Counts bytes that arrived after a wait.
    fn count(&mut self, waited: Duration, bytes: usize, pace: RequestPace) {
        self.waited += waited;
        self.bytes += bytes as u64;
        if self.waited >= pace.pause && self.bytes >= pace.least_bytes {
            *self = Self::default();
        }
    }
}

/// The connection cannot go on.
struct Ended;

/// Counts the commands on records that a request is about, by its answer: that of a transaction has
/// one for each of them.
fn count(door: &Door, writes: &[bool], reply: &Reply, began: Instant) {
    let Some((first, in_transaction)) = writes.split_first() else { return };
    door.note(reply.outcome(), *first, began);
    for (place, writes) in in_transaction.iter().enumerate() {
        let outcome = match reply {
            Reply::List(replies) => replies.get(place).map_or(Outcome::Refused, Reply::outcome),
            // They did not happen, because what was watched has changed.
            Reply::NoList => Outcome::Refused,
            other => other.outcome(),
        };
        door.note(outcome, *writes, began);
    }
}

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
            pipeline: Pipeline::new(door.runs_as_one()),
            door,
            io,
            party,
            transaction: None,
            watched: Watched::default(),
            input: BytesMut::new(),
            arrived: tokio::time::Instant::now(),
            input_share: None,
            arriving: Arriving::default(),
            output: BytesMut::new(),
            owed_pause: Duration::ZERO,
            began: tokio::time::Instant::now(),
            has_asked: false,
            is_known: false,
        }
    }

    /// Serves requests until the client leaves, is silent for too long, sends a request too slowly,
    /// does not show in time that it may do anything, sends what cannot be understood, or is ended by
    /// another one; or until `stop`, which lets the requests that are under way end.
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
                break;
            }
        }
        // It keeps its place meanwhile. So a new connection saves no pause.
        self.pause(&stop).await;
    }

    /// Begins the next request, or waits for one.
    async fn go_on(&mut self, stop: &CancellationToken) -> Result<(), Ended> {
        match self.requests.next(&mut self.input) {
            Ok(Some(words)) => {
                self.arriving = Arriving::default();
                self.begin(words).await
            }
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
        self.put(Answer::refused(refusal)).await
    }

    /// Begins a request. Commands on different records run at the same time; every other command
    /// runs alone.
    async fn begin(&mut self, words: Vec<Bytes>) -> Result<(), Ended> {
        self.has_asked = true;
        if words.first().is_some_and(|name| is_http(name)) {
            return self.end(Refusal::error("this port speaks the Redis protocol, not HTTP")).await;
        }
        let counted = self.session.count(&words);
        let is_limited = counted.is_err();
        let share = counted.and_then(|()| self.door.share_of_words(&self.party, words.len()));
        let command = words.first().and_then(|name| RecordCommand::find(name));
        if let (Ok(_), Some(command), None) = (&share, command, &self.transaction)
            && self.session.require(command.writes).and_then(|()| command.check(&words[1..])).is_ok()
        {
            let task = Task::new(command, words, self.deadline(), self.arrived.into_std());
            let task = task.within(share.ok().flatten());
            while !self.pipeline.admits(&task) {
                self.put_next().await?;
            }
            self.pipeline.push(task, |tasks| self.door.start(&self.party, tasks));
            return Ok(());
        }
        self.finish().await?;
        let (writes, began) = (self.writes(&words), self.arrived.into_std());
        let answered = match share {
            Ok(_share) => self.answer(&words).await,
            Err(refusal) => {
                self.break_off(&words);
                Err(refusal)
            }
        };
        let answer = answered.unwrap_or_else(|refusal| {
            self.session.note(&words, &refusal);
            Answer::refused(refusal)
        });
        // What is queued is counted when its transaction ends.
        if answer.reply != QUEUED {
            count(&self.door, &writes, &answer.reply, began);
        }
        if is_limited {
            self.owed_pause = LIMITED_PAUSE_MAX.min(self.owed_pause + LIMITED_PAUSE);
        }
        self.put(answer).await
    }

    /// Whether each of the commands on records that a request is about writes. `EXEC` is one, before
    /// those of its transaction. Metrics count no others.
    fn writes(&self, words: &[Bytes]) -> Vec<bool> {
        let Some(name) = words.first() else { return Vec::new() };
        if let Some(command) = RecordCommand::find(name) {
            return vec![command.writes];
        }
        match name.to_ascii_lowercase().as_slice() {
            b"exec" => {
                let each: Vec<bool> = self.transaction.iter().flat_map(Transaction::each_writes).collect();
                std::iter::once(each.contains(&true)).chain(each.iter().copied()).collect()
            }
            b"scan" | b"dbsize" | b"watch" => vec![false],
            _ => Vec::new(),
        }
    }

    /// A command is refused without a look at it, because its client has exceeded a limit or there is
    /// no memory. What would have depended on it does not happen.
    fn break_off(&mut self, words: &[Bytes]) {
        let is = |known: &[u8]| words.first().is_some_and(|name| name.eq_ignore_ascii_case(known));
        self.transaction.iter_mut().for_each(Transaction::break_off);
        if is(b"watch") {
            self.watched.break_off();
        }
        if is(b"exec") {
            (self.transaction, self.watched) = (None, Watched::default());
        }
    }

    /// Waits for as long as refusals by a limit demand, or until the server stops.
    async fn pause(&mut self, stop: &CancellationToken) {
        let pause = std::mem::take(&mut self.owed_pause);
        if !pause.is_zero() {
            let _ = timeout(pause, stop.cancelled()).await;
        }
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
        self.pause(stop).await;
        let held = self.input.len() + self.requests.held_bytes() + READ_BYTES;
        if held <= FREE_BYTES {
            if self.input_share.take().is_some() {
                // The large buffer goes with its share.
                self.input = BytesMut::from(&self.input[..]);
            }
        } else if self.input_share.as_ref().is_none_or(|share| share.bytes() < held as u64) {
            // All of the request at once, so that it does not stop half way.
            let bytes = held.max(self.requests.announced_bytes() + READ_BYTES);
            self.input_share = None;
            let share = self.door.memory.reserve(&self.party, bytes as u64);
            match timeout_at(self.deadline().0, share).await {
                Ok(Ok(share)) => self.input_share = Some(share),
                _ => return self.end(Refusal::overloaded("there is no memory for the request now")).await,
            }
        }
        // Otherwise a client that stops in the middle of a request would keep the memory for it.
        let has_begun = !self.input.is_empty() || self.requests.has_begun();
        let pace = has_begun.then(|| self.door.access.request_pace());
        let silence_max = self.silence_max();
        let wait_max = pace.map_or(silence_max, |pace| silence_max.min(self.arriving.wait_max(pace)));
        if wait_max.is_zero() {
            return Err(Ended);
        }
        self.input.reserve(READ_BYTES);
        let began = tokio::time::Instant::now();
        let mut bounded = (&mut self.io).take(READ_BYTES as u64);
        let read = timeout(wait_max, bounded.read_buf(&mut self.input));
        let bytes = tokio::select! {
            read = read => match read {
                Ok(Ok(bytes @ 1..)) => bytes,
                _ => return Err(Ended),
            },
            () = stop.cancelled() => return Err(Ended),
        };
        self.arrived = tokio::time::Instant::now();
        if let Some(pace) = pace {
            self.arriving.count(self.arrived - began, bytes, pace);
        }
        Ok(())
    }

    /// How long the client may be silent from now on. One that may do nothing has little time in all,
    /// whatever it sends: otherwise it could keep its place, and those of many connections, at no cost.
    fn silence_max(&mut self) -> Duration {
        self.is_known = self.is_known || self.has_asked && self.session.has_rights();
        let silence_max = self.door.settings.silence_max;
        if self.is_known {
            return silence_max;
        }
        silence_max.min(self.door.access.greeting_max().saturating_sub(self.began.elapsed()))
    }

    async fn put(&mut self, answer: Answer) -> Result<(), Ended> {
        let (before, is_refusal) = (self.output.len(), matches!(answer.reply, Reply::Refused(_)));
        answer.reply.write(self.session.version(), &mut self.output).map_err(|_| Ended)?;
        if !is_refusal {
            self.door.access.sent(&self.session.party(), (self.output.len() - before) as u64);
        }
        if self.output.len() >= ANSWER_BYTES { self.send().await } else { Ok(()) }
    }

    /// Sends what waits. A client that reads nothing for too long ends its connection. Meanwhile the
    /// commands that are under way go on, so that those of others do not wait for them.
    async fn send(&mut self) -> Result<(), Ended> {
        let Self { io, output, pipeline, door, party, .. } = self;
        let is_large = output.capacity() > KEPT_BYTES;
        let stall_max = door.settings.stall_max;
        let sending = async {
            // Each part has so much time, because a slow client takes one after the other.
            while output.has_remaining() {
                if timeout(stall_max, io.write_buf(output)).await?? == 0 {
                    return Err(io::Error::from(io::ErrorKind::WriteZero));
                }
            }
            timeout(stall_max, io.flush()).await?
        };
        let is_sent = tokio::select! {
            biased;
            sent = sending => sent.is_ok(),
            never = pipeline.go_on(|tasks| door.start(party, tasks)) => match never {},
        };
        if is_large {
            *output = BytesMut::new();
        }
        if is_sent { Ok(()) } else { Err(Ended) }
    }

    /// When the commands that have arrived must be answered. Those that arrived together have the
    /// same time.
    fn deadline(&self) -> Deadline {
        Deadline(self.arrived + self.session.time_limit)
    }

    /// Answers what does not run beside other commands: commands that are in a transaction, that
    /// are not about single records, or that are refused.
    async fn answer(&mut self, words: &[Bytes]) -> CommandResult<Answer> {
        let Some((name, words)) = words.split_first() else { return Err(Refusal::syntax()) };
        let is_exec = name.eq_ignore_ascii_case(b"exec");
        if let Err(refusal) = arity::check(name, words) {
            self.transaction.iter_mut().for_each(Transaction::break_off);
            if !is_exec {
                return Err(refusal);
            }
            // It ends its transaction all the same, as in Redis.
            (self.transaction, self.watched) = (None, Watched::default());
            return Err(refusal.of_transaction());
        }
        if is_exec {
            return self.execute().await;
        }
        let reply = self.reply(name, words).await?;
        Answer::within(&self.door.memory, &self.party, reply)
    }

    /// `EXEC`.
    async fn execute(&mut self) -> CommandResult<Answer> {
        let transaction = self.transaction.take().ok_or_else(|| Refusal::error("EXEC without MULTI"))?;
        let watched = std::mem::take(&mut self.watched);
        self.session.require(transaction.writes())?;
        transaction.execute(&self.door, &self.party, &watched, self.deadline()).await
    }

    async fn reply(&mut self, name: &[u8], words: &[Bytes]) -> CommandResult<Reply> {
        match name.to_ascii_lowercase().as_slice() {
            b"multi" if self.transaction.is_some() => return Err(Refusal::error("MULTI calls can not be nested")),
            b"multi" => {
                self.transaction = Some(Transaction::default());
                return Ok(Reply::OK);
            }
            b"watch" if self.transaction.is_some() => {
                return Err(Refusal::error("WATCH inside MULTI is not allowed"));
            }
            b"watch" => {
                self.session.require(false)?;
                let deadline = self.deadline();
                let watched = self.watched.watch(&self.door, &self.party, words, deadline).await;
                if watched.is_err() {
                    // Redis would have watched. What the client has sent already counts on that.
                    self.watched.break_off();
                }
                return watched;
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
            // `QUIT` waits for no `EXEC`.
            b"reset" | b"quit" => (self.transaction, self.watched) = (None, Watched::default()),
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
        }
        let deadline = self.deadline();
        match self.session.run(name, words, deadline).await {
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
                self.door.scan(&self.party, self.deadline(), words).await
            }
            b"dbsize" => {
                self.session.require(false)?;
                self.door.count(&self.party, self.deadline()).await
            }
            _ => Err(unknown(name, words)),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use budget::Memory;
    use records::Records;
    use store::SystemClock;
    use store::null::NullStore;

    use super::*;
    use crate::{Access, Exceeded, Refused, RequestLimits, Rights, Settings, WrongPassword};

    /// Everyone may do everything.
    struct Open;

    impl Access for Open {
        fn rights(&self, _: Option<&[u8]>) -> Result<Rights, WrongPassword> {
            Ok(Rights { read: true, write: true, operate: true })
        }

        fn user(&self, _: &[u8]) -> Option<String> {
            None
        }

        fn request_pace(&self) -> RequestPace {
            RequestPace { pause: PAUSE, least_bytes: 30 << 10 }
        }

        fn count(&self, _: &Party) -> Result<(), Exceeded> {
            Ok(())
        }

        fn sent(&self, _: &Party, _: u64) {}

        fn refused(&self, _: &Refused<'_>) {}
    }

    /// The longest pause within a request, and within the reading of an answer.
    const PAUSE: Duration = Duration::from_secs(30);

    fn door(memory: &Memory) -> Arc<Door> {
        let hour = Duration::from_secs(3_600);
        let settings = Settings {
            deadline: hour,
            deadline_max: hour,
            silence_max: hour,
            stall_max: PAUSE,
            request: RequestLimits::default(),
        };
        let records = Records::new(Arc::new(NullStore::new()), Arc::new(SystemClock));
        Door::new(Arc::new(records), Box::new(Open), memory.clone(), settings)
    }

    /// Serves one end of a pipe, which holds so many bytes, until its connection ends. The other end
    /// is that of the client.
    fn serving(memory: &Memory, bytes: usize) -> (tokio::io::DuplexStream, impl Future<Output = ()>) {
        let (client, server) = tokio::io::duplex(bytes);
        let connection = Connection::new(door(memory), server, Party::Local, Ends::default());
        (client, connection.serve(CancellationToken::new()))
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_hardly_arrives_any_more_ends_and_returns_its_memory() {
        let (memory, began) = (Memory::new(64 << 20), tokio::time::Instant::now());
        let (mut client, served) = serving(&memory, 1 << 20);
        let sent = format!("PING\r\n*2\r\n$4\r\nECHO\r\n$1000000\r\n{}", "x".repeat(20_000));
        let sending = async {
            let mut most = 0;
            client.write_all(sent.as_bytes()).await.unwrap();
            while client.write_all(b"x").await.is_ok() {
                tokio::time::sleep(Duration::from_secs(1)).await;
                most = memory.taken_bytes().max(most);
            }
            most
        };
        let ((), most) = tokio::join!(served, sending);
        assert!(most > 1_000_000, "{most}");
        assert!((PAUSE..PAUSE + Duration::from_secs(3)).contains(&began.elapsed()), "{:?}", began.elapsed());
        assert_eq!(memory.taken_bytes(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_arrives_slowly_is_answered() {
        let (memory, began) = (Memory::new(64 << 20), tokio::time::Instant::now());
        let (mut client, served) = serving(&memory, 1 << 20);
        let sending = async {
            client.write_all(b"*2\r\n$4\r\nECHO\r\n$204800\r\n").await.unwrap();
            for _ in 0..100 {
                tokio::time::sleep(Duration::from_secs(1)).await;
                client.write_all(&[b'x'; 2_048]).await.unwrap();
            }
            client.write_all(b"\r\n").await.unwrap();
            client.shutdown().await.unwrap();
            let mut answer = Vec::new();
            client.read_to_end(&mut answer).await.unwrap();
            answer.len()
        };
        let ((), answer) = tokio::join!(served, sending);
        assert_eq!(answer, "$204800\r\n\r\n".len() + 204_800);
        assert!(began.elapsed() > 3 * PAUSE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_an_answer_slowly_gets_all_of_it() {
        let (memory, began) = (Memory::new(64 << 20), tokio::time::Instant::now());
        let (mut client, served) = serving(&memory, 4 << 10);
        let reading = async {
            let echo = format!("*2\r\n$4\r\nECHO\r\n$100000\r\n{}\r\n", "x".repeat(100_000));
            client.write_all(echo.as_bytes()).await.unwrap();
            client.shutdown().await.unwrap();
            let (mut taken, mut piece) = (0, [0; 4 << 10]);
            loop {
                tokio::time::sleep(PAUSE / 3).await;
                match client.read(&mut piece).await.unwrap() {
                    0 => return taken,
                    bytes => taken += bytes,
                }
            }
        };
        let ((), taken) = tokio::join!(served, reading);
        assert_eq!(taken, "$100000\r\n\r\n".len() + 100_000);
        assert!(began.elapsed() > 3 * PAUSE);
    }

    #[tokio::test(start_paused = true)]
    async fn commands_that_arrive_together_are_answered_although_few_places_are_free() {
        let door = door(&Memory::new(64 << 20));
        let held = Deadline::within(PAUSE);
        let _held = door.admission.places(crate::COMMANDS_AT_WORK - 4, held).await.unwrap();
        // Longer than the commands may take.
        tokio::time::advance(2 * door.settings.deadline).await;
        let (mut client, server) = tokio::io::duplex(4 << 10);
        let connection = Connection::new(door.clone(), server, Party::Local, Ends::default());
        let sending = async {
            let gets: String = (0..8).map(|number| format!("GET {number}\r\n")).collect();
            client.write_all(gets.as_bytes()).await.unwrap();
            client.shutdown().await.unwrap();
            let mut answers = String::new();
            client.read_to_string(&mut answers).await.unwrap();
            answers
        };
        let ((), answers) = tokio::join!(connection.serve(CancellationToken::new()), sending);
        assert_eq!(answers, "$-1\r\n".repeat(8));
    }

    #[tokio::test]
    async fn large_buffers_are_given_back_with_their_shares_of_the_memory() {
        const LARGE: usize = 600_000;
        let memory = Memory::new(64 << 20);
        let (mut client, server) = tokio::io::duplex(2 * LARGE);
        let mut connection = Connection::new(door(&memory), server, Party::Local, Ends::default());
        let stop = CancellationToken::new();
        for bytes in [LARGE, 100] {
            let request = format!("*2\r\n$4\r\nECHO\r\n${bytes}\r\n{}\r\n", "x".repeat(bytes));
            client.write_all(request.as_bytes()).await.unwrap();
            loop {
                assert!(connection.go_on(&stop).await.is_ok());
                if connection.input.is_empty() && connection.requests.announced_bytes() == 0 {
                    break;
                }
            }
        }
        assert!(!connection.input.try_reclaim(LARGE / 2), "the buffer of the large request is still there");
        assert!(!connection.output.try_reclaim(LARGE / 2), "the buffer of the large answer is still there");
        assert_eq!(memory.taken_bytes(), 0);
    }
}
