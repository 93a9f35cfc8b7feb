//! Work for all background passes.

use std::time::Duration;

use heads::{History, Keep, LibraryOptions};
use library::Library;
use volumes::CollectLimits;

use super::tree::{create, delete, update};
use crate::support::memory::Fault;
use crate::support::{Faulty, faulty_with, id, import, volume};

const DAY: Duration = Duration::from_secs(24 * 3_600);

/// Work for each pass: superseded versions, past members, an interrupted deletion, a container that
/// has grown large.
pub async fn with_work() -> Faulty {
    let options = LibraryOptions {
        shards: 1,
        resource_shards: 1,
        rewrite_dead_rows_min: 1,
        shard_bytes_max: 1_000,
        sample_one_of: 1,
        history: History { resources: Keep::None, volumes: Keep::None },
        ..LibraryOptions::default()
    };
    let faulty = faulty_with(options).await;
    let library = &faulty.library;
    import(library, volume("t.a", &["old"])).await.unwrap();
    import(library, volume("t.a", &["new"])).await.unwrap();
    import(library, volume("t.b", &["gone"])).await.unwrap();
    library.volumes.delete(&id("t.b")).await.unwrap();
    for n in 0..24 {
        create(library, &format!("large/n{n:02}"), "").await.unwrap();
    }
    update(library, "large/n00", "new").await.unwrap();
    create(library, "emptied/child", "").await.unwrap();
    delete(library, "emptied").await.unwrap();
    create(library, "cut/off", "").await.unwrap();
    faulty.store.arm(Fault::Crash, |_, step| step.partition() == "r/cut/off");
    delete(library, "cut").await.unwrap_err();
    faulty.store.recover();
    faulty.clock.advance(2 * DAY);
    faulty
}

/// Runs each pass, and returns how much each reports to have done.
pub async fn all_passes(library: &Library) -> Vec<u64> {
    let collected = library.volumes.collect_once(CollectLimits::default()).await.unwrap();
    vec![
        library.repository.resume_deletions(Duration::ZERO).await.unwrap(),
        library.repository.empty_deleted_containers().await.unwrap(),
        library.volumes.sweep_selections().await.unwrap(),
        collected.volumes,
        collected.shards_rewritten,
        library.repository.collect_versions().await.unwrap(),
        library.repository.collect_contents().await.unwrap(),
        library.heads.grow_containers().await.unwrap(),
        library.repository.end_transactions(Duration::ZERO).await.unwrap(),
    ]
}
