//! The memory that an update may take while it is computed. Whoever applies it gives that step by
//! step, and so can count it with what others take.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::UpdateError;

/// What is counted, as [`UpdateError::TooLarge`] names it.
pub const HELD: &str = "bytes held while it is evaluated";

/// So many bytes are held without asking. Most updates need no more.
const UNASKED_BYTES: usize = 512 << 10;

/// Further ones are asked for in such steps.
const STEP_BYTES: usize = 1 << 20;

/// Gives so many bytes in all, or says why not.
type Give = dyn Fn(usize) -> Result<(), UpdateError> + Send + Sync;

/// The memory for one update. It only grows. What gives it gets all of it back when the update has
/// ended. Cheap to clone.
#[derive(Clone)]
pub struct Room(Arc<State>);

struct State {
    max_bytes: usize,
    given_bytes: AtomicUsize,
    give: Box<Give>,
}

impl Room {
    /// Room for so many bytes at most; beyond that the update is too large. Before it holds more than
    /// little, it calls `give` with all that it needs, on the thread that computes. It ends with the
    /// error of `give`: [`UpdateError::NoRoom`] where there is too little for now.
    pub fn new(max_bytes: usize, give: impl Fn(usize) -> Result<(), UpdateError> + Send + Sync + 'static) -> Self {
        Self(Arc::new(State { max_bytes, given_bytes: AtomicUsize::new(0), give: Box::new(give) }))
    }

    /// Makes sure of room for all that the update holds.
    ///
    /// # Errors
    /// If it may not hold so much, or there is too little for now.
    pub(super) fn hold(&self, bytes: usize) -> Result<(), UpdateError> {
        let State { max_bytes, given_bytes, give } = &*self.0;
        // One thread alone asks at a time.
        if bytes <= given_bytes.load(Ordering::Relaxed).max(UNASKED_BYTES) {
            return Ok(());
        }
        if bytes > *max_bytes {
            return Err(UpdateError::TooLarge { of: HELD, limit: *max_bytes });
        }
        let step_bytes = bytes.checked_next_multiple_of(STEP_BYTES).unwrap_or(bytes).min(*max_bytes);
        let got_bytes = match give(step_bytes) {
            Ok(()) => step_bytes,
            // What it needs itself may still be there.
            Err(UpdateError::NoRoom(_)) if bytes < step_bytes => {
                give(bytes)?;
                bytes
            }
            Err(error) => return Err(error),
        };
        given_bytes.store(got_bytes, Ordering::Relaxed);
        Ok(())
    }
}

impl Default for Room {
    /// As much as it likes.
    fn default() -> Self {
        Self::new(usize::MAX, |_| Ok(()))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Mutex;

    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn little_is_held_without_asking_and_more_is_asked_for_in_steps() {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let given = asked.clone();
        let max_bytes = 5 * MIB - 1;
        let room = Room::new(max_bytes, move |bytes| {
            given.lock().unwrap().push(bytes);
            Ok(())
        });
        for bytes in [0, MIB / 2, MIB / 2 + 1, MIB, MIB + 1, 3 * MIB, 2 * MIB, max_bytes] {
            assert_eq!(room.hold(bytes), Ok(()), "{bytes}");
        }
        let too_large = UpdateError::TooLarge { of: HELD, limit: max_bytes };
        assert_eq!(room.hold(max_bytes + 1), Err(too_large));
        assert_eq!(*asked.lock().unwrap(), [MIB, 2 * MIB, 3 * MIB, max_bytes]);
    }

    #[test]
    fn an_update_for_which_there_is_just_enough_is_not_refused() {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let given = asked.clone();
        let room = Room::new(usize::MAX, move |bytes| {
            given.lock().unwrap().push(bytes);
            if bytes <= MIB + 5 { Ok(()) } else { Err(UpdateError::NoRoom("full".to_owned())) }
        });
        assert_eq!([MIB + 1, MIB + 5].map(|bytes| room.hold(bytes)), [Ok(()), Ok(())]);
        assert!(matches!(room.hold(MIB + 6), Err(UpdateError::NoRoom(_))));
        assert_eq!(*asked.lock().unwrap(), [2 * MIB, MIB + 1, 2 * MIB, MIB + 5, 2 * MIB, MIB + 6]);
    }

    #[test]
    fn what_is_not_given_is_asked_for_again() {
        let refusals = AtomicUsize::new(2);
        let room = Room::new(usize::MAX, move |_| match refusals.load(Ordering::Relaxed) {
            0 => Ok(()),
            left => {
                refusals.store(left - 1, Ordering::Relaxed);
                Err(UpdateError::NoRoom("full".to_owned()))
            }
        });
        let outcomes = [(); 3].map(|()| room.hold(MIB).is_ok());
        assert_eq!(outcomes, [false, false, true]);
    }
}
