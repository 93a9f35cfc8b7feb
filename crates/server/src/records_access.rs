//! What clients of the Redis protocol may do, and how much of it: their rights are those of tokens,
//! their bytes in a day count together with those over HTTP, and the audit counts refusals.

use std::sync::Arc;
use std::time::Duration;

use audit::{Actor, Audit, Event, EventKind, EventResult};
use budget::Party;
use door_records::{Access, Exceeded, Refused, RequestPace, Rights, Why, WrongPassword};
use http::StatusCode;

use crate::access::{Policy, Right};
use crate::config::AuditMode;
use crate::live::Live;
use crate::pace::Pace;
use crate::quota::Quotas;

/// Where the records are over HTTP: the target of refusals in the audit.
const TARGET: &str = "/records/";

/// The access of clients of the Redis protocol.
pub(crate) struct RecordsAccess {
    pub(crate) policy: Policy,
    pub(crate) live: Arc<Live>,
    pub(crate) quotas: Arc<Quotas>,
    pub(crate) audit: Audit,
    /// How changes, and with them refusals, are recorded.
    pub(crate) changes: AuditMode,
}

impl Access for RecordsAccess {
    fn rights(&self, password: Option<&[u8]>) -> Result<Rights, WrongPassword> {
        let policy = &self.policy;
        let token = password.map(|password| str::from_utf8(password).map_err(|_| WrongPassword)).transpose()?;
        let holder = token.map(|token| policy.tokens.holder_of(token).ok_or(WrongPassword)).transpose()?;
        Ok(Rights {
            read: policy.allows(holder.as_ref(), Right::Read),
            write: policy.allows(holder.as_ref(), Right::Write),
            operate: policy.allows(holder.as_ref(), Right::Operate),
        })
    }

    fn user(&self, password: &[u8]) -> Option<String> {
        self.policy.tokens.holder_of(str::from_utf8(password).ok()?).map(|holder| holder.name)
    }

    fn greeting_max(&self) -> Duration {
        self.live.limits().header_time
    }

    fn request_pace(&self) -> RequestPace {
        let Pace { pause, least_bytes } = Pace::of(&self.live.limits());
        RequestPace { pause, least_bytes }
    }

    fn count(&self, party: &Party) -> Result<(), Exceeded> {
        let bytes_per_day = self.live.bytes_per_day();
        if bytes_per_day > 0 {
            self.quotas.allow_command(party, bytes_per_day)?;
        }
        self.live.command_rates().map_or(Ok(()), |rates| rates.count_command(party))
    }

    fn sent(&self, party: &Party, bytes: u64) {
        if self.live.bytes_per_day() > 0 {
            self.quotas.answered(party, bytes);
        }
    }

    fn refused(&self, refused: &Refused<'_>) {
        if self.changes == AuditMode::Off {
            return;
        }
        let status = match refused.why {
            Why::Unknown => StatusCode::UNAUTHORIZED,
            Why::Forbidden => StatusCode::FORBIDDEN,
            Why::Exceeded => StatusCode::TOO_MANY_REQUESTS,
        };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let actor = Actor {
            token: refused.user.map(str::to_owned),
            address: refused.address,
            agent: Some(text(refused.library)).filter(|agent| !agent.is_empty()),
            user: None,
        };
        let command = text(refused.command).to_ascii_uppercase();
        let result = EventResult::Status(status.as_u16());
        self.audit.auditor().refused(Event { actor, ..Event::of(EventKind::Refusal, &command, TARGET, result) });
    }
}
