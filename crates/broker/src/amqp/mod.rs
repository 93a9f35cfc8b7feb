//! AMQP 1.0 (OASIS, ISO/IEC 19464), the part that a sender needs: one connection, one session, one
//! link. Section numbers are those of the standard's parts.

pub(crate) mod client;
mod frame;
mod login;
mod message;
#[cfg(test)]
mod tests;
mod value;

pub use frame::{Decoder, FRAME_BYTES_MAX, Frame, FrameError};
pub use value::{DEPTH_MAX, Value};
