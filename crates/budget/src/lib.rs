//! Shares of scarce resources, so that no client is left without because another has taken all.
//!
//! Files in reading order: `shares.rs` divides an amount among parties; `memory.rs` is the budget
//! of memory that clients make the server hold; `machine.rs` says how much memory there is;
//! `size.rs` and `size_or_auto.rs` say how settings have sizes; `turns.rs` says whose turn is next;
//! `pace.rs` limits what background work reads; `unseen.rs` says when to look at what grows unread.

mod machine;
mod memory;
mod pace;
mod shares;
pub mod size;
pub mod size_or_auto;
mod turns;
mod unseen;

pub use machine::{part_of_memory, usable_memory};
pub use memory::{Memory, Share};
pub use pace::Pace;
pub use shares::{Overloaded, Party, Shares};
pub use turns::{Load, Turn, Turns};
pub use unseen::Unseen;
