//! Counter-examples of the protocols: a writer that pauses between two of its steps, and a write
//! that arrives late.

use std::sync::Arc;

use repository::{ResourceError, ResourceResult};
use store::Step;

use super::tree::{assert_sound, children, container, create, delete, path, reachable, said, update};
use crate::support::memory::{Fault, Gate};
use crate::support::{Faulty, faulty};

/// Whether a step changes the head of the resource at a path.
fn switches(at: &str) -> impl Fn(usize, &Step) -> bool + Send + 'static {
    let partition = format!("r/{at}").into_bytes();
    move |_, step| matches!(step, Step::CompareAndWrite { partition: of, .. } if **of == *partition)
}

/// Starts a creation that waits before it switches the head.
async fn held_creation(faulty: &Faulty, at: &'static str) -> (Arc<Gate>, tokio::task::JoinHandle<ResourceResult<()>>) {
    let gate = Gate::new();
    faulty.store.arm(Fault::Hold(gate.clone()), switches(at));
    let library = faulty.library.clone();
    let creation = tokio::spawn(async move { create(&library, at, "slow").await });
    gate.reached().await;
    (gate, creation)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_creation_that_paused_while_its_parent_was_deleted_does_not_come_to_be() {
    let faulty = faulty().await;
    faulty.library.repository.create(&path("p"), &container()).await.unwrap();
    let (gate, creation) = held_creation(&faulty, "p/child").await;
    delete(&faulty.library, "p").await.unwrap();
    gate.open();
    let created = creation.await.unwrap();
    assert!(matches!(created, Err(ResourceError::Gone { .. })), "{created:?}");
    assert!(reachable(&faulty.library).await.is_empty());
    // Nor does it exist under the parent's next incarnation.
    faulty.library.repository.remove_tombstone(&path("p")).await.unwrap();
    faulty.library.repository.create(&path("p"), &container()).await.unwrap();
    assert!(children(&faulty.library, &path("p")).await.is_empty());
    assert_eq!(said(&faulty.library, "p/child").await, None);
    create(&faulty.library, "p/child", "new").await.unwrap();
    assert_sound(&faulty.library, &faulty.clock, &["p", "p/child"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_creation_that_was_before_the_deletion_of_its_parent_goes_with_it() {
    let faulty = faulty().await;
    faulty.library.repository.create(&path("p"), &container()).await.unwrap();
    let gate = Gate::new();
    faulty.store.arm(Fault::Hold(gate.clone()), switches("p"));
    let library = faulty.library.clone();
    let deletion = tokio::spawn(async move { delete(&library, "p").await });
    gate.reached().await;
    create(&faulty.library, "p/child", "quick").await.unwrap();
    gate.open();
    deletion.await.unwrap().unwrap();
    assert_eq!(said(&faulty.library, "p/child").await, None);
    assert!(reachable(&faulty.library).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_that_arrives_after_its_creator_died_and_its_parent_was_deleted_is_fenced_off() {
    let faulty = faulty().await;
    faulty.library.repository.create(&path("p"), &container()).await.unwrap();
    // The creator dies while its head is on its way. The head arrives during the deletion or after
    // it.
    for further in 0..40 {
        let child = "p/late";
        faulty.store.arm(Fault::UnknownLate(further), switches(child));
        let died = {
            let library = faulty.library.clone();
            tokio::spawn(async move { create(&library, child, "late").await })
        };
        // It gets no response before the head arrives; it is aborted like a process that dies.
        while faulty.store.steps() < 4 {
            tokio::task::yield_now().await;
        }
        died.abort();
        let _ = died.await;
        delete(&faulty.library, "p").await.unwrap();
        faulty.store.recover();
        assert_eq!(said(&faulty.library, child).await, None, "after {further} steps");
        assert!(reachable(&faulty.library).await.is_empty());
        faulty.library.repository.remove_tombstone(&path("p")).await.unwrap();
        faulty.library.repository.create(&path("p"), &container()).await.unwrap();
        assert!(children(&faulty.library, &path("p")).await.is_empty(), "after {further} steps");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_that_replace_the_same_only_one_writes_over_what_it_read() {
    let faulty = faulty().await;
    create(&faulty.library, "s", "first").await.unwrap();
    let read = faulty.library.repository.resource(&path("s")).await.unwrap();
    update(&faulty.library, "s", "second").await.unwrap();
    let late = repository::Update::Description {
        description: "third".into(),
        membership: repository::Membership::Basic,
        members_for: None,
        refers_to: Vec::new(),
    };
    let moved = faulty.library.repository.update(&read, &late).await;
    assert!(matches!(moved, Err(ResourceError::Moved(_))), "{moved:?}");
    assert!(matches!(faulty.library.repository.delete(&read).await, Err(ResourceError::Moved(_))));
    assert_eq!(said(&faulty.library, "s").await.as_deref(), Some("second"));
}

#[tokio::test(flavor = "multi_thread")]
async fn many_who_post_the_same_wish_all_get_a_name_of_their_own() {
    let faulty = faulty().await;
    let posts = (0..16).map(|_| {
        let library = faulty.library.clone();
        tokio::spawn(async move {
            let make = |_: &_, _: &_| Ok::<_, ResourceError>(container());
            library
                .repository
                .create_in(&heads::ResourcePath::root(), Some("wish"), make)
                .await
                .unwrap()
                .path
                .to_string()
        })
    });
    let mut made: Vec<_> = futures::future::join_all(posts).await.into_iter().map(Result::unwrap).collect();
    made.sort();
    assert_eq!(made, reachable(&faulty.library).await);
    assert!(made.contains(&"wish".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn creating_a_child_reads_no_list_and_leaves_the_parents_head_alone() {
    let faulty = faulty().await;
    faulty.library.repository.create(&path("p"), &container()).await.unwrap();
    let before = faulty.library.repository.resource(&path("p")).await.unwrap();
    let mut counts = Vec::new();
    for n in 0..200 {
        // Counting begins here; the trigger never fires.
        faulty.store.arm(Fault::Overloaded, |_, _| false);
        create(&faulty.library, &format!("p/{n}"), "").await.unwrap();
        counts.push(faulty.store.steps());
    }
    assert!(counts.iter().all(|steps| *steps == counts[0]), "{counts:?}");
    assert_eq!(faulty.library.repository.resource(&path("p")).await.unwrap(), before);
}
