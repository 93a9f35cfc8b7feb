//! What headers of requests and responses say of a resource.

use anyhow::{Context, anyhow, bail};
use http::request::Builder;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, header};
use preservation::about::{ARCHIVAL_GROUP, About};

use super::super::checked_path;

/// Most characters of a value that a message shows.
const SHOWN_CHARS_MAX: usize = 100;

/// The namespace of interaction models.
pub(super) const LDP: &str = "http://www.w3.org/ns/ldp#";
/// Their names in it, the most specific one first.
const MODELS: [&str; 5] = ["NonRDFSource", "DirectContainer", "IndirectContainer", "BasicContainer", "RDFSource"];
/// The relation to content that is stored elsewhere (Fedora API, section 3.9).
const EXTERNAL_CONTENT: &str = "http://fedora.info/definitions/fcrepo#ExternalContent";
pub(super) const REPR_DIGEST: HeaderName = HeaderName::from_static("repr-digest");

/// The most specific interaction model of a resource.
fn model(about: &About) -> anyhow::Result<String> {
    let name = model_name(about).context("its types name no interaction model")?;
    Ok(format!("{LDP}{name}"))
}

/// The name of the most specific interaction model of a resource, if its types name any.
pub fn model_name(about: &About) -> Option<&'static str> {
    let is_named = |name: &&str| about.types.iter().any(|class| class.strip_prefix(LDP) == Some(*name));
    MODELS.into_iter().find(is_named)
}

/// A request that creates a resource.
pub(super) fn put(about: &About) -> anyhow::Result<Builder> {
    checked_path(&about.path).map_err(|why| anyhow!(why))?;
    let types = [model(about)?].into_iter().chain(about.is_group().then(|| ARCHIVAL_GROUP.to_owned()));
    let request = types.fold(Request::builder().method(Method::PUT), |request, class| {
        request.header(header::LINK, format!("<{class}>; rel=\"type\""))
    });
    if !about.is_binary() {
        return Ok(request.header(header::CONTENT_TYPE, "application/n-triples"));
    }
    check_headers(about)?;
    let request = match &about.content_disposition {
        Some(disposition) => request.header(header::CONTENT_DISPOSITION, disposition),
        None => request,
    };
    Ok(match (&about.stored_at, &about.content_type) {
        (Some(url), media_type) => {
            let said = media_type.as_ref().map(|said| format!("; type=\"{said}\"")).unwrap_or_default();
            let handling = about.handling.as_deref().filter(|handling| *handling == "proxy").unwrap_or("redirect");
            let link = format!("<{url}>; rel=\"{EXTERNAL_CONTENT}\"; handling=\"{handling}\"{said}");
            request.header(header::LINK, link)
        }
        (None, Some(media_type)) => request.header(header::CONTENT_TYPE, media_type),
        (None, None) => request,
    })
}

/// Checks that what is said of bytes can be sent in headers.
pub fn check_headers(about: &About) -> anyhow::Result<()> {
    let is_elsewhere = about.stored_at.is_some();
    for (what, value, refused) in [
        ("media type", &about.content_type, if is_elsewhere { &['"', '\\'][..] } else { &[] }),
        ("`Content-Disposition`", &about.content_disposition, &[]),
        ("address of its bytes", &about.stored_at, &['<', '>']),
    ] {
        let Some(value) = value else { continue };
        if HeaderValue::try_from(value).is_err() || value.contains(refused) {
            let shown: String = value.chars().take(SHOWN_CHARS_MAX).collect();
            bail!("its {what} has characters that are not allowed: {shown:?}");
        }
    }
    Ok(())
}

/// Whether the headers of a response name the interaction model of a resource.
pub(super) fn is_like(about: &About, headers: &HeaderMap) -> anyhow::Result<bool> {
    let model = format!("<{}>", model(about)?);
    let group = format!("<{ARCHIVAL_GROUP}>");
    let links = || headers.get_all(header::LINK).iter().filter_map(|link| link.to_str().ok());
    let is_group = links().any(|link| link.starts_with(&group));
    Ok(links().any(|link| link.starts_with(&model)) && is_group == about.is_group())
}

pub(super) fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}
