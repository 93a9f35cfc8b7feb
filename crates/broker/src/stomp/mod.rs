//! STOMP 1.2 (stomp.github.io/stomp-specification-1.2.html), the part that a sender needs.

pub(crate) mod client;
mod frame;
#[cfg(test)]
mod tests;

pub use frame::{BODY_BYTES_MAX, Decoder, Frame, FrameError, HEAD_BYTES_MAX};
