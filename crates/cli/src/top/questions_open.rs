//! Which questions wait for an answer.

use std::collections::BTreeMap;

use super::question::{Kind, Question};

/// The open questions: one of each kind, and one that waits until that is answered. So a slow server gets no
/// more questions than it answers.
#[derive(Debug, Default)]
pub struct OpenQuestions(BTreeMap<Kind, Open>);

#[derive(Debug)]
struct Open {
    asked: Question,
    next: Option<Question>,
}

impl OpenQuestions {
    /// Returns the question if it can be asked now. Otherwise it replaces the one that waits.
    pub fn ask(&mut self, question: Question) -> Option<Question> {
        match self.0.get_mut(&question.kind()) {
            Some(open) => {
                open.next = (open.asked != question).then_some(question);
                None
            }
            None => {
                let open = Open { asked: question.clone(), next: None };
                self.0.insert(question.kind(), open);
                Some(question)
            }
        }
    }

    /// A question is answered. Returns the one that waited, which can be asked now.
    pub fn answered(&mut self, question: &Question) -> Option<Question> {
        let next = self.0.remove(&question.kind())?.next?;
        self.ask(next)
    }

    pub fn has(&self, kind: Kind) -> bool {
        self.0.contains_key(&kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::question::TopicQuery;

    #[test]
    fn while_a_question_is_open_only_the_last_other_one_waits() {
        let topics = |prefix: &str| {
            let query = TopicQuery { prefix: prefix.into(), ..TopicQuery::default() };
            Question::Topics { machine: String::new(), query }
        };
        let mut open = OpenQuestions::default();
        assert_eq!(open.ask(topics("a")), Some(topics("a")));
        for prefix in ["a", "b", "c"] {
            assert_eq!(open.ask(topics(prefix)), None, "{prefix}");
        }
        let state = Question::State { machine: String::new() };
        assert_eq!(open.ask(state.clone()), Some(state), "another kind does not wait");
        assert_eq!(open.answered(&topics("a")), Some(topics("c")));
        assert_eq!(open.answered(&topics("c")), None);
        assert!(open.has(Kind::State) && !open.has(Kind::Topics));
    }
}
