//! What the domain answers when it cannot do as asked: facts that stay apart through every layer.

use hathi::VolumeId;
use store::{StoreError, Table};
use thiserror::Error;

use crate::resources::{Part, ResourcePath};

/// The result of a call of the domain.
pub type ObjectsResult<T> = Result<T, ObjectsError>;

/// Why not.
#[derive(Debug, Error)]
pub enum ObjectsError {
    /// It never was here.
    #[error("{0} is not in the store")]
    Absent(String),
    /// It was here and was deleted.
    #[error("{0} was deleted")]
    Gone(String),
    /// It has ended by itself (a selection, a plan).
    #[error("{0} has ended")]
    Expired(String),
    /// Somebody else changed the same thing at the same time.
    #[error("conflict: {0}")]
    Conflict(String),
    /// The request makes no sense.
    #[error("{0}")]
    Invalid(String),
    /// A limit of this library was passed.
    #[error("over a limit: {0}")]
    OverLimit(String),
    /// Too much is going on (or the audit lags); try again later.
    #[error("overloaded: {0}")]
    Overloaded(String),
    /// What is stored is not what came in; `member` is the index of the page in METS order, if it is known.
    #[error("damaged: {volume}{}: {detail}", member.map(|index| format!(" (member {index})")).unwrap_or_default())]
    Damaged {
        /// Which volume.
        volume: VolumeId,
        /// Which member.
        member: Option<u32>,
        /// How it was noticed.
        detail: String,
    },
    /// The same of a resource of the repository.
    #[error("damaged: the {part} of /{path}: {detail}")]
    DamagedResource {
        /// Which resource.
        path: ResourcePath,
        /// What of it.
        part: Part,
        /// How it was noticed.
        detail: String,
    },
    /// The source of an import cannot be read or is not what it says.
    #[error(transparent)]
    Source(#[from] hathi::VolumeError),
    /// It may have been applied or not, and it could not be found out.
    #[error("unknown whether it was applied: {0}")]
    Unknown(String),
    /// The store below.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A defect of this program.
    #[error("internal error: {0}")]
    Internal(String),
}

impl ObjectsError {
    /// Something stored cannot be what was written.
    pub fn corrupt(table: Table, detail: &str) -> Self {
        Self::Store(StoreError::Corrupt { table, detail: detail.to_owned() })
    }

    /// The same, with the volume that damaged rows belong to.
    pub(crate) fn of_volume(self, id: &VolumeId) -> Self {
        match self {
            Self::Store(StoreError::Corrupt { .. }) => {
                Self::Damaged { volume: id.clone(), member: None, detail: self.to_string() }
            }
            other => other,
        }
    }

    /// The same, where an earlier try of the same change may still arrive: then nobody can say that nothing was done.
    pub(crate) fn if_unsure(self, unsure: bool) -> Self {
        match self {
            Self::Unknown(_) => self,
            error if unsure => Self::Unknown(error.to_string()),
            error => error,
        }
    }

    /// Whether what is stored is wrong, rather than out of reach for now.
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Damaged { .. } | Self::DamagedResource { .. } | Self::Store(StoreError::Corrupt { .. }))
    }

    /// Whether the same request may succeed if it is tried again.
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::Overloaded(_)) || matches!(self, Self::Store(error) if error.is_passing())
    }
}
