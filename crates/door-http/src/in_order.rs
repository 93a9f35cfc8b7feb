//! Work for a client, several pieces at a time, whose results are written in order.

use std::collections::VecDeque;
use std::io;
use std::pin::pin;

use futures::StreamExt;
use futures::stream::{FuturesOrdered, Stream};

/// Does the work that comes, and writes what each piece gives, in the order in which the pieces
/// came. At most `at_once` of them are begun and not written, besides the one that is being
/// written.
///
/// What is begun goes on while a result waits for a client that does not read. Work that nobody
/// polls until then would keep what it has taken from others: a place, a turn, a request of the
/// store.
pub async fn in_order<F, W>(
    coming: impl Stream<Item = F>,
    at_once: usize,
    mut write: impl FnMut(F::Output) -> W,
) -> io::Result<()>
where
    F: Future,
    W: Future<Output = io::Result<()>>,
{
    let coming = pin!(coming);
    let mut work = Work { coming, at_once, all_came: false, running: FuturesOrdered::new(), ended: VecDeque::new() };
    loop {
        let Some(next) = work.ended.pop_front() else {
            if work.go_on().await {
                continue;
            }
            return Ok(());
        };
        let mut writing = pin!(write(next));
        let mut goes_on = true;
        loop {
            tokio::select! {
                biased;
                written = &mut writing => {
                    written?;
                    break;
                }
                has_ended = work.go_on(), if goes_on => goes_on = has_ended,
            }
        }
    }
}

/// The work of a client.
struct Work<S, F: Future> {
    coming: S,
    at_once: usize,
    /// Whether no more comes.
    all_came: bool,
    running: FuturesOrdered<F>,
    /// What is not written, of the pieces before those that run.
    ended: VecDeque<F::Output>,
}

impl<S: Stream<Item = F> + Unpin, F: Future> Work<S, F> {
    /// Goes on until one more piece has ended. Returns false if none will, unless something is
    /// written first.
    async fn go_on(&mut self) -> bool {
        loop {
            let may_begin = !self.all_came && self.running.len() + self.ended.len() < self.at_once;
            tokio::select! {
                biased;
                next = self.coming.next(), if may_begin => match next {
                    Some(piece) => self.running.push_back(piece),
                    None => self.all_came = true,
                },
                Some(result) = self.running.next() => {
                    self.ended.push_back(result);
                    return true;
                }
                else => return false,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use futures::FutureExt;
    use futures::future::{BoxFuture, Ready, pending, ready};
    use futures::stream;
    use tokio::sync::oneshot;
    use tokio::time::timeout;

    use super::*;

    /// A bound against hanging, not a promise of speed.
    const PATIENCE: Duration = Duration::from_secs(30);

    #[tokio::test]
    async fn what_is_under_way_goes_on_while_the_client_reads_nothing() {
        let (answer, answered) = oneshot::channel::<()>();
        let (end, ended) = oneshot::channel::<()>();
        let slow = async move {
            answered.await.unwrap();
            end.send(()).unwrap();
            2_u8
        };
        let work: Vec<BoxFuture<'static, u8>> = vec![ready(1).boxed(), slow.boxed()];
        // The slow one gets what it waits for while the result of the first waits for the client.
        let mut answer = Some(answer);
        let reads_nothing = |_: u8| {
            answer.take().unwrap().send(()).unwrap();
            pending::<io::Result<()>>()
        };
        tokio::select! {
            written = in_order(stream::iter(work), 2, reads_nothing) => panic!("{written:?}"),
            ended = timeout(PATIENCE, ended) => ended.expect("it waits for the client").unwrap(),
        }
    }

    #[tokio::test]
    async fn results_are_written_in_order_and_only_so_many_are_begun_before() {
        let begun = AtomicUsize::new(0);
        let work = (0..20_usize).map(|nth| {
            begun.fetch_add(1, Ordering::SeqCst);
            async move {
                // The first ones end last.
                for _ in nth % 5..5 {
                    tokio::task::yield_now().await;
                }
                nth
            }
        });
        let mut written = Vec::new();
        let write = |nth: usize| {
            assert!(begun.load(Ordering::SeqCst) <= written.len() + 3);
            written.push(nth);
            ready(Ok::<(), io::Error>(()))
        };
        in_order(stream::iter(work), 3, write).await.unwrap();
        assert_eq!(written, (0..20).collect::<Vec<usize>>());
    }

    #[tokio::test]
    async fn no_more_is_begun_while_the_client_reads_nothing_and_a_failed_write_ends_it() {
        fn work(begun: &AtomicUsize) -> impl Iterator<Item = Ready<u8>> {
            (0..20).map(move |nth| {
                begun.fetch_add(1, Ordering::SeqCst);
                ready(nth)
            })
        }
        let begun = AtomicUsize::new(0);
        let stuck = in_order(stream::iter(work(&begun)), 3, |_: u8| pending::<io::Result<()>>());
        assert!(stuck.now_or_never().is_none());
        assert_eq!(begun.load(Ordering::SeqCst), 4, "one is being written, and three wait");
        let fails = |_: u8| ready(Err::<(), _>(io::Error::other("the disk is full")));
        assert!(in_order(stream::iter(work(&begun)), 3, fails).await.is_err());
    }
}
