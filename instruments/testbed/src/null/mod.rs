//! A server that does nothing: it answers everything at once with the same bytes. What the generator
//! reaches with it is the most that it can show of any candidate. `http.rs` and `resp.rs` have what it
//! answers over each protocol.

mod http;
mod resp;

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use tokio::net::TcpListener;

/// How long it waits if no connection can be accepted.
const AFTER_FAILURE: Duration = Duration::from_millis(10);

/// What the server answers.
#[derive(Clone, Debug)]
pub struct Null {
    answers: Answers,
    delay: Duration,
}

#[derive(Clone, Debug)]
enum Answers {
    /// Over HTTP, with this body.
    Http(Bytes),
    /// Over the Redis protocol.
    Resp,
}

impl Null {
    /// Answers each request over HTTP with so many bytes, after a delay.
    pub fn http(body_bytes: usize, delay: Duration) -> Self {
        Self { answers: Answers::Http(vec![b'.'; body_bytes].into()), delay }
    }

    /// Answers commands over the Redis protocol (RESP2, and RESP3 after `HELLO 3`), after a delay. Commands
    /// that arrive together wait together. It keeps nothing: each record has the same attributes, and each
    /// change is acknowledged.
    pub fn redis(delay: Duration) -> Self {
        Self { answers: Answers::Resp, delay }
    }

    /// Serves for ever.
    pub async fn serve(self, listener: TcpListener) -> Infallible {
        let Self { answers, delay } = self;
        loop {
            let stream = match listener.accept().await {
                Ok((stream, _)) => stream,
                // A client that has gone, or more clients than files for a moment.
                Err(_) => {
                    tokio::time::sleep(AFTER_FAILURE).await;
                    continue;
                }
            };
            // A client that has gone meanwhile is noticed below.
            let _ = stream.set_nodelay(true);
            let answers = answers.clone();
            tokio::spawn(async move {
                match answers {
                    Answers::Http(body) => http::serve(stream, body, delay).await,
                    // A client that breaks off is no failure of a server that does nothing.
                    Answers::Resp => drop(resp::serve(stream, delay).await),
                }
            });
        }
    }
}
