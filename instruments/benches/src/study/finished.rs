//! A server that sends one finished ZIP from its memory: the cost of listeners, HTTP and TLS alone.
//!
//! It uses the libraries of `crates/server` with the same settings (listeners, HTTP/1.1, write
//! time-out, rustls with ring) and sends pieces of the data door's size. It is not a part of that
//! server, whose listeners serve its own routes only.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use axum::body::Body;
use bytes::Bytes;
use futures::stream;
use http::{Response, header};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_io_timeout::TimeoutWriter;
use tokio_rustls::TlsAcceptor;

/// Bytes of a piece of the body: the largest that the data door sends.
const PIECE_BYTES: usize = 256 << 10;
/// Bytes of the buffers for a request's head and for a response, as in the server.
const BUFFER_BYTES: usize = 128 << 10;
/// How long a client may read nothing, as in the server.
const STALL: Duration = Duration::from_secs(60);

/// Serves the file `zip` at two addresses until it is killed. Writes its certificate to `certificate`.
pub async fn serve(zip: &Path, certificate: &Path, http: &str, https: &str) -> Result<()> {
    let pieces: Pieces = std::fs::read(zip)?.chunks(PIECE_BYTES).map(Bytes::copy_from_slice).collect();
    let acceptor = acceptor(certificate)?;
    let (https, http) = (TcpListener::bind(https).await?, TcpListener::bind(http).await?);
    tokio::try_join!(serve_http(http, pieces.clone()), serve_https(https, acceptor, pieces))?;
    Ok(())
}

type Pieces = Arc<[Bytes]>;

async fn serve_http(listener: TcpListener, pieces: Pieces) -> Result<()> {
    loop {
        tokio::spawn(answer(accept(&listener).await?, pieces.clone()));
    }
}

async fn serve_https(listener: TcpListener, acceptor: TlsAcceptor, pieces: Pieces) -> Result<()> {
    loop {
        let (stream, acceptor, pieces) = (accept(&listener).await?, acceptor.clone(), pieces.clone());
        tokio::spawn(async move {
            match acceptor.accept(stream).await {
                Ok(stream) => answer(stream, pieces).await,
                Err(error) => eprintln!("a TLS handshake failed: {error}"),
            }
        });
    }
}

async fn accept(listener: &TcpListener) -> Result<TcpStream> {
    let (stream, _) = listener.accept().await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

fn acceptor(certificate: &Path) -> Result<TlsAcceptor> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned(), "127.0.0.1".to_owned()])?;
    std::fs::write(certificate, made.cert.pem())?;
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Responds to every request of a connection with the ZIP.
async fn answer(stream: impl AsyncRead + AsyncWrite + Send + 'static, pieces: Pieces) {
    let mut stream = TimeoutWriter::new(stream);
    stream.set_timeout(Some(STALL));
    let service = service_fn(|_request| std::future::ready(response(&pieces)));
    let mut http = Builder::new(TokioExecutor::new());
    http.http1().timer(TokioTimer::new()).max_buf_size(BUFFER_BYTES);
    if let Err(error) = http.serve_connection(TokioIo::new(Box::pin(stream)), service).await {
        eprintln!("a connection ended early: {error}");
    }
}

fn response(pieces: &Pieces) -> Result<Response<Body>, http::Error> {
    let (len_bytes, pieces) = (pieces.iter().map(Bytes::len).sum::<usize>(), pieces.clone());
    let pieces = (0..pieces.len()).map(move |index| Ok::<_, std::convert::Infallible>(pieces[index].clone()));
    Response::builder()
        .header(header::CONTENT_TYPE, "application/zip")
        .header(header::CONTENT_LENGTH, len_bytes)
        .body(Body::from_stream(stream::iter(pieces)))
}
