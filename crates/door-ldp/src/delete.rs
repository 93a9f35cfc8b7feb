//! DELETE, of resources and of tombstones.

use std::sync::Arc;

use axum::response::Response;
use heads::actor;
use http::{Method, StatusCode};
use repository::ResourceError;

use crate::conditions::is_conditional;
use crate::errors::LdpError;
use crate::request::{LdpRequest, TRIES_MAX, changes_all_the_time, empty};

impl LdpRequest {
    /// Deletes a resource, and a container with its contents. Responds when that is done, or when a
    /// server has to finish it later.
    pub async fn delete(self: &Arc<Self>) -> Result<Response, LdpError> {
        if self.path().is_root() {
            return Err(LdpError::NotAllowed {
                method: Method::DELETE,
                allow: "GET, HEAD, OPTIONS, POST, PUT, PATCH".to_owned(),
            });
        }
        let asked = self.clone();
        let deletion = actor::spawn(async move { asked.delete_itself().await });
        let status = deletion.await.map_err(|error| LdpError::Internal(error.to_string()))??;
        Ok(empty(status))
    }

    async fn delete_itself(&self) -> Result<StatusCode, LdpError> {
        for _ in 0..TRIES_MAX {
            let resource = self.resource().await?;
            self.may_touch_above(resource.path()).await?;
            self.may_change_members_of(&resource)?;
            self.may_change_members_below(&resource).await?;
            // Deleting needs no condition: no update can be lost by it.
            if is_conditional(&self.headers) || !self.settings().require_condition {
                self.may_change(&resource)?;
            }
            match self.library().repository.delete(&resource).await {
                Err(ResourceError::Moved(_)) => {}
                Err(ResourceError::Deleting { .. }) => return Ok(StatusCode::ACCEPTED),
                done => return Ok(done.map(|()| StatusCode::NO_CONTENT)?),
            }
        }
        Err(changes_all_the_time(self.path()))
    }

    /// Deletes a tombstone, so that the name can be used again.
    pub async fn delete_tombstone(&self) -> Result<Response, LdpError> {
        match self.library().repository.remove_tombstone(self.path()).await {
            Err(ResourceError::Exists(path)) => Err(ResourceError::Absent(path).into()),
            done => done.map(|()| empty(StatusCode::NO_CONTENT)).map_err(LdpError::from),
        }
    }
}
