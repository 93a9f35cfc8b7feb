//! Asks a node whether it is up, with a minimal part of the protocol (native_protocol_v4.spec).

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How long a node may take for each step of an answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// The first byte of requests and answers of version 4 (section 2.1).
const REQUEST: u8 = 0x04;
const ANSWER: u8 = 0x84;

// Operations (section 2.4).
const STARTUP: u8 = 0x01;
const READY: u8 = 0x02;
const AUTHENTICATE: u8 = 0x03;
const OPTIONS: u8 = 0x05;
const SUPPORTED: u8 = 0x06;
const QUERY: u8 = 0x07;
const RESULT: u8 = 0x08;
const AUTH_RESPONSE: u8 = 0x0f;
const AUTH_SUCCESS: u8 = 0x10;

/// Longest answer in bytes; none of the requests here has a longer one.
const ANSWER_MAX_BYTES: u32 = 1 << 20;

/// STARTUP's options (section 4.1.1): a map with one entry.
const VERSION: &[u8] = b"\0\x01\0\x0bCQL_VERSION\0\x053.0.0";

/// The first role that Cassandra creates, for SASL PLAIN (RFC 4616): no other identity, name,
/// password.
const FIRST_ROLE: &[u8] = b"\0cassandra\0cassandra";

/// A table that every cluster has. A scan of it at ALL needs every node that owns a part of the
/// ring.
const WHOLE_RING: &str = "SELECT role FROM system_auth.roles";

/// How many others a node knows. A driver learns of them from this table. It has its row of a node
/// some time after both reach each other.
const KNOWN_OTHERS: &str = "SELECT count(*) FROM system.peers_v2";

/// The consistency ALL (section 3, `[consistency]`), then no flags.
const AT_ALL: [u8; 3] = [0, 5, 0];

/// The consistency ONE, then no flags.
const AT_ONE: [u8; 3] = [0, 1, 0];

/// Whether a node answers clients at this address. OPTIONS is answered before any login.
pub(crate) fn answers(address: SocketAddr) -> bool {
    let asked = || Connection::open(address)?.ask(OPTIONS, &[]);
    matches!(asked(), Ok((SUPPORTED, _)))
}

/// The answer of a node to a request that needs all nodes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// It knows all nodes and reaches them.
    All,
    /// It does not reach all nodes, or does not answer.
    NotAll,
    /// The request is not possible: the node does not know the first role, not yet or no longer.
    LoginRefused,
}

/// Whether a node knows this number of other nodes, and reaches all nodes of its ring.
pub(crate) fn reach(address: SocketAddr, others: usize) -> Reach {
    ask_whole_ring(address, others).unwrap_or(Reach::NotAll)
}

fn ask_whole_ring(address: SocketAddr, others: usize) -> io::Result<Reach> {
    let mut connection = Connection::open(address)?;
    match connection.ask(STARTUP, VERSION)?.0 {
        READY => {}
        AUTHENTICATE => {
            let role = [&(FIRST_ROLE.len() as u32).to_be_bytes(), FIRST_ROLE].concat();
            if connection.ask(AUTH_RESPONSE, &role)?.0 != AUTH_SUCCESS {
                return Ok(Reach::LoginRefused);
            }
        }
        _ => return Ok(Reach::NotAll),
    }
    let knows_all = match connection.ask(QUERY, &query(KNOWN_OTHERS, AT_ONE))? {
        (RESULT, body) => counted(&body).is_some_and(|count| count >= others as u64),
        _ => false,
    };
    let reaches_all = knows_all && connection.ask(QUERY, &query(WHOLE_RING, AT_ALL))?.0 == RESULT;
    Ok(if reaches_all { Reach::All } else { Reach::NotAll })
}

/// The body of QUERY (section 4.1.4).
fn query(statement: &str, consistency: [u8; 3]) -> Vec<u8> {
    [&(statement.len() as u32).to_be_bytes(), statement.as_bytes(), &consistency].concat()
}

/// The count in the only row of a result: its value is a bigint, and ends the body (section 4.2.5).
fn counted(body: &[u8]) -> Option<u64> {
    body.last_chunk().copied().map(u64::from_be_bytes)
}

struct Connection {
    stream: TcpStream,
}

impl Connection {
    fn open(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Self { stream })
    }

    /// Sends a request and reads the answer: its operation and its body. A frame (section 2) has a
    /// header of nine bytes: version, flags, stream (two bytes), operation, length of the body
    /// (four bytes).
    fn ask(&mut self, operation: u8, body: &[u8]) -> io::Result<(u8, Vec<u8>)> {
        let mut frame = vec![REQUEST, 0, 0, 0, operation];
        frame.extend((body.len() as u32).to_be_bytes());
        frame.extend(body);
        self.stream.write_all(&frame)?;
        let mut header = [0; 9];
        self.stream.read_exact(&mut header)?;
        let [version, _, _, _, operation, length @ ..] = header;
        let length = u32::from_be_bytes(length);
        if version != ANSWER || length > ANSWER_MAX_BYTES {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "this is no answer of version 4"));
        }
        let mut body = vec![0; length as usize];
        self.stream.read_exact(&mut body)?;
        Ok((operation, body))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::net::TcpListener;

    use super::*;

    const ERROR: u8 = 0x00;

    /// A server that reads a request's header and answers with these bytes, once.
    fn answering(answer: &'static [u8]) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.read_exact(&mut [0; 9]).unwrap();
            stream.write_all(answer).unwrap();
        });
        address
    }

    #[test]
    fn only_an_answer_of_the_protocol_means_that_a_node_is_up() {
        assert!(answers(answering(&[ANSWER, 0, 0, 0, SUPPORTED, 0, 0, 0, 2, 0, 0])));
        assert!(!answers(answering(&[ANSWER, 0, 0, 0, ERROR, 0, 0, 0, 0])));
        assert!(!answers(answering(b"HTTP/1.1 400 Bad Request\r\n\r\n")));
        assert!(!answers(answering(&[ANSWER, 0, 0, 0, SUPPORTED, 0xff, 0xff, 0xff, 0xff])));
        assert!(!answers(answering(b"")));
    }

    #[test]
    fn an_address_without_a_listener_has_no_node() {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        assert!(!answers(address));
        assert_eq!(reach(address, 0), Reach::NotAll);
    }

    #[test]
    fn a_count_is_the_last_value_of_a_result() {
        let row = [&[0, 0, 0, 1, 0, 0, 0, 8][..], &2_u64.to_be_bytes()].concat();
        assert_eq!((counted(&row), counted(b"short")), (Some(2), None));
    }
}
