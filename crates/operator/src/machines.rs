//! The machines of the server, as far as they have a recorder.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use watchfire_types::NodeId;

/// One machine: its name and its processes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Machine {
    pub name: String,
    /// The node of its first process, which records; the others follow it.
    pub first: u16,
    pub processes: u16,
}

impl Machine {
    /// Its processes, the recorder first.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> + use<> {
        (self.first..self.first.saturating_add(self.processes)).map(NodeId)
    }

    pub fn recorder(&self) -> NodeId {
        NodeId(self.first)
    }
}

/// All machines, by the nodes of their recorders.
#[derive(Default)]
pub(super) struct Machines(BTreeMap<u16, Machine>);

impl Machines {
    /// Adds a machine. Returns whether it is new.
    pub fn insert(&mut self, machine: Machine) -> bool {
        self.0.insert(machine.first, machine).is_none()
    }

    pub fn remove(&mut self, recorder: NodeId) -> Option<Machine> {
        self.0.remove(&recorder.0)
    }

    /// The machine with a name of [`Machines::names`].
    pub fn find(&self, name: &str) -> Option<&Machine> {
        self.0.values().find(|machine| self.name_of(machine) == name)
    }

    /// The names in order. Machines with the same host name are told apart by their first node.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.0.values().map(|machine| self.name_of(machine)).collect();
        names.sort();
        names
    }

    pub fn name_of(&self, machine: &Machine) -> String {
        let same_name = self.0.values().filter(|other| other.name == machine.name).count();
        match same_name {
            0 | 1 => machine.name.clone(),
            _ => format!("{} ({})", machine.name, machine.first),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_with_the_same_host_name_are_told_apart() {
        let machine = |name: &str, first| Machine { name: name.into(), first, processes: 2 };
        let mut machines = Machines::default();
        for one in [machine("web", 0), machine("web", 2), machine("db", 4)] {
            assert!(machines.insert(one.clone()));
            assert!(!machines.insert(one));
        }
        assert_eq!(machines.names(), ["db", "web (0)", "web (2)"]);
        let found = machines.find("web (2)").expect("it is there");
        assert_eq!(found.nodes().collect::<Vec<_>>(), [NodeId(2), NodeId(3)]);
        assert!(machines.find("web").is_none());
        machines.remove(NodeId(0));
        assert_eq!(machines.names(), ["db", "web"]);
    }
}
