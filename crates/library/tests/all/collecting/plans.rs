//! The counter-examples of collecting that concern plans, named after their rules. A reader never
//! reports damage for rows that were collected after its plan had expired, and no plan names rows
//! that may be collected during its life. `condcas` has its counter-example in `grace.rs`,
//! `planfirst` in `moments.rs`.

use std::sync::Arc;
use std::time::Duration;

use audit::Requester;
use futures::StreamExt;
use hathi::Seq;
use heads::{LibraryOptions, ObjectsError, keys};
use library::Library;
use pack::{Layout, Level};
use store::{ManualClock, Table, UnixMillis};
use volumes::{BulkPlan, BulkRequest, OnDamage, Wanted};

use super::common::collect;
use crate::support::{Faulty, START, faulty, faulty_with, id, import, volume};

/// The first page of t.a.
pub fn first_page() -> BulkRequest {
    let wanted = vec![Wanted { volume: id("t.a"), pages: Some(vec![Seq::new(1).unwrap()]) }];
    BulkRequest { wanted, layout: Layout::WordSeq, level: Level::Stored, mets: false, as_of: None }
}

/// The outcome of a plan's stream: whether its bytes contain a text, or the error that ended it.
pub async fn streamed(library: &Library, plan: &Arc<BulkPlan>, text: &str) -> Result<bool, ObjectsError> {
    let somebody = Requester { name: None, address: None, request_id: "r1".to_owned() };
    let mut stream = library.volumes.stream(plan, pack::WHOLE, somebody).await.unwrap();
    let mut bytes = Vec::new();
    while let Some(piece) = stream.next().await {
        bytes.extend_from_slice(&piece?);
    }
    Ok(bytes.windows(text.len()).any(|window| window == text.as_bytes()))
}

/// Replaces t.a, of which nothing is condemned, and condemns the earlier revision.
pub async fn replaced(faulty: &Faulty) {
    import(&faulty.library, volume("t.a", &["new"])).await.unwrap();
    assert_eq!(collect(&faulty.library).await.condemned, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn stronghead_a_plan_is_made_of_the_head_that_stands_though_weak_reads_find_an_older_one() {
    let faulty = faulty().await;
    import(&faulty.library, volume("t.a", &["old"])).await.unwrap();
    faulty.store.leave_behind(Table::Objects, keys::volume_partition(&id("t.a")), keys::head());
    replaced(&faulty).await;
    faulty.clock.advance(faulty.library.options().grace);
    let plan = faulty.library.volumes.plan(&first_page(), OnDamage::Break).await.unwrap();
    assert_eq!(collect(&faulty.library).await.removed, 1);
    assert!(streamed(&faulty.library, &plan, "new").await.unwrap());
}

/// G > L + s, with a grace that is only a millisecond longer.
#[tokio::test(flavor = "multi_thread")]
async fn g_l_s_a_plan_can_be_read_for_all_of_its_life_though_clocks_of_collectors_differ_as_far_as_they_may() {
    let millisecond = Duration::from_millis(1);
    let LibraryOptions { plan_life, clock_skew_max, .. } = LibraryOptions::default();
    let options = LibraryOptions { grace: plan_life + clock_skew_max + millisecond, ..LibraryOptions::default() };
    let faulty = faulty_with(options.clone()).await;
    let behind = Arc::new(ManualClock::new(UnixMillis(START.0 - clock_skew_max.as_millis() as u64)));
    let behind = Library::open(faulty.store.clone(), behind, options).await.unwrap();
    import(&faulty.library, volume("t.a", &["old"])).await.unwrap();
    let plan = faulty.library.volumes.plan(&first_page(), OnDamage::Break).await.unwrap();
    import(&faulty.library, volume("t.a", &["new"])).await.unwrap();
    assert_eq!(collect(&behind).await.condemned, 1);
    faulty.clock.advance(plan_life);
    assert_eq!(collect(&faulty.library).await.removed, 0);
    assert!(streamed(&faulty.library, &plan, "old").await.unwrap());
    faulty.clock.advance(millisecond);
    assert_eq!(collect(&faulty.library).await.removed, 1);
    let ended = streamed(&faulty.library, &plan, "old").await;
    assert!(matches!(ended, Err(ObjectsError::Expired(_))), "{ended:?}");
}
