// Compares the cases of a suite with the sentences that explain why a case is not strict.

/**
 * A case of a suite: its name, whether it passed, and what the suite found. A suite that only observes, such as a
 * profile of caching, has passed where the server behaves in the way that the suite calls best.
 *
 * @typedef {{ name: string, isPassed: boolean, found?: string }} Case
 */

/** Whether a pattern, in which `*` stands for any text, matches a whole name. */
export function matches(pattern, name) {
  const parts = pattern.split('*').map((part) => part.replace(/[.+?^${}()|[\]\\]/g, '\\$&'))
  return new RegExp(`^${parts.join('.*')}$`, 's').test(name)
}

/**
 * The judgement about a part of a suite. `sentences` maps patterns of names to sentences; the first pattern that
 * matches explains a case. `unexplained` are the cases that did not pass and have no sentence, and `unused` the
 * patterns of sentences that no case needs any more.
 */
export function judge(cases, sentences) {
  const explained = Object.entries(sentences).map(([pattern, sentence]) => ({ pattern, sentence, cases: [] }))
  const unexplained = []
  for (const one of cases.filter(({ isPassed }) => !isPassed)) {
    const by = explained.find(({ pattern }) => matches(pattern, one.name))
    if (by) by.cases.push(one.name)
    else unexplained.push(one)
  }
  return {
    count: cases.length,
    passed: cases.filter(({ isPassed }) => isPassed).length,
    explained: explained.filter(({ cases }) => cases.length > 0).map(({ sentence, cases }) => ({ sentence, cases })),
    unexplained: unexplained.map(({ name, found = '' }) => ({ name, found })),
    unused: explained.filter(({ cases }) => cases.length === 0).map(({ pattern }) => pattern),
  }
}
