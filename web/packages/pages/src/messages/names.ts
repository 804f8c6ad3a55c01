/**
 * Characters without a shape, and those that change the order of others: controls, the soft hyphen, marks of direction,
 * separators of lines, word joiners, annotations. Joiners and variation selectors are not among them, because scripts and
 * emoji need them.
 */
const HIDDEN = /[\p{Cc}\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/gu

/** A name that another person chose, without hidden characters. */
export function plainName(name: string): string {
  return name.replace(HIDDEN, '')
}

/** The name as it is shown: each hidden character as U+FFFD, so that two names do not look alike. */
export function shownName(name: string): string {
  return name.replace(HIDDEN, '\ufffd')
}
