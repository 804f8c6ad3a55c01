/**
 * Pages that live in the browsers that have them open: published, loaded, verified and shared, without an interface.
 * The entry points below this one, such as `@watchfire/pages/swarm`, have the parts, for programs that load them one by one.
 */
export { connect, type Connection, type ConnectionState } from '@watchfire/client/connection'
export { ContentError } from './content/index.ts'
export { PrivateError, publishPrivate, ReadablePage, type Privacy, type PrivatePublication } from './encryption/index.ts'
export { defaultLimits, fetchLimits, type Limits } from './limits/index.ts'
export { openPage, publish } from './swarm/index.ts'
export type * from './swarm/api.ts'
export type { LinkedPage } from './server.ts'
export { Watchfire, type ShareOptions } from './watchfire.ts'
