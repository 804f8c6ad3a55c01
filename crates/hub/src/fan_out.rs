use std::collections::VecDeque;

/// The deliveries that wait on one topic, and the progress of the first of them.
///
/// The topic's members are in a list, and new members are appended. So the members that were
/// subscribed when a delivery was published are before its `end`. Of these, the members that have
/// received the first delivery are before the `cursor`. The ends rise from first to last delivery.
#[derive(Debug)]
pub(crate) struct FanOut<D> {
    waiting: VecDeque<Waiting<D>>,
    cursor: u32,
}

#[derive(Debug)]
struct Waiting<D> {
    delivery: D,
    /// The number of members that are to receive it.
    end: u32,
}

impl<D> FanOut<D> {
    pub fn new() -> Self {
        FanOut { waiting: VecDeque::new(), cursor: 0 }
    }

    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    pub fn push(&mut self, delivery: D, members: usize) {
        let end = u32::try_from(members).expect("every member has a slot with a u32 index");
        self.waiting.push_back(Waiting { delivery, end });
    }

    /// Drops all deliveries, when no member is left.
    pub fn clear(&mut self) {
        *self = FanOut::new();
    }

    /// The position of the next member to serve, and its delivery. See [`FanOut::drop_finished`].
    pub fn next_member(&mut self, finished: &mut impl FnMut(D, u32)) -> Option<(u32, &D)> {
        self.drop_finished(finished);
        let first = self.waiting.front()?;
        let position = self.cursor;
        self.cursor += 1;
        Some((position, &first.delivery))
    }

    /// Removes the deliveries that all their members have received. `finished` gets each, with the
    /// number of members that have not left since.
    pub fn drop_finished(&mut self, finished: &mut impl FnMut(D, u32)) {
        while let Some(first) = self.waiting.pop_front_if(|first| first.end <= self.cursor) {
            self.cursor = 0;
            finished(first.delivery, first.end);
        }
    }

    /// Removes a member, and keeps all others on their side of the cursor and of each end.
    ///
    /// The gap is filled with the last member before the first boundary behind it, and that
    /// boundary moves one forward. This leaves a gap before the next boundary, and so on. Calls
    /// `fill(from, to)` for each move, and returns the last gap: behind it are only members newer
    /// than all deliveries.
    pub fn leave(&mut self, mut gap: u32, mut fill: impl FnMut(u32, u32)) -> u32 {
        let ends = self.waiting.iter_mut().map(|waiting| &mut waiting.end);
        for boundary in std::iter::once(&mut self.cursor).chain(ends) {
            if gap < *boundary {
                *boundary -= 1;
                if gap != *boundary {
                    fill(*boundary, gap);
                }
                gap = *boundary;
            }
        }
        gap
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A model of a topic: its members in order, and their deliveries.
    struct Row {
        members: Vec<char>,
        fan_out: FanOut<&'static str>,
    }

    impl Row {
        fn of(members: &str) -> Self {
            Row { members: members.chars().collect(), fan_out: FanOut::new() }
        }

        fn publish(&mut self, delivery: &'static str) {
            self.fan_out.push(delivery, self.members.len());
        }

        fn leave(&mut self, member: char) {
            let gap = self.members.iter().position(|&m| m == member).unwrap();
            let members = &mut self.members;
            let gap = self.fan_out.leave(gap as u32, |from, to| {
                members[to as usize] = members[from as usize];
            });
            self.members.swap_remove(gap as usize);
        }

        fn serve(&mut self) -> Option<(char, &'static str)> {
            self.fan_out
                .next_member(&mut |_, _| {})
                .map(|(at, delivery)| (self.members[at as usize], *delivery))
        }

        fn serve_all(&mut self) -> String {
            let served: Vec<_> = std::iter::from_fn(|| self.serve()).collect();
            served.iter().map(|(member, delivery)| format!("{member}{delivery} ")).collect()
        }
    }

    #[test]
    fn a_served_member_that_leaves_takes_no_other_members_turn() {
        let mut row = Row::of("abcd");
        row.publish("1");
        assert_eq!(row.serve(), Some(('a', "1")));
        assert_eq!(row.serve(), Some(('b', "1")));
        row.leave('a');
        assert_eq!(row.serve_all(), "d1 c1 ");
    }

    #[test]
    fn an_unserved_member_that_leaves_takes_only_its_own_turn() {
        let mut row = Row::of("abcd");
        row.publish("1");
        assert_eq!(row.serve(), Some(('a', "1")));
        row.leave('b');
        assert_eq!(row.serve_all(), "d1 c1 ");
    }

    #[test]
    fn a_member_that_joined_between_two_deliveries_gets_only_the_second() {
        let mut row = Row::of("ab");
        row.publish("1");
        row.members.push('c');
        row.publish("2");
        row.members.push('d');
        row.leave('a');
        assert_eq!(row.serve_all(), "b1 b2 c2 ");
    }

    #[test]
    fn a_delivery_whose_members_all_left_is_dropped() {
        let mut row = Row::of("a");
        row.publish("1");
        row.members.push('b');
        row.leave('a');
        assert_eq!(row.serve_all(), "");
        assert_eq!(row.fan_out.len(), 0);
    }
}
