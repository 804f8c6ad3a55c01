//! `<options>`.

use std::time::Duration;

use super::element::Element;
use super::parts::Parts;
use super::{Result, trimmed_text};
use crate::scenario::program::{Rate, ThinkTime};
use crate::scenario::rows::Rows;
use crate::scenario::source_groups::{PORTS, ports};

/// Options about buffers, processes and retries of Tsung. They change nothing here.
const IGNORED: [&str; 14] = [
    "bosh_path",
    "hibernate",
    "job_notify_port",
    "max_retries",
    "max_ssh_startup_per_core",
    "retry_timeout",
    "ssl_ciphers",
    "ssl_versions",
    "tcp_rcv_buffer",
    "tcp_reuseaddr",
    "tcp_snd_buffer",
    "udp_rcv_buffer",
    "udp_snd_buffer",
    "ip_transparent",
];
/// Tsung's think time where a file names none.
const THINK_TIME: Duration = Duration::from_secs(5);

pub(super) struct Options {
    pub(super) seed: u64,
    pub(super) ports: (u16, u16),
    pub(super) step_timeout: Duration,
    pub(super) websocket_path: Option<String>,
    pub(super) sends_text: bool,
    pub(super) user_agents: Vec<(f64, String)>,
    pub(super) meeting_size: u64,
    pub(super) rate: Option<Rate>,
    pub(super) resumes_tls: bool,
    pub(super) think: Think,
    /// The names of files with rows, in the order of [`Parts::rows`].
    pub(super) files: Vec<String>,
}

/// The think time of elements that name none.
pub(super) struct Think {
    pub(super) time: ThinkTime,
    pub(super) mean: Duration,
    pub(super) is_random: bool,
    /// Whether it replaces those that the sessions name.
    pub(super) overrides: bool,
}

impl Options {
    pub(super) fn read(list: Option<&Element<'_, '_>>, parts: &mut Parts<'_>) -> Result<Options> {
        let mut options = Options {
            seed: 0,
            ports: PORTS,
            step_timeout: Duration::from_secs(600),
            websocket_path: None,
            sends_text: false,
            user_agents: Vec::new(),
            // Tsung's default.
            meeting_size: 100,
            rate: None,
            resumes_tls: true,
            think: Think {
                time: ThinkTime::Fixed(THINK_TIME),
                mean: THINK_TIME,
                is_random: false,
                overrides: false,
            },
            files: Vec::new(),
        };
        let Some(list) = list else { return Ok(options) };
        list.attributes(&[])?;
        list.children(&["option"])?;
        for option in list.elements() {
            options.read_one(&option, parts)?;
        }
        Ok(options)
    }

    fn read_one(&mut self, option: &Element<'_, '_>, parts: &mut Parts<'_>) -> Result<()> {
        let name = option.needed("name")?;
        let values = ["name", "type", "value"];
        match name {
            "user_agent" => {
                option.attributes(&["name", "type"])?;
                self.user_agents = user_agents(option)?;
                return Ok(());
            }
            "ports_range" => return self.read_ports(option),
            "thinktime" => return self.read_think(option),
            "rate_limit" => {
                option.attributes(&[&values[..], &["max"]].concat())?;
                self.rate = Some(rate(option)?);
                return Ok(());
            }
            "file_server" => {
                option.attributes(&[&values[..], &["id"]].concat())?;
                return self.read_file(option, parts);
            }
            _ => {}
        }
        option.children(&[])?;
        option.attributes(&values)?;
        match name {
            "seed" => self.seed = option.whole("value")?.unwrap_or(0),
            "global_ack_timeout" | "connect_timeout" | "idle_timeout" | "tcp_timeout" => {
                let time = option.seconds("value", 0.001)?;
                self.step_timeout = time.unwrap_or(self.step_timeout).min(self.step_timeout);
            }
            "websocket_path" => self.websocket_path = Some(option.needed("value")?.to_owned()),
            "websocket_frame" => {
                self.sends_text = option.one_of("value", &["binary", "text"])? == "text";
            }
            "global_number" => {
                let size = option.whole("value")?.filter(|size| *size > 0);
                self.meeting_size =
                    size.ok_or_else(|| option.attribute_error("value", "must be at least 1"))?;
            }
            "ssl_reuse_sessions" => {
                self.resumes_tls = option.one_of("value", &["true", "false"])? == "true";
            }
            _ if IGNORED.contains(&name) => parts.note(option, &format!("{name} is ignored")),
            _ => return Err(option.attribute_error("name", format!("{name:?} is not supported"))),
        }
        Ok(())
    }

    fn read_ports(&mut self, option: &Element<'_, '_>) -> Result<()> {
        option.attributes(&["name", "min", "max", "value"])?;
        option.children(&[])?;
        if option.one_of("value", &["on", "off"])? == "off" {
            return Ok(());
        }
        let min = option.whole("min")?.unwrap_or(PORTS.0.into());
        let max = option.whole("max")?.unwrap_or(PORTS.1.into());
        self.ports = ports(min, max).map_err(|problem| option.attribute_error("min", problem))?;
        Ok(())
    }

    fn read_think(&mut self, option: &Element<'_, '_>) -> Result<()> {
        option.attributes(&["name", "value", "random", "min", "max", "override"])?;
        option.children(&[])?;
        let think = &mut self.think;
        think.mean = option.seconds("value", 1.0)?.unwrap_or(think.mean);
        think.is_random = option.one_of("random", &["false", "true"])? == "true";
        think.overrides = option.one_of("override", &["false", "true"])? == "true";
        think.time = match (option.seconds("min", 1.0)?, option.seconds("max", 1.0)?) {
            (Some(min), Some(max)) if min <= max => ThinkTime::Uniform(min, max),
            (None, None) if think.is_random => ThinkTime::Exponential(think.mean),
            (None, None) => ThinkTime::Fixed(think.mean),
            _ => return Err(option.attribute_error("min", "min and max are needed, in order")),
        };
        Ok(())
    }

    fn read_file(&mut self, option: &Element<'_, '_>, parts: &mut Parts<'_>) -> Result<()> {
        option.children(&[])?;
        let file = option.needed("value")?;
        let text = parts.read(file).map_err(|problem| option.attribute_error("value", problem))?;
        let rows = Rows::parse(file, &text, None);
        parts.rows.push(rows.map_err(|problem| option.attribute_error("value", problem))?);
        self.files.push(option.attribute("id").unwrap_or("default").to_owned());
        Ok(())
    }
}

/// The values of `User-Agent`, and their weights.
fn user_agents(option: &Element<'_, '_>) -> Result<Vec<(f64, String)>> {
    option.children(&["user_agent"])?;
    let agents = option.elements().map(|agent| {
        agent.attributes(&["probability"])?;
        let weight = agent.number("probability")?;
        let weight = weight.ok_or_else(|| agent.attribute_error("probability", "is needed"))?;
        let text = trimmed_text(&agent);
        match text.chars().any(char::is_control) {
            true => Err(agent.error("must be one line")),
            false => Ok((weight, text)),
        }
    });
    let agents = agents.collect::<Result<Vec<_>>>()?;
    match agents.iter().any(|(weight, _)| *weight > 0.0) {
        true => Ok(agents),
        false => Err(option.error("needs a <user_agent> with a probability")),
    }
}

/// A limit in kilobytes per second.
pub(super) fn rate(option: &Element<'_, '_>) -> Result<Rate> {
    option.children(&[])?;
    let kilobytes = option.whole("value")?.unwrap_or(512);
    let burst = option.whole("max")?.unwrap_or(kilobytes);
    if kilobytes == 0 || burst == 0 || kilobytes.max(burst) > 1 << 30 {
        return Err(option.attribute_error("value", "must be between 1 and 1,073,741,824 KB"));
    }
    Ok(Rate { bytes_per_second: kilobytes * 1024, burst_bytes: burst * 1024 })
}
