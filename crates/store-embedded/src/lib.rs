//! The embedded engine: the seam over fjall, one data folder, one process
