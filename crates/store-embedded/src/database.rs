//! The open databases of a data folder.

use std::sync::Arc;

use store::{Lane, StoreResult};

use crate::at_once::at_once;
use crate::folder::Folder;
use crate::tables::Tables;

/// The open database. Dropped in this order: the database before the lock that protects it.
pub(crate) struct Database {
    pub(crate) tables: Lanes<Arc<Tables>>,
    pub(crate) folder: Folder,
}

/// A value for each lane.
pub(crate) struct Lanes<T>(Vec<(Lane, T)>);

impl<T> Lanes<T> {
    /// Makes a value for each lane.
    pub(crate) fn try_new(mut make: impl FnMut(Lane) -> StoreResult<T>) -> StoreResult<Self> {
        Ok(Self(Lane::ALL.into_iter().map(|lane| Ok((lane, make(lane)?))).collect::<StoreResult<_>>()?))
    }

    /// The same, of all lanes at the same time. The error is that of the first lane that has one.
    pub(crate) fn try_new_at_once(make: impl Fn(Lane) -> StoreResult<T> + Sync) -> StoreResult<Self>
    where
        T: Send,
    {
        at_once(Lane::ALL.map(|lane| (lane, ())), |lane, ()| make(lane)).map(Self)
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

    /// The value of a lane.
    pub(crate) fn of(&self, lane: Lane) -> &T {
        // Both are in the order of [`Lane::ALL`].
        &self.0[lane as usize].1
    }

    /// The lanes and their values.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Lane, &T)> {
        self.0.iter().map(|(lane, value)| (*lane, value))
    }
}
