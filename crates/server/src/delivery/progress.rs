//! How far a receiver is: what servers store of it, and by which they share the work. The server that
//! delivers has a lease; every change is a compare-and-write.

use std::time::Duration;

use bytes::Bytes;
use feed::Cursor;
use heads::guarded::Known;
use heads::{ObjectsResult, keys};
use serde::{Deserialize, Serialize};
use store::{Expect, Stored, Table, UnixMillis, ValueKind};

use super::Deliveries;

/// How long a server that saves nothing keeps a receiver. A round of sending is shorter.
pub(crate) const LEASE: Duration = Duration::from_secs(60);

/// Most characters of a reason that is stored.
const REASON_CHARS_MAX: usize = 200;

const _: () = assert!(REASON_CHARS_MAX == library::bounds::WEBHOOK_REASON_CHARS);

/// How far a receiver is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Progress {
    /// Everything up to here was delivered, or is not for this receiver.
    pub(crate) cursor: Cursor,
    /// The server that delivers: a number that it drew when it started.
    pub(crate) server: [u8; 16],
    /// When the others may count it as dead.
    pub(crate) leased_until: UnixMillis,
    /// When the last event was delivered.
    pub(crate) delivered: Option<UnixMillis>,
    /// The event that was not accepted, and is tried again.
    pub(crate) failing: Option<Failing>,
    /// An event that an operator wants to be left out.
    pub(crate) skipped: Option<Cursor>,
    /// Since when, and why, nothing is sent until an operator resumes.
    pub(crate) parked: Option<Parked>,
}

/// An event that was not accepted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Failing {
    /// Its cursor.
    pub(crate) event: Cursor,
    /// When it happened.
    pub(crate) at: UnixMillis,
    /// How often it was sent.
    pub(crate) tries: u32,
    /// When it is sent again.
    pub(crate) next_try: UnixMillis,
    /// Why it was not accepted the last time.
    pub(crate) why: String,
}

/// That nothing is sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Parked {
    /// Since when.
    pub(crate) since: UnixMillis,
    /// Why.
    pub(crate) why: String,
}

impl Stored for Progress {
    const KIND: ValueKind = ValueKind::Webhook;
}

/// A reason, as much of it as is stored.
pub(crate) fn shortened(reason: &str) -> String {
    reason.chars().take(REASON_CHARS_MAX).collect()
}

impl Progress {
    /// That of a receiver that begins behind a cursor.
    pub(crate) fn behind(cursor: Cursor) -> Self {
        let (server, leased_until) = ([0; 16], UnixMillis(0));
        Self { cursor, server, leased_until, delivered: None, failing: None, skipped: None, parked: None }
    }

    /// The same, and nothing more is sent.
    pub(crate) fn parked(self, since: UnixMillis, why: &str) -> Self {
        Self { leased_until: UnixMillis(0), parked: Some(Parked { since, why: shortened(why) }), ..self }
    }
}

impl Deliveries {
    /// Reads how far a receiver is.
    pub(crate) async fn read(&self, name: &str) -> ObjectsResult<Known<Progress>> {
        let heads = &self.library.heads;
        let row = heads.guarded_rows(Table::Work, keys::webhooks(), vec![self.row(name)]).await?.pop().flatten();
        Known::of(Table::Work, row)
    }

    /// Writes how far a receiver is; `None`: another server has changed it.
    pub(crate) async fn write(&self, name: &str, progress: &Progress, expect: Expect) -> ObjectsResult<Option<Expect>> {
        self.library.heads.write_guarded(Table::Work, keys::webhooks(), self.row(name), progress, expect).await
    }

    fn row(&self, name: &str) -> Bytes {
        Bytes::from(format!("{}{name}", self.kind.row_prefix))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use store::stored;

    use super::*;

    /// A change of these bytes is a change of the stored format.
    #[test]
    fn the_bytes_of_stored_values_do_not_change() {
        let cursor = |digits: &str| Cursor::parse(&digits.repeat(16)).unwrap();
        let begun = Progress::behind(cursor("01"));
        let failing =
            Failing { event: cursor("03"), at: UnixMillis(4), tries: 5, next_try: UnixMillis(6), why: "no".to_owned() };
        let full = Progress {
            server: [2; 16],
            leased_until: UnixMillis(7),
            delivered: Some(UnixMillis(8)),
            failing: Some(failing),
            skipped: Some(cursor("09")),
            parked: Some(Parked { since: UnixMillis(10), why: "why".to_owned() }),
            ..begun.clone()
        };
        let payload = |value: Vec<u8>| value.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let sixteen = |digits: &str| digits.repeat(16);
        assert_eq!(
            payload(stored::encode(&begun).unwrap()),
            [sixteen("01"), sixteen("00"), "0000000000".to_owned()].concat()
        );
        let (failing, parked) = (format!("01{}0405 06026e6f", sixteen("03")), "010a03776879");
        let expected = [&sixteen("01"), &sixteen("02"), "070108", &failing, "01", &sixteen("09"), parked]
            .concat()
            .replace(' ', "");
        assert_eq!(payload(stored::encode(&full).unwrap()), expected);
        assert_eq!(stored::open::<Progress>(&stored::seal(&full).unwrap()).unwrap(), full);
    }

    #[test]
    fn a_reason_is_stored_up_to_a_bound() {
        let parked = Progress::behind(Cursor::BEGINNING).parked(UnixMillis(1), &"ü".repeat(1_000));
        assert_eq!(parked.parked.unwrap().why.chars().count(), REASON_CHARS_MAX);
    }
}
