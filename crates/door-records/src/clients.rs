//! The connections of a door, for `CLIENT LIST` and `CLIENT KILL`.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use budget::Party;
use bytes::Bytes;
use parking_lot::Mutex;
use store::UnixMillis;
use tokio_util::sync::CancellationToken;

use crate::error::{CommandResult, Refusal};
use crate::reply::Version;
use crate::words::Words;

/// The connections that are open, by their numbers.
#[derive(Default)]
pub(crate) struct Clients(Mutex<Open>);

#[derive(Default)]
struct Open {
    last_id: i64,
    clients: BTreeMap<i64, Arc<Client>>,
}

/// The addresses of a connection, which lists show; `None`: it has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ends {
    /// That of the client.
    pub peer: Option<SocketAddr>,
    /// That of the server.
    pub local: Option<SocketAddr>,
}

/// An open connection.
pub(crate) struct Client {
    pub(crate) id: i64,
    pub(crate) party: Party,
    pub(crate) ends: Ends,
    pub(crate) since: UnixMillis,
    /// Ends it.
    pub(crate) killed: CancellationToken,
    about: Mutex<About>,
}

/// What a connection says of itself.
#[derive(Clone, Default)]
pub(crate) struct About {
    pub(crate) version: Version,
    pub(crate) name: Bytes,
    pub(crate) library: (Bytes, Bytes),
    pub(crate) password: Option<Bytes>,
    /// The name of the token that it sent.
    pub(crate) user: Option<Arc<str>>,
}

/// The user of connections without a token.
const DEFAULT_USER: &str = "default";

/// Keeps a connection listed.
pub(crate) struct Place {
    door: Arc<crate::Door>,
    pub(crate) client: Arc<Client>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.door.clients.0.lock().clients.remove(&self.client.id);
    }
}

impl Place {
    pub(crate) fn new(door: Arc<crate::Door>, party: Party, ends: Ends) -> Self {
        let client = door.clients.add(party, ends, door.records.now());
        Self { door, client }
    }
}

impl Clients {
    fn add(&self, party: Party, ends: Ends, since: UnixMillis) -> Arc<Client> {
        let mut open = self.0.lock();
        open.last_id += 1;
        let (killed, about) = (CancellationToken::new(), Mutex::new(About::default()));
        let client = Arc::new(Client { id: open.last_id, party, ends, since, killed, about });
        open.clients.insert(client.id, client.clone());
        client
    }

    /// The connections that a client may know of: all, if it may see what operators see. Otherwise
    /// those with its token. Without a token, those without one of its own address.
    pub(crate) fn known_to(&self, client: &Client, is_operator: bool) -> Vec<Arc<Client>> {
        let password = client.about.lock().password.clone();
        let is_known = |other: &&Arc<Client>| {
            let of_other = other.about.lock().password.clone();
            let is_same = of_other == password && (password.is_some() || other.party == client.party);
            is_operator || is_same || other.id == client.id
        };
        // The list is taken first: what a client says of itself has a lock of its own.
        let all: Vec<_> = self.0.lock().clients.values().cloned().collect();
        all.iter().filter(is_known).cloned().collect()
    }
}

impl Client {
    pub(crate) fn set_about(&self, about: &About) {
        *self.about.lock() = about.clone();
    }

    /// Its line in lists.
    pub(crate) fn line(&self, now: UnixMillis) -> String {
        let About { version, name, library, user, .. } = self.about.lock().clone();
        let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
        let address = |end: Option<SocketAddr>| end.map_or_else(|| "local".to_owned(), |end| end.to_string());
        format!(
            "id={} addr={} laddr={} name={} age={} db=0 user={} resp={} lib-name={} lib-ver={}\n",
            self.id,
            address(self.ends.peer),
            address(self.ends.local),
            text(&name),
            now.since(self.since).as_secs(),
            user.as_deref().unwrap_or(DEFAULT_USER),
            if version == Version::Two { 2 } else { 3 },
            text(&library.0),
            text(&library.1),
        )
    }
}

/// Which connections are meant.
#[derive(Default)]
pub(crate) struct Filter {
    ids: Vec<i64>,
    peer: Option<Bytes>,
    local: Option<Bytes>,
    user: Option<Bytes>,
    /// Of a kind that no connection has here: `replica`, `pubsub`.
    is_of_other_kind: bool,
    skips_itself: bool,
    age_min_s: Option<i64>,
}

impl Filter {
    /// Of `CLIENT LIST`.
    pub(crate) fn of_list(mut words: Words<'_>) -> CommandResult<Self> {
        let mut filter = Self::default();
        if words.takes("TYPE") {
            filter.kind(words.next()?)?;
        } else if words.takes("ID") {
            while !words.is_empty() {
                filter.ids.push(id(&mut words)?);
            }
            if filter.ids.is_empty() {
                return Err(Refusal::syntax());
            }
        }
        words.end()?;
        Ok(filter)
    }

    /// Of `CLIENT KILL` with filters.
    pub(crate) fn of_kill(mut words: Words<'_>) -> CommandResult<Self> {
        let mut filter = Self { skips_itself: true, ..Self::default() };
        while !words.is_empty() {
            if words.takes("ID") {
                filter.ids.push(id(&mut words)?);
            } else if words.takes("ADDR") {
                filter.peer = Some(words.next()?.clone());
            } else if words.takes("LADDR") {
                filter.local = Some(words.next()?.clone());
            } else if words.takes("USER") {
                filter.user = Some(words.next()?.clone());
            } else if words.takes("TYPE") {
                filter.kind(words.next()?)?;
            } else if words.takes("MAXAGE") {
                filter.age_min_s = Some(words.integer()?);
            } else if words.takes("SKIPME") {
                filter.skips_itself = match words.next()?.to_ascii_lowercase().as_slice() {
                    b"yes" => true,
                    b"no" => false,
                    _ => return Err(Refusal::syntax()),
                };
            } else {
                return Err(Refusal::syntax());
            }
        }
        Ok(filter)
    }

    /// Of `CLIENT KILL` with an address only.
    pub(crate) fn of_address(peer: &Bytes) -> Self {
        Self { peer: Some(peer.clone()), ..Self::default() }
    }

    fn kind(&mut self, kind: &Bytes) -> CommandResult<()> {
        self.is_of_other_kind = match kind.to_ascii_lowercase().as_slice() {
            b"normal" => false,
            b"master" | b"slave" | b"replica" | b"pubsub" => true,
            _ => {
                let kind = String::from_utf8_lossy(&kind[..kind.len().min(128)]).replace(['\r', '\n'], " ");
                return Err(Refusal::error(format_args!("Unknown client type '{kind}'")));
            }
        };
        Ok(())
    }

    /// Whether a connection is meant, by a client of this number.
    pub(crate) fn has(&self, client: &Client, by: i64, now: UnixMillis) -> bool {
        let is = |end: Option<SocketAddr>, wanted: Option<&Bytes>| {
            wanted.is_none_or(|wanted| end.is_some_and(|end| end.to_string().as_bytes() == &wanted[..]))
        };
        let user = client.about.lock().user.clone();
        let user = user.as_deref().unwrap_or(DEFAULT_USER);
        let age_s = i64::try_from(now.since(client.since).as_secs()).unwrap_or(i64::MAX);
        let is_left_out = self.is_of_other_kind || (self.skips_itself && client.id == by);
        !is_left_out
            && (self.ids.is_empty() || self.ids.contains(&client.id))
            && is(client.ends.peer, self.peer.as_ref())
            && is(client.ends.local, self.local.as_ref())
            && self.user.as_ref().is_none_or(|wanted| user.as_bytes() == &wanted[..])
            && self.age_min_s.is_none_or(|age_min_s| age_s >= age_min_s)
    }
}

fn id(words: &mut Words<'_>) -> CommandResult<i64> {
    let wrong = || Refusal::error("client-id should be greater than 0");
    records::integer(words.next()?).ok().filter(|id| *id > 0).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_knows_connections_with_its_token_or_without_one_of_its_address() {
        let clients = Clients::default();
        let address = |last| Party::of_address(std::net::IpAddr::from([192, 0, 2, last]));
        let add = |party: Party, password: Option<&'static str>| {
            let client = clients.add(party, Ends::default(), UnixMillis(0));
            let password = password.map(|text| Bytes::from_static(text.as_bytes()));
            client.set_about(&About { password, ..About::default() });
            client
        };
        let own = add(address(1), Some("a"));
        add(address(2), Some("a"));
        add(address(1), Some("b"));
        let without = add(address(1), None);
        add(address(1), None);
        add(address(2), None);
        let known = |client: &Client, is_operator| {
            clients.known_to(client, is_operator).iter().map(|client| client.id).collect::<Vec<_>>()
        };
        assert_eq!(known(&own, false), [1, 2]);
        assert_eq!(known(&without, false), [4, 5]);
        assert_eq!(known(&own, true), [1, 2, 3, 4, 5, 6]);
    }
}
