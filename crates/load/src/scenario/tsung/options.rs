//! `<options>`.

use std::time::Duration;

use super::Result;
use super::element::Element;
use crate::scenario::sources::{PORTS, ports};

pub(super) struct Options {
    pub(super) seed: u64,
    pub(super) ports: (u16, u16),
    pub(super) step_timeout: Duration,
    pub(super) websocket_path: Option<String>,
}

impl Options {
    pub(super) fn read(list: Option<&Element<'_, '_>>) -> Result<Options> {
        let mut options = Options {
            seed: 0,
            ports: PORTS,
            step_timeout: Duration::from_secs(600),
            websocket_path: None,
        };
        let Some(list) = list else { return Ok(options) };
        list.attributes(&[])?;
        list.children(&["option"])?;
        for option in list.elements() {
            options.read_one(&option)?;
        }
        Ok(options)
    }

    fn read_one(&mut self, option: &Element<'_, '_>) -> Result<()> {
        option.children(&[])?;
        let name = option.needed("name")?;
        if name == "ports_range" {
            option.attributes(&["name", "min", "max"])?;
            let min = option.whole("min")?.unwrap_or(PORTS.0.into());
            let max = option.whole("max")?.unwrap_or(PORTS.1.into());
            let found = ports(min, max);
            self.ports = found.map_err(|problem| option.attribute_error("min", problem))?;
            return Ok(());
        }
        option.attributes(&["name", "value", "type"])?;
        match name {
            "seed" => self.seed = option.whole("value")?.unwrap_or(0),
            "global_ack_timeout" | "connect_timeout" => {
                let time = option.seconds("value", 0.001)?;
                self.step_timeout = time.unwrap_or(self.step_timeout).min(self.step_timeout);
            }
            "websocket_path" => self.websocket_path = Some(option.needed("value")?.to_owned()),
            // Options of the Erlang processes of Tsung, which do not exist here.
            "hibernate" | "max_ssh_startup_per_core" => {}
            _ => return Err(option.attribute_error("name", format!("{name:?} is not supported"))),
        }
        Ok(())
    }
}
