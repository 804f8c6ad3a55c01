/** The texts of errors and problems. */
export { damage, type Damage } from './damage.ts'
export { privatePages } from './private.ts'
export { storage } from './storage.ts'
export { swarm } from './swarm.ts'
