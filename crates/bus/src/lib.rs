//! What the processes of one server tell one another.
