//! The counter-example of collecting in which a reader pauses between two reads. It uses a store in
//! memory: a test can hold time, but not a driver's time.

use heads::ObjectsError;
use volumes::OnDamage;

use super::common::{HOUR, collect};
use super::plans::{first_page, replaced, streamed};
use crate::support::{faulty, import, volume};

#[tokio::test(start_paused = true)]
async fn planfirst_the_life_of_a_plan_counts_from_before_its_heads_are_read() {
    let faulty = faulty().await;
    import(&faulty.library, volume("t.a", &["old"])).await.unwrap();
    let turns = faulty.store.take_turns();
    let library = faulty.library.clone();
    let planning = tokio::spawn(async move { library.volumes.plan(&first_page(), OnDamage::Break).await });
    // The planner has read the head. It pauses now, while what it names is superseded, condemned
    // and almost collected.
    while !turns.next(None, None).await {}
    faulty.store.end_turns();
    replaced(&faulty).await;
    let grace = faulty.library.options().grace;
    faulty.clock.advance(grace - HOUR);
    turns.next(None, None).await;
    let plan = planning.await.unwrap().unwrap();
    assert!(plan.missing.is_empty(), "{:?}", plan.missing);
    faulty.clock.advance(HOUR);
    assert_eq!(collect(&faulty.library).await.removed, 1);
    let ended = streamed(&faulty.library, &plan, "old").await;
    assert!(matches!(ended, Err(ObjectsError::Expired(_))), "{ended:?}");
}
