//! The Redis protocol on a connection.

use std::net::SocketAddr;
use std::sync::Arc;

use budget::Party;
use door_records::{Door, Ends, Rights, WrongPassword};
use tokio::io::{AsyncRead, AsyncWrite};

use super::accept::{Drain, Protocol};
use crate::access::{Policy, Right};
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

impl door_records::Access for Policy {
    fn rights(&self, password: Option<&[u8]>) -> Result<Rights, WrongPassword> {
        let token = password.map(|password| str::from_utf8(password).map_err(|_| WrongPassword)).transpose()?;
        let holder = token.map(|token| self.tokens.holder_of(token).ok_or(WrongPassword)).transpose()?;
        Ok(Rights {
            read: self.allows(holder.as_ref(), Right::Read),
            write: self.allows(holder.as_ref(), Right::Write),
            operate: self.allows(holder.as_ref(), Right::Operate),
        })
    }

    fn user(&self, password: &[u8]) -> Option<String> {
        self.tokens.holder_of(str::from_utf8(password).ok()?).map(|holder| holder.name)
    }
}
