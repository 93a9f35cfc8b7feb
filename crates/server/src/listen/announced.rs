//! The PROXY protocol, versions 1 and 2: a proxy that only passes bytes on says first for whom.
//! Only trusted proxies may connect, because other clients could write such a header too.

use std::io::{self, Cursor};
use std::net::IpAddr;

use proxy_header::{Error, ParseConfig, ProxyHeader};
use tokio::io::{AsyncReadExt, Chain, Join};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

/// Bytes of a header. One of version 2 may claim 64 KiB; the longest ones have the certificate of a
/// client in them.
const HEADER_BYTES_MAX: usize = 4 << 10;

/// What follows the header.
pub(super) type Rest = Join<Chain<Cursor<Vec<u8>>, OwnedReadHalf>, OwnedWriteHalf>;

/// Reads the header. The address is that of the client; `None`: the proxy speaks for itself, or the
/// client has no IP address.
pub(super) async fn read(stream: TcpStream) -> io::Result<(Rest, Option<IpAddr>)> {
    let (mut input, output) = stream.into_split();
    let config = ParseConfig { include_tlvs: false, ..ParseConfig::default() };
    let mut bytes = Vec::with_capacity(HEADER_BYTES_MAX.min(512));
    loop {
        if input.read_buf(&mut bytes).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        match ProxyHeader::parse(&bytes, config) {
            Ok((header, length)) => {
                let client = header.proxied_address().map(|proxied| proxied.source.ip().to_canonical());
                let mut rest = Cursor::new(bytes);
                rest.set_position(length as u64);
                return Ok((tokio::io::join(rest.chain(input), output), client));
            }
            Err(Error::BufferTooShort) if bytes.len() < HEADER_BYTES_MAX => {}
            Err(_) => return Err(io::Error::new(io::ErrorKind::InvalidData, "no header of the PROXY protocol")),
        }
    }
}
