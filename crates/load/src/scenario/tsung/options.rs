//! `<options>`.

use std::time::Duration;

use super::Result;
use super::element::Element;

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
            ports: (1024, 65_535),
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
            let bounds =
                (option.whole("min")?.unwrap_or(1024), option.whole("max")?.unwrap_or(65_535));
            let port = |port: u64| u16::try_from(port).ok().filter(|port| *port > 0);
            return match (port(bounds.0), port(bounds.1)) {
                (Some(min), Some(max)) if min <= max => {
                    self.ports = (min, max);
                    Ok(())
                }
                _ => Err(option.attribute_error("min", "the lower port must come first")),
            };
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
