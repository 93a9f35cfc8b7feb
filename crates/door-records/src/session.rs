//! What a connection is and may do, and the commands about that.

use std::sync::Arc;
use std::time::Duration;

use budget::Party;
use bytes::Bytes;
use store::Deadline;
use tokio_util::sync::CancellationToken;

use crate::Door;
use crate::access::{Refused, Rights, WrongPassword, is_refused};
use crate::clients::{About, Client, Ends, Filter, Place};
use crate::error::{CommandResult, Refusal};
use crate::pattern::Pattern;
use crate::reply::{Reply, Version};
use crate::words::Words;

/// The version of Redis whose commands are offered, for clients that ask.
pub(crate) const REDIS_VERSION: &str = "7.4.0";

/// The longest name of a command that the audit has.
const COMMAND_BYTES_MAX: usize = 20;

/// At most so many bytes of a word are repeated in an error.
const REPEATED_BYTES_MAX: usize = 128;

/// The longest name of a connection.
const NAME_BYTES_MAX: usize = 256;

/// The most patterns of `CONFIG GET`. It needs no password, and the time for it is bounded.
const CONFIG_PATTERNS_MAX: usize = 64;

/// One connection.
pub(crate) struct Session {
    door: Arc<Door>,
    place: Place,
    about: About,
    /// The time that a command may take.
    pub(crate) time_limit: Duration,
    /// Whether the connection ends after the answer.
    pub(crate) is_over: bool,
}

impl Session {
    pub(crate) fn new(door: Arc<Door>, party: Party, ends: Ends) -> Self {
        Self {
            place: Place::new(door.clone(), party, ends),
            about: About::default(),
            time_limit: door.settings.deadline,
            is_over: false,
            door,
        }
    }

    /// The version of the protocol that the client speaks.
    pub(crate) fn version(&self) -> Version {
        self.about.version
    }

    /// Ends the connection from outside.
    pub(crate) fn killed(&self) -> CancellationToken {
        self.place.client.killed.clone()
    }

    /// Those whose commands and answers are counted together: the clients with the same token or,
    /// without one, of the same address.
    pub(crate) fn party(&self) -> Party {
        self.about.user.clone().map_or_else(|| self.place.client.party.clone(), Party::Token)
    }

    /// Counts a command, or refuses it because its party has made too many.
    pub(crate) fn count(&self, words: &[Bytes]) -> CommandResult<()> {
        match self.door.access.count(&self.party()) {
            Err(exceeded) if words.first().is_some_and(|name| is_refused(name, &exceeded)) => Err(exceeded.into()),
            _ => Ok(()),
        }
    }

    /// Notes that a command was refused, if that was because of who sent it or how many there were.
    pub(crate) fn note(&self, words: &[Bytes], refusal: &Refusal) {
        let (Some(name), Some(why)) = (words.first(), refusal.of_client()) else { return };
        // What is no name of a command may be a secret.
        let is_name =
            name.len() <= COMMAND_BYTES_MAX && name.iter().all(|byte| byte.is_ascii_alphabetic() || *byte == b'.');
        let command: &[u8] = if is_name { name } else { b"unknown" };
        self.door.access.refused(&Refused {
            user: self.about.user.as_deref(),
            address: self.place.client.ends.peer.map(|peer| peer.ip()),
            library: &self.about.library.0,
            command,
            why,
        });
    }

    fn rights(&self) -> Rights {
        self.door.access.rights(self.about.password.as_deref()).unwrap_or_default()
    }

    /// Whether the client may do anything.
    pub(crate) fn has_rights(&self) -> bool {
        self.rights() != Rights::default()
    }

    /// Refuses if the client may not do this. A token that was revoked meanwhile counts no more.
    pub(crate) fn require(&self, writes: bool) -> CommandResult<()> {
        let rights = self.rights();
        match if writes { rights.write } else { rights.read } {
            true => Ok(()),
            false if self.about.password.is_some() => {
                Err(Refusal::of_kind("NOPERM", "this user has no permissions to run this command"))
            }
            false => Err(Refusal::of_kind("NOAUTH", "Authentication required.")),
        }
    }

    /// Back to the state of a new connection. The library behind it is the same, as in Redis.
    fn reset(&mut self) {
        self.about = About { library: std::mem::take(&mut self.about.library), ..About::default() };
        self.time_limit = self.door.settings.deadline;
    }

    /// Runs a command about the connection or the server; `None`: it is none of them.
    pub(crate) async fn run(
        &mut self,
        name: &[u8],
        words: &[Bytes],
        deadline: Deadline,
    ) -> Option<CommandResult<Reply>> {
        let name = name.to_ascii_lowercase();
        let answer = match name.as_slice() {
            b"ping" => ping(words),
            b"echo" => first(words).map(|word| Reply::Bytes(word.clone())),
            b"hello" => self.hello(Words::new("hello", words)),
            b"auth" => self.auth(words),
            b"select" => select(words),
            b"client" => self.client(words, deadline).await,
            b"config" => self.config(words),
            b"info" => Ok(info(words)),
            b"reset" => {
                self.reset();
                Ok(Reply::Word("RESET"))
            }
            b"quit" => {
                self.is_over = true;
                Ok(Reply::OK)
            }
            b"wait" => wait(words),
            b"penates.deadline" => self.set_deadline(words),
            _ => return None,
        };
        if matches!(name.as_slice(), b"hello" | b"auth" | b"client" | b"reset") {
            self.place.client.set_about(&self.about);
        }
        Some(answer)
    }

    fn hello(&mut self, mut words: Words<'_>) -> CommandResult<Reply> {
        let mut version = self.about.version;
        if !words.is_empty() {
            version = match &words.next()?[..] {
                b"2" => Version::Two,
                b"3" => Version::Three,
                word if records::integer(word).is_err() => {
                    return Err(Refusal::error("Protocol version is not an integer or out of range"));
                }
                _ => return Err(Refusal::of_kind("NOPROTO", "unsupported protocol version")),
            };
        }
        // Of many passwords only the last one is looked at.
        let (mut password, mut name) = (None, None);
        while let Some(option) = words.rest().first() {
            let values = words.len() - 1;
            if values >= 2 && words.takes("AUTH") {
                let (_user, last) = (words.next()?, words.next()?);
                password = Some(last);
            } else if values >= 1 && words.takes("SETNAME") {
                name = Some(words.next()?);
            } else {
                let option = repeated(option);
                return Err(Refusal::error(format_args!("Syntax error in HELLO option '{option}'")));
            }
        }
        password.map_or(Ok(()), |password| self.admit(password))?;
        name.map_or(Ok(()), |name| self.set_name(name))?;
        self.about.version = version;
        let number = if version == Version::Two { 2 } else { 3 };
        let named = |name, value| (Reply::fixed(name), value);
        Ok(Reply::Map(vec![
            named("server", Reply::fixed("redis")),
            named("version", Reply::fixed(REDIS_VERSION)),
            named("proto", Reply::Integer(number)),
            named("id", Reply::Integer(self.place.client.id)),
            named("mode", Reply::fixed("standalone")),
            named("role", Reply::fixed("master")),
            named("modules", Reply::List(Vec::new())),
        ]))
    }

    fn auth(&mut self, words: &[Bytes]) -> CommandResult<Reply> {
        match words {
            [password] | [_, password] => self.admit(password).map(|()| Reply::OK),
            _ => Err(Refusal::syntax()),
        }
    }

    fn admit(&mut self, password: &Bytes) -> CommandResult<()> {
        let wrong = |WrongPassword| Refusal::of_kind("WRONGPASS", "the password is no access token of this server");
        self.door.access.rights(Some(password)).map_err(wrong)?;
        // Copies here and below: a word keeps the whole buffer in which it arrived.
        self.about.password = Some(Bytes::copy_from_slice(password));
        self.about.user = self.door.access.user(password).map(Arc::from);
        Ok(())
    }

    fn set_name(&mut self, name: &Bytes) -> CommandResult<()> {
        if name.len() > NAME_BYTES_MAX || !name.iter().all(u8::is_ascii_graphic) {
            let why = "Client names cannot contain spaces, newlines or special characters.";
            return Err(Refusal::error(why));
        }
        self.about.name = Bytes::copy_from_slice(name);
        Ok(())
    }

    async fn client(&mut self, words: &[Bytes], deadline: Deadline) -> CommandResult<Reply> {
        let (what, words) = parts(words)?;
        match what.to_ascii_lowercase().as_slice() {
            b"setname" => self.set_name(first(words)?).map(|()| Reply::OK),
            b"getname" => Ok(Reply::bytes_or_nothing(Some(self.about.name.clone()).filter(|name| !name.is_empty()))),
            b"setinfo" => self.set_info(words),
            b"id" => Ok(Reply::Integer(self.place.client.id)),
            b"info" => Ok(Reply::Text(self.place.client.line(self.door.records.now()))),
            b"list" => self.list(Words::new("client|list", words), deadline).await,
            b"kill" => self.kill(words).await,
            b"no-evict" | b"no-touch" => on_or_off(words),
            _ => Err(unknown_subcommand("client", what)),
        }
    }

    fn set_info(&mut self, words: &[Bytes]) -> CommandResult<Reply> {
        let [what, value] = words else { return Err(Refusal::syntax()) };
        if value.len() > NAME_BYTES_MAX || !value.iter().all(u8::is_ascii_graphic) {
            return Err(Refusal::error("the value cannot contain spaces, newlines or special characters"));
        }
        match what.to_ascii_lowercase().as_slice() {
            b"lib-name" => self.about.library.0 = Bytes::copy_from_slice(value),
            b"lib-ver" => self.about.library.1 = Bytes::copy_from_slice(value),
            _ => return Err(Refusal::error("Unrecognized option")),
        }
        Ok(Reply::OK)
    }

    /// `CLIENT LIST [TYPE kind | ID id …]`: a line for each connection that the client may know of. It
    /// takes the memory for all of them before it makes the first.
    async fn list(&self, words: Words<'_>, deadline: Deadline) -> CommandResult<Reply> {
        self.require(false)?;
        let (own, now) = (&self.place.client, self.door.records.now());
        let filter = Filter::of_list(words)?;
        // What it says of itself is in the list at once.
        own.set_about(&self.about);
        let _place = self.door.admission.places(1, deadline).await?;
        let (clients, is_operator) = (&self.door.clients, self.rights().operate);
        let (mut bytes, mut held) = (0, None);
        let mut take = |bytes| {
            let refusal = |_| Refusal::overloaded("there is no memory for the list of connections now");
            self.door.memory.hold(&own.party, &mut held, bytes).map_err(refusal)
        };
        let count = |client: &Client| {
            bytes += if filter.has(client, own.id, now) { client.line_bytes() } else { 0 };
            Ok(())
        };
        clients.for_each_known(own, is_operator, count).await?;
        take(bytes)?;
        let mut text = String::with_capacity(bytes);
        let add = |client: &Client| {
            if filter.has(client, own.id, now) {
                let line = client.line(now);
                // It may have become longer meanwhile.
                take(text.len() + line.len())?;
                text.push_str(&line);
            }
            Ok(())
        };
        clients.for_each_known(own, is_operator, add).await?;
        Ok(Reply::Text(text))
    }

    /// `CLIENT KILL address:port`, or with filters: ends connections that the client may know of.
    async fn kill(&mut self, words: &[Bytes]) -> CommandResult<Reply> {
        self.require(false)?;
        let (is_by_address, filter) = match words {
            [] => return Err(Refusal::syntax()),
            [peer] => (true, Filter::of_address(peer)),
            _ => (false, Filter::of_kill(Words::new("client|kill", words))?),
        };
        let (own, now) = (&self.place.client, self.door.records.now());
        let (mut count, mut is_own) = (0, false);
        let kill = |client: &Client| {
            if filter.has(client, own.id, now) {
                count += 1;
                // Its own connection ends after the answer.
                if client.id == own.id {
                    is_own = true;
                } else {
                    client.killed.cancel();
                }
            }
            Ok(())
        };
        self.door.clients.for_each_known(own, self.rights().operate, kill).await?;
        self.is_over |= is_own;
        match (is_by_address, count) {
            (true, 0) => Err(Refusal::error("No such client")),
            (true, _) => Ok(Reply::OK),
            (false, count) => Ok(Reply::Integer(count)),
        }
    }

    /// `CONFIG GET` of what benchmarks and clients ask for. Nothing can be set.
    fn config(&self, words: &[Bytes]) -> CommandResult<Reply> {
        let (what, patterns) = parts(words)?;
        if !what.eq_ignore_ascii_case(b"get") {
            return Err(unknown_subcommand("config", what));
        }
        if patterns.len() > CONFIG_PATTERNS_MAX {
            let count = patterns.len();
            let why = format_args!("CONFIG GET takes at most {CONFIG_PATTERNS_MAX} patterns, not {count}");
            return Err(Refusal::error(why));
        }
        let fsync = if self.door.records.sync_delay().is_zero() { "always" } else { "everysec" };
        let settings = [("save", ""), ("appendonly", "yes"), ("appendfsync", fsync), ("maxmemory", "0")];
        let mut wanted = settings.map(|_| false);
        // One after the other: each takes much memory while it is used.
        for pattern in patterns {
            let pattern = Pattern::new(&pattern.to_ascii_lowercase())?;
            for (wanted, (name, _)) in wanted.iter_mut().zip(settings) {
                *wanted |= pattern.matches(name.as_bytes());
            }
        }
        let found = settings.into_iter().zip(wanted).filter(|(_, is_wanted)| *is_wanted);
        Ok(Reply::Map(found.map(|((name, value), _)| (Reply::fixed(name), Reply::fixed(value))).collect()))
    }

    /// `PENATES.DEADLINE <ms>`: the time that each further command of this connection may take.
    fn set_deadline(&mut self, words: &[Bytes]) -> CommandResult<Reply> {
        let number = records::integer(first(words)?).map_err(|_| Refusal::not_an_integer())?;
        let time = u64::try_from(number).ok().filter(|number| *number > 0).map(Duration::from_millis);
        let max = self.door.settings.deadline_max;
        let time = time.filter(|time| *time <= max);
        let refusal = || Refusal::error(format_args!("the deadline is 1 to {} milliseconds", max.as_millis()));
        self.time_limit = time.ok_or_else(refusal)?;
        Ok(Reply::OK)
    }
}

/// `PING [text]`. It counts its words itself, as in Redis.
fn ping(words: &[Bytes]) -> CommandResult<Reply> {
    match words {
        [] => Ok(Reply::Word("PONG")),
        [word] => Ok(Reply::Bytes(word.clone())),
        _ => Err(Refusal::arity("ping")),
    }
}

/// `SELECT 0`: there is one set of records.
fn select(words: &[Bytes]) -> CommandResult<Reply> {
    let number = records::integer(first(words)?).map_err(|_| Refusal::not_an_integer())?;
    match i32::try_from(number) {
        Ok(0) => Ok(Reply::OK),
        Ok(_) => Err(Refusal::error("DB index is out of range")),
        Err(_) => {
            let (least, most) = (i32::MIN, i32::MAX);
            let why = format_args!("value is out of range, value must between {least} and {most}");
            Err(Refusal::error(why))
        }
    }
}

/// `INFO [section …]`: what clients look at. As in Redis, a section that is not known adds nothing.
fn info(words: &[Bytes]) -> Reply {
    let server = format!(
        "# Server\r\nredis_version:{REDIS_VERSION}\r\nserver_name:penates\r\nredis_mode:standalone\r\n\
         process_id:{}\r\n",
        std::process::id()
    );
    let sections = [
        ("server", server.as_str()),
        ("persistence", "# Persistence\r\nloading:0\r\n"),
        ("replication", "# Replication\r\nrole:master\r\n"),
    ];
    let is_wanted = |name: &str| {
        let is_asked_for = |word: &Bytes| {
            [name, "default", "all", "everything"].iter().any(|known| word.eq_ignore_ascii_case(known.as_bytes()))
        };
        words.is_empty() || words.iter().any(is_asked_for)
    };
    let wanted: Vec<&str> = sections.into_iter().filter_map(|(name, text)| is_wanted(name).then_some(text)).collect();
    Reply::Text(wanted.join("\r\n"))
}

/// `WAIT replicas milliseconds`: each write is acknowledged when it is durable, and there is no replica
/// to wait for.
fn wait(words: &[Bytes]) -> CommandResult<Reply> {
    let [replicas, time] = words else { return Err(Refusal::syntax()) };
    records::integer(replicas).map_err(|_| Refusal::not_an_integer())?;
    match records::integer(time) {
        Ok(0..) => Ok(Reply::Integer(0)),
        Ok(_) => Err(Refusal::error("timeout is negative")),
        Err(_) => Err(Refusal::error("timeout is not an integer or out of range")),
    }
}

/// `CLIENT NO-EVICT` and `CLIENT NO-TOUCH`: nothing is evicted, so there is nothing to switch.
fn on_or_off(words: &[Bytes]) -> CommandResult<Reply> {
    match first(words)?.to_ascii_lowercase().as_slice() {
        b"on" | b"off" => Ok(Reply::OK),
        _ => Err(Refusal::syntax()),
    }
}

pub(crate) fn unknown_subcommand(command: &str, what: &[u8]) -> Refusal {
    let what = repeated(what);
    Refusal::error(format_args!("unknown subcommand '{what}'. Try {} HELP.", command.to_uppercase()))
}

/// The part of a word that an error repeats.
fn repeated(word: &[u8]) -> String {
    String::from_utf8_lossy(&word[..word.len().min(REPEATED_BYTES_MAX)]).replace(['\r', '\n'], " ")
}

/// The first word of a command that has one.
fn first(words: &[Bytes]) -> CommandResult<&Bytes> {
    parts(words).map(|(first, _)| first)
}

/// The first word of a command that has one, and those behind it.
fn parts(words: &[Bytes]) -> CommandResult<(&Bytes, &[Bytes])> {
    words.split_first().ok_or_else(Refusal::syntax)
}
