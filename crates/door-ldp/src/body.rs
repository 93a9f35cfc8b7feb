//! Bodies that come in: graphs are read whole, within limits; bytes go to the store as they come.

use axum::body::Body;
use bytes::Bytes;
use door_http::digests;
use futures::{Stream, StreamExt};
use http::{HeaderMap, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use objects::ResourcePath;
use objects::resources::upload::digests_of;
use rdf::{ContentType, Graph, Iri, JsonLdForm, Limits, Syntax};

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
    /// Takes it in, and checks that it is what the headers of the request announce.
    pub async fn read(
        body: Body,
        content_type: ContentType,
        headers: &HeaderMap,
        settings: &LdpSettings,
    ) -> Result<Self, LdpError> {
        Ok(Self { bytes: whole(body, headers, settings.rdf_bytes_max).await?, content_type })
    }

    /// One that says nothing.
    pub fn empty() -> Self {
        let content_type = ContentType { syntax: Syntax::Turtle, charset: rdf::Charset::Utf8 };
        Self { bytes: Bytes::new(), content_type }
    }

    /// One in JSON-LD.
    pub fn json_ld(bytes: Bytes) -> Self {
        let syntax = Syntax::JsonLd(JsonLdForm::Compacted);
        Self { bytes, content_type: ContentType { syntax, charset: rdf::Charset::Utf8 } }
    }

    /// The graph, of the resource at a path, as it is kept.
    pub fn graph(&self, site: &Site, path: &ResourcePath, settings: &LdpSettings) -> Result<Graph, LdpError> {
        self.graph_from(&site.base(path)?, site, settings)
    }

    /// The graph, with this base, as it is kept.
    pub fn graph_from(&self, base: &Iri, site: &Site, settings: &LdpSettings) -> Result<Graph, LdpError> {
        let limits = Limits { body_bytes: settings.rdf_bytes_max, triples: settings.triples_max, ..Limits::default() };
        let text = self.content_type.charset.to_utf8(&self.bytes);
        let graph = rdf::parse(&text, self.content_type.syntax, base, &limits)?;
        Ok(crate::statements::map(graph, |iri| site.kept(iri)))
    }
}

/// A body that is held in memory, and is what the headers of the request announce.
pub async fn whole(body: Body, headers: &HeaderMap, bytes_max: usize) -> Result<Bytes, LdpError> {
    let announced = digests::announced(headers)?;
    let bytes = match Limited::new(body, bytes_max).collect().await {
        Ok(collected) => collected.to_bytes(),
        Err(error) if error.is::<LengthLimitError>() => {
            return Err(LdpError::TooLarge { max_bytes: bytes_max as u64 });
        }
        Err(error) => return Err(LdpError::BodyBroken(error.to_string())),
    };
    digests::check(&announced, &digests_of(&bytes, &digests::algorithms(&announced)))?;
    Ok(bytes)
}

/// Refuses digests of a body that is used while it comes: they would be checked when it is too late.
pub fn refuse_digests(headers: &HeaderMap) -> Result<(), LdpError> {
    let why = || "of many resources in one body no digest is checked, because each is created as it comes".to_owned();
    let names = [digests::DIGEST, digests::REPR_DIGEST, digests::CONTENT_DIGEST];
    match names.iter().any(|name| headers.contains_key(name)) {
        true => Err(LdpError::Header { name: "digest", why: why() }),
        false => Ok(()),
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
