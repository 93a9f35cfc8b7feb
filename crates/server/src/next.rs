//! What follows a layer.
//!
//! `axum::middleware::from_fn` makes each layer a service of its own, which is copied with all that
//! lie within it, and boxed, for each request. So the layers that every request passes are functions
//! of a [`Next`], and `app/layers.rs` puts them into one such service.

use axum::extract::Request;
use axum::middleware;
use axum::response::Response;

/// What follows a layer: the layers within it, and the door.
pub(crate) trait Next: Send {
    /// Passes a request on.
    fn run(self, request: Request) -> impl Future<Output = Response> + Send;
}

impl Next for middleware::Next {
    fn run(self, request: Request) -> impl Future<Output = Response> + Send {
        middleware::Next::run(self, request)
    }
}

/// Layers that are a function.
pub(crate) struct Then<F>(pub(crate) F);

impl<F, R> Next for Then<F>
where
    F: FnOnce(Request) -> R + Send,
    R: Future<Output = Response> + Send,
{
    fn run(self, request: Request) -> impl Future<Output = Response> + Send {
        (self.0)(request)
    }
}
