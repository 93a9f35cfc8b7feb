//! The behaviour suite against a real Cassandra node, bare and within the limits; each test in a
//! keyspace of its own.

/// A subject; ends the test if it cannot run here (which was reported).
macro_rules! subject {
    ($made:expr) => {
        match $made.await {
            Some(subject) => subject,
            None => return,
        }
    };
}

mod bare {
    use crate::support::Cassandra;

    store::engine_suite!(subject!(Cassandra::bare()));
}

mod within_limited {
    use std::sync::Arc;

    use store::Limits;
    use store::limited::Limited;

    use crate::support::Cassandra;

    store::limits_suite!(subject!(Cassandra::wrapped(|store| Arc::new(Limited::new(store, Limits::default())))));
}

mod read_only {
    use crate::support::Cassandra;

    store::read_only_suite!(subject!(Cassandra::bare()));
}

mod copying_to_it {
    use crate::support::{Cassandra, Embedded};

    store::copying_suite!(Embedded::fresh(), subject!(Cassandra::bare()));
}

mod copying_from_it {
    use crate::support::{Cassandra, Embedded};

    store::copying_tests! { subject!(Cassandra::bare()), Embedded::fresh();
        everything_arrives_unchanged
        the_next_pass_finds_what_changed_meanwhile
    }
}
