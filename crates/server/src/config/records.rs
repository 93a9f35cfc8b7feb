//! `[records]`

use std::net::SocketAddr;
use std::time::Duration;

use documented::DocumentedFields;
use door_records::RequestLimits;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::text;

const _: () = assert!(::records::ROWS_BYTES_MAX as u64 == library::bounds::FAST_RECORD_BYTES_MAX);
const _: () = assert!(::records::UNSEEN_BYTES_MAX == library::bounds::FAST_RECORD_UNSEEN_BYTES);

/// `[records]`
#[derive(Clone, Debug, PartialEq, Eq, DocumentedFields, Serialize, Deserialize)]
#[serde(default)]
pub struct RecordsConfig {
    /// Address of the Redis protocol, such as `127.0.0.1:6379`, or `off`.
    #[serde(with = "text::address")]
    pub listen: Option<SocketAddr>,
    /// Whether the server goes on without that port if another program has it. It is no setting.
    #[serde(skip)]
    pub gives_way: bool,
    /// Whether that address speaks TLS, with the certificate of HTTPS (`listen.tls_cert`).
    pub tls: bool,
    /// Whether connections to that address begin with the PROXY protocol.
    pub proxy_protocol: bool,
    /// How records change: `atomic`, or on Cassandra `fast`: the last write of an attribute wins
    /// ([Mode fast](records.md#mode-fast)).
    pub mode: ::records::Mode,
    /// What an acknowledged change survives: `sync` (a power failure), or `every` and a time from
    /// 1ms to 10s ([Durability](records.md#durability)).
    pub durability: RecordsDurability,
    /// What is read after a start, before `/readyz` says yes: `off` (nothing), `hottest` (what was
    /// asked for most), or `all` ([After a restart](records.md#after-a-restart)).
    pub warm: Warm,
    /// The longest time that this may take.
    #[serde(with = "humantime_serde")]
    pub warm_max: Duration,
    /// How long a command may take, unless its connection asks for another time
    /// (`PENATES.DEADLINE`).
    #[serde(with = "humantime_serde")]
    pub deadline: Duration,
    /// The longest time that a connection may ask for.
    #[serde(with = "humantime_serde")]
    pub deadline_max: Duration,
    /// How long a client may be silent between commands.
    #[serde(with = "humantime_serde")]
    pub silence_max: Duration,
    /// Bytes of one request; also what one connection may make the server hold.
    #[serde(with = "text::size")]
    pub request_max: u64,
}

impl Default for RecordsConfig {
    fn default() -> Self {
        Self {
            listen: None,
            gives_way: false,
            tls: false,
            proxy_protocol: false,
            mode: ::records::Mode::Atomic,
            durability: RecordsDurability::Sync,
            warm: Warm::Off,
            warm_max: Duration::from_secs(60),
            deadline: Duration::from_secs(1),
            deadline_max: Duration::from_secs(60),
            silence_max: Duration::from_secs(3_600),
            request_max: 1 << 20,
        }
    }
}

impl RecordsConfig {
    /// The limits of one request.
    pub(crate) fn request_limits(&self) -> RequestLimits {
        RequestLimits { bytes: usize::try_from(self.request_max).unwrap_or(usize::MAX) }
    }
}

const SYNC: &str = "sync";
const EVERY: &str = "every ";

/// The shortest and the longest time between syncs.
const EVERY_MIN: Duration = Duration::from_millis(1);
const EVERY_MAX: Duration = Duration::from_secs(10);

/// What an acknowledged change of a record survives: `sync` or `every 10ms`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RecordsDurability {
    /// A power failure.
    #[default]
    Sync,
    /// The death of the process, and a power failure so much later.
    Every(Duration),
}

impl RecordsDurability {
    /// How long a change may wait for its sync.
    pub fn sync_delay(self) -> Duration {
        match self {
            Self::Sync => Duration::ZERO,
            Self::Every(time) => time,
        }
    }
}

/// What a server reads after a start, before it is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Warm {
    /// Nothing.
    Off,
    /// The records that were asked for most before.
    Hottest,
    /// All records.
    All,
}

impl Serialize for RecordsDurability {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Sync => serializer.serialize_str(SYNC),
            Self::Every(time) => serializer.collect_str(&format_args!("{EVERY}{}", humantime::format_duration(*time))),
        }
    }
}

impl<'de> Deserialize<'de> for RecordsDurability {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text == SYNC {
            return Ok(Self::Sync);
        }
        let time = text.strip_prefix(EVERY).and_then(|time| humantime::parse_duration(time).ok());
        let time = time.filter(|time| (EVERY_MIN..=EVERY_MAX).contains(time));
        let refused = || Error::custom(format!("`{text}`: write `sync`, or `every` and a time from 1ms to 10s"));
        time.map(Self::Every).ok_or_else(refused)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_durability_is_read_as_it_is_written() {
        let every = |ms| RecordsDurability::Every(Duration::from_millis(ms));
        for (text, durability) in [
            ("\"sync\"", RecordsDurability::Sync),
            ("\"every 1ms\"", every(1)),
            ("\"every 10ms\"", every(10)),
            ("\"every 1s 500ms\"", every(1_500)),
            ("\"every 10s\"", every(10_000)),
        ] {
            assert_eq!(serde_json::from_str::<RecordsDurability>(text).unwrap(), durability);
            assert_eq!(serde_json::to_string(&durability).unwrap(), text);
        }
        for wrong in ["\"\"", "\"every\"", "\"every 0ms\"", "\"every 11s\"", "\"10ms\"", "\"never\""] {
            let refused = serde_json::from_str::<RecordsDurability>(wrong).unwrap_err().to_string();
            assert!(refused.contains("write `sync`, or `every` and a time from 1ms to 10s"), "{refused}");
        }
    }
}
