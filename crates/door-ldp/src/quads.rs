//! Many resources in one request: N-Quads posted to a container, one resource for each graph, with a line of the answer for each as
//! it is done. The answer comes while the request still goes on, in memory for a few resources.

use std::sync::Arc;

use axum::BoxError;
use axum::body::{Body, BodyDataStream};
use axum::response::Response;
use bytes::Bytes;
use futures::stream::{self, Stream, StreamExt};
use http::{HeaderValue, StatusCode, header};
use objects::ResourcePath;
use objects::resources::Resource;
use rdf::Limits;
use rdf::quads;

use crate::address::path_of_kept;
use crate::ask::{Asked, empty};
use crate::body::{content_type, refuse_codings};
use crate::errors::LdpError;
use crate::model::Model;
use crate::statements::map;

/// The media type of N-Quads (RDF 1.1 N-Quads, section 6).
const N_QUADS: &str = "application/n-quads";

/// Resources that are created at the same time: durable writes share their syncs.
const CREATED_AT_ONCE: usize = 64;

/// Whether a request brings many resources.
pub fn are_sent(asked: &Asked) -> bool {
    let said = content_type(&asked.headers).unwrap_or_default();
    said.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(N_QUADS)
}

impl Asked {
    /// Creates a resource for each graph. What is there already is left as it is, and its line says so.
    pub fn post_quads(self: &Arc<Self>, container: Resource, body: Body) -> Result<Response, LdpError> {
        refuse_codings(&self.headers)?;
        let model = Model::asked(&self.headers, true)?;
        if model == Some(Model::Binary) {
            return Err(LdpError::Model("statements do not become bytes here".to_owned()));
        }
        let limits = Limits {
            body_bytes: self.settings().rdf_bytes_max,
            triples: self.settings().triples_max,
            ..Limits::default()
        };
        let (asked, container) = (self.clone(), Arc::new(container));
        let lines = resources(body, limits).map(move |resource| {
            let (asked, container) = (asked.clone(), container.clone());
            async move {
                match resource {
                    Ok(resource) => asked.create_graph(&container, model, resource).await,
                    Err(error) => line(None, &error),
                }
            }
        });
        let lines = lines.buffered(CREATED_AT_ONCE).map(|line| Ok::<_, BoxError>(Bytes::from(line)));
        let mut response = empty(StatusCode::OK);
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"));
        *response.body_mut() = Body::from_stream(lines);
        Ok(response)
    }

    /// Creates one resource; answers its line.
    async fn create_graph(&self, container: &Resource, model: Option<Model>, resource: quads::Resource) -> String {
        let name = resource.name.as_str().to_owned();
        match self.try_create_graph(container, model, resource).await {
            Ok(()) => {
                let line = serde_json::json!({"resource": name, "status": StatusCode::CREATED.as_u16()});
                format!("{line}\n")
            }
            Err(error) => line(Some(&name), &error),
        }
    }

    async fn try_create_graph(
        &self,
        container: &Resource,
        model: Option<Model>,
        resource: quads::Resource,
    ) -> Result<(), LdpError> {
        let outside = || LdpError::Outside(resource.name.to_string());
        let path = self.site.kept(resource.name.as_str()).and_then(|iri| path_of_kept(&iri)).ok_or_else(outside)?;
        if !is_below(&path, container.path()) {
            return Err(outside());
        }
        let graph = map(resource.graph, |iri| self.site.kept(iri));
        let above = (path.parent().as_ref() == Some(container.path())).then_some(container);
        let new = self.new_graph(graph, model, &path, above)?;
        self.library().create_resource(&path, &new).await?;
        Ok(())
    }
}

/// The resources in a body, as they come. What cannot be read ends them.
fn resources(body: Body, limits: Limits) -> impl Stream<Item = Result<quads::Resource, LdpError>> + Send + 'static {
    let state = Some((body.into_data_stream(), quads::Resources::new(limits)));
    stream::unfold(state, |state| async move {
        let (mut body, mut read) = state?;
        match next(&mut body, &mut read).await {
            Ok(Some(resource)) => Some((Ok(resource), Some((body, read)))),
            Ok(None) => None,
            Err(error) => Some((Err(error), None)),
        }
    })
}

async fn next(body: &mut BodyDataStream, read: &mut quads::Resources) -> Result<Option<quads::Resource>, LdpError> {
    let mut ended = false;
    loop {
        if let Some(resource) = read.next_resource() {
            return Ok(Some(resource?));
        }
        match body.next().await {
            Some(Ok(piece)) => read.feed(&piece),
            Some(Err(error)) => return Err(LdpError::BodyBroken(error.to_string())),
            None if ended => return Ok(None),
            None => {
                read.end();
                ended = true;
            }
        }
    }
}

/// Whether a resource is in a container, however deep.
fn is_below(path: &ResourcePath, container: &ResourcePath) -> bool {
    let mut names = path.names();
    container.names().all(|name| names.next() == Some(name)) && names.next().is_some()
}

/// The line of something that was not created.
fn line(name: Option<&str>, error: &LdpError) -> String {
    let (status, detail) = error.told();
    format!("{}\n", serde_json::json!({"resource": name, "status": status.as_u16(), "detail": detail}))
}
