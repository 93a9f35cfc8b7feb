//! A network that breaks: passes connections on to a server, and cuts some of them.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// A proxy in front of a server.
pub struct Proxy {
    /// Its address, e.g. `http://127.0.0.1:41234`.
    pub url: String,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    /// After how many bytes of GET responses the next connections are cut, in this order.
    cuts: Mutex<VecDeque<usize>>,
    /// The number of requests to refuse before the server sees one.
    refusals: Mutex<usize>,
    /// The heads of all requests.
    requests: Mutex<Vec<String>>,
}

impl Proxy {
    /// Cuts the responses to the first GETs after the bytes in `cuts`; all others pass, and so do lists
    /// of volumes.
    pub fn start(server_url: &str, cuts: &[usize]) -> Self {
        Self::with(server_url, State { cuts: Mutex::new(cuts.iter().copied().collect()), ..State::default() })
    }

    /// Responds to the first requests like an overloaded server.
    pub fn refusing(server_url: &str, refusals: usize) -> Self {
        Self::with(server_url, State { refusals: Mutex::new(refusals), ..State::default() })
    }

    fn with(server_url: &str, state: State) -> Self {
        let server: SocketAddr = server_url.strip_prefix("http://").unwrap().parse().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(state);
        let shared = state.clone();
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let state = shared.clone();
                thread::spawn(move || state.pass(client, server));
            }
        });
        Self { url, state }
    }

    /// The heads of the requests that begin with `method`.
    pub fn requests(&self, method: &str) -> Vec<String> {
        let requests = self.state.requests.lock().unwrap();
        requests.iter().filter(|head| head.starts_with(method)).cloned().collect()
    }
}

impl State {
    fn refuses(&self) -> bool {
        let mut refusals = self.refusals.lock().unwrap();
        let refuses = *refusals > 0;
        *refusals = refusals.saturating_sub(1);
        refuses
    }

    /// Passes one connection on, one request after the other.
    fn pass(&self, mut client: TcpStream, server: SocketAddr) {
        let Ok(mut upstream) = TcpStream::connect(server) else { return };
        let (mut from_client, to_server) = (client.try_clone().unwrap(), upstream.try_clone().unwrap());
        let is_get = Arc::new(Mutex::new(false));
        let get = is_get.clone();
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut to_server = to_server;
                let mut buffer = [0; 64 << 10];
                while let Ok(read @ 1..) = from_client.read(&mut buffer) {
                    if let Some(head) = request_head(&buffer[..read]) {
                        // A list may come over the same connection as what follows it, or another one.
                        *get.lock().unwrap() = head.starts_with("GET ") && !head.starts_with("GET /volumes/?");
                        self.requests.lock().unwrap().push(head);
                        if self.refuses() {
                            let _ =
                                from_client.write_all(OVERLOADED).and_then(|()| from_client.shutdown(Shutdown::Write));
                            while let Ok(1..) = from_client.read(&mut buffer) {}
                            break;
                        }
                    }
                    if to_server.write_all(&buffer[..read]).is_err() {
                        break;
                    }
                }
                let _ = to_server.shutdown(Shutdown::Both);
            });
            let mut left: Option<usize> = None;
            let mut buffer = [0; 16 << 10];
            while let Ok(read @ 1..) = upstream.read(&mut buffer) {
                if *is_get.lock().unwrap() && left.is_none() {
                    left = self.cuts.lock().unwrap().pop_front();
                }
                let passed = left.map_or(read, |left| left.min(read));
                if client.write_all(&buffer[..passed]).is_err() || passed < read || left == Some(passed) {
                    break;
                }
                left = left.map(|left| left - passed);
            }
            let _ = client.shutdown(Shutdown::Both);
            let _ = upstream.shutdown(Shutdown::Both);
        });
    }
}

/// The response of an overloaded server.
const OVERLOADED: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 0\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

/// The head of a request, if these bytes begin with one.
fn request_head(bytes: &[u8]) -> Option<String> {
    let begins = [&b"GET "[..], b"HEAD ", b"POST ", b"PUT ", b"DELETE "].iter().any(|method| bytes.starts_with(method));
    let text = String::from_utf8_lossy(bytes);
    begins.then(|| text.split("\r\n\r\n").next().unwrap_or_default().to_owned())
}
