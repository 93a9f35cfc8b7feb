//! Asking a node whether it answers clients.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How long a node may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// The header of a request of protocol version 4, without flags, on stream 0, without body (native_protocol_v4.spec, section 2):
/// OPTIONS (4.1.3), which is answered before any login.
const OPTIONS: [u8; 9] = [0x04, 0, 0, 0, 0x05, 0, 0, 0, 0];

/// The beginning of an answer of that version, and the operation that it must be: SUPPORTED (4.2.4).
const ANSWER: u8 = 0x84;
const SUPPORTED: u8 = 0x06;

/// Whether a node answers clients at this address.
pub(crate) fn answers(address: SocketAddr) -> bool {
    ask_options(address).is_ok_and(|header| header[0] == ANSWER && header[4] == SUPPORTED)
}

fn ask_options(address: SocketAddr) -> io::Result<[u8; 9]> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(&OPTIONS)?;
    let mut header = [0; 9];
    stream.read_exact(&mut header)?;
    Ok(header)
}
