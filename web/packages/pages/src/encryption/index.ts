/** Private pages: encrypted records that only the key in the link opens. The Rust twin is `crates/content/src/encryption`. */
export { PrivateError } from './error.ts'
export type { PrivateProblem } from './problem.ts'
export { readKey } from './key.ts'
export { publishPrivate } from './publish.ts'
export type { PrivateOptions, PrivatePublication } from './publish.ts'
export { ReadablePage } from './readable-page.ts'
export type { Privacy } from './readable-page.ts'
