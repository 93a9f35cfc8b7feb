//! Sends several events to a webhook: those of one object one after the other, those of different
//! objects at the same time.

use std::sync::atomic::{AtomicBool, Ordering};

use ::feed::{Event, Subject};
use futures::{StreamExt, stream};
use store::UnixMillis;
use tokio::time::Instant;

use super::Webhook;
use crate::delivery::{Failure, ROUND, Sent};

/// Messages that are on their way to one webhook at once.
const AT_ONCE: usize = 4;

/// Events that are sent together.
pub(super) struct Round<'a> {
    /// The events of each object, in order.
    chains: Vec<Vec<&'a Event>>,
}

impl<'a> Round<'a> {
    pub(super) fn of(events: Vec<&'a Event>) -> Self {
        let mut chains: Vec<(&Subject, Vec<&Event>)> = Vec::new();
        for event in events {
            match chains.iter_mut().find(|(subject, _)| **subject == event.subject) {
                Some((_, chain)) => chain.push(event),
                None => chains.push((&event.subject, vec![event])),
            }
        }
        Self { chains: chains.into_iter().map(|(_, chain)| chain).collect() }
    }

    /// Sends until a message is not accepted, or the round has taken long enough.
    pub(super) async fn send(self, webhook: &Webhook, now: &(dyn Fn() -> UnixMillis + Send + Sync)) -> Sent {
        let (begun, has_failed) = (Instant::now(), AtomicBool::new(false));
        let send = async |chain: Vec<&Event>| {
            let mut sent = Sent::default();
            for event in chain {
                if has_failed.load(Ordering::Relaxed) || begun.elapsed() >= ROUND {
                    break;
                }
                match webhook.send_one(event, now()).await {
                    Ok(()) => _ = sent.accepted.insert(event.cursor),
                    Err(failure) => {
                        has_failed.store(true, Ordering::Relaxed);
                        sent.failed = Some((event.clone(), failure));
                    }
                }
            }
            sent
        };
        let mut sending = std::pin::pin!(stream::iter(self.chains.into_iter().map(send)).buffer_unordered(AT_ONCE));
        let mut all = Sent::default();
        while let Some(sent) = sending.next().await {
            all.accepted.extend(sent.accepted);
            let earlier = |one: (Event, Failure), other: (Event, Failure)| match one.0.cursor < other.0.cursor {
                true => one,
                false => other,
            };
            all.failed = match (all.failed.take(), sent.failed) {
                (Some(one), Some(other)) => Some(earlier(one, other)),
                (one, other) => one.or(other),
            };
        }
        all
    }
}
