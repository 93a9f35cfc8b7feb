//! OPTIONS.

use axum::response::Response;
use http::StatusCode;

use crate::errors::LdpError;
use crate::request::{LdpRequest, empty};

impl LdpRequest {
    /// The types and methods of a resource.
    pub async fn options(&self) -> Result<Response, LdpError> {
        let resource = self.resource().await?;
        let mut response = empty(StatusCode::OK);
        self.describe(&resource, response.headers_mut());
        Ok(response)
    }
}
