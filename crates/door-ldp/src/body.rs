//! Bodies that come in: graphs are read whole, within limits; bytes go to the store as they come.

use axum::body::Body;
use bytes::Bytes;
use futures::{Stream, StreamExt};
use http::{HeaderMap, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use objects::ResourcePath;
use rdf::{ContentType, Graph, Limits, Syntax};

use crate::address::Site;
use crate::errors::LdpError;
use crate::links::values;
use crate::settings::LdpSettings;

/// A graph that came in, not read yet: what its relative IRIs mean is known once it has an address.
#[derive(Clone, Debug)]
pub struct GraphBody {
    bytes: Bytes,
    content_type: ContentType,
}

impl GraphBody {
    /// Takes it in.
    pub async fn read(body: Body, content_type: ContentType, settings: &LdpSettings) -> Result<Self, LdpError> {
        Ok(Self { bytes: whole(body, settings.rdf_bytes_max).await?, content_type })
    }

    /// One that says nothing.
    pub fn empty() -> Self {
        let content_type = ContentType { syntax: Syntax::Turtle, charset: rdf::Charset::Utf8 };
        Self { bytes: Bytes::new(), content_type }
    }

    /// The graph, of the resource at a path, as it is kept.
    pub fn graph(&self, site: &Site, path: &ResourcePath, settings: &LdpSettings) -> Result<Graph, LdpError> {
        let limits = Limits { body_bytes: settings.rdf_bytes_max, triples: settings.triples_max, ..Limits::default() };
        let text = self.content_type.charset.to_utf8(&self.bytes);
        let graph = rdf::parse(&text, self.content_type.syntax, &site.base(path)?, &limits)?;
        Ok(crate::statements::map(graph, |iri| site.kept(iri)))
    }
}

/// A body that is held in memory.
pub async fn whole(body: Body, bytes_max: usize) -> Result<Bytes, LdpError> {
    match Limited::new(body, bytes_max).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(LdpError::TooLarge { max_bytes: bytes_max as u64 }),
        Err(error) => Err(LdpError::BodyBroken(error.to_string())),
    }
}

/// A body as it comes, up to a limit (0: none).
pub fn pieces(body: Body, bytes_max: u64) -> impl Stream<Item = Result<Bytes, LdpError>> + Send + 'static {
    let mut taken_bytes = 0;
    body.into_data_stream().map(move |piece| {
        let piece = piece.map_err(|error| LdpError::BodyBroken(error.to_string()))?;
        taken_bytes += piece.len() as u64;
        match bytes_max {
            0 => Ok(piece),
            max_bytes if taken_bytes <= max_bytes => Ok(piece),
            max_bytes => Err(LdpError::TooLarge { max_bytes }),
        }
    })
}

/// The type of a body, as its sender says; `None`: it does not.
pub fn content_type(headers: &HeaderMap) -> Option<&str> {
    headers.get(header::CONTENT_TYPE)?.to_str().ok().map(str::trim).filter(|value| !value.is_empty())
}

/// Refuses bodies that are coded: what is kept is what was sent.
pub fn refuse_codings(headers: &HeaderMap) -> Result<(), LdpError> {
    let codings = values(headers, &header::CONTENT_ENCODING);
    let coding = codings.into_iter().find(|coding| !coding.trim().eq_ignore_ascii_case("identity"));
    coding.map_or(Ok(()), |coding| Err(LdpError::UnsupportedCoding(coding)))
}
