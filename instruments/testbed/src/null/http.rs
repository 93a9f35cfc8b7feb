//! What a server that does nothing answers over HTTP.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::TcpStream;

/// Serves a client until it leaves.
pub(super) async fn serve(stream: TcpStream, body: Bytes, delay: Duration) {
    let answer = service_fn(move |request| answer(request, body.clone(), delay));
    // A client that breaks off is no failure of a server that does nothing.
    let _ = auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), answer).await;
}

/// `POST` and `PUT` create, in the eyes of the client; everything else is read.
async fn answer(request: Request<Incoming>, body: Bytes, delay: Duration) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, mut received) = request.into_parts();
    while received.frame().await.is_some_and(|frame| frame.is_ok()) {}
    if !delay.is_zero() {
        tokio::time::sleep(delay).await;
    }
    let mut response = Response::new(Full::new(body));
    response.headers_mut().insert("server", HeaderValue::from_static(concat!("null/", env!("CARGO_PKG_VERSION"))));
    if head.method == "POST" || head.method == "PUT" {
        *response.status_mut() = StatusCode::CREATED;
        if let Ok(location) = HeaderValue::from_str(head.uri.path()) {
            response.headers_mut().insert("location", location);
        }
    }
    Ok(response)
}
