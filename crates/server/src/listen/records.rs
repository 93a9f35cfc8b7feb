//! The Redis protocol on a connection.

use std::net::SocketAddr;
use std::sync::Arc;

use budget::Party;
use door_records::{Door, Ends};
use tokio::io::{AsyncRead, AsyncWrite};

use super::accept::{Drain, Protocol};
use crate::peer::Peer;

/// The records door.
#[derive(Clone)]
pub(super) struct Resp(pub(super) Arc<Door>);

impl Protocol for Resp {
    async fn serve<I>(self, io: I, peer: Option<Peer>, drain: Drain)
    where
        I: AsyncRead + AsyncWrite + Send + 'static,
    {
        let party = peer.map_or(Party::Local, |peer| Party::of_address(peer.address));
        let ends = Ends {
            peer: peer.map(|peer| SocketAddr::new(peer.address, peer.port)),
            local: peer.and_then(|peer| peer.local),
        };
        let io = Box::pin(io);
        tokio::select! {
            () = self.0.serve(io, party, ends, drain.stop) => {}
            () = drain.cut.cancelled() => {}
        }
    }
}
