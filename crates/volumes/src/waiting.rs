//! Whether a caller still waits for work on another thread. Nothing ends such a thread from
//! outside, so the work looks at it now and then.

use std::sync::{Arc, Weak};

use heads::error::{ObjectsError, ObjectsResult};

/// The place of a caller that waits. Dropping it says that nobody waits any more.
#[derive(Debug)]
pub struct Caller {
    _here: Arc<()>,
}

/// Whether that caller still waits.
#[derive(Clone, Debug)]
pub struct Waiting(Weak<()>);

impl Caller {
    /// A caller that waits from now on.
    pub fn new() -> (Self, Waiting) {
        let here = Arc::new(());
        let waiting = Waiting(Arc::downgrade(&here));
        (Self { _here: here }, waiting)
    }
}

impl Waiting {
    /// False from the moment at which the caller has left.
    pub fn lasts(&self) -> bool {
        self.0.strong_count() > 0
    }

    /// Ends work for which nobody waits. Nobody sees the error.
    pub(crate) fn check(&self) -> ObjectsResult<()> {
        if self.lasts() { Ok(()) } else { Err(ObjectsError::Overloaded("nobody waits for it any more".to_owned())) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_lasts_until_the_caller_leaves() {
        let (caller, waiting) = Caller::new();
        assert!(waiting.lasts() && waiting.check().is_ok());
        drop(caller);
        assert!(!waiting.lasts() && waiting.check().is_err());
    }
}
