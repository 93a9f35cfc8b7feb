//! A server that does nothing: it answers everything at once with the same bytes. What the generator
//! reaches with it is the most that it can show of any candidate.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::TcpListener;

/// How long it waits if no connection can be accepted.
const AFTER_FAILURE: Duration = Duration::from_millis(10);

/// What the server answers.
#[derive(Clone, Debug)]
pub struct Null {
    /// The body of each response.
    pub body: Bytes,
    /// How long it waits before it answers.
    pub delay: Duration,
}

impl Null {
    /// Answers with so many bytes.
    pub fn new(body_bytes: usize, delay: Duration) -> Self {
        Self { body: vec![b'.'; body_bytes].into(), delay }
    }

    /// Serves for ever.
    pub async fn serve(self, listener: TcpListener) -> Infallible {
        let this = Arc::new(self);
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
            let this = this.clone();
            let answer = service_fn(move |request| {
                let this = this.clone();
                async move { this.answer(request).await }
            });
            tokio::spawn(async move {
                // A client that breaks off is no failure of a server that does nothing.
                let _ = auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), answer).await;
            });
        }
    }

    /// `POST` and `PUT` create, in the eyes of the client; everything else is read.
    async fn answer(&self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
        let (head, mut body) = request.into_parts();
        while body.frame().await.is_some_and(|frame| frame.is_ok()) {}
        if !self.delay.is_zero() {
            tokio::time::sleep(self.delay).await;
        }
        let mut response = Response::new(Full::new(self.body.clone()));
        response.headers_mut().insert("server", HeaderValue::from_static(concat!("null/", env!("CARGO_PKG_VERSION"))));
        if head.method == "POST" || head.method == "PUT" {
            *response.status_mut() = StatusCode::CREATED;
            if let Ok(location) = HeaderValue::from_str(head.uri.path()) {
                response.headers_mut().insert("location", location);
            }
        }
        Ok(response)
    }
}
