//! The users of a load, and the memory and CPU time of its server, over time.

use serde::{Deserialize, Serialize};
use watchfire_report::units::{binary_bytes, number};
use watchfire_report::{Axis, Colour, Line, Panel, TickFormat};

/// Times are seconds since the load began.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadOverTime {
    /// The connected users in each second.
    pub users: Vec<f64>,
    pub server: Vec<ServerSample>,
}

/// The use of a server at one time, with all its processes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServerSample {
    pub at: f64,
    pub memory_bytes: u64,
    /// Since the server started.
    pub cpu_seconds: f64,
}

impl LoadOverTime {
    /// Users, memory and CPU time in one picture, each relative to its highest value, which the legend has.
    pub fn panel(&self, title: String) -> Option<Panel> {
        let users = self.users.iter().enumerate().map(|(second, users)| (second as f64, *users));
        let memory = self.server.iter().map(|sample| (sample.at, sample.memory_bytes as f64));
        let all = [
            (Colour::Grey, users.collect::<Vec<_>>()),
            (Colour::Orange, memory.collect()),
            (Colour::Blue, self.cores()),
        ];
        let mut lines = Vec::new();
        for (index, (colour, points)) in all.into_iter().enumerate() {
            let highest = points.iter().map(|point| point.1).fold(0.0, f64::max);
            if points.len() < 2 || highest <= 0.0 {
                continue;
            }
            let name = match index {
                0 => format!("users, at most {}", number(highest, 0)),
                1 => format!("memory of the server, at most {}", binary_bytes(highest as u64)),
                _ => format!("its CPU, at most {} % of a core", number(highest * 100.0, 0)),
            };
            let points = points.into_iter().map(|(at, value)| (at, value / highest)).collect();
            lines.push(Line::left(&name, colour, points));
        }
        let left = Axis { step: Some(0.25), ..Axis::up_to("of the highest value", 1.0) };
        let left = left.with_format(TickFormat::Percent);
        (!lines.is_empty()).then(|| Panel::lines(title, Axis::new("seconds"), left, lines))
    }

    /// The cores that the server used between two samples.
    fn cores(&self) -> Vec<(f64, f64)> {
        let pairs = self.server.windows(2).map(|pair| (pair[0], pair[1]));
        let pairs = pairs.filter(|(before, after)| after.at > before.at);
        let cores = |(before, after): (ServerSample, ServerSample)| {
            let used = (after.cpu_seconds - before.cpu_seconds).max(0.0);
            (after.at, used / (after.at - before.at))
        };
        pairs.map(cores).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_picture_has_users_memory_and_cpu() {
        let sample = |at: f64, cpu_seconds| ServerSample { at, memory_bytes: 4 << 20, cpu_seconds };
        let load = LoadOverTime {
            users: vec![0.0, 10.0, 20.0],
            server: vec![sample(0.0, 1.0), sample(2.0, 1.5), sample(2.0, 1.5), sample(4.0, 3.5)],
        };
        assert_eq!(load.cores(), [(2.0, 0.25), (4.0, 1.0)]);
        let Some(Panel::Lines { lines, .. }) = load.panel("a day".to_owned()) else {
            panic!("lines")
        };
        let names: Vec<_> = lines.iter().map(|line| line.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "users, at most 20",
                "memory of the server, at most 4.0 MiB",
                "its CPU, at most 100 % of a core",
            ]
        );
        assert!(lines.iter().flat_map(|line| &line.points).all(|point| point.1 <= 1.0));
        assert!(LoadOverTime::default().panel(String::new()).is_none());
    }
}
