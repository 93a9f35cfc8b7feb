//! A small server of metrics, for tests.
#![allow(clippy::unwrap_used)]

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use http::{Request, Response, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// A reply.
#[derive(Clone, Debug)]
pub enum Reply {
    /// 200 with a body.
    Body(Bytes),
    /// A status without a body.
    Status(u16),
    /// None at all; the connection stays open.
    Never,
}

impl Reply {
    /// A page.
    pub fn page(text: &str) -> Self {
        Self::Body(Bytes::copy_from_slice(text.as_bytes()))
    }
}

/// The server. It ends with the test's runtime.
pub struct Server {
    /// The address of its page.
    pub url: String,
    task: JoinHandle<()>,
}

impl Server {
    /// Starts a server. `reply` gets the number of the request, from 0, and its `Authorization`.
    pub async fn start(reply: impl Fn(u64, Option<&str>) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/metrics", listener.local_addr().unwrap());
        let (reply, requests) = (Arc::new(reply), Arc::new(AtomicU64::new(0)));
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(serve(stream, Arc::clone(&reply), Arc::clone(&requests)));
            }
        });
        Self { url, task }
    }

    /// Closes its port.
    pub async fn stop(self) {
        self.task.abort();
        assert!(self.task.await.unwrap_err().is_cancelled());
    }
}

async fn serve(
    stream: TcpStream,
    reply: Arc<impl Fn(u64, Option<&str>) -> Reply>,
    requests: Arc<AtomicU64>,
) -> hyper::Result<()> {
    let answer = |request: Request<Incoming>| {
        let number = requests.fetch_add(1, Ordering::Relaxed);
        let authorization = request.headers().get(header::AUTHORIZATION).and_then(|it| it.to_str().ok());
        let reply = reply(number, authorization);
        async {
            let (status, body) = match reply {
                Reply::Body(body) => (200, body),
                Reply::Status(status) => (status, Bytes::new()),
                Reply::Never => std::future::pending().await,
            };
            Ok::<_, Infallible>(Response::builder().status(status).body(Full::new(body)).unwrap())
        }
    };
    http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(answer)).await
}
