//! A libp2p host whose Bitswap streams are our own.
