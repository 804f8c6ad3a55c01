//! Several processes behind one port: who starts them, and what they share.
