//! Live pages: `share --live` publishes one, `get --follow` reads one.

mod follow;
mod kept_head;
mod publish;
mod refuse;

pub use follow::{Follow, follow};
pub use publish::{Publish, publish};
pub use refuse::{is_live, refuse_to_hold};
