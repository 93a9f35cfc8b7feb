//! Who makes a change, and with which program, where that is to be known: the names go with the
//! task that works for a request, so that no protocol has to pass them on.

use std::sync::Arc;

use tokio::task::JoinHandle;

/// What the name of a client begins with, over many requests, if it is known by its token.
pub const BY_TOKEN: &str = "token ";

/// Somebody in whose name a task works.
#[derive(Clone)]
struct Actor {
    name: Arc<str>,
    /// The program that sent the request, as it names itself.
    agent: Option<Arc<str>>,
}

tokio::task_local! {
    static ACTOR: Actor;
}

/// Does work in the name of somebody. Changes that are announced meanwhile name the actor, and the
/// program that `agent` names.
pub async fn acting<F: Future>(actor: &str, agent: Option<Arc<str>>, work: F) -> F::Output {
    ACTOR.scope(Actor { name: actor.into(), agent }, work).await
}

/// In whose name this task works; `None`: nobody's that is to be named.
pub fn current() -> Option<String> {
    ACTOR.try_with(|actor| actor.name.to_string()).ok()
}

/// The program for which this task works; `None`: none that is to be named.
pub fn agent() -> Option<Arc<str>> {
    ACTOR.try_with(|actor| actor.agent.clone()).ok().flatten()
}

/// The name in which a task works, for work that is done elsewhere.
pub struct Name(Option<Actor>);

impl Name {
    /// The name in which this task works.
    pub fn of_this_task() -> Self {
        Self(ACTOR.try_with(Actor::clone).ok())
    }

    /// Does work in this name.
    pub async fn acting<F: Future>(self, work: F) -> F::Output {
        match self.0 {
            Some(actor) => ACTOR.scope(actor, work).await,
            None => work.await,
        }
    }
}

/// Spawns a task that works in the same name as this one.
pub fn spawn<F>(work: F) -> JoinHandle<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    tokio::spawn(Name::of_this_task().acting(work))
}
