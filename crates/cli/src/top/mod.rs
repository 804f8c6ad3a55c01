//! `watchfire top`: a running server in the terminal.
//!
//! [`session`] decides what is shown and what the server is asked, from keys, answers and time. [`draw`] draws
//! it, [`terminal`] has the terminal, and [`driver`] connects them with the network.

mod charts;
mod connection_list;
mod draw;
mod driver;
mod past;
mod question;
mod questions_open;
mod session;
mod terminal;
mod text;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::SystemTime;

use watchfire_page_client::ServerUrl;

use crate::operator::{DEFAULT_URL, Operator};
use session::Session;

/// Arguments of `watchfire top`.
#[derive(clap::Args)]
pub struct Arguments {
    /// The operator's listener of the server. It has another address than the server: admin.listen names it.
    #[arg(long, aliases = ["to", "url"], value_name = "URL", default_value = DEFAULT_URL)]
    operator: ServerUrl,
    /// A file with the token of the operator. Without it, the token is in the variable WATCHFIRE_ADMIN_TOKEN.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Print the figures, troubles and events of this moment in UTC, such as "yesterday 14:03", and exit.
    #[arg(long, value_name = "MOMENT", value_parser = past::parse)]
    at: Option<SystemTime>,
}

/// Shows the server until the user quits.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let operator = Operator::new(&arguments.operator, arguments.token_file.as_deref())?;
    if let Some(moment) = arguments.at {
        print!("{}", past::about(&operator, moment)?);
        return Ok(ExitCode::SUCCESS);
    }
    terminal::check()?;
    let session = Session::new(&arguments.operator.to_string());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let result = runtime.block_on(driver::drive(Arc::new(operator), session));
    // A name that is still being resolved must not delay the end.
    runtime.shutdown_background();
    result
}
