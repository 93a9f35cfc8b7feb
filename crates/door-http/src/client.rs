//! What the server and its doors pass to each other about a client, as extensions of requests and
//! responses.

use http::Method;

/// Request extension: the client lacks the right to change anything, so pages offer no changes. It
/// protects nothing: the server itself requires the right in front of each route.
#[derive(Clone, Copy, Debug)]
pub struct ReadsOnly;

/// Request and response extension: the client may read at least a part of what is stored, so pages
/// offer to search it. It protects nothing either.
#[derive(Clone, Copy, Debug)]
pub struct MayRead;

/// Response extension: a change was made, and the response is an error about what was to follow it.
/// The audit records that it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Made;

/// Response extension: a form did what this request would have done. The audit records that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acted {
    /// Its method.
    pub method: Method,
    /// Its path, percent-encoded.
    pub path: String,
    /// The path of what it created, percent-encoded.
    pub made: Option<String>,
}
