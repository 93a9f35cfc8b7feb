//! Operations through a door of Penates, over HTTP: a record is a resource of the repository door,
//! or a page of the data door.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request, header};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use testbed::candidate::INHERITED;
use tokio::process::Command;
use tokio::sync::Semaphore;

use super::records::{Columns, Place};
use super::{Asked, Door, doing};
use crate::plan::DoorName;
use crate::rig::RigError;
use crate::workload::{Data, Partitions};

/// Requests at once. An operation beyond them waits, and its latency counts from when it was due.
const REQUESTS: usize = 64;

/// The letters of texts: one for each byte of a record.
const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// The seed of synthetic volumes, and how their ids begin with it, as paths name them.
const VOLUMES_SEED: &str = "1";
const VOLUMES: &str = "synth.ark+=99999=s1v";

/// The mean bytes of a page of synthetic volumes: that of the samples of which they are made.
const PAGE_BYTES: f64 = 1_423.0;

/// A door of a server that runs.
pub(crate) struct HttpDoor {
    name: DoorName,
    address: SocketAddr,
    client: Client<HttpConnector, Full<Bytes>>,
    at_once: Semaphore,
}

impl HttpDoor {
    /// The door of the server at an address. Connections are made when they are needed.
    pub fn new(name: DoorName, address: SocketAddr) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let client = Client::builder(TokioExecutor::new()).build(connector);
        Self { name, address, client, at_once: Semaphore::new(REQUESTS) }
    }

    /// Where it answers.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Makes all records. Volumes are synthetic, and `program`, which is Penates, imports them.
    pub async fn prefill(&self, data: &Data, seed: u64, program: &Path) -> Result<(), RigError> {
        match self.name {
            DoorName::Repository => super::prefill(self, data, seed).await,
            DoorName::Data => self.import(data, program).await,
        }
    }

    async fn import(&self, data: &Data, program: &Path) -> Result<(), RigError> {
        let what = "importing volumes";
        let mut command = Command::new(program);
        command.args(["synth", "--seed", VOLUMES_SEED, "--server", &format!("http://{}", self.address)]);
        command.args(sizes(data)).env_clear();
        command.envs(INHERITED.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
        command.stdin(Stdio::null()).kill_on_drop(true);
        let output = doing(what, command.output().await)?;
        if output.status.success() {
            return Ok(());
        }
        Err(RigError::Run(format!("{what}: {}", String::from_utf8_lossy(&output.stderr).trim())))
    }

    /// Sends a request, and receives its answer to the end. One that has no success has failed.
    async fn send(&self, method: Method, place: &Place, body: Option<String>) -> Result<(), String> {
        let _turn = self.at_once.acquire().await.map_err(|error| error.to_string())?;
        let path = path(self.name, place);
        let mut request = Request::builder().method(method.clone()).uri(format!("http://{}{path}", self.address));
        if body.is_some() {
            request = request.header(header::CONTENT_TYPE, "text/turtle");
        }
        let request = request.body(Full::from(body.unwrap_or_default())).map_err(|error| error.to_string())?;
        let response = self.client.request(request).await.map_err(|error| error.to_string())?;
        let status = response.status();
        response.into_body().collect().await.map_err(|error| error.to_string())?;
        if status.is_success() { Ok(()) } else { Err(format!("{method} {path}: {status}")) }
    }
}

impl Door for HttpDoor {
    // A plan with operations that the door does not take is refused.
    async fn make(self: Arc<Self>, asked: Asked) -> Result<(), String> {
        match asked {
            Asked::Write(place, columns) => self.send(Method::PUT, &place, Some(turtle(&columns))).await,
            Asked::Read(place) => self.send(Method::GET, &place, None).await,
            Asked::Delete(place) => self.send(Method::DELETE, &place, None).await,
        }
    }

    async fn fill(&self, place: Place, columns: Columns) -> Result<(), String> {
        self.send(Method::PUT, &place, Some(turtle(&columns))).await
    }
}

/// Where a record is.
fn path(door: DoorName, place: &Place) -> String {
    match door {
        DoorName::Repository => format!("/rest/lab-{}", place.key),
        DoorName::Data => {
            // Keys are numbers of ten digits, and volumes have theirs without zeros before.
            let volume: u64 = place.key.parse().unwrap_or_default();
            format!("/volumes/{VOLUMES}{volume}/pages/{}", place.at.unwrap_or_default() + 1)
        }
    }
}

/// How many volumes of how many pages have all records, as options: a partition is a volume. Pages
/// have about as many bytes as records.
fn sizes(data: &Data) -> [String; 3] {
    let pages = match data.partitions {
        Partitions::Wide { rows } => u64::from(rows),
        _ => 1,
    };
    let (volumes, scale) = (data.records.div_ceil(pages), f64::from(data.record_bytes) / PAGE_BYTES);
    [format!("--volumes={volumes}"), format!("--pages={pages}"), format!("--page-scale={scale}")]
}

/// A description with a text for each column, which has as many bytes.
fn turtle(columns: &Columns) -> String {
    let text = |column: &Vec<u8>| -> String {
        column.iter().map(|byte| char::from(LETTERS[usize::from(*byte) % LETTERS.len()])).collect()
    };
    let statements = columns.iter().enumerate();
    let statements: Vec<_> =
        statements.map(|(number, column)| format!("<urn:lab:c{number}> \"{}\"", text(column))).collect();
    format!("<> {} .", statements.join(" ; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_a_resource_with_its_bytes_as_texts() {
        let columns = [vec![0, 64, 255], vec![b'a', b'd'], vec![], vec![], vec![62]];
        let expected = "<> <urn:lab:c0> \"AA_\" ; <urn:lab:c1> \"hk\" ; <urn:lab:c2> \"\" ; <urn:lab:c3> \"\" ; \
                        <urn:lab:c4> \"-\" .";
        assert_eq!(turtle(&columns), expected);
        assert_eq!(path(DoorName::Repository, &Place::of(Partitions::Single, 17)), "/rest/lab-0000000017");
    }

    #[test]
    fn a_record_is_a_page_and_its_partition_a_volume() {
        let partitions = Partitions::Wide { rows: 10 };
        let page = |partitions, number| path(DoorName::Data, &Place::of(partitions, number));
        assert_eq!(page(partitions, 9), "/volumes/synth.ark+=99999=s1v0/pages/10");
        assert_eq!(page(partitions, 20), "/volumes/synth.ark+=99999=s1v2/pages/1");
        assert_eq!(page(Partitions::Single, 20), "/volumes/synth.ark+=99999=s1v20/pages/1");
        // Three volumes have the 21 records, and more.
        let data = Data { records: 21, record_bytes: 1_423, partitions, ..Data::default() };
        assert_eq!(sizes(&data), ["--volumes=3", "--pages=10", "--page-scale=1"]);
    }
}
