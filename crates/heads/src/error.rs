//! Errors of the domain. Each is a fact of its own through all layers.

use std::fmt;
use std::time::{Duration, UNIX_EPOCH};

use budget::Overloaded;
use hathi::VolumeId;
use pack::ArchiveError;
use store::{StoreError, Table, UnixMillis};
use thiserror::Error;

use crate::path::ResourcePath;
use crate::resource_body::Part;

/// The result of a call of the domain.
pub type ObjectsResult<T> = Result<T, ObjectsError>;

/// Why a call failed.
#[derive(Debug, Error)]
pub enum ObjectsError {
    /// It never existed.
    #[error("{0} is not in the store")]
    Absent(String),
    /// It existed and was deleted.
    #[error("{0} was deleted")]
    Gone(String),
    /// It has expired (a selection, a plan).
    #[error("{0} has ended")]
    Expired(String),
    /// Another writer changed the same object at the same time.
    #[error("conflict: {0}")]
    Conflict(String),
    /// A transaction holds the object.
    #[error("{object} is held by a transaction of {holder} until {}", utc(*until))]
    Held {
        /// The object.
        object: String,
        /// Who began the transaction.
        holder: String,
        /// When the transaction expires, unless it is renewed.
        until: UnixMillis,
    },
    /// The request makes no sense.
    #[error("{0}")]
    Invalid(String),
    /// The request exceeds a limit of this heads.
    #[error("over a limit: {0}")]
    OverLimit(String),
    /// Too many requests are in progress, or the audit lags; try again later.
    #[error("overloaded: {0}")]
    Overloaded(String),
    /// The stored bytes of a volume are not those that were imported.
    #[error("damaged: {volume}: {detail}")]
    Damaged {
        /// The volume's id.
        volume: VolumeId,
        /// The index of the page in METS order, if known. It is for marks: `detail` names the page
        /// for people, because they know its sequence.
        member: Option<u32>,
        /// How the damage was noticed.
        detail: String,
    },
    /// The stored bytes of a resource are not those that were written.
    #[error("damaged: the {part} of /{path}: {detail}")]
    DamagedResource {
        /// The resource's path.
        path: ResourcePath,
        /// The damaged part.
        part: Part,
        /// How the damage was noticed.
        detail: String,
    },
    /// The source of an import cannot be read, or contradicts itself.
    #[error(transparent)]
    Source(#[from] hathi::VolumeError),
    /// The change may have been applied or not, and it was impossible to find out.
    #[error("unknown whether it was applied: {0}")]
    Unknown(String),
    /// An error of the store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A defect of this program.
    #[error("internal error: {0}")]
    Internal(String),
}

impl ObjectsError {
    /// Stored bytes cannot be what was written.
    pub fn corrupt(table: Table, detail: &str) -> Self {
        Self::Store(StoreError::Corrupt { table, detail: detail.to_owned() })
    }

    /// Adds the volume that damaged rows belong to.
    pub fn of_volume(self, id: &VolumeId) -> Self {
        match self {
            Self::Store(StoreError::Corrupt { .. }) => {
                Self::Damaged { volume: id.clone(), member: None, detail: self.to_string() }
            }
            other => other,
        }
    }

    /// Turns the error into [`ObjectsError::Unknown`] if an earlier try of the same change may
    /// still arrive, because then the change may yet be applied.
    pub fn if_unsure(self, unsure: bool) -> Self {
        match self {
            Self::Unknown(_) => self,
            error if unsure => Self::Unknown(error.to_string()),
            error => error,
        }
    }

    /// Adds the member that was being read, and what people call it, if the damage does not name
    /// one yet.
    pub fn at_member(self, index: u32, called: impl fmt::Display) -> Self {
        match self {
            Self::Damaged { volume, member: None, detail } => {
                Self::Damaged { volume, member: Some(index), detail: format!("{called}: {detail}") }
            }
            other => other,
        }
    }

    /// Whether stored bytes are wrong, rather than unavailable for now.
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Damaged { .. } | Self::DamagedResource { .. } | Self::Store(StoreError::Corrupt { .. }))
    }

    /// Whether the same request may succeed if it is tried again.
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::Overloaded(_)) || matches!(self, Self::Store(error) if error.is_passing())
    }
}

impl From<Overloaded> for ObjectsError {
    fn from(Overloaded(detail): Overloaded) -> Self {
        Self::Overloaded(detail)
    }
}

impl From<ArchiveError<ObjectsError>> for ObjectsError {
    fn from(error: ArchiveError<ObjectsError>) -> Self {
        match error {
            ArchiveError::Source(error) => error,
            ArchiveError::Damaged { group, error } => damaged(&group, error.to_string()),
            ArchiveError::Mismatch { group, reason } => damaged(&group, reason.to_owned()),
            ArchiveError::Interrupted => ObjectsError::Overloaded("compressing was interrupted".to_owned()),
            error @ ArchiveError::Range { .. } => ObjectsError::Invalid(error.to_string()),
        }
    }
}

/// The error for damage of the volume whose group has this name.
fn damaged(group: &str, detail: String) -> ObjectsError {
    match VolumeId::from_cleaned(group) {
        Ok(volume) => ObjectsError::Damaged { volume, member: None, detail },
        Err(_) => ObjectsError::Internal(format!("a group's name is no cleaned id: {group}")),
    }
}

/// The error of a writer that may not make its change any more: others assume that it has ended.
pub fn held_up_for_too_long() -> ObjectsError {
    ObjectsError::Overloaded("the change was held up for too long, and was not made; try again".to_owned())
}

/// A time in messages, in UTC and whole seconds.
pub fn utc(time: UnixMillis) -> String {
    humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_millis(time.0)).to_string()
}
