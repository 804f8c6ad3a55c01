//! Many peers on a pretend clock and network, from one seed.
