//! OPTIONS.

use axum::response::Response;
use http::StatusCode;

use crate::ask::{Asked, empty};
use crate::errors::LdpError;

impl Asked {
    /// The types and methods of a resource.
    pub async fn options(&self) -> Result<Response, LdpError> {
        let resource = self.resource().await?;
        let mut response = empty(StatusCode::OK);
        self.describe(&resource, response.headers_mut());
        Ok(response)
    }
}
