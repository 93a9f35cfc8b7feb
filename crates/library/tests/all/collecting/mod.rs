//! Collecting: what no head names, versions that are not kept, and what readers and selections see
//! of it.
mod at_size;
mod common;
mod grace;
mod history;
mod moments;
mod parts;
mod plans;
mod queues;
