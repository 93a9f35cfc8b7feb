//! How far a receiver is: what servers store of it, and by which they share the work. The server that
//! delivers has a lease; every change is a compare-and-write.

use std::time::Duration;

use bytes::Bytes;
use door_http::Reason;
use feed::Cursor;
use heads::guarded::Known;
use heads::{ObjectsError, ObjectsResult, keys};
use library::bounds::WEBHOOKS_KEPT_MAX;
use serde::{Deserialize, Serialize};
use store::{Class, Expect, Scan, Stored, Table, UnixMillis, ValueKind};

use super::Deliveries;
use crate::feed::Refused;

/// How long a server that saves nothing keeps a receiver. A round of sending is shorter.
pub(crate) const LEASE: Duration = Duration::from_secs(60);

/// Bytes of one page of a scan over all receivers.
const SCAN_BYTES: usize = 64 << 10;

/// Most characters of a reason that is stored.
const REASON_CHARS_MAX: usize = 200;

const _: () = assert!(REASON_CHARS_MAX == library::bounds::WEBHOOK_REASON_CHARS);

/// The most events that wait to be left out.
pub(crate) const SKIPPED_MAX: usize = library::bounds::WEBHOOK_SKIPPED;

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
    /// Events that an operator wants to be left out, and that are not passed yet: one before them was
    /// not accepted so far.
    pub(crate) skipped: Vec<Cursor>,
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
        Self { cursor, server, leased_until, delivered: None, failing: None, skipped: Vec::new(), parked: None }
    }

    /// The same, and nothing more is sent.
    pub(crate) fn parked(self, since: UnixMillis, why: &str) -> Self {
        Self { leased_until: UnixMillis(0), parked: Some(Parked { since, why: shortened(why) }), ..self }
    }

    /// The same, and the event that fails is left out too.
    pub(crate) fn skip(mut self) -> Result<Self, Refused> {
        let Some(failing) = self.failing.take() else {
            return Err(Refused(Reason::CONFLICT, "no event is failing that could be skipped".to_owned()));
        };
        if !self.skipped.contains(&failing.event) {
            self.skipped.push(failing.event);
        }
        if self.skipped.len() > SKIPPED_MAX {
            let detail = format!(
                "{SKIPPED_MAX} events are skipped already behind one that was not accepted; go on by `from` behind them"
            );
            return Err(Refused(Reason::CONFLICT, detail));
        }
        Ok(self)
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
    ///
    /// Errors: [`ObjectsError::OverLimit`] for a new one if as many are remembered as may be.
    pub(crate) async fn write(&self, name: &str, progress: &Progress, expect: Expect) -> ObjectsResult<Option<Expect>> {
        if expect == Expect::Absent {
            self.check_room(name).await?;
        }
        self.library.heads.write_guarded(Table::Work, keys::webhooks(), self.row(name), progress, expect).await
    }

    /// Refuses a receiver that has no row yet if there are as many as may be: they are kept for ever,
    /// so that a receiver that is configured again goes on where it was.
    async fn check_room(&self, name: &str) -> ObjectsResult<()> {
        let (heads, partition) = (&self.library.heads, keys::webhooks());
        let (mut kept, mut scan) = (0, Some(Scan::prefix(Bytes::new(), SCAN_BYTES)));
        while let Some(range) = scan {
            let read = || async {
                let call = heads.call(Class::Description).strong();
                Ok(heads.store().scan(call, Table::Work, &partition, range.clone()).await?)
            };
            let page = heads.retry_transient(read).await?;
            kept += page.rows.len() as u64;
            scan = range.resumed(page.next);
        }
        if kept < WEBHOOKS_KEPT_MAX {
            return Ok(());
        }
        let word = self.kind.word;
        Err(ObjectsError::OverLimit(format!(
            "the {word} `{name}` is new, and the store remembers {kept} webhooks and bridges of other names: configure \
             it by the name of one that is not used any more, and resume it from a cursor or a time"
        )))
    }

    fn row(&self, name: &str) -> Bytes {
        Bytes::from(format!("{}{name}", self.kind.row_prefix))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use store::{envelope, stored};

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
            skipped: vec![cursor("09")],
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
        let sealed = |progress: &Progress| stored::seal(progress).unwrap();
        let bytes = stored::encode(&full).unwrap();
        assert_eq!(sealed(&full), envelope::seal(ValueKind::Webhook, &bytes));
        assert_eq!(stored::open::<Progress>(&sealed(&full)).unwrap(), full);

        let several = Progress { skipped: vec![cursor("09"), cursor("0b")], ..full };
        let skipped = [sixteen("09"), sixteen("0b")].concat();
        let expected = expected.replace(&format!("01{}", sixteen("09")), &format!("02{skipped}"));
        let bytes = stored::encode(&several).unwrap();
        assert_eq!(payload(bytes.clone()), expected);
        assert_eq!(sealed(&several), envelope::seal(ValueKind::Webhook, &bytes));
        assert_eq!(stored::open::<Progress>(&sealed(&several)).unwrap(), several);
    }

    #[test]
    fn several_events_are_skipped_and_so_many_are_at_most() {
        let failing = |progress: Progress, n: usize| {
            let event = Cursor::before(UnixMillis(1_000 + n as u64));
            let why = "no".to_owned();
            let failing = Failing { event, at: UnixMillis(1), tries: 1, next_try: UnixMillis(2), why };
            Progress { failing: Some(failing), ..progress }
        };
        let skip = |progress: Progress, n| failing(progress, n).skip();
        let refused = |skipped: Result<Progress, Refused>| skipped.map_err(|Refused(reason, why)| (reason, why)).err();
        let begun = Progress::behind(Cursor::BEGINNING);
        let (reason, _) = refused(begun.clone().skip()).unwrap();
        assert_eq!(reason, Reason::CONFLICT, "nothing is failing");

        let one = skip(begun, 1).unwrap_or_else(|Refused(_, why)| panic!("{why}"));
        assert_eq!((one.skipped.len(), &one.failing), (1, &None));
        let again = skip(one.clone(), 1).unwrap_or_else(|Refused(_, why)| panic!("{why}"));
        assert_eq!(again.skipped, one.skipped);

        let many = (2..=SKIPPED_MAX)
            .fold(one, |progress, n| skip(progress, n).unwrap_or_else(|Refused(_, why)| panic!("{why}")));
        assert_eq!(many.skipped.len(), SKIPPED_MAX);
        let (reason, why) = refused(skip(many, SKIPPED_MAX + 1)).unwrap();
        assert!(reason == Reason::CONFLICT && why.contains("`from`"), "{why}");
    }

    #[test]
    fn a_reason_is_stored_up_to_a_bound() {
        let parked = Progress::behind(Cursor::BEGINNING).parked(UnixMillis(1), &"ü".repeat(1_000));
        assert_eq!(parked.parked.unwrap().why.chars().count(), REASON_CHARS_MAX);
    }
}
