//! Who makes a change, where that is to be known: the name goes with the task that works for a
//! request, so that no protocol has to pass it on.

use std::sync::Arc;

use tokio::task::JoinHandle;

/// What the name of a client begins with, over many requests, if it is known by its token.
pub const BY_TOKEN: &str = "token ";

tokio::task_local! {
    static ACTOR: Arc<str>;
}

/// Does work in the name of somebody. Changes that are announced meanwhile name the actor.
pub async fn acting<F: Future>(actor: &str, work: F) -> F::Output {
    ACTOR.scope(actor.into(), work).await
}

/// In whose name this task works; `None`: nobody's that is to be named.
pub fn current() -> Option<String> {
    ACTOR.try_with(|actor| actor.to_string()).ok()
}

/// Spawns a task that works in the same name as this one.
pub fn spawn<F>(work: F) -> JoinHandle<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    match ACTOR.try_with(Arc::clone) {
        Ok(actor) => tokio::spawn(ACTOR.scope(actor, work)),
        Err(_) => tokio::spawn(work),
    }
}
