//! What handlers take of a request's address. Axum's own extractors refuse in plain text; these
//! refuse with a problem.

use axum::extract::{self, FromRequestParts};
use http::StatusCode;
use http::request::Parts;
use serde::de::DeserializeOwned;

use crate::problem::Problem;
use crate::reason::Reason;

/// The parameters of the query.
#[derive(Debug)]
pub struct Query<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        match extract::Query::<T>::try_from_uri(&parts.uri) {
            Ok(extract::Query(query)) => Ok(Self(query)),
            Err(refused) => Err(Problem::new(Reason::MALFORMED_PARAMETER, &refused.body_text(), false)),
        }
    }
}

/// The percent-decoded parameters of the path, as texts.
#[derive(Debug)]
pub struct Path<T>(pub T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match extract::Path::<T>::from_request_parts(parts, state).await {
            Ok(extract::Path(parameters)) => Ok(Self(parameters)),
            Err(refused) if refused.status() == StatusCode::BAD_REQUEST => {
                Err(Problem::new(Reason::NOT_UTF_8, &"the path is not UTF-8 text", false))
            }
            Err(refused) => Err(Problem::new(Reason::INTERNAL, &refused.body_text(), false)),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::HashMap;

    use axum::response::IntoResponse;
    use http::Request;

    use super::*;

    #[tokio::test]
    async fn a_malformed_query_is_refused_with_a_problem() {
        let read = async |path: &str| {
            let (mut parts, ()) = Request::get(path).body(()).unwrap().into_parts();
            Query::<HashMap<String, u8>>::from_request_parts(&mut parts, &()).await
        };
        assert_eq!(read("/?a=1").await.unwrap().0["a"], 1);
        let refused = read("/?a=x").await.unwrap_err().into_response();
        assert_eq!(refused.status(), StatusCode::BAD_REQUEST);
        assert_eq!(refused.headers()["content-type"], "application/problem+json");
        assert_eq!(refused.extensions().get::<Reason>(), Some(&Reason::MALFORMED_PARAMETER));
    }
}
