//! What clients may do, and how much of it.

use std::net::IpAddr;
use std::time::Duration;

use budget::Party;

use crate::error::Refusal;

/// What a client may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rights {
    /// It may read records.
    pub read: bool,
    /// It may change records.
    pub write: bool,
    /// It may see and end the connections of others.
    pub operate: bool,
}

/// Decides what clients may do, and how much of it. The door asks for each command, so the answers
/// must be fast.
pub trait Access: Send + Sync + 'static {
    /// The rights of a client that sent a password; `None`: it sent none. A wrong password is
    /// `Err`.
    fn rights(&self, password: Option<&[u8]>) -> Result<Rights, WrongPassword>;

    /// The name that lists of connections show for clients with this password; `None`: it is wrong,
    /// or has no name.
    fn user(&self, password: &[u8]) -> Option<String>;

    /// The time within which a connection has to send its first request as a client that may do
    /// anything. It ends otherwise.
    fn greeting_max(&self) -> Duration {
        Duration::MAX
    }

    /// How fast a request that has begun has to arrive. Its connection ends otherwise.
    fn request_pace(&self) -> RequestPace {
        RequestPace { pause: Duration::MAX, least_bytes: 0 }
    }

    /// Counts a command of a party. `Err`: it may make none now.
    fn count(&self, party: &Party) -> Result<(), Exceeded>;

    /// Counts bytes of answers that a party gets.
    fn sent(&self, party: &Party, bytes: u64);

    /// Learns of a command that was refused because of who sent it, or how many there were.
    fn refused(&self, refused: &Refused<'_>);
}

/// How fast a request has to arrive. Only the time counts in which the door waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestPace {
    /// The longest pause.
    pub pause: Duration,
    /// Bytes that must arrive within each `pause` of waiting.
    pub least_bytes: u64,
}

/// The password is no token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrongPassword;

/// A party has done all that it may do for now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exceeded {
    /// What it may do, in words that follow "this client".
    pub limit: String,
    /// Whether that is how many bytes it may get, and not how many commands it may make.
    pub is_of_bytes: bool,
    /// After how long it may try again.
    pub wait: Duration,
}

/// A command that was refused.
#[derive(Clone, Copy, Debug)]
pub struct Refused<'a> {
    /// The name of the client's token, if it sent one.
    pub user: Option<&'a str>,
    /// The client's address, if it came over a network.
    pub address: Option<IpAddr>,
    /// The client's library, as it calls itself.
    pub library: &'a [u8],
    /// The name of the command, as the client wrote it.
    pub command: &'a [u8],
    /// Why.
    pub why: Why,
}

/// Why a command is refused because of its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The client did not say who it is, or sent a wrong password.
    Unknown,
    /// It may not do that.
    Forbidden,
    /// It has done all that it may do for now.
    Exceeded,
}

/// The kind of refusals for now.
const LIMIT: &str = "LIMIT";

impl From<Exceeded> for Refusal {
    fn from(Exceeded { limit, wait, .. }: Exceeded) -> Self {
        let wait_ms = wait.as_millis().max(1);
        Self::of_kind(LIMIT, format_args!("this client {limit}; try again in {wait_ms} ms; nothing was changed"))
    }
}

impl Refusal {
    /// Why, if it is because of the client.
    pub(crate) fn of_client(&self) -> Option<Why> {
        match self.text().split_once(' ')?.0 {
            "NOAUTH" | "WRONGPASS" => Some(Why::Unknown),
            "NOPERM" => Some(Why::Forbidden),
            LIMIT => Some(Why::Exceeded),
            _ => None,
        }
    }
}

/// Whether a command is refused if its client has exceeded a limit. Those that say who the client
/// is are not, nor those that end its connection, nor those around a transaction: its commands are
/// counted, and without `MULTI` they would run one by one.
pub(crate) fn is_refused(name: &[u8], exceeded: &Exceeded) -> bool {
    let is = |known: &[u8]| known.eq_ignore_ascii_case(name);
    let exempt: [&[u8]; 8] = [b"auth", b"hello", b"reset", b"quit", b"multi", b"discard", b"unwatch", b"exec"];
    !exempt.into_iter().any(is) || is(b"exec") && exceeded.is_of_bytes
}
