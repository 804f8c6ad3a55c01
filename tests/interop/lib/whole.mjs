// Long tests: `make test` runs a shorter one in place of each.

/** For the option `skip` of a long test. `make test-browser-whole` runs it. */
export const skipInShortRun = process.env.BROWSER_WHOLE ? false : 'long; `make test-browser-whole` runs it'
