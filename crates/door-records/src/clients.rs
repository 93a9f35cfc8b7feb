//! The connections of a door, for `CLIENT LIST` and `CLIENT KILL`.

use std::collections::{BTreeMap, HashSet};
use std::net::SocketAddr;
use std::ops::Bound;
use std::sync::Arc;

use budget::Party;
use bytes::Bytes;
use parking_lot::Mutex;
use store::UnixMillis;
use tokio::task::yield_now;
use tokio_util::sync::CancellationToken;

use crate::error::{CommandResult, Refusal};
use crate::reply::Version;
use crate::words::Words;

/// So many connections are looked at before other tasks have a turn.
const LOOKED_AT_ONCE: usize = 256;

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

/// At most so many bytes has the line of a connection besides what it says of itself.
const LINE_BYTES: usize = 256;

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

    /// Goes through the connections that a client may know of, in the order of their numbers: all, if
    /// it may see what operators see. Otherwise those with its token. Without a token, those without
    /// one of its own address. Those that begin meanwhile are left out. It ends when `each` fails.
    pub(crate) async fn for_each_known(
        &self,
        client: &Client,
        is_operator: bool,
        mut each: impl FnMut(&Client) -> CommandResult<()>,
    ) -> CommandResult<()> {
        let password = client.about.lock().password.clone();
        let is_known = |other: &Client| {
            let has_same = other.about.lock().password == password;
            let is_same = has_same && (password.is_some() || other.party == client.party);
            is_operator || is_same || other.id == client.id
        };
        let last = self.0.lock().last_id;
        let mut after = 0;
        loop {
            // They are taken first: what a client says of itself has a lock of its own.
            let some = self.some(after, last);
            let Some(end) = some.last() else { return Ok(()) };
            after = end.id;
            for other in &some {
                if is_known(other) {
                    each(other)?;
                }
            }
            yield_now().await;
        }
    }

    /// Some connections with numbers above `after`, up to `last`; none: there are no others.
    fn some(&self, after: i64, last: i64) -> Vec<Arc<Client>> {
        let range = (Bound::Excluded(after), Bound::Included(last.max(after)));
        self.0.lock().clients.range(range).take(LOOKED_AT_ONCE).map(|(_, client)| client.clone()).collect()
    }
}

impl Client {
    pub(crate) fn set_about(&self, about: &About) {
        *self.about.lock() = about.clone();
    }

    /// At most so many bytes has its line in lists, unless it says more of itself until then.
    pub(crate) fn line_bytes(&self) -> usize {
        let about = self.about.lock();
        let user = about.user.as_deref().unwrap_or(DEFAULT_USER);
        LINE_BYTES + about.name.len() + user.len() + about.library.0.len() + about.library.1.len()
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
    ids: HashSet<i64>,
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
                filter.ids.insert(id(&mut words)?);
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
                filter.ids.insert(id(&mut words)?);
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
    #![allow(clippy::unwrap_used)]
    use std::pin::pin;

    use futures::FutureExt;

    use super::*;

    fn address(last: u8) -> Party {
        Party::of_address(std::net::IpAddr::from([192, 0, 2, last]))
    }

    /// A connection from that address, with that token.
    fn add(clients: &Clients, last: u8, password: Option<&'static str>) -> Arc<Client> {
        let client = clients.add(address(last), Ends::default(), UnixMillis(0));
        let password = password.map(|text| Bytes::from_static(text.as_bytes()));
        client.set_about(&About { password, ..About::default() });
        client
    }

    /// The numbers of the connections that a client may know of.
    async fn known(clients: &Clients, client: &Client, is_operator: bool) -> Vec<i64> {
        let mut ids = Vec::new();
        let note = |client: &Client| {
            ids.push(client.id);
            Ok(())
        };
        assert_eq!(clients.for_each_known(client, is_operator, note).await, Ok(()));
        ids
    }

    #[tokio::test]
    async fn a_client_knows_connections_with_its_token_or_without_one_of_its_address() {
        let clients = Clients::default();
        let own = add(&clients, 1, Some("a"));
        add(&clients, 2, Some("a"));
        add(&clients, 1, Some("b"));
        let without = add(&clients, 1, None);
        add(&clients, 1, None);
        add(&clients, 2, None);
        assert_eq!(known(&clients, &own, false).await, [1, 2]);
        assert_eq!(known(&clients, &without, false).await, [4, 5]);
        assert_eq!(known(&clients, &own, true).await, [1, 2, 3, 4, 5, 6]);
    }

    #[tokio::test]
    async fn other_tasks_have_turns_while_many_connections_are_looked_at() {
        let clients = Clients::default();
        let own = add(&clients, 1, None);
        (1..3 * LOOKED_AT_ONCE).for_each(|_| drop(add(&clients, 1, None)));
        let mut looking = pin!(known(&clients, &own, false));
        let mut turns = 0;
        let ids = loop {
            match looking.as_mut().now_or_never() {
                Some(ids) => break ids,
                None => turns += 1,
            }
            // What begins or ends meanwhile holds it up for no longer.
            clients.0.lock().clients.remove(&600);
            add(&clients, 1, None);
        };
        assert_eq!((turns, ids.len()), (3, 3 * LOOKED_AT_ONCE - 1));
    }

    #[test]
    fn a_line_is_no_longer_than_is_counted_for_it() {
        let end = Some("[2001:db8:ffff:ffff:ffff:ffff:ffff:ffff%4294967295]:65535".parse().unwrap());
        let clients = Clients::default();
        clients.0.lock().last_id = i64::MAX - 1;
        let client = clients.add(address(1), Ends { peer: end, local: end }, UnixMillis(0));
        for name in [Bytes::new(), Bytes::from("n".repeat(256))] {
            client.set_about(&About { library: (name.clone(), name.clone()), name, ..About::default() });
            let line = client.line(UnixMillis(u64::MAX));
            assert!(line.len() <= client.line_bytes(), "{line}");
        }
    }
}
