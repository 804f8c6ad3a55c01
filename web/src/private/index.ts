/** Private pages: content as records that only the key in the link opens. The Rust side is `crates/private`. */
export { PrivateError } from './error.ts'
export type { PrivateProblem } from './error.ts'
export { publishPrivate } from './publish.ts'
export type { PrivateOptions, PrivatePublication } from './publish.ts'
export { ReadablePage } from './readable-page.ts'
export type { Seal } from './readable-page.ts'
