// Tests that are long, and of which `make test` has a shorter one nearby.

/** For the option `skip` of such a test. `make test-browser` runs it. */
export const skipInShortRun = process.env.BROWSER_WHOLE ? false : 'long; `make test-browser` runs it'
