//! A server dies between any two steps of a transaction: all of it happens or nothing, and nothing
//! is left of it.

use std::time::Duration;

use library::Library;
use store::Table;

use crate::support::memory::Fault;
use crate::support::{Faulty, faulty};
use crate::tree::{assert_sound, create, delete, path, said, update};

/// Makes a transaction and commits it.
async fn transact(library: &Library) -> repository::ResourceResult<()> {
    let (id, _) = library.repository.begin_transaction("somebody").await?;
    let inside = Library { repository: library.repository.in_transaction(id), ..library.clone() };
    create(&inside, "x/y", "new").await?;
    update(&inside, "a/s", "new").await?;
    delete(&inside, "a/d").await?;
    library.repository.commit_transaction(id, "somebody").await
}

/// What there is of it: each part that has happened.
async fn happened(faulty: &Faulty) -> [bool; 3] {
    let library = &faulty.library;
    [
        said(library, "x/y").await.as_deref() == Some("new"),
        said(library, "a/s").await.as_deref() == Some("new"),
        said(library, "a/d").await.is_none(),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_dies_at_any_step_leaves_all_of_a_transaction_or_nothing() {
    let (mut none, mut all) = (0, 0);
    for step in 0.. {
        let faulty = faulty().await;
        create(&faulty.library, "a/s", "old").await.unwrap();
        create(&faulty.library, "a/d", "old").await.unwrap();
        faulty.store.arm(Fault::Crash, move |number, _| number == step);
        let came = transact(&faulty.library).await;
        let is_over = faulty.store.steps() <= step;
        faulty.store.recover();
        faulty.clock.advance(Duration::from_secs(200));
        faulty.library.repository.end_transactions(Duration::ZERO).await.unwrap();
        let happened = happened(&faulty).await;
        assert!(happened == [true; 3] || happened == [false; 3], "step {step}: {happened:?}");
        if came.is_ok() {
            assert_eq!(happened, [true; 3], "step {step}");
        }
        if happened[0] {
            all += 1
        } else {
            none += 1
        }
        assert_sound(&faulty.library, &faulty.clock, &["a", "a/s", "a/d", "x", "x/y"]).await;
        // Nothing stays behind.
        faulty.clock.advance(Duration::from_secs(2 * 3_600));
        for _ in 0..2 {
            faulty.library.repository.end_transactions(Duration::ZERO).await.unwrap();
        }
        let left: Vec<_> =
            faulty.store.partitions(Table::Work).into_iter().filter(|of| of.starts_with(b"tx/")).collect();
        assert!(left.is_empty(), "step {step}: {left:?}");
        update(&faulty.library, "a/s", "later").await.unwrap();
        assert!(faulty.library.repository.resource(&path("a")).await.is_ok());
        if is_over {
            break;
        }
    }
    assert!(none > 3 && all > 3, "{none} with nothing, {all} with all of it");
}
