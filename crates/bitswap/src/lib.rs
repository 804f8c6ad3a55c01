//! Bitswap: whom to ask for what, and whom to serve next.
