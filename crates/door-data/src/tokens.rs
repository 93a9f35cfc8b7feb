//! `GET|POST /tokencount`: how often each word occurs in volumes or on their pages. By default it
//! is the original service's ZIP; CSV, JSON and NDJSON have a row for each token.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use hathi::VolumeId;
use http::{HeaderValue, header};
use volumes::{BulkRequest, SortBy, TokenLevel, TokenOrder, TokenRequest, Tokenization, Waiting};

use crate::DataDoor;
use crate::archive::ZipName;
use crate::as_of::AsOf;
use crate::asking::Asking;
use crate::errors::{AsText, DoorError};
use crate::list_request::ListRequest;
use crate::params::Params;
use crate::token_rows::{self, RowFormat};

const ZIP: HeaderValue = HeaderValue::from_static("application/zip");

/// The handler.
pub async fn count(
    State(door): State<Arc<DataDoor>>,
    Asking(requester): Asking,
    request: Request,
) -> Result<Response, AsText> {
    let accepted = token_rows::accepted(request.headers());
    let volumes = |params: &Params, client: &Waiting| -> Result<BulkRequest, DoorError> {
        let wanted = params.volumes(|| client.lasts())?;
        let as_of = params.as_of()?.map(AsOf::below);
        Ok(BulkRequest { as_of, ..BulkRequest::volumes(wanted.into_iter().map(|wanted| wanted.volume)) })
    };
    let asked = ListRequest::read_with(&door, request, &requester, volumes).await?;
    asked.check_pages(&door).await?;
    let volumes: Vec<VolumeId> = asked.bulk.wanted.iter().map(|wanted| wanted.volume.clone()).collect();
    let (level, order, as_of) = (level(&asked.params)?, order(&asked.params)?, asked.bulk.as_of);
    let format = token_rows::asked(&asked.params)?.unwrap_or(accepted);
    let tokenization = tokenization(&asked.params)?;
    let rows = format.map(|format| format.rows(level));
    let request = TokenRequest { volumes, level, order, tokenization, rows, as_of };
    drop(asked);
    let pieces = door.library.volumes.token_counts(request, requester).await?;
    let mut response = Response::new(Body::from_stream(pieces));
    let headers = response.headers_mut();
    headers.insert(header::VARY, HeaderValue::from_static("accept"));
    headers.insert(header::CONTENT_TYPE, format.map_or(ZIP, RowFormat::content_type));
    if format.is_none() {
        headers.insert(header::CONTENT_DISPOSITION, HeaderValue::from_static(ZipName::TokenCount.disposition()));
    }
    Ok(response)
}

/// What a token is, by `tokens`.
fn tokenization(params: &Params) -> Result<Tokenization, DoorError> {
    let named = params.keyword("tokens", "written or words", |word| match word {
        "written" => Some(Tokenization::Written),
        "words" => Some(Tokenization::Words),
        _ => None,
    })?;
    Ok(named.unwrap_or_default())
}

/// `page`, or anything else for volume, as in the original service.
fn level(params: &Params) -> Result<TokenLevel, DoorError> {
    let level = params.keyword("level", "page or volume", |level| match level {
        "" => None,
        "page" => Some(TokenLevel::Page),
        _ => Some(TokenLevel::Volume),
    })?;
    Ok(level.unwrap_or(TokenLevel::Volume))
}

/// The order of `sortBy`, descending if `sortOrder` begins with `desc`. Without `sortBy`: by code
/// points, ascending.
fn order(params: &Params) -> Result<TokenOrder, DoorError> {
    let by = params.keyword("sortBy", "token or count", |word| match word {
        "token" => Some(SortBy::Token),
        "count" => Some(SortBy::Count),
        _ => None,
    })?;
    let falls = |order: &str| (!order.is_empty()).then(|| order.starts_with("desc"));
    let descending = params.keyword("sortOrder", "asc or desc", falls)?.unwrap_or(false);
    Ok(by.map_or_else(TokenOrder::default, |by| TokenOrder { by, descending }))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn read(query: &str) -> (TokenLevel, TokenOrder) {
        let params = Params::of_query(Some(query));
        (level(&params).unwrap(), order(&params).unwrap())
    }

    #[test]
    fn anything_but_page_is_volume() {
        assert_eq!(read("level=page").0, TokenLevel::Page);
        assert_eq!(read("level=volume").0, TokenLevel::Volume);
        assert_eq!(read("level=word").0, TokenLevel::Volume);
        assert_eq!(read("").0, TokenLevel::Volume);
        assert!(super::level(&Params::of_query(Some("level="))).is_err());
    }

    #[test]
    fn an_order_is_descending_only_if_it_begins_with_desc() {
        let order = |by, descending| TokenOrder { by, descending };
        assert_eq!(read("sortBy=count&sortOrder=DESCENDING").1, order(SortBy::Count, true));
        assert_eq!(read("sortBy=count&sortOrder=down").1, order(SortBy::Count, false));
        assert_eq!(read("sortBy=token").1, order(SortBy::Token, false));
        assert_eq!(read("sortOrder=desc").1, order(SortBy::Token, false));
        for query in ["sortBy=size", "sortBy=", "sortOrder=", "sortOrder=asc&sortOrder=desc"] {
            assert!(super::order(&Params::of_query(Some(query))).is_err(), "{query}");
        }
    }
}
