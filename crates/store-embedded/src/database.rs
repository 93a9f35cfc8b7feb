//! The open databases of a data folder.

use std::sync::Arc;

use store::{FormatLevel, Lane, StoreError, StoreResult};

use crate::at_once::at_once;
use crate::folder::Folder;
use crate::tables::Tables;

/// The open database. Dropped in this order: the database before the lock that protects it.
pub(crate) struct Database {
    pub(crate) tables: Lanes<Arc<Tables>>,
    pub(crate) folder: Folder,
}

/// A value for each lane that the store has.
pub(crate) struct Lanes<T>(Vec<(Lane, T)>);

impl<T> Lanes<T> {
    /// Makes a value for each lane of a store at `level`.
    pub(crate) fn try_new(level: FormatLevel, mut make: impl FnMut(Lane) -> StoreResult<T>) -> StoreResult<Self> {
        let lanes = Lane::ALL.into_iter().filter(|lane| lane.is_in(level));
        Ok(Self(lanes.map(|lane| Ok((lane, make(lane)?))).collect::<StoreResult<_>>()?))
    }

    /// The same, of all lanes at the same time. The error is that of the first lane that has one.
    pub(crate) fn try_new_at_once(level: FormatLevel, make: impl Fn(Lane) -> StoreResult<T> + Sync) -> StoreResult<Self>
    where
        T: Send,
    {
        let lanes = Lane::ALL.into_iter().filter(|lane| lane.is_in(level));
        at_once(lanes.map(|lane| (lane, ())), |lane, ()| make(lane)).map(Self)
    }

    /// Makes another value of that of each lane, of all lanes at the same time. The error is that of
    /// the first lane that has one.
    pub(crate) fn try_map_at_once<U: Send>(
        self,
        make: impl Fn(Lane, T) -> StoreResult<U> + Sync,
    ) -> StoreResult<Lanes<U>>
    where
        T: Send,
    {
        at_once(self.0, make).map(Lanes)
    }

    /// The value of a lane. Fails if the store's level does not have the lane:
    /// [`store::limited::Limited`] keeps such calls away.
    pub(crate) fn of(&self, lane: Lane) -> StoreResult<&T> {
        let found = self.0.iter().find(|(found, _)| *found == lane).map(|(_, value)| value);
        found.ok_or_else(|| StoreError::Invalid(format!("the store's level does not have the lane {lane}")))
    }

    /// The lanes and their values.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Lane, &T)> {
        self.0.iter().map(|(lane, value)| (*lane, value))
    }
}
