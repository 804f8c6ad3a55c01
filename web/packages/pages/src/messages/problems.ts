/** The texts of errors and problems. */
export { damage, type Damage } from './damage.ts'
export { livePages } from './live.ts'
export { privatePages } from './private.ts'
export { storage } from './storage.ts'
export { swarm } from './swarm.ts'
