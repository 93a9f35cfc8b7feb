//! What each handler takes from a request first: who asks, until when, and for which record.

use std::sync::Arc;
use std::time::{Duration, Instant};

use audit::Requester;
use axum::extract::{FromRequestParts, Path};
use budget::Party;
use bytes::Bytes;
use http::request::Parts;
use store::Deadline;

use super::error::HttpError;
use crate::Door;

/// The header with the time that a request may take: milliseconds, or [`MOST`].
const DEADLINE: &str = "penates-deadline";

/// As long as the server allows.
const MOST: &str = "max";

/// Who asks, and until when.
pub(super) struct Asking {
    pub(super) party: Party,
    pub(super) began: Instant,
    /// The time that the request may take; in a request with many lines, each of them.
    pub(super) time_limit: Duration,
}

impl Asking {
    /// The end of that time, from now on.
    pub(super) fn deadline(&self) -> Deadline {
        Deadline::within(self.time_limit)
    }
}

impl FromRequestParts<Arc<Door>> for Asking {
    type Rejection = HttpError;

    async fn from_request_parts(parts: &mut Parts, door: &Arc<Door>) -> Result<Self, HttpError> {
        let party = parts.extensions.get::<Requester>().map_or(Party::Local, Requester::party);
        let most = door.settings.deadline_max;
        let time_limit = match parts.headers.get(DEADLINE) {
            None => door.settings.deadline,
            Some(value) if value == MOST => most,
            Some(value) => {
                let asked = value.to_str().ok().and_then(|text| text.parse().ok()).map(Duration::from_millis);
                let asked = asked.filter(|asked| !asked.is_zero() && *asked <= most);
                let most = most.as_millis();
                asked.ok_or_else(|| {
                    HttpError::Malformed(format!(
                        "Penates-Deadline is a number of milliseconds from 1 to {most}, or {MOST}"
                    ))
                })?
            }
        };
        Ok(Self { party, began: Instant::now(), time_limit })
    }
}

/// The id in the path, percent-decoded.
pub(super) struct Id(pub(super) Bytes);

impl FromRequestParts<Arc<Door>> for Id {
    type Rejection = HttpError;

    async fn from_request_parts(parts: &mut Parts, door: &Arc<Door>) -> Result<Self, HttpError> {
        let Path(id) = Path::<String>::from_request_parts(parts, door)
            .await
            .map_err(|_| HttpError::NotText("the id in the path"))?;
        Ok(Self(id.into()))
    }
}
