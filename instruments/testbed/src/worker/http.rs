//! Requests over HTTP.

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;

use bytes::Bytes;
use http::header::HOST;
use http::{HeaderName, HeaderValue, Request, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::TokioIo;
use oxiri::Iri;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::spawn_local;

use super::connection::{ANSWER_BYTES_MAX, OnReached, Reached};
use super::failure::Failure;
use super::slots::Slots;
use super::target::Target;
use crate::plan::Http;
use crate::scenario::{Answer, Head, HttpRequest};

/// A connection.
pub enum HttpConnection {
    /// HTTP/1.1
    One(http1::SendRequest<Full<Bytes>>),
    /// HTTP/2, with its places for requests.
    Two(http2::SendRequest<Full<Bytes>>, Slots),
}

/// The path and the query of a request. A relative reference begins at the path of the request before
/// (RFC 3986, 5.2). An address that a step has saved is one of the candidate, whatever host it names.
pub fn path(reference: &str, base: &str) -> Result<String, Failure> {
    if reference.starts_with('/') && !reference.starts_with("//") {
        return Ok(reference.to_owned());
    }
    let wrong = || Failure::Other("an address that is none".to_owned());
    if reference.is_empty() {
        return Err(wrong());
    }
    let base = Iri::parse(format!("http://candidate{base}")).map_err(|_| wrong())?;
    let uri: Uri = base.resolve(reference).map_err(|_| wrong())?.as_str().parse().map_err(|_| wrong())?;
    Ok(uri.path_and_query().map_or("/", |path| path.as_str()).to_owned())
}

/// A request in the form of the protocol. `common` are header fields of all requests.
pub fn request(
    request: &HttpRequest<'_>,
    path: &str,
    version: Http,
    target: &Target,
    common: &[(HeaderName, HeaderValue)],
) -> Result<Request<Full<Bytes>>, Failure> {
    let not_sendable = || Failure::Other("a request that cannot be sent".to_owned());
    let scheme = if target.tls.is_some() { "https" } else { "http" };
    let uri = match version {
        Http::One => path.to_owned(),
        Http::Two => format!("{scheme}://{}{path}", String::from_utf8_lossy(target.host.as_bytes())),
    };
    let mut built = Request::builder().method(&*request.method).uri(uri);
    if let Some(headers) = built.headers_mut() {
        if version == Http::One {
            headers.insert(HOST, target.host.clone());
        }
        for (name, value) in &request.headers {
            let value = HeaderValue::from_str(value).map_err(|_| not_sendable())?;
            headers.append(name.clone(), value);
        }
        for (name, value) in common {
            // A step may have one of its own.
            headers.entry(name).or_insert_with(|| value.clone());
        }
    }
    built.body(Full::new(request.body.clone())).map_err(|_| not_sendable())
}

impl HttpConnection {
    /// Begins HTTP on a connection.
    pub async fn new<S>(stream: S, version: Http) -> Result<Self, Failure>
    where
        S: AsyncRead + AsyncWrite + Unpin + 'static,
    {
        let io = TokioIo::new(stream);
        match version {
            Http::One => {
                let (sender, connection) = http1::handshake(io).await.map_err(Failure::of_http)?;
                // Its requests report how it ended.
                spawn_local(async move { drop(connection.await) });
                Ok(Self::One(sender))
            }
            Http::Two => {
                let (sender, connection) = http2::handshake(LocalExecutor, io).await.map_err(Failure::of_http)?;
                let connection = Rc::new(RefCell::new(connection));
                let allowed = connection.clone();
                let slots = Slots::new(move || allowed.borrow().current_max_send_streams());
                spawn_local(async move {
                    drop(poll_fn(|context| Future::poll(Pin::new(&mut *connection.borrow_mut()), context)).await);
                });
                Ok(Self::Two(sender, slots))
            }
        }
    }

    /// The same connection once more. HTTP/1.1 has one request at a time on each.
    pub fn share(&self) -> Option<Self> {
        match self {
            Self::One(_) => None,
            Self::Two(sender, slots) => Some(Self::Two(sender.clone(), slots.clone())),
        }
    }

    /// Whether the server has not closed it, as far as is known.
    pub fn is_open(&self) -> bool {
        match self {
            Self::One(sender) => !sender.is_closed(),
            Self::Two(sender, _) => !sender.is_closed(),
        }
    }

    /// Sends a request, and receives its response to the end.
    pub async fn exchange(
        &mut self,
        request: Request<Full<Bytes>>,
        keeps_body: bool,
        on: OnReached<'_>,
    ) -> Result<Answer, Failure> {
        let _slot = match self {
            Self::One(_) => None,
            Self::Two(_, slots) => Some(slots.clone().take().await),
        };
        let response = self.send(request, on).await.map_err(Failure::of_http)?;
        let (head, mut incoming) = response.into_parts();
        on(Reached::Head(Some(head.status.as_u16())));
        let (mut body, mut body_bytes) = (Vec::new(), 0);
        while let Some(frame) = incoming.frame().await {
            let Ok(piece) = frame.map_err(Failure::of_http)?.into_data() else { continue };
            body_bytes += piece.len() as u64;
            if keeps_body {
                if body.len() + piece.len() > ANSWER_BYTES_MAX {
                    return Err(Failure::Other("a body of more than 64 MiB where a check looks at it".to_owned()));
                }
                body.extend_from_slice(&piece);
            }
        }
        Ok(Answer { head: Head::Http(head.status, head.headers), body: body.into(), body_bytes })
    }

    async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
        on: OnReached<'_>,
    ) -> Result<hyper::Response<Incoming>, hyper::Error> {
        match self {
            Self::One(sender) => {
                sender.ready().await?;
                on(Reached::Sent);
                sender.send_request(request).await
            }
            Self::Two(sender, _) => {
                sender.ready().await?;
                on(Reached::Sent);
                sender.send_request(request).await
            }
        }
    }
}

/// Runs the tasks of HTTP/2 on the thread of the worker.
#[derive(Clone, Copy)]
struct LocalExecutor;

impl<F: Future + 'static> hyper::rt::Executor<F> for LocalExecutor {
    fn execute(&self, future: F) {
        spawn_local(async move { drop(future.await) });
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_reference_is_resolved_against_the_request_before() {
        let resolved = |reference| path(reference, "/rest/letters/1?a=b").unwrap();
        assert_eq!(resolved("/rest/x?y"), "/rest/x?y");
        assert_eq!(resolved("2"), "/rest/letters/2");
        assert_eq!(resolved("../x/"), "/rest/x/");
        assert_eq!(resolved("?c"), "/rest/letters/1?c");
        assert_eq!(resolved("http://elsewhere.example/rest/y"), "/rest/y");
        assert!(path("", "/").is_err());
    }

    #[test]
    fn a_method_that_is_none_cannot_be_sent_and_is_no_other_one() {
        let target = Target::of_url("http://127.0.0.1").unwrap();
        let built = |method: &'static str| {
            let outgoing =
                HttpRequest { method: method.into(), path: "/".into(), headers: Vec::new(), body: Bytes::new() };
            request(&outgoing, "/", Http::One, &target, &[])
        };
        for method in ["PUT", "REPORT"] {
            assert_eq!(built(method).unwrap().method().as_str(), method);
        }
        for wrong in ["", "PU T"] {
            assert_eq!(built(wrong).unwrap_err().to_string(), "a request that cannot be sent", "{wrong:?}");
        }
    }
}
