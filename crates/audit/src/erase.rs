//! Erases a person from past records: who did something becomes unknown, and what was done stays.

use std::net::IpAddr;

use bytes::Bytes;
use heads::error::{ObjectsError, ObjectsResult};
use heads::head;
use store::{Class, NewRow, Outcome, Scan, Step, Table, UnixMillis, boxed};

use crate::event::{Actor, Event, EventKind, EventRecord, EventResult};
use crate::handle::Audit;
use crate::keys::{self, Part};
use crate::record::{AuditEntry, AuditRecord, DamagedRecord, Requester};

/// What is stored in place of a name. No token can have this name.
pub const ERASED: &str = "(erased)";

/// Bytes of records that are read at once.
const SCAN_BYTES: usize = 1 << 20;

/// The paths under which tokens are made and revoked: their names are in the targets of events.
const TOKENS: &str = "/admin/tokens/";

/// Whose traces are erased.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whom {
    /// The holder of a token: its name, with the addresses and programs it was used from.
    Token(String),
    /// Whoever came from an address: the address, and the program. Names of tokens stay.
    Address(IpAddr),
    /// A user of this machine: its name, with the programs it used.
    User(String),
}

/// What was erased.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Erased {
    /// Records that were replaced because they named the person.
    pub records: u64,
    /// Records that cannot be read. Nobody knows whom they name.
    pub damaged: u64,
    /// Records before this time were read. Later ones are left as they are.
    pub until: UnixMillis,
}

impl Audit {
    /// Replaces the records before a time that name a person. It may be interrupted, and repeated:
    /// a record that was replaced names nobody any more.
    ///
    /// Records that cannot be read are replaced by ones that name nobody if `with_damaged`, and
    /// left otherwise.
    ///
    /// Servers that share a store replace rows by their clocks, and others may still write a record.
    /// So records are left that are too young for both: clocks may differ (`clock_skew_max`), and a
    /// record may wait (`audit_max_lag`), and is then on its way.
    #[boxed]
    pub async fn erase(&self, whom: &Whom, before: UnixMillis, with_damaged: bool) -> ObjectsResult<Erased> {
        let until = before.min(self.before_now(self.others_behind()));
        // Records that this server has not written yet, or will write again. Those that begin from
        // now on are not before `until`.
        self.auditor().finish().await;
        let mut erased = Erased { records: 0, damaged: 0, until };
        for part in self.parts(UnixMillis(0), until).await? {
            self.erase_in(&part, whom, with_damaged, &mut erased).await?;
        }
        Ok(erased)
    }

    async fn erase_in(&self, part: &Part, whom: &Whom, with_damaged: bool, all: &mut Erased) -> ObjectsResult<()> {
        let until = all.until;
        let partition = part.partition();
        let whole = Scan::prefix(Bytes::new(), SCAN_BYTES);
        let mut next = Some(Scan { to: Some(keys::sort_from(until)), ..whole });
        while let Some(scan) = next {
            let call = self.heads.call(Class::Audit);
            let page = self.heads.store().scan(call, Table::Audit, &partition, scan.clone()).await?;
            let mut rows = Vec::new();
            for row in &page.rows {
                let entry = AuditEntry::of(row);
                let is_damaged = matches!(entry, AuditEntry::Damaged(_));
                all.damaged += u64::from(is_damaged);
                let Some(value) = erased(entry, whom)? else { continue };
                if !is_damaged || with_damaged {
                    rows.push(NewRow::new(row.sort.clone(), value));
                    all.records += u64::from(!is_damaged);
                }
            }
            if !rows.is_empty() {
                self.replace(Step::Put { table: Table::Audit, partition: partition.clone(), rows }).await?;
            }
            next = scan.resumed(page.next);
        }
        Ok(())
    }

    async fn replace(&self, step: Step) -> ObjectsResult<()> {
        match self.heads.store().run(self.heads.call(Class::Audit), vec![step]).await? {
            Outcome::Applied => Ok(()),
            Outcome::Unknown { reason } => Err(ObjectsError::Unknown(reason)),
            Outcome::Refused { .. } => Err(ObjectsError::Internal("a plain put was refused".to_owned())),
        }
    }
}

/// The value without the person; `None`: it does not name that person. One that cannot be read may.
fn erased(entry: AuditEntry, whom: &Whom) -> ObjectsResult<Option<Bytes>> {
    let value = match entry {
        AuditEntry::Record(record) => erased_record(record, whom).map(|record| head::seal(&record)),
        AuditEntry::Event(record) => erased_event(record, whom).map(|record| head::seal(&record)),
        AuditEntry::Damaged(DamagedRecord { at, .. }) => {
            let event = Event::of(EventKind::Change, "(damaged)", ERASED, EventResult::Unknown);
            Some(head::seal(&EventRecord { at, event }))
        }
    };
    value.transpose()
}

fn erased_record(record: AuditRecord, whom: &Whom) -> Option<AuditRecord> {
    let Requester { name, address, request_id } = record.requester.clone();
    let requester = match whom {
        Whom::Token(token) if name.as_ref() == Some(token) => {
            Requester { name: Some(ERASED.to_owned()), address: None, request_id }
        }
        Whom::Address(from) if address == Some(*from) => {
            Requester { name: name.or_else(|| Some(ERASED.to_owned())), address: None, request_id }
        }
        _ => return None,
    };
    Some(AuditRecord { requester, ..record })
}

fn erased_event(mut record: EventRecord, whom: &Whom) -> Option<EventRecord> {
    let Actor { token, user, address, .. } = &record.event.actor;
    let erased = Some(ERASED.to_owned());
    let actor = match whom {
        Whom::Token(name) if token.as_ref() == Some(name) => {
            Some(Actor { token: erased, user: user.clone(), ..Actor::default() })
        }
        Whom::Address(from) if address == &Some(*from) => {
            Some(Actor { token: token.clone().or(erased), user: user.clone(), ..Actor::default() })
        }
        Whom::User(name) if user.as_ref() == Some(name) => {
            Some(Actor { token: token.clone(), user: erased, address: *address, agent: None })
        }
        _ => None,
    };
    let is_named = match whom {
        Whom::Token(name) => record.event.target.strip_prefix(TOKENS) == Some(name),
        Whom::Address(_) | Whom::User(_) => false,
    };
    if actor.is_none() && !is_named {
        return None;
    }
    if let Some(actor) = actor {
        record.event.actor = actor;
    }
    if is_named {
        record.event.target = format!("{TOKENS}{ERASED}");
    }
    Some(record)
}
