//! The behaviour suite on the embedded engine, bare and within each wrapper.

mod bare {
    use crate::support::Embedded;

    store::engine_suite!(Embedded::bare());
}

mod of_loads {
    use crate::support::Embedded;

    store::behaviour_suite!(Embedded::of_loads());
}

mod within_limited {
    use std::sync::Arc;

    use store::Limits;
    use store::limited::Limited;

    use crate::support::Embedded;

    fn limited() -> Embedded {
        Embedded::wrapped(|store| Arc::new(Limited::new(store, Limits::default())))
    }

    store::behaviour_suite!(limited());
    store::limits_suite!(limited());
}

mod within_inactive_faults {
    use std::sync::Arc;

    use store::faults::Faults;

    use crate::support::Embedded;

    fn faults_off() -> Embedded {
        Embedded::wrapped(|store| Arc::new(Faults::new(store)))
    }

    store::behaviour_suite!(faults_off());
}

mod within_an_open_gate {
    use std::sync::Arc;

    use store::read_only::ReadOnlyGate;

    use crate::support::Embedded;

    fn gated() -> Embedded {
        Embedded::wrapped(|store| {
            // The engine's first read needs no reactor.
            Arc::new(futures::executor::block_on(ReadOnlyGate::new(store)).unwrap())
        })
    }

    store::behaviour_suite!(gated());
}

mod read_only {
    use crate::support::Embedded;

    store::read_only_suite!(Embedded::bare());
}

mod copying {
    use crate::support::Embedded;

    store::copying_suite!(Embedded::bare(), Embedded::bare());
}
