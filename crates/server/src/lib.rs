//! s
pub mod config;
